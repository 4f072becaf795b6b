package proxy

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"mulligan/policy"
	"mulligan/proxy/h1"
)

// clientConn is one connection from a client: a loop of requests, each taken by
// the door its form asks for.
type clientConn struct {
	s            *Server
	sc           *h1.ServerConn
	listen       string // the listener's address as configured
	remote       netip.Addr
	watch        watch
	x            exchange
	last         lastAuthority
	lastEndpoint lastEndpoint

	inside  *insideTunnel // set once a tunnel turned out to speak HTTP
	closing bool          // close after this answer
	linger  bool          // and let the client read it before
	reset   bool          // close by a reset
}

// maxFields is more fields than a head of 64 KiB can have: the bytes alone bound it.
const maxFields = 64 << 10 / len("a:\r\n")

// lastAuthority is where the connection's last request went: the next one
// mostly goes there too, and finds everything without a lock.
type lastAuthority struct {
	snap      *snapshot
	https     bool
	authority []byte
	host      string
	port      int
	up        *upstream
	auth      *authority
	named     bool
}

func (s *Server) newClientConn(nc net.Conn, listen string) *clientConn {
	c := &clientConn{s: s, sc: h1.NewServerConn(nc, h1.Limits{Fields: maxFields}), listen: listen}
	if a, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		c.remote = a.AddrPort().Addr().WithZone("").Unmap()
	}
	c.watch.sc = c.sc
	c.watch.wake = make(chan struct{}, 1)
	c.x.c, c.x.s = c, s
	c.x.contextFn = c.x.dialContext
	return c
}

// serve takes requests until the connection ends.
func (c *clientConn) serve() {
	c.s.watcher.add(&c.watch)
	defer c.close()
	defer c.s.watcher.remove(&c.watch) // first: a connection that lingers is in nobody's way
	c.serveRequests()
}

func (c *clientConn) serveRequests() {
	for {
		req, err := c.sc.ReadRequest()
		if err != nil && c.goesOn(err) {
			continue
		}
		c.watch.idleLimit.Store(int64(replyIdle))
		c.watch.begin(c.s.now())
		if err != nil {
			c.refuse(err)
			return
		}
		c.s.watcher.rouse()
		c.closing = false
		c.handle(req)
		c.watch.end()
		if c.closing || !c.sc.Reusable() || c.s.draining() {
			return
		}
	}
}

// replyIdle is how long a client may not read an answer that no route has a
// limit for.
const replyIdle = time.Minute

// goesOn reports whether an error of ReadRequest is none: the drain broke in
// when the request's first bytes were already there.
func (c *clientConn) goesOn(err error) bool {
	phase, since := c.sc.State()
	if h1.KindOf(err) != h1.Interrupted || phase != h1.ReadingHead || c.s.now()-since >= int64(headTimeout) {
		return false
	}
	c.sc.ClearInterrupt()
	return true
}

// refuse answers what could not be read as a request.
func (c *clientConn) refuse(err error) {
	var wire *h1.Error
	if err == io.EOF || !errors.As(err, &wire) {
		return
	}
	c.x.req, c.x.up = nil, nil
	c.closing, c.linger = true, true
	switch wire.Kind {
	case h1.Malformed, h1.HeadTooLarge:
		kind, detail := "http_request_error", "malformed request: "+wire.Reason
		if wire.Status == 431 {
			kind, detail = "http_request_header_section_size", "the request's head is over 64 KiB"
		}
		c.replyError(reply{status: wire.Status, kind: kind, detail: detail})
	case h1.Interrupted:
		if phase, _ := c.sc.State(); phase == h1.ReadingHead {
			c.replyError(reply{status: 408, kind: "http_request_error", detail: "the request's head did not arrive within 10 s"})
		}
	}
}

// handle takes one request through a door.
func (c *clientConn) handle(req *h1.Request) {
	x := &c.x
	x.begin(req, c.s.snap.Load())
	defer x.end()
	if !c.admitted() {
		c.closing = true
		c.replyError(reply{status: 403, kind: "http_request_denied", detail: "allow_clients does not name this client's address"})
		return
	}
	if x.seen.policyErr != nil {
		c.deny(reply{status: 400, kind: "http_request_error", detail: x.seen.policyErr.Error()})
		return
	}
	if n, ok := maxForwards(req); ok && n == 0 {
		c.answerHere(req)
		return
	}
	switch {
	case c.inside != nil:
		c.tunnelled(req)
	case req.Method == "CONNECT":
		c.connectDoor(req)
	case req.Target[0] == '/' || (len(req.Target) == 1 && req.Target[0] == '*'):
		c.reverseDoor(req)
	default:
		c.forwardDoor(req)
	}
}

