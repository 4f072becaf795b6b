package proxy

import (
	"sync/atomic"
	"time"

	"mulligan/policy"
	"mulligan/proxy/h1"
)

// connectDoor takes CONNECT (RFC 9110 9.3.6): the dial gets the policy, then
// bytes pass untouched, unless they turn out to be plain HTTP requests.
func (c *clientConn) connectDoor(req *h1.Request) {
	x := &c.x
	if c.listen != c.s.opts.Proxy {
		c.deny(reply{status: 421, kind: "http_request_error", detail: "CONNECT belongs on the proxy port"})
		return
	}
	host, port, err := splitAuthority(req.Target, 0)
	if err != nil || port == 0 || req.ContentLength != 0 { // a length of 0 is no body; WinHTTP sends it
		c.deny(reply{status: 400, kind: "http_request_error", detail: "CONNECT takes host:port and no body"})
		return
	}
	matched, named := x.snap.table.Lookup(string(host), port)
	up := x.snap.upstreams[matched]
	x.connect = true
	if up == x.snap.fallback && x.snap.settings.DenyUnmatched {
		x.denyUnmatched(up, string(host), port)
		up.metrics.TunnelOpened(policy.Denied.String())
		return
	}
	x.to = target{host: string(host), port: port, named: named}
	x.aim(up, nil)
	if up.TLS.Intercept && !x.seen.loop {
		c.intercept()
		return
	}
	x.auth = x.tunnelAuthority(up)
	x.lastClass = ""
	x.enter()
	switch {
	case x.tunnel != nil:
		c.openTunnel()
	case x.lastClass != "": // else the client left before the dial had ended in any way
		up.metrics.TunnelOpened(x.lastClass)
	}
}

// tunnelAuthority is the state of the host that a tunnel goes to, past endpoints.
// Behind a parent proxy its connections are tunnels too, unlike those of
// requests in absolute-form.
func (x *exchange) tunnelAuthority(up *upstream) *authority {
	return up.authority(authorityKey{
		host: foldHost(x.to.host), port: x.to.port, named: x.to.named, tunnel: x.snap.settings.ParentProxy != nil,
	}, time.Now())
}

// dialTunnel is an attempt of a CONNECT.
func (x *exchange) dialTunnel() result {
	uc, _, err := x.fromPool(wanted{http1: true})
	if err != nil {
		return x.failed(err)
	}
	x.tunnel = uc.(*h1.ClientConn) // nothing else is wanted
	x.mark(policy.Good)
	x.grant.leave()
	// No answer of the upstream's: what it is worth to the budget shows later.
	return result{outcome: policy.Outcome{Status: 200}, decided: true, decision: policy.Decision{Stop: policy.Success, Verdict: policy.Succeeded}}
}

// insideTunnel is where requests go that a client speaks in a tunnel: plainly, or
// in TLS that ends here.
type insideTunnel struct {
	host string
	port int
	placement
	latest *atomic.Pointer[placement] // what the last request found, where many come at once; nil: they do not

	policy     clientPolicy // of an intercepted one's CONNECT: it is for all that is inside
	https      bool         // the tunnel is intercepted
	serverName string       // that the client asked for in TLS; "" where it did not say
}

// placement is what a tunnel's host is found under.
type placement struct {
	snap  *snapshot // the configuration that the rest is of
	up    *upstream
	auth  *authority // nil: to be looked up
	named bool
}

// use sets the authority, for this request and for the next.
func (in *insideTunnel) use(a *authority) {
	in.auth = a
	if in.latest != nil {
		found := in.placement
		in.latest.Store(&found)
	}
}

