package proxy

import (
	"bytes"
	"io"
	"net"
	"time"

	"mulligan/proxy/h1"
)

// httpMethods begin a tunnel that is not opaque. CONNECT is not among them: it
// is what a client says to a proxy behind the tunnel.
var httpMethods = [][]byte{
	[]byte("GET "), []byte("HEAD "), []byte("POST "), []byte("PUT "), []byte("DELETE "),
	[]byte("OPTIONS "), []byte("TRACE "), []byte("PATCH "),
}

// couldBeHTTP says of a tunnel's first bytes whether they are a known method
// and a space, and whether they can still become that.
func couldBeHTTP(b []byte) (is, maybe bool) {
	for _, m := range httpMethods {
		switch {
		case bytes.HasPrefix(b, m):
			return true, true
		case bytes.HasPrefix(m, b):
			maybe = true
		}
	}
	return false, maybe
}

// speaksHTTP looks at a tunnel's first bytes, without consuming them. A server
// that speaks first, or a client's first byte that differs, makes it opaque.
//
// broken says that either side was reset meanwhile: that is told to nobody who
// reads again.
func (c *clientConn) speaksHTTP(uc *h1.ClientConn) (is, broken bool) {
	looked := make(chan struct{})
	var serverErr error
	go func() {
		defer close(looked)
		defer c.s.survive(c)
		if _, serverErr = uc.Peek(1); h1.KindOf(serverErr) != h1.Interrupted {
			c.wire.InterruptRead()
		}
	}()
	is, clientErr := c.clientSpeaksHTTP()
	uc.InterruptRead()
	<-looked
	c.watch.goOn(uc)
	return is && len(uc.Buffered()) == 0, h1.KindOf(serverErr) == h1.Broken || h1.KindOf(clientErr) == h1.Broken
}

func (c *clientConn) clientSpeaksHTTP() (bool, error) {
	for n := 1; ; n++ {
		b, err := c.wire.Peek(n)
		if err != nil {
			return false, err
		}
		n = len(b)
		is, maybe := couldBeHTTP(b)
		if is || !maybe {
			return is, nil
		}
	}
}

// source is a connection whose bytes are poured into another.
type source interface {
	Peek(n int) ([]byte, error)
	Discard(n int)
	Relax()
	CloseReset() error
	NetConn() net.Conn
	WriteThrough(p []byte) error
}

// splice joins the client to uc after an upgrade, until both sides have ended. The
// request is over by then, so that it counts as an open tunnel.
func (c *clientConn) splice(uc *h1.ClientConn, idle time.Duration) {
	up := c.x.up.metrics
	up.TunnelsOpen.Inc()
	defer up.TunnelsOpen.Dec()
	c.watch.end()
	c.watch.beginTunnel(c.s.now(), uc, idle)
	c.pourBoth(uc)
	c.watch.endTunnel()
}

// pourBoth copies both ways. The end of one direction is passed on as such; an
// error in either resets both, so that no cut looks like an end.
func (c *clientConn) pourBoth(uc *h1.ClientConn) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer c.s.survive(c)
		pour(uc, c.wire)
	}()
	pour(c.wire, uc)
	<-done
	uc.Close()
}

// pour copies from one connection to the other until its end.
func pour(to, from source) {
	for {
		b, err := from.Peek(1)
		if len(b) > 0 {
			if to.WriteThrough(b) != nil {
				break
			}
			from.Discard(len(b))
			from.Relax() // an idle tunnel holds no buffer
			continue
		}
		if err == io.EOF {
			half, ok := to.NetConn().(interface{ CloseWrite() error })
			if ok && half.CloseWrite() == nil {
				return
			}
		}
		break
	}
	to.CloseReset()
	from.CloseReset()
}
