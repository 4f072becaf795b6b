package h2

import (
	"io"
	"sync"

	"mulligan/proxy/h1"
)

// Sizes of the pieces that arrived bodies are kept in, in bytes: the first holds
// most small messages, the second a whole frame.
const (
	smallPiece = 2 << 10
	largePiece = 16 << 10
)

// piece is a part of a body that arrived: b[r:w] is unread.
type piece struct {
	b    []byte
	r, w int
	next *piece
}

var (
	smallPieces = sync.Pool{New: func() any { return &piece{b: make([]byte, smallPiece)} }}
	largePieces = sync.Pool{New: func() any { return &piece{b: make([]byte, largePiece)} }}
)

func getPiece(size int) *piece {
	if size <= smallPiece {
		return smallPieces.Get().(*piece)
	}
	return largePieces.Get().(*piece)
}

func putPiece(p *piece) {
	p.r, p.w, p.next = 0, 0, nil
	switch len(p.b) {
	case smallPiece:
		smallPieces.Put(p)
	case largePiece:
		largePieces.Put(p)
	}
}

// inbox is what has arrived of a body and was not consumed.
type inbox struct {
	first, last *piece
	size        int
	lent        int  // bytes that the reader has in hand and that are not credited yet
	inHand      bool // the reader may have bytes of first in hand
	kept        bool // it has them for good
	taken       bool // something was taken
}

// add copies p behind what is there. A sender of tiny frames does not get a piece
// for each.
func (in *inbox) add(p []byte) {
	in.size += len(p)
	for len(p) > 0 {
		if in.last == nil || in.last.w == len(in.last.b) {
			in.extend(len(p))
		}
		n := copy(in.last.b[in.last.w:], p)
		in.last.w += n
		p = p[n:]
	}
}

func (in *inbox) extend(size int) {
	if in.last == nil {
		in.first = getPiece(size)
		in.last = in.first
		return
	}
	in.last.next = getPiece(largePiece)
	in.last = in.last.next
}

// take lends out what lies in one piece; nil where there is nothing.
func (in *inbox) take() []byte {
	if in.size == 0 {
		return nil
	}
	p := in.first
	b := p.b[p.r:p.w:p.w]
	p.r = p.w
	in.size -= len(b)
	in.lent, in.inHand, in.taken = len(b), true, true
	return b
}

// settle takes back what was lent, and returns how many bytes are to be credited.
func (in *inbox) settle() int {
	n := in.lent
	in.lent = 0
	if p := in.first; p != nil && p.r == p.w && !in.kept {
		if in.first = p.next; in.first == nil {
			in.last = nil
		}
		in.inHand = false
		putPiece(p)
	}
	return n
}

// join lends out everything as one, for good.
func (in *inbox) join() []byte {
	in.kept = true
	if in.first == in.last {
		return in.take()
	}
	all := make([]byte, 0, in.size)
	for p := in.first; p != nil; p = p.next {
		all = append(all, p.b[p.r:p.w]...)
	}
	in.clear()
	in.lent, in.taken = len(all), true
	return all
}

// clear forgets everything and returns how many bytes are to be credited. A piece
// that the reader may have in hand is not used again.
func (in *inbox) clear() int {
	n := in.size + in.lent
	for p := in.first; p != nil; {
		next := p.next
		if p != in.first || !in.inHand {
			putPiece(p)
		}
		p = next
	}
	in.first, in.last, in.size, in.lent, in.inHand = nil, nil, 0, 0, false
	return n
}

// NextBody returns the next bytes of the body, at least one, which live until the
// next call that reads, or Close. What was returned before is credited to the
// peer's window. The error is io.EOF at the true end (END_STREAM) and only there;
// Broken, with the code, where the stream was reset or its connection ended first.
func (s *stream) NextBody() ([]byte, error) {
	s.c.mu.Lock()
	defer s.c.unlock()
	s.settle()
	for {
		if p := s.inbox.take(); p != nil {
			return p, nil
		}
		if err := s.bodyEnd(); err != nil {
			return nil, err
		}
		if s.stopped&stoppedRead != 0 {
			return nil, interrupted()
		}
		s.reads.Wait()
	}
}

// ArrivedBody is NextBody for what has arrived already: it never waits. Nothing
// and no error means that more of the body is still to come.
func (s *stream) ArrivedBody() ([]byte, error) {
	s.c.mu.Lock()
	defer s.c.unlock()
	s.settle()
	if p := s.inbox.take(); p != nil {
		return p, nil
	}
	return nil, s.bodyEnd()
}

// BufferedBody returns the whole body and consumes it, if there is none, or if it
// has a length and all of it has arrived, its END_STREAM too. It lives until the
// next call that reads, or Close.
func (s *stream) BufferedBody() ([]byte, bool) {
	s.c.mu.Lock()
	defer s.c.unlock()
	if s.bodyFrames == h1.NoBody {
		return nil, true
	}
	if s.bodyFrames != h1.Length || !s.recvEnd || s.readErr != nil || s.inbox.taken {
		return nil, false
	}
	p := s.inbox.join()
	s.settle()
	*s.trailerTo = s.trailer
	return p, true
}

// BodyDone reports whether the body's end has come and everything before it was
// returned.
func (s *stream) BodyDone() bool {
	s.c.mu.Lock()
	defer s.c.unlock()
	return s.bodyDone()
}

func (s *stream) bodyDone() bool {
	if !s.recvEnd || s.readErr != nil || s.inbox.size > 0 {
		return false
	}
	*s.trailerTo = s.trailer
	return true
}

// bodyEnd is why there is no more to read; nil: there may be.
func (s *stream) bodyEnd() error {
	if s.bodyDone() {
		return io.EOF
	}
	if s.readErr != nil {
		return s.readErr
	}
	return nil
}

// settle credits what the reader had in hand.
func (s *stream) settle() { s.c.credit(s, int64(s.inbox.settle())) }

// dropUnread forgets what arrived and was not read: a body of which that was a part
// ends by the error.
func (s *stream) dropUnread(e *h1.Error) {
	if s.inbox.size > 0 && s.readErr == nil {
		s.readErr = e
	}
	s.c.credit(s, int64(s.inbox.clear()))
}

// Release forgets the body and gives its buffers back: nobody may have bytes of it
// in hand. Without it, Close leaves those to the garbage collector.
func (s *stream) Release() {
	s.c.mu.Lock()
	defer s.c.unlock()
	s.inbox.inHand = false
	s.dropUnread(&h1.Error{Kind: h1.Broken, Reason: "the stream was released"})
}

// Progress returns a number that changes with every byte of the stream that was
// moved: received, or handed to the kernel.
func (s *stream) Progress() uint64 { return s.progress.Load() }
