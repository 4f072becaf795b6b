package h2

import (
	"sync"

	"mulligan/proxy/h1"
)

// pendSize is how many bytes of a body are copied to wait for their turn; larger
// pieces are lent to the writer until it has framed them.
const pendSize = 16 << 10

var pends = sync.Pool{New: func() any { return new([pendSize]byte) }}

func (s *stream) dropPend() {
	if s.pendBuf != nil {
		pends.Put(s.pendBuf)
	}
	s.pend, s.pendOff, s.pendBuf = nil, 0, nil
}

// hold copies p behind what waits, if there is room.
func (s *stream) hold(p []byte) bool {
	switch {
	case len(s.pend)+len(p) > pendSize:
		return false
	case s.pendBuf == nil && s.pend == nil && len(p) > 0:
		s.pendBuf = pends.Get().(*[pendSize]byte)
		s.pend = s.pendBuf[:0]
	}
	s.pend = append(s.pend, p...)
	return true
}

// adopt copies what is lent, so that whoever lent it may go.
func (s *stream) adopt() {
	if len(s.lent) == 0 {
		return
	}
	all := make([]byte, 0, s.waiting())
	all = append(append(all, s.pend[s.pendOff:]...), s.lent...)
	s.dropPend()
	s.pend, s.lent = all, nil
}

// refuse makes the message fail before anything more of it goes out.
func (s *stream) refuse(e *h1.Error) *h1.Error {
	if s.client {
		e.Status = 0
	}
	s.c.mu.Lock()
	defer s.c.unlock()
	s.failWrite(e)
	return s.writeErr
}

// queueHead takes a head. It goes out with the first piece of the body that does,
// or with Flush.
func (s *stream) queueHead(h *outHead) {
	s.c.mu.Lock()
	defer s.c.unlock()
	if s.writeErr != nil {
		putHead(h)
		return
	}
	s.heads = append(s.heads, h)
	s.ending = s.ending || h.end
}

// Body writes a piece of the body. Small ones wait until Flush, Finish or more
// comes; for others Body returns when they were copied into a write, which may have
// to wait for the peer's windows. p is not kept.
func (s *stream) Body(p []byte) error {
	s.c.mu.Lock()
	defer s.c.unlock()
	if err := s.accept(p, false); err != nil {
		return err
	}
	if s.hold(p) {
		return nil
	}
	return s.lend(p)
}

// accept checks a piece of the body, or its end.
func (s *stream) accept(p []byte, last bool) error {
	if s.writeErr != nil {
		return s.writeErr
	}
	if e := s.account(len(p), last); e != nil {
		if s.client {
			e.Status = 0
		}
		return s.broken(e)
	}
	return nil
}

// broken makes the message fail.
func (s *stream) broken(e *h1.Error) error {
	s.failWrite(e)
	if s.writeErr != nil {
		return s.writeErr
	}
	return e // the whole message was out already
}

// lend waits until p was copied into a write.
func (s *stream) lend(p []byte) error {
	s.lent = p
	s.submit()
	s.inWrite++
	defer func() { s.inWrite-- }()
	for len(s.lent) > 0 {
		if err := s.writeStopped(); err != nil {
			return err
		}
		s.writes.Wait()
	}
	return s.failed()
}

// submit says that all that was given is to be written now.
func (s *stream) submit() {
	s.due = true
	switch c := s.c; {
	case c.over:
		s.fail(s.endError(c.cause))
	case c.writeDead != nil:
		s.failWriteDead()
	}
	s.c.schedule(s)
}

// writeStopped returns why a write that waits has to give up; after that the
// message has failed.
func (s *stream) writeStopped() error {
	if s.writeErr == nil && s.stopped&stoppedWrite != 0 {
		return s.broken(interrupted())
	}
	return s.failed()
}

// failed is the lasting error, as an error that may be nil.
func (s *stream) failed() error {
	if s.writeErr != nil {
		return s.writeErr
	}
	return nil
}

// Flush writes what waits, and returns when all of it was handed to the kernel.
func (s *stream) Flush() error {
	s.c.mu.Lock()
	defer s.c.unlock()
	if s.writeErr != nil {
		return s.writeErr
	}
	return s.flush()
}

