package h1

import "io"

// Where a body's reader is. Between sizeLine and trailers only chunked bodies.
type bodyState uint8

const (
	bodyDone bodyState = iota
	bodyData           // remain more bytes of the body or of a chunk
	sizeLine           // a chunk's size comes next
	dataEnd            // the CRLF after a chunk's data
	trailers
)

// Space to read bodies into.
const (
	leastRoom = 4 << 10  // below this the kept head makes way
	manyBytes = 32 << 10 // from here on a large buffer saves system calls
)

// body is the state of a body that is being read.
type body struct {
	framing Framing
	state   bodyState
	remain  int64 // of the body (Length) or of the chunk
	excess  int64 // bytes by which chunked framing outweighs its data so far; see maxExcess
	scan    scanner
	err     error // what ended it early

	trailer     Header
	trailerText []byte // what trailer's fields are slices of
}

func (b *body) forget() {
	if b.trailer != nil {
		b.trailer, b.trailerText = nil, nil
	}
	b.framing, b.state, b.err = NoBody, bodyDone, nil
}

// start begins a body.
func (b *body) start(f Framing, length int64) {
	if f == Length && length == 0 {
		f = NoBody
	}
	b.framing, b.state, b.remain, b.excess, b.err = f, bodyDone, length, 0, nil
	switch f {
	case Chunked:
		b.remain, b.state = 0, sizeLine
	case UntilClose, Length:
		b.state = bodyData
	}
}

// BodyDone reports whether the end of the body has been seen.
func (r *reader) BodyDone() bool { return r.body.state == bodyDone && r.body.err == nil }

// ReadBody reads bytes of the body, without its framing. The error is io.EOF at
// the true end and only there; Broken where the connection ended first.
func (r *reader) ReadBody(p []byte) (int, error) {
	for len(p) > 0 {
		piece, err := r.available(len(p))
		if err != nil {
			return 0, err
		}
		if len(piece) > 0 {
			return r.copyBody(p, piece), nil
		}
		if r.direct(len(p)) {
			return r.readInto(p)
		}
		if err := r.more(leastRoom); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// copyBody copies piece into p, and what else is buffered behind it.
func (r *reader) copyBody(p, piece []byte) int {
	n := copy(p, piece)
	for n < len(p) {
		piece, err := r.available(len(p) - n)
		if err != nil || len(piece) == 0 {
			break // the error is kept, and comes with the next call
		}
		n += copy(p[n:], piece)
	}
	return n
}

// direct reports whether the next bytes are best read into the caller's own
// buffer of n bytes: nothing is buffered, and enough data must come.
func (r *reader) direct(n int) bool {
	return r.body.state == bodyData && r.r == r.w && n >= leastRoom && (r.body.framing != Chunked || r.body.remain >= leastRoom)
}

// readInto reads data straight into p.
func (r *reader) readInto(p []byte) (int, error) {
	if r.body.framing != UntilClose && int64(len(p)) > r.body.remain {
		p = p[:r.body.remain]
	}
	n, err := r.c.read(p)
	if err != nil {
		return 0, r.bodyError(err)
	}
	r.passed(n)
	return n, nil
}

// NextBody is ReadBody without a copy: it returns the next bytes of the body,
// at least one, in the connection's own buffer. They live until the next call
// that reads.
func (r *reader) NextBody() ([]byte, error) {
	for {
		piece, err := r.available(1 << 30)
		if err != nil || len(piece) > 0 {
			return piece, err
		}
		if err := r.more(r.bodyRoom()); err != nil {
			return nil, err
		}
	}
}

// bodyRoom is the space that the rest of a body wants: a large buffer where much
// is known to come, or where the last read filled what there was.
func (r *reader) bodyRoom() int {
	full := r.in != nil && r.w == len(r.in.b)
	if r.body.remain >= manyBytes || full {
		return largeBuffer
	}
	return max(leastRoom, r.w-r.r)
}

// available consumes and returns up to most bytes of data that are buffered in
// one piece, dealing with the framing around them. Nothing and no error: more
// must be read.
func (r *reader) available(most int) ([]byte, error) {
	if err := r.settle(); err != nil {
		return nil, err
	}
	if r.body.state == bodyDone {
		return nil, io.EOF
	}
	if r.body.state != bodyData || r.r == r.w {
		return nil, nil
	}
	n := min(r.w-r.r, most)
	if r.body.framing != UntilClose {
		n = int(min(int64(n), r.body.remain))
	}
	piece := r.in.b[r.r : r.r+n : r.r+n]
	r.r += n
	r.passed(n)
	return piece, nil
}

// passed accounts for n bytes of data and looks at the framing behind them, so
// that the end is known as soon as it is buffered.
func (r *reader) passed(n int) {
	if r.body.framing == UntilClose {
		return
	}
	r.body.remain -= int64(n)
	if r.body.remain > 0 {
		return
	}
	if r.body.framing == Chunked {
		r.body.state = dataEnd
		r.settle() // an error is kept
		return
	}
	r.body.state = bodyDone
}

// more reads into the buffer.
func (r *reader) more(room int) error {
	if err := r.fill(room); err != nil {
		return r.bodyError(err)
	}
	return nil
}

// bodyError gives the error of a read its meaning for the body.
func (r *reader) bodyError(err error) error {
	if err == io.EOF && r.body.framing == UntilClose && !r.c.wasReset.Load() {
		r.body.state = bodyDone
		return io.EOF
	}
	if KindOf(err) == Interrupted {
		return err // it may go on
	}
	r.body.err = r.forSide(ended(err, "body"))
	return r.body.err
}

// forSide takes the status for a request's client out of what is wrong with a
// response.
func (r *reader) forSide(err error) error {
	if e, ok := err.(*Error); ok && r.lenient {
		e.Status = 0
	}
	return err
}

// BufferedBody returns the whole body and consumes it, if it has a length and
// all of it is buffered, or if there is none. It lives as long as the head.
func (r *reader) BufferedBody() ([]byte, bool) {
	if r.body.framing == NoBody {
		return nil, true
	}
	if r.body.framing != Length || r.body.state != bodyData || int64(r.w-r.r) < r.body.remain {
		return nil, false
	}
	piece, err := r.available(int(r.body.remain))
	return piece, err == nil
}

// Drain reads what is left of the body and drops it. More than most bytes are
// an error.
func (r *reader) Drain(most int64) error {
	for {
		piece, err := r.NextBody()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if most -= int64(len(piece)); most < 0 {
			return &Error{Kind: Broken, Reason: "more body than wanted"}
		}
	}
}
