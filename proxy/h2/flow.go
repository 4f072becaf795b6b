package h2

import "golang.org/x/net/http2"

// credit gives the peer back n bytes of the connection's window, and of the
// stream's where that may still get more. A WINDOW_UPDATE is sent for half a
// window of a stream, or a good deal of the connection's.
func (c *conn) credit(s *stream, n int64) {
	if n == 0 {
		return
	}
	if c.recvCredit += n; c.recvCredit >= creditPending {
		c.writeWindowUpdate(0, c.recvCredit)
		c.recvWindow += c.recvCredit
		c.recvCredit = 0
	}
	if s == nil || s.closed || s.recvEnd {
		return
	}
	if s.recvCredit += n; s.recvCredit >= c.limits.window/2 {
		c.writeWindowUpdate(s.id, s.recvCredit)
		s.recvWindow += s.recvCredit
		s.recvCredit = 0
	}
}

// charge takes a DATA frame's payload, its padding too, off both windows (RFC
// 9113 section 6.9.1). s may be nil. ours is false where the stream's window is
// exceeded.
func (c *conn) charge(s *stream, n int64) (fits bool, err error) {
	if c.recvWindow -= n; c.recvWindow < 0 {
		return false, &connError{http2.ErrCodeFlowControl, "more data than the connection's window"}
	}
	if s == nil {
		return true, nil
	}
	s.recvWindow -= n
	return s.recvWindow >= 0, nil
}

// windowUpdate lets the peer have more of what we send.
func (c *conn) windowUpdate(f *http2.WindowUpdateFrame) error {
	c.mu.Lock()
	defer c.unlock()
	if err := c.useless(1); err != nil {
		return err
	}
	if f.StreamID == 0 {
		return c.widen(int64(f.Increment))
	}
	s := c.streams[f.StreamID]
	if s == nil {
		return c.absent(f.StreamID)
	}
	if s.sendWindow += int64(f.Increment); s.sendWindow > maxWindow {
		return c.abort(s, http2.ErrCodeFlowControl, "window over its limit")
	}
	c.schedule(s)
	return nil
}

// widen raises the connection's send window.
func (c *conn) widen(n int64) error {
	if c.sendWindow += n; c.sendWindow > maxWindow {
		return &connError{http2.ErrCodeFlowControl, "window over its limit"}
	}
	for s := c.starved.pop(); s != nil; s = c.starved.pop() {
		c.schedule(s)
	}
	return nil
}

// rewindow applies a new SETTINGS_INITIAL_WINDOW_SIZE to the open streams, whose
// windows may become negative (RFC 9113 section 6.9.2).
func (c *conn) rewindow(initial int64) error {
	delta := initial - c.peerInitial
	c.peerInitial = initial
	for _, s := range c.streams {
		if s.sendWindow += delta; s.sendWindow > maxWindow {
			return &connError{http2.ErrCodeFlowControl, "window over its limit"}
		}
		if delta > 0 {
			c.schedule(s)
		}
	}
	return nil
}
