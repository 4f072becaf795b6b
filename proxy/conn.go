package proxy

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"mulligan/policy"
	"mulligan/proxy/h1"
	"mulligan/proxy/h2"
)

// clientConn is one connection from a client: a loop of requests, each taken by
// the door its form asks for.
type clientConn struct {
	s          *Server
	sc         clientSide
	wire       *h1.ServerConn // sc, where it is a connection of its own; nil for a stream
	listen     string         // the listener's address as configured
	remote     netip.Addr
	watch      watch
	x          exchange
	last       lastAuthority
	lastPlaces lastPlaces

	inside    *insideTunnel  // set once a tunnel turned out to speak HTTP
	shared    *h2.ServerConn // what is served on it, once that is HTTP/2
	carrier   *h2.ServerConn // of a stream: its connection
	served    atomic.Bool    // a request came, after TLS
	secure    bool           // the client speaks TLS to its listener
	closing   bool           // close after this answer
	linger    bool           // and let the client read it before
	answered  bool           // the last answer went out whole
	reset     bool           // close by a reset
	resetCode uint32         // of a stream: what the upstream reset its own with; 0 = it did not
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
	c := s.newSide(listen)
	c.use(h1.NewServerConn(nc, h1.Limits{Fields: maxFields}))
	if a, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		c.remote = a.AddrPort().Addr().WithZone("").Unmap()
	}
	return c
}

// newSide makes what there is of a connection, or of a stream, besides itself.
func (s *Server) newSide(listen string) *clientConn {
	c := &clientConn{s: s, listen: listen}
	c.watch.wake = make(chan struct{}, 1)
	c.x.c, c.x.s = c, s
	c.x.contextFn = c.x.dialContext
	return c
}

// use makes wire what requests are read from.
func (c *clientConn) use(wire *h1.ServerConn) {
	c.sc, c.wire = wire, wire
	c.watch.sc, c.watch.wire = wire, wire
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
		req, err := c.wire.ReadRequest()
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
		if c.inside != nil && c.inside.https {
			c.served.Store(true)
		}
		c.handle(req)
		c.watch.end()
		if c.closing || !c.wire.Reusable() || c.s.draining() {
			c.answered = c.wire.Finished()
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
	phase, since := c.wire.State()
	if h1.KindOf(err) != h1.Interrupted || phase != h1.ReadingHead || c.s.now()-since >= int64(headTimeout) {
		return false
	}
	c.wire.ClearInterrupt()
	return true
}

// refuse answers what could not be read as a request.
func (c *clientConn) refuse(err error) {
	var wire *h1.Error
	if err == io.EOF || !errors.As(err, &wire) {
		return
	}
	c.x.req, c.x.up = nil, nil
	c.closing = true
	switch wire.Kind {
	case h1.Malformed, h1.HeadTooLarge:
		c.linger = true
		kind, detail := "http_request_error", "malformed request: "+wire.Reason
		switch {
		case wire.Status == 431:
			kind, detail = "http_request_header_section_size", "the request's head is over 64 KiB"
		case c.wire != nil && beginsTLS(c.wire.Buffered()):
			detail = "this looks like TLS, and this port speaks plain HTTP: the proxy's own address begins with http://, in HTTPS_PROXY too"
		}
		c.replyError(reply{status: wire.Status, kind: kind, detail: detail})
	case h1.Interrupted:
		if phase, _ := c.wire.State(); phase == h1.ReadingHead {
			c.linger = true
			c.replyError(reply{status: 408, kind: "http_request_error", detail: "the request's head did not arrive within 10 s"})
		}
	}
}

// beginsTLS reports whether bytes begin a TLS handshake (RFC 8446 5.1).
func beginsTLS(b []byte) bool { return len(b) > 2 && b[0] == 0x16 && b[1] == 3 }

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
	if c.asksCredentials(req) && !c.authorized(req) || c.reverse(req) && c.crossSite(req) {
		return
	}
	if x.seen.policyErr != nil {
		c.deny(reply{status: 400, kind: "http_request_error", detail: x.seen.policyErr.Error()})
		return
	}
	if req.Target[0] == '*' && (len(req.Target) > 1 || req.Method != "OPTIONS") {
		c.deny(reply{status: 400, kind: "http_request_error", detail: "only OPTIONS has the target * (RFC 9112 3.2.4)"})
		return
	}
	switch {
	case c.inside != nil:
		c.tunnelled(req)
	case req.Method == "CONNECT":
		c.connectDoor(req)
	case originForm(req):
		c.reverseDoor(req)
	default:
		c.forwardDoor(req)
	}
}

