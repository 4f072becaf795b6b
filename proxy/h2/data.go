package h2

import "golang.org/x/net/http2"

// data reads a DATA frame: its bytes go to the stream as they come, so that a slow
// frame is seen to move.
func (c *conn) data(h http2.FrameHeader) error {
	padded := h.Flags.Has(http2.FlagDataPadded)
	if h.StreamID == 0 {
		return violation("DATA without a stream")
	}
	n, padding := int(h.Length), 0
	if padded {
		if n == 0 {
			return &connError{http2.ErrCodeFrameSize, "padded DATA without its length"}
		}
		p, err := c.in.next(1)
		if err != nil {
			return err
		}
		if padding = int(p[0]); padding >= n {
			return violation("padding over the frame's length")
		}
		n -= 1 + padding
	}
	s, err := c.beginData(h, n)
	if err != nil {
		return err
	}
	for n > 0 {
		p, err := c.in.next(n)
		if err != nil {
			return err
		}
		n -= len(p)
		c.deliver(s, p)
	}
	for left := padding; left > 0; {
		p, err := c.in.next(left)
		if err != nil {
			return err
		}
		left -= len(p)
	}
	return c.endData(s, h)
}

// beginData accounts for a frame with n bytes of data, and returns the stream that
// gets them, or nil.
func (c *conn) beginData(h http2.FrameHeader, n int) (*stream, error) {
	c.mu.Lock()
	defer c.unlock()
	end := h.Flags.Has(http2.FlagDataEndStream)
	if n > 0 || end {
		c.useful()
	} else if err := c.useless(1); err != nil {
		return nil, err
	}
	s := c.streams[h.StreamID]
	fits, err := c.charge(s, int64(h.Length))
	if err != nil {
		return nil, err
	}
	if s == nil {
		c.credit(nil, int64(h.Length))
		return nil, c.strayData(h.StreamID)
	}
	s.heard = true
	if err := c.acceptData(s, n, end, fits); err != nil || s.closed {
		c.credit(nil, int64(h.Length))
		return nil, err
	}
	c.credit(s, int64(h.Length)-int64(n))
	return s, nil
}

// strayData judges DATA for a stream that is not open.
func (c *conn) strayData(id uint32) error {
	switch {
	case c.refusing(id) || !c.server && !c.idle(id) || c.ours.has(id):
		return c.useless(1) // late, or for what was refused
	case c.idle(id):
		return violation("DATA for a stream that was not begun")
	}
	c.writeReset(id, http2.ErrCodeStreamClosed)
	if err := c.useless(1); err != nil {
		return err
	}
	return c.forced()
}

// acceptData resets the stream where it must not get such a frame.
func (c *conn) acceptData(s *stream, n int, end, fits bool) error {
	switch {
	case s.recvEnd:
		return c.abort(s, http2.ErrCodeStreamClosed, "DATA behind the end")
	case !fits:
		return c.abort(s, http2.ErrCodeFlowControl, "more data than the stream's window")
	case !c.server && !s.final:
		return c.abort(s, http2.ErrCodeProtocol, "DATA before a head")
	case s.recvLeft < 0:
		return nil
	case int64(n) > s.recvLeft:
		return c.abort(s, http2.ErrCodeProtocol, "body longer than its length")
	}
	s.recvLeft -= int64(n)
	if end && s.recvLeft > 0 {
		return c.abort(s, http2.ErrCodeProtocol, "body shorter than its length")
	}
	return nil
}

// deliver gives bytes to the stream, if that is still there.
func (c *conn) deliver(s *stream, p []byte) {
	if s == nil {
		return // credited already
	}
	c.mu.Lock()
	defer c.unlock()
	if s.closed {
		c.credit(nil, int64(len(p)))
		return
	}
	s.inbox.add(p)
	s.progress.Add(1)
	s.reads.Signal()
}

// endData ends the body with the frame that says so.
func (c *conn) endData(s *stream, h http2.FrameHeader) error {
	if s == nil || !h.Flags.Has(http2.FlagDataEndStream) {
		return nil
	}
	c.mu.Lock()
	defer c.unlock()
	if !s.closed {
		c.endRecv(s)
	}
	return nil
}

// endRecv notes END_STREAM.
func (c *conn) endRecv(s *stream) {
	s.recvEnd = true
	s.progress.Add(1)
	s.reads.Broadcast()
	if s.sentEnd {
		c.remove(s, true)
	}
}
