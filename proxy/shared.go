package proxy

import (
	"net"
	"sync/atomic"

	"mulligan/proxy/h2"
)

// serveShared takes the requests of an HTTP/2 connection, each on a stream of its
// own and all at once.
func (c *clientConn) serveShared(nc net.Conn) {
	conn := h2.NewServerConn(nc, h2.ServerConfig{
		MaxHead: maxHead, HeadTimeout: headTimeout, IdleTimeout: clientIdle, StallTimeout: replyIdle,
	})
	if c.inside != nil {
		c.inside.latest = new(atomic.Pointer[placement])
	}
	c.s.change(func() { c.shared = conn })
	conn.Serve(func(stream *h2.ServerStream) {
		c.served.Store(true)
		one := c.forStream(stream)
		one.carrier = conn
		one.serveStream()
	})
	c.s.change(func() { c.shared = nil })
}

// maxHead is the limit of a request's head; h1's default is the same.
const maxHead = 64 << 10

// forStream makes a side of a stream: what it knows of the connection is a copy,
// since the others change theirs meanwhile.
func (c *clientConn) forStream(stream *h2.ServerStream) *clientConn {
	one := c.s.newSide(c.listen)
	one.remote, one.secure = c.remote, c.secure
	if c.inside != nil {
		in := *c.inside
		if found := in.latest.Load(); found != nil {
			in.placement = *found
		}
		one.inside = &in
	}
	one.sc, one.watch.sc = stream, stream
	return one
}

// serveStream takes the one request of a stream.
func (c *clientConn) serveStream() {
	if !c.s.track(c) {
		c.sc.CloseReset()
		return
	}
	defer c.s.untrack(c)
	defer c.s.survive(c)
	c.watch.idleLimit.Store(int64(replyIdle))
	c.watch.begin(c.s.now())
	c.s.watcher.add(&c.watch)
	defer c.s.watcher.remove(&c.watch)
	req, err := c.sc.ReadRequest()
	if err != nil {
		c.refuse(err)
	} else {
		c.handle(req)
	}
	c.watch.end()
	c.closeStream()
}

// closeStream ends the stream, if the answer has not: a reset of the upstream's
// goes on to the client with its code.
func (c *clientConn) closeStream() {
	switch stream, ok := c.sc.(*h2.ServerStream); {
	case ok && c.resetCode != 0:
		stream.CloseWith(c.resetCode)
	case c.reset:
		c.sc.CloseReset()
	default:
		c.sc.Close()
	}
}