// openTunnel tells the client that it is connected, and serves the tunnel.
func (c *clientConn) openTunnel() {
	x, sc, uc := &c.x, c.wire, c.x.tunnel
	x.up.metrics.TunnelOpened("established")
	x.leaveFlight()
	sc.StatusLine(1, 200, []byte("Connection established"))
	if x.number > 1 {
		sc.FieldString("Proxy-Status", proxyStatus(x.number, policy.Success, 0, ""))
	}
	sc.EndHead(h1.NoBody, 0)
	c.watch.moving(nil) // a client that does not read is given up
	err := sc.Finish(nil)
	c.watch.rested()
	if err != nil {
		x.auth.links.Discard(uc)
		c.closing = true
		return
	}
	inside := &insideTunnel{host: x.to.host, port: x.to.port, placement: placement{x.snap, x.up, x.auth, x.to.named}}
	idle := x.route.Timeout.TunnelIdle
	x.up.metrics.TunnelsOpen.Inc()
	defer x.up.metrics.TunnelsOpen.Dec()
	c.watch.end()
	c.watch.beginTunnel(c.s.now(), uc, idle)
	x.auth.links.Detach(uc) // a tunnel is none of the pool's connections, and may stay silent for long
	is, broken := c.speaksHTTP(uc)
	if is {
		// The connection that was dialled is the first that its requests use, if it is
		// still good.
		c.watch.endTunnel()
		x.auth.links.Attach(uc)
		c.inside = inside
		c.serveInside()
		return
	}
	// All of an opaque tunnel that can be retried is its dial, so that counts as
	// the answer; requests in a tunnel have answers of their own.
	x.auth.budget.Answered(time.Now())
	if broken {
		uc.CloseReset()
		c.reset = true
	} else {
		c.pourBoth(uc)
	}
	c.watch.endTunnel()
	c.closing = true
}

// serveInside takes the requests in a tunnel whose client speaks plain HTTP.
func (c *clientConn) serveInside() {
	c.x.end()
	c.serveRequests()
	c.closing = true
}

// tunnelled takes one request inside a tunnel: it goes to the host that the
// tunnel names, never to endpoints.
func (c *clientConn) tunnelled(req *h1.Request) {
	x := &c.x
	path := req.Target
	authority := []byte(nil) // an origin-form request's own Host
	if req.Method == "CONNECT" {
		c.deny(reply{status: 400, kind: "http_request_error", detail: "CONNECT inside a tunnel that speaks HTTP"})
		return
	}
	in := c.inside
	x.seen.policy.tighten(in.policy)
	https := in.https
	if !originForm(req) {
		var a, p []byte
		var err error
		https, a, p, err = parseAbsolute(req.Target)
		if err == nil {
			_, _, err = splitAuthority(a, 80)
		}
		if err != nil {
			c.deny(reply{status: 400, kind: "http_request_error", detail: err.Error()})
			return
		}
		authority, path = a, slashed(p, req.Method)
	}
	if in.https && !(https && in.owns(req, authority)) {
		c.deny(reply{status: 421, kind: "http_request_error", detail: "this connection was made for " + in.names() + ", and the request is for another host"})
		return
	}
	if in.snap != x.snap && !c.replace(req) {
		return
	}
	x.to = target{https: in.https, host: in.host, port: in.port, path: path, authority: authority, named: in.named}
	if authority == nil && req.Header.GetKnown(h1.NameHost) == nil { // HTTP/1.0
		x.to.authority = []byte(endpointAuthority(in.scheme(), in.host, in.port))
	}
	x.aim(in.up, withoutQuery(path))
	if in.auth == nil {
		in.use(x.insideAuthority(in))
	}
	in.auth.touch()
	x.auth = in.auth
	x.enter()
}

// replace finds what holds for a tunnel's host since a reload. Where it is not to be
// intercepted any more, what the connection began with holds for a last time: the
// client's next one is a tunnel again. False: an answer has been given.
func (c *clientConn) replace(req *h1.Request) bool {
	x, in := &c.x, c.inside
	matched, named := x.snap.table.Lookup(in.host, in.port)
	up := x.snap.upstreams[matched]
	switch {
	case up == x.snap.fallback && x.snap.settings.DenyUnmatched:
		x.denyUnmatched(up, in.host, in.port)
		return false
	case in.https && !up.TLS.Intercept:
		req.KeepAlive = false
		if c.carrier != nil {
			c.carrier.Drain()
		}
	default:
		in.placement = placement{snap: x.snap, up: up, named: named}
	}
	return true
}

// insideAuthority is the state of the host that requests in a tunnel go to. Those
// of an intercepted one are requests to an https server like any other.
func (x *exchange) insideAuthority(in *insideTunnel) *authority {
	if !in.https {
		return x.tunnelAuthority(in.up)
	}
	return in.up.authority(authorityKey{host: foldHost(in.host), port: in.port, https: true, named: in.named}, time.Now())
}

func (in *insideTunnel) scheme() string {
	if in.https {
		return "https"
	}
	return "http"
}