// originForm reports whether the request's target is a path, or the *: what
// clients send to a server, not to a proxy.
func originForm(req *h1.Request) bool { return req.Target[0] == '/' || req.Target[0] == '*' }

// reverse reports whether the request came to a port of an upstream's own, or to
// the proxy port as if that were a server.
func (c *clientConn) reverse(req *h1.Request) bool {
	return c.inside == nil && (c.listen != c.s.opts.Proxy || originForm(req))
}

// asksCredentials reports whether listen.auth is for this request: those in a
// tunnel have shown them with their CONNECT.
func (c *clientConn) asksCredentials(req *h1.Request) bool {
	return c.inside == nil && c.listen == c.s.opts.Proxy && (!originForm(req) || c.openDoor())
}

// deny refuses a request before it reached any upstream; its body, if any, is
// not read. After one that is wrong in itself the connection ends: what follows
// may be as wrong.
func (c *clientConn) deny(r reply) {
	if r.status == 400 {
		c.closing, c.linger = true, true
	}
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

// lingerFor is how long an answer is left to be read where the client has sent,
// or goes on sending, what nobody reads, and lingerMost how much of that is
// dropped meanwhile: closing at once would reset the connection, and the client
// could lose the answer.
const (
	lingerFor  = 2 * time.Second
	lingerMost = 4 << 20
)

func (c *clientConn) close() {
	if c.reset {
		c.sc.CloseReset()
		return
	}
	linger := c.linger || c.answered && c.wire.Unread() // RFC 9112 9.6
	if half, ok := c.wire.NetConn().(interface{ CloseWrite() error }); ok && linger {
		if half.CloseWrite() == nil {
			c.wire.ClearInterrupt()
			nc := c.wire.NetConn()
			nc.SetReadDeadline(time.Now().Add(lingerFor))
			io.Copy(io.Discard, io.LimitReader(nc, lingerMost))
		}
	}
	c.sc.Close()
}

// end gives back what the request held.
func (x *exchange) end() {
	x.leaveFlight()
	if x.beside != nil { // only a panic has left it
		x.beside.drop()
		x.beside = nil
	}
	x.body.x = x
	x.body.stopPump(x.uc) // only a panic has left one
	if x.uc != nil {
		x.dropConn()
	}
	x.mark(policy.Neutral)
	x.grant.leave()
	if x.charged > 0 { // only a panic has left it
		x.forgetHeld()
	}
	x.dropLast()
	x.body.end()
	x.connect = false
	x.tunnel, x.upgraded = nil, nil
	x.lost = false
	x.mounted = nil
	x.byHost = authorityName{}
	x.cut.Retry = false
	x.forgetInterim()
	x.last.forgetInterim()
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
		ClientRetry: x.seen.clientRetry,
	})
	if x.seen.loop {
		x.lastClass = policy.ProtocolError.String()
		x.refuseHere(fault{class: policy.ProtocolError, kind: "proxy_loop_detected", status: 502,
			detail: "the request has come through this instance before"})
		return
	}
	if lastHop(x.req) {
		x.c.answerHere(x.req)
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
	x.session.Begin(x.began)
	x.run()
	if x.upgraded != nil {
		x.c.splice(x.upgraded, x.route.Timeout.TunnelIdle)
	}
}

// refuseBody answers for a body that was seen to be malformed before any
// upstream got a byte of it.
func (c *clientConn) refuseBody(err error) {
	r := bodyReply(err)
	c.closing, c.linger = true, true
	c.logRefused(r)
	c.replyError(r)
}

// bodyReply is the answer to a body that cannot be read to its end.
func bodyReply(err error) reply {
	r := reply{status: 400, kind: "http_request_error", detail: "the request's body is malformed"}
	var wire *h1.Error
	if errors.As(err, &wire) {
		r.detail += ": " + wire.Reason
		if wire.Kind == h1.HeadTooLarge {
			r.status = 431 // RFC 6585 5: fields in the trailer section are fields too
		}
	}
	return r
}

// refuseHere ends a request that belongs to an upstream without an attempt.
func (x *exchange) refuseHere(f fault) {
	if _, whole := x.c.sc.BufferedBody(); !whole {
		x.c.closing, x.c.linger = true, true
	}
	x.log.status = f.status
	x.account(result{fault: f}, policy.Decision{Stop: policy.Permanent, Verdict: policy.PermanentFailure})
	defer x.logEnd()
	x.c.replyError(reply{status: f.status, kind: f.kind, detail: f.detail})
}
