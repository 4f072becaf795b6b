package h2

import (
	"errors"

	"golang.org/x/net/http2"

	"mulligan/proxy/h1"
)

// readFrames takes frames until the connection ends, by whatever error.
func (c *conn) readFrames() error {
	if c.server {
		if err := c.readPreface(); err != nil {
			return err
		}
	}
	for {
		if err := c.in.wait(c.quiet()); err != nil {
			return err
		}
		c.beginFrame()
		h, err := c.framer.ReadFrameHeader()
		if err != nil {
			return frameError(err)
		}
		c.inData.Store(h.Type == http2.FrameData)
		if !c.settled && h.Type != http2.FrameSettings {
			return violation("no SETTINGS at the beginning")
		}
		if h.Type == http2.FrameData {
			err = c.data(h)
		} else {
			err = c.other(h)
		}
		if err != nil {
			return err
		}
		c.endFrame()
	}
}

// readPreface reads what a client's connection begins with (RFC 9113 section 3.4).
func (c *conn) readPreface() error {
	for rest := []byte(http2.ClientPreface); len(rest) > 0; {
		p, err := c.in.next(len(rest))
		if err != nil {
			return err
		}
		if string(p) != string(rest[:len(p)]) {
			return violation("not the preface of HTTP/2")
		}
		rest = rest[len(p):]
	}
	return nil
}

// quiet reports, between two frames, whether a long wait is to be expected: not
// while much is coming.
func (c *conn) quiet() bool {
	c.mu.Lock()
	defer c.unlock()
	c.alive()
	return len(c.streams) == 0 || !c.in.much
}

// beginFrame starts the clock of a frame that is not here as a whole.
func (c *conn) beginFrame() {
	in := &c.in
	if n := in.buffered(); n >= frameHeader {
		b := in.buf[in.r:]
		if n-frameHeader >= int(b[0])<<16|int(b[1])<<8|int(b[2]) {
			return
		}
	}
	c.inData.Store(false) // that is not known yet
	if c.frameSince.Load() == 0 {
		c.frameSince.Store(in.last.Load())
		c.mu.Lock()
		c.armAt(in.last.Load() + min(orNever(c.limits.head), orNever(c.limits.stall)))
		c.unlock()
	}
}

// endFrame stops it, but in the middle of a header block.
func (c *conn) endFrame() {
	if c.block.open {
		if c.frameSince.Load() == 0 {
			c.frameSince.Store(h1.Now())
			c.mu.Lock()
			c.armAt(h1.Now() + min(orNever(c.limits.head), orNever(c.limits.stall)))
			c.unlock()
		}
		return
	}
	if c.frameSince.Load() != 0 {
		c.frameSince.Store(0)
	}
}

// frameError gives an error of the Framer its meaning. A stream error is one of
// the connection where it is about a header block, which is lost then.
func frameError(err error) error {
	var whole http2.ConnectionError
	switch {
	case errors.Is(err, http2.ErrFrameTooLarge):
		return &connError{http2.ErrCodeFrameSize, "a frame over SETTINGS_MAX_FRAME_SIZE"}
	case errors.As(err, &whole):
		return &connError{http2.ErrCode(whole), "an invalid frame"}
	}
	return err
}

// other reads the payload of a frame that is not DATA, and takes it.
func (c *conn) other(h http2.FrameHeader) error {
	f, err := c.framer.ReadFrameForHeader(h)
	if err != nil {
		var one http2.StreamError
		if errors.As(err, &one) && h.Type != http2.FrameHeaders {
			return c.wrongFrame(one)
		}
		if errors.As(err, &one) {
			return &connError{one.Code, "invalid HEADERS"}
		}
		return frameError(err)
	}
	switch f := f.(type) {
	case *http2.HeadersFrame:
		return c.headersFrame(f)
	case *http2.ContinuationFrame:
		return c.continuation(f)
	case *http2.SettingsFrame:
		return c.settings(f)
	case *http2.WindowUpdateFrame:
		return c.windowUpdate(f)
	case *http2.RSTStreamFrame:
		return c.resetFrame(f)
	case *http2.PingFrame:
		return c.ping(f)
	case *http2.GoAwayFrame:
		return c.goAwayFrame(f)
	case *http2.PriorityFrame:
		return c.priority(f)
	case *http2.PushPromiseFrame:
		return violation("PUSH_PROMISE where push is off")
	}
	return c.uselessFrame() // of an unknown type: RFC 9113 section 5.5
}

func (c *conn) uselessFrame() error {
	c.mu.Lock()
	defer c.unlock()
	return c.useless(1)
}

// wrongFrame resets the stream that a frame was wrong for.
func (c *conn) wrongFrame(e http2.StreamError) error {
	c.mu.Lock()
	defer c.unlock()
	if s := c.streams[e.StreamID]; s != nil {
		return c.abort(s, e.Code, "an invalid frame")
	}
	if err := c.absent(e.StreamID); err != nil {
		return err
	}
	return c.useless(1)
}

// idle reports whether no stream with that id was ever begun.
func (c *conn) idle(id uint32) bool { return id%2 == 0 || id > c.lastID }

// absent judges a frame for a stream that is not open: late ones are none of our
// business, those for a stream that never began are wrong (RFC 9113 section 5.1).
func (c *conn) absent(id uint32) error {
	if c.idle(id) && !c.refusing(id) {
		return violation("a frame for a stream that was not begun")
	}
	return nil
}

// resetFrame ends a stream by the peer's wish.
func (c *conn) resetFrame(f *http2.RSTStreamFrame) error {
	c.mu.Lock()
	defer c.unlock()
	s := c.streams[f.StreamID]
	if s == nil {
		if err := c.absent(f.StreamID); err != nil {
			return err
		}
		return c.useless(1)
	}
	s.heard, s.wasReset = true, true
	fair := s.sentEnd || h1.Now()-s.began >= int64(resetAge)
	e := s.resetError(f.ErrCode, "the peer reset the stream", nil)
	c.theirs.add(s.id)
	c.remove(s, false)
	s.fail(e)
	if c.server {
		s.dropUnread(e) // the window is for who is still there, and nobody is to be told
	}
	if fair {
		return c.useless(1)
	}
	return c.wasted()
}

func (c *conn) ping(f *http2.PingFrame) error {
	c.mu.Lock()
	defer c.unlock()
	if f.IsAck() {
		c.pong(f.Data)
		return c.useless(1)
	}
	if err := c.useless(1); err != nil {
		return err
	}
	c.writePing(true, f.Data)
	return c.forced()
}

func (c *conn) goAwayFrame(f *http2.GoAwayFrame) error {
	c.mu.Lock()
	defer c.unlock()
	c.leaving, c.peerCode = true, f.ErrCode
	c.goneAway(f.LastStreamID, f.ErrCode)
	return c.useless(1)
}

// priority is obsolete (RFC 9113 section 5.3) but for what RFC 7540 said is wrong.
func (c *conn) priority(f *http2.PriorityFrame) error {
	c.mu.Lock()
	defer c.unlock()
	if f.StreamDep != f.StreamID {
		return c.useless(1)
	}
	if s := c.streams[f.StreamID]; s != nil {
		return c.abort(s, http2.ErrCodeProtocol, "a stream that depends on itself")
	}
	return violation("a stream that depends on itself")
}
