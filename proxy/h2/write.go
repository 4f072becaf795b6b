package h2

import (
	"sync"
	"time"

	"golang.org/x/net/http2"

	"mulligan/proxy/h1"
)

// batchSize is how many bytes are gathered for one write, about.
const batchSize = 64 << 10

var batches = sync.Pool{New: func() any {
	b := make([]byte, 0, batchSize+2*frameSize)
	return &b
}}

// part is what one stream has in a write: bytes [from:to] of it.
type part struct {
	s        *stream
	from, to int
	end      bool // the stream's message ends with it
}

// writeFrames is the writer goroutine: it gathers what may be written, writes it,
// and accounts for it, until the connection ends.
func (c *conn) writeFrames() {
	defer close(c.writerDone)
	for {
		buf, last := c.gather()
		b := *buf
		var n int
		var err error
		if len(b) > 0 {
			n, err = c.nc.Write(b)
		}
		c.mu.Lock()
		c.written(n, err)
		c.unlock()
		if cap(b) <= 2*batchSize {
			batches.Put(buf)
		}
		if last || err != nil {
			return
		}
	}
}

// gather waits until there is something to write, and copies it into a buffer. last
// is true where nothing may follow.
func (c *conn) gather() (buf *[]byte, last bool) {
	c.mu.Lock()
	defer c.unlock()
	for !c.stopping && len(c.ctl.b) == 0 && c.ready.first == nil {
		c.wake.Wait()
	}
	buf = batches.Get().(*[]byte)
	b := c.ctl.take((*buf)[:0])
	if c.stopping && c.cause.code != 0 {
		*buf = b
		return buf, true
	}
	c.table.apply(&c.enc)
	for len(b) < batchSize {
		s := c.ready.pop()
		if s == nil {
			break
		}
		b = c.frame(b, s)
	}
	if len(b) > 0 {
		c.writeSince = h1.Now()
		c.armAt(c.writeSince + c.limits.stall/stallLooks)
	}
	*buf = b
	return buf, c.stopping && c.ready.first == nil
}

// frame appends what a stream says next: its heads, one DATA frame, its end. Then
// it is others' turn.
func (c *conn) frame(b []byte, s *stream) []byte {
	if s.closed || s.writeErr != nil || s.id == 0 && !c.begin(s) {
		return b
	}
	from, ended := len(b), s.sentEnd
	for i, h := range s.heads {
		end := h.end || i == len(s.heads)-1 && s.endsWithHead()
		b = c.enc.encode(b, s.id, h, end)
		s.sentEnd = s.sentEnd || end
		putHead(h)
	}
	s.heads = s.heads[:0]
	if s.waiting() > 0 {
		b = c.frameData(b, s)
	}
	if s.waiting() == 0 && s.endWaits() {
		b = c.frameEnd(b, s)
	}
	if n := len(b) - from; n > 0 {
		s.inBatch += int64(n)
		c.batch = append(c.batch, part{s, from, len(b), s.sentEnd && !ended})
	}
	if s.sentEnd && s.recvEnd {
		c.remove(s, true)
	}
	if s.isFramed() {
		s.due = false
	}
	c.schedule(s)
	return b
}

// isFramed reports whether nothing that was given is still to be framed.
func (s *stream) isFramed() bool { return len(s.heads) == 0 && s.waiting() == 0 && !s.endWaits() }

// endsWithHead reports whether the message ends with its head, though that was
// not known when the head was made.
func (s *stream) endsWithHead() bool { return s.ending && s.waiting() == 0 && s.trailers == nil }

// frameData appends a DATA frame, as large as everything allows. Where it is the
// connection's window that allows none, the stream waits for that.
func (c *conn) frameData(b []byte, s *stream) []byte {
	want := min(s.waiting(), frameSize)
	n := int(min(int64(want), s.sendWindow, c.sendWindow))
	if n <= 0 {
		if s.sendWindow > 0 {
			c.starved.push(s)
		}
		return b
	}
	if n == want || n >= fairData {
		c.usefulData(n)
	}
	var flags http2.Flags
	if n == s.waiting() && s.ending && s.trailers == nil {
		flags = http2.FlagDataEndStream
		s.sentEnd = true
	}
	b = appendFrameHeader(b, n, http2.FrameData, flags, s.id)
	b = s.copyData(b, n)
	s.sendWindow -= int64(n)
	c.sendWindow -= int64(n)
	return b
}

// copyData moves n bytes of the body into b. Who has lent bytes is woken when the
// last of them was copied.
func (s *stream) copyData(b []byte, n int) []byte {
	p := s.pend[s.pendOff:]
	if len(p) > 0 {
		p = p[:min(n, len(p))]
		b = append(b, p...)
		if s.pendOff += len(p); s.pendOff == len(s.pend) {
			s.dropPend()
		}
		n -= len(p)
	}
	if n > 0 {
		b = append(b, s.lent[:n]...)
		if s.lent = s.lent[n:]; len(s.lent) == 0 {
			s.writes.Broadcast()
		}
	}
	return b
}

// frameEnd appends the end of a message: its trailers, or an empty DATA frame.
func (c *conn) frameEnd(b []byte, s *stream) []byte {
	s.sentEnd = true
	if t := s.trailers; t != nil {
		b = c.enc.encode(b, s.id, t, true)
		putHead(t)
		s.trailers = nil
		return b
	}
	return appendFrameHeader(b, 0, http2.FrameData, http2.FlagDataEndStream, s.id)
}

// written accounts for a write of which n bytes were handed to the kernel.
func (c *conn) written(n int, err error) {
	c.writeSince = 0
	c.moved++
	batch := c.batch
	for i := range batch {
		p := &batch[i]
		p.s.took(int64(min(max(n-p.from, 0), p.to-p.from)), int64(p.to-p.from), p.end)
	}
	if err != nil {
		c.writeFailed(err)
	}
	clear(batch)
	c.batch = batch[:0]
	c.flushed()
}

// took accounts for n of the bytes of one of the stream's parts; end says that the
// message ends with it.
func (s *stream) took(n, of int64, end bool) {
	s.inBatch -= of
	s.handed += n
	if n > 0 {
		s.progress.Add(1)
	}
	if end && n == of {
		s.finished = true
	}
	if s.inWrite > 0 {
		s.writes.Broadcast()
	}
}

// writeFailed ends all writing. What the peer has sent before is still read, for
// a while: an upstream may answer and close before it has read everything.
func (c *conn) writeFailed(err error) {
	c.writeDead = &ending{err: err}
	if c.cause != nil {
		c.writeDead = c.cause // the write was only ended by our closing
	}
	for _, p := range c.batch {
		if !p.s.finished {
			p.s.sentEnd = false // nobody heard it
			p.s.failWriteDead()
		}
	}
	for _, s := range c.streams {
		s.failWriteDead()
	}
	if c.cause == nil {
		c.nc.SetReadDeadline(time.Now().Add(lingerFor))
	}
}

// failWriteDead ends writing on a connection that takes no more. Reading ends when
// the reader does, which may still find out why: a TLS alert, say.
func (s *stream) failWriteDead() { s.failWrite(s.forWriter(s.endError(s.c.writeDead))) }
