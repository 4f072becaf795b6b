package h2

import "golang.org/x/net/http2"

// What a server's and a client's connection do differently, where the code that
// they share comes to it. All of it runs under the lock.

// headers takes a header block for a stream; the decoded head is in c.head.
func (c *conn) headers(id uint32, end bool) error {
	c.mu.Lock()
	defer c.unlock()
	if c.asServer != nil {
		return c.asServer.takeHead(id, end)
	}
	return c.asClient.takeHead(id, end)
}

// removed is told that a stream was closed: well, or by a reset.
func (c *conn) removed(s *stream, well bool) {
	if c.asServer != nil {
		c.asServer.removed(s, well)
		return
	}
	c.asClient.removed(s)
}

// opened returns how many streams keep the connection from being idle.
func (c *conn) opened() int {
	if c.asServer != nil {
		return c.asServer.handlers
	}
	return c.asClient.open
}

// flushed is told that a write has ended.
func (c *conn) flushed() {
	if c.asServer != nil {
		c.asServer.endIfDone()
	}
}

// closing is told that a stream is given up by its user.
func (c *conn) closing(s *stream) {
	if c.asClient != nil {
		c.asClient.suspectIf(s)
	}
}

// allowed takes the peer's limit of streams.
func (c *conn) allowed(n uint32) {
	if c.asClient != nil {
		c.asClient.allowed(n)
	}
}

// goneAway takes the peer's GOAWAY.
func (c *conn) goneAway(last uint32, code http2.ErrCode) {
	if c.asServer != nil {
		c.asServer.endIfDone()
		return
	}
	c.asClient.goneAway(last, code)
}

// failUnsent fails the streams that have no id.
func (c *conn) failUnsent(cause *ending) {
	if c.asClient != nil {
		c.asClient.failUnsent(cause)
	}
}

// alive is told that something has come.
func (c *conn) alive() {
	if c.asClient != nil {
		c.asClient.alive()
	}
}

// deadAt is when a peer that was asked whether it is there is given up.
func (c *conn) deadAt() int64 {
	if c.asClient != nil {
		return c.asClient.deadAt()
	}
	return never
}