func (s *stream) flush() error {
	if s.isFlushed() {
		return nil
	}
	s.submit()
	s.inWrite++
	defer func() { s.inWrite-- }()
	for !s.isFlushed() {
		if err := s.writeStopped(); err != nil {
			return err
		}
		s.writes.Wait()
	}
	return s.failed()
}

// isFlushed reports whether nothing that was given is still to be handed over.
func (s *stream) isFlushed() bool {
	return len(s.heads) == 0 && s.waiting() == 0 && !s.endWaits() && s.inBatch == 0
}

// Finish ends the message, with trailers where there are any, and returns when all
// of it was handed to the kernel. Trailers that belong to a connection, and those
// of a message without a body, are left out. A body shorter than its length is
// Broken.
func (s *stream) Finish(trailer h1.Header) error { return s.FinishWith(nil, trailer) }

// FinishWith is Body and Finish in one write.
func (s *stream) FinishWith(p []byte, trailer h1.Header) error {
	s.c.mu.Lock()
	defer s.c.unlock()
	if err := s.end(p, trailer); err != nil {
		return err
	}
	return s.flush()
}

// end gives the last piece of the body and the message's end. It may leave p lent.
func (s *stream) end(p []byte, trailer h1.Header) error {
	if err := s.accept(p, true); err != nil {
		return err
	}
	s.open = false
	if s.frames != h1.NoBody {
		s.trailers = trailerHead(trailer)
	}
	s.ending = true
	if s.isFlushed() {
		return nil // its head has ended it
	}
	switch {
	case len(p) == 0 || s.hold(p):
	default:
		s.lent = p
	}
	s.submit()
	return s.failed()
}

// trailerHead makes a trailer section; nil where nothing is in it.
func trailerHead(trailer h1.Header) *outHead {
	if len(trailer) == 0 {
		return nil
	}
	m := message{building: getHead()}
	for i := range trailer {
		if f := &trailer[i]; allowedInTrailer(f.Known()) && len(f.Name) > 0 && f.Name[0] != ':' {
			m.Forward(f)
		}
	}
	if len(m.building.fields) == 0 {
		putHead(m.building)
		return nil
	}
	m.building.end = true
	return m.building
}

// allowedInTrailer is false for fields that frame or route a message: RFC 9110
// section 6.5.1. Those of a connection are never written.
func allowedInTrailer(k h1.KnownName) bool {
	switch k {
	case h1.NameContentLength, h1.NameHost, h1.NameExpect, h1.NameProxyAuthorization, h1.NameProxyAuthenticate, h1.NameTE,
		h1.NameTrailer, h1.NameMaxForwards, h1.NameContentType, h1.NameAuthorization, h1.NameSetCookie:
		return false
	}
	return true
}

// Finished reports whether the whole message was handed to the kernel. Of a request
// that is answered it is enough that its end is in the present write: the answer may
// be read before the write has returned.
func (s *stream) Finished() bool {
	s.c.mu.Lock()
	defer s.c.unlock()
	return s.finished || s.client && s.sentEnd && s.heard
}

// Failed reports whether writing the message has failed: the peer reset the
// stream, the connection ended, a write was interrupted, or what was given made no
// message. What the peer sent before can still be read.
func (s *stream) Failed() bool {
	s.c.mu.Lock()
	defer s.c.unlock()
	return s.writeErr != nil
}

// Writing reports whether a write is under way that may be waiting for the peer.
func (s *stream) Writing() bool {
	s.c.mu.Lock()
	defer s.c.unlock()
	return s.isWriting()
}

func (s *stream) isWriting() bool { return s.inWrite > 0 && !s.isFlushed() && s.writeErr == nil }

// Unsent returns how many bytes of the stream wait for the peer, while a write is
// under way. Where that is the connection's turn, and not the stream's window, what
// moves on the connection counts too: it is the changes of the number that tell.
func (s *stream) Unsent() uint64 {
	s.c.mu.Lock()
	defer s.c.unlock()
	if !s.isWriting() {
		return 0
	}
	n := uint64(s.waiting()) + uint64(s.inBatch)
	if s.inBatch > 0 || s.in == &s.c.ready {
		n += unsent(s.c.nc) + s.c.moved
	}
	return n
}
