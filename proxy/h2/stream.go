package h2

import (
	"sync"
	"sync/atomic"

	"golang.org/x/net/http2"

	"mulligan/proxy/h1"
)

// stream is what both sides' streams share. The connection's lock guards all of
// it but what the writing goroutine composes in message.
type stream struct {
	c  *conn
	id uint32 // 0: a client's, of which nothing was framed yet

	message     // of the writing goroutine: see message.go
	owner   any // the *ServerStream or *ClientStream

	began   int64 // when its first frame came, or was made
	closed  bool  // for the protocol; what arrived before may still be read
	stopped uint32
	next    *stream // in the queue
	in      *queue

	// reading: see body.go
	reads      sync.Cond
	inbox      inbox
	recvWindow int64
	recvCredit int64
	recvLeft   int64 // what the content-length still promises; -1: nothing
	recvEnd    bool  // END_STREAM has come
	readErr    *h1.Error
	trailer    h1.Header  // what came at the end
	trailerTo  *h1.Header // where the reader looks for it
	bodyFrames h1.Framing // of what is read
	heard      bool       // a frame has come
	final      bool       // the final head has come
	wasReset   bool       // by the peer

	// writing: see send.go
	writes     sync.Cond
	heads      []*outHead
	pend       []byte // bytes of the body that were given and copied; pendOff of them are framed
	pendOff    int
	pendBuf    *[pendSize]byte
	lent       []byte   // bytes of the body that belong to who waits for them to be framed
	due        bool     // what waits is to be written now
	ending     bool     // the message's end was given
	trailers   *outHead // nil: none
	sentEnd    bool     // END_STREAM was framed
	finished   bool     // and all of it handed to the kernel
	inBatch    int64    // bytes of frames in the present write
	handed     int64    // bytes of frames handed to the kernel
	sendWindow int64
	writeErr   *h1.Error
	inWrite    int // calls under way that may wait for the peer

	progress atomic.Uint64
}

func (s *stream) init(c *conn, trailerTo *h1.Header) {
	s.c, s.trailerTo = c, trailerTo
	s.reads.L, s.writes.L = &c.mu, &c.mu
	s.recvWindow, s.sendWindow = c.limits.window, c.peerInitial
	s.recvLeft = -1
	s.message.client = !c.server
}

// failRead ends reading after what has arrived.
func (s *stream) failRead(e *h1.Error) {
	if s.readErr == nil && !s.recvEnd {
		s.readErr = e
	}
	s.reads.Broadcast()
}

// failWrite ends writing, where the message is not framed to its end already.
func (s *stream) failWrite(e *h1.Error) {
	if s.writeErr == nil && !s.sentEnd {
		s.writeErr = e
		s.dropOut()
	}
	s.writes.Broadcast()
}

// fail ends both.
func (s *stream) fail(e *h1.Error) {
	s.failRead(e)
	s.failWrite(s.forWriter(e))
}

// forWriter is what an error means for who writes: a request that is broken into is
// not Broken, which is what h1 calls one that is shorter than its length. The answer
// may have come before.
func (s *stream) forWriter(e *h1.Error) *h1.Error {
	if s.c.server || e.Kind != h1.Broken {
		return e
	}
	w := *e
	w.Kind = h1.ResetBeforeHeader
	return &w
}

// dropOut forgets what was not framed yet.
func (s *stream) dropOut() {
	s.leaveQueue()
	for _, h := range s.heads {
		putHead(h)
	}
	putHead(s.trailers)
	s.heads, s.trailers, s.lent = nil, nil, nil
	s.dropPend()
}

// remove closes a stream for the protocol. well says that both sides ended it.
func (c *conn) remove(s *stream, well bool) {
	if s.closed {
		return
	}
	s.closed = true
	s.leaveQueue()
	if s.id != 0 {
		delete(c.streams, s.id)
	}
	if well {
		c.theirs.add(s.id)
	}
	c.removed(s, well)
}

// reset ends a stream with RST_STREAM.
func (c *conn) reset(s *stream, code http2.ErrCode) {
	if s.closed {
		return
	}
	c.writeReset(s.id, code)
	c.ours.add(s.id)
	c.remove(s, false)
}

// abort is reset for what the peer did wrong.
func (c *conn) abort(s *stream, code http2.ErrCode, reason string) error {
	answered := s.sentEnd
	c.reset(s, code)
	e := malformed(reason)
	if !c.server {
		e.Status = 0
	}
	s.fail(e)
	if !answered {
		if err := c.wasted(); err != nil {
			return err
		}
	}
	return c.forced()
}

// PeerGone reports whether the peer has reset the stream, or its connection has
// ended: for a server's stream, whether anybody waits for the answer.
func (s *stream) PeerGone() bool {
	s.c.mu.Lock()
	defer s.c.unlock()
	return s.wasReset || s.c.over || s.c.cause != nil && s.c.cause.err != nil
}

// Close ends the stream: nothing is sent where both messages are complete, else
// RST_STREAM. On a server that is NO_ERROR where the answer is complete and only
// the request's rest is not wanted (RFC 9113 section 8.1), else INTERNAL_ERROR; on
// a client CANCEL. What was read but not consumed is gone. Closing twice is fine.
func (s *stream) Close() error {
	s.close(closeWell)
	return nil
}

// CloseReset is Close where the peer must not take what it has for whole: on a
// server it is always INTERNAL_ERROR.
func (s *stream) CloseReset() error {
	s.close(s.resetOwn())
	return nil
}

// CloseWith is CloseReset with a code.
func (s *stream) CloseWith(code uint32) error {
	s.close(http2.ErrCode(code))
	return nil
}

func (s *stream) resetOwn() http2.ErrCode {
	if s.c.server {
		return http2.ErrCodeInternal
	}
	return http2.ErrCodeCancel
}

// closeWell is what close sends where that depends on what is complete.
const closeWell = http2.ErrCode(1<<32 - 1)

func (s *stream) close(code http2.ErrCode) {
	c := s.c
	c.mu.Lock()
	defer c.unlock()
	if code == closeWell {
		if code = s.resetOwn(); c.server && s.sentEnd {
			code = http2.ErrCodeNo
		}
	}
	switch {
	case s.closed:
	case s.id == 0:
		c.remove(s, false)
	default:
		c.closing(s)
		c.reset(s, code)
	}
	e := &h1.Error{Kind: h1.Broken, Reason: "the stream was closed"}
	s.fail(e)
	s.dropUnread(e)
}