// deny refuses a request before it reached any upstream; its body, if any, is
// not read.
func (c *clientConn) deny(r reply) {
	if c.x.req.Framing != h1.NoBody {
		if _, whole := c.sc.BufferedBody(); !whole {
			c.closing, c.linger = true, true
		}
	}
	c.replyError(r)
}

// admitted reports whether allow_clients lets the client in.
func (c *clientConn) admitted() bool {
	allow := c.x.snap.settings.AllowClients
	if len(allow) == 0 {
		return true
	}
	for _, p := range allow {
		if p.Contains(c.remote) {
			return true
		}
	}
	return false
}

// gone reports whether the client has left.
func (c *clientConn) gone() bool { return c.watch.seen()&causeGone != 0 }

// lingerFor is how long an answer that came before the request's end is left to
// be read, and lingerMost how much of the request is dropped meanwhile: closing
// at once would reset the connection, and the client could lose the answer.
const (
	lingerFor  = 2 * time.Second
	lingerMost = 4 << 20
)

func (c *clientConn) close() {
	if c.reset {
		c.sc.CloseReset()
		return
	}
	if half, ok := c.sc.NetConn().(interface{ CloseWrite() error }); ok && c.linger {
		if half.CloseWrite() == nil {
			c.sc.ClearInterrupt()
			nc := c.sc.NetConn()
			nc.SetReadDeadline(time.Now().Add(lingerFor))
			io.Copy(io.Discard, io.LimitReader(nc, lingerMost))
		}
	}
	c.sc.Close()
}

// end gives back what the request held.
func (x *exchange) end() {
	x.leaveFlight()
	x.body.x = x
	x.body.stopPump(x.uc) // only a panic has left one
	if x.uc != nil {
		x.dropConn()
	}
	x.body.end()
	x.connect = false
	x.tunnel, x.upgraded = nil, nil
	x.lost = false
	x.mounted = nil
	x.byHost = authorityName{}
	x.cut.Retry = false
}

// leaveFlight ends what enter began to count.
func (x *exchange) leaveFlight() {
	if x.entered {
		x.entered = false
		x.up.metrics.InFlight.Dec()
	}
}

// enter takes a request whose target, upstream and route are set into the loop.
func (x *exchange) enter() {
	x.up.metrics.InFlight.Inc()
	x.entered = true
	if x.seen.clientRetry {
		x.up.metrics.ClientRetry()
	}
	x.session = policy.NewSession(x.route, x.auth.budget, policy.Request{
		Method: x.req.Method, Keyed: x.keyed(), Nested: x.seen.nested, MaxAttempts: x.seen.policy.maxAttempts,
	})
	if x.seen.loop {
		x.refuseHere(fault{class: policy.ProtocolError, kind: "proxy_loop_detected", status: 502,
			detail: "the request has come through this instance before"})
		return
	}
	x.body.begin(x)
	if x.body.malformed != nil {
		x.c.refuseBody(x.body.malformed)
		return
	}
	x.c.watch.idleLimit.Store(int64(x.route.Timeout.Idle))
	x.c.watch.await(true)
	x.armWindow()
	x.run()
	if x.upgraded != nil {
		x.c.splice(x.upgraded, x.route.Timeout.TunnelIdle)
	}
}

// refuseBody answers for a body that was seen to be malformed before any
// upstream got a byte of it.
func (c *clientConn) refuseBody(err error) {
	r := reply{status: 400, kind: "http_request_error", detail: "the request's body is malformed"}
	var wire *h1.Error
	if errors.As(err, &wire) {
		r.detail += ": " + wire.Reason
		if wire.Status != 0 {
			r.status = wire.Status
		}
	}
	c.closing, c.linger = true, true
	c.logRefused(r)
	c.replyError(r)
}

// refuseHere ends a request that belongs to an upstream without an attempt.
func (x *exchange) refuseHere(f fault) {
	if _, whole := x.c.sc.BufferedBody(); !whole {
		x.c.closing, x.c.linger = true, true
	}
	x.log.status = f.status
	x.account(result{}, policy.Decision{Stop: policy.Permanent, Verdict: policy.PermanentFailure})
	x.c.replyError(reply{status: f.status, kind: f.kind, detail: f.detail})
}
