package h2

import (
	"io"
	"net"
	"sync"
	"sync/atomic"

	"mulligan/proxy/h1"
)

// inputSize is what is read at once, at most. TLS gives 16 KiB.
// From inputMuch on more is expected soon.
const (
	inputSize = 32 << 10
	inputMuch = 4 << 10
)

var inputs = sync.Pool{New: func() any { return new([inputSize]byte) }}

// input reads the connection through a buffer, which it holds only while there is
// something to read: a connection on which little comes has none between two frames.
type input struct {
	nc    net.Conn
	buf   *[inputSize]byte
	r, w  int
	first [1]byte
	much  bool         // the last read got a lot
	last  atomic.Int64 // when bytes came, on the clock of h1.Now
}

func (in *input) buffered() int { return in.w - in.r }

// wait waits for at least one byte. Where a long wait is to be expected it holds
// no buffer meanwhile; for TLS that is no second system call, since the first
// byte has cost a whole record.
func (in *input) wait(long bool) error {
	if in.buffered() > 0 {
		return nil
	}
	if !long {
		return in.fill()
	}
	in.release()
	n, err := in.nc.Read(in.first[:])
	if n == 0 {
		return noBytes(err)
	}
	in.last.Store(h1.Now())
	in.hold()
	in.buf[0], in.r, in.w = in.first[0], 0, 1
	return nil
}

// fill reads what has come, at least one byte.
func (in *input) fill() error {
	in.hold()
	if in.r == in.w {
		in.r, in.w = 0, 0
	}
	if in.w == inputSize {
		in.w = copy(in.buf[:], in.buf[in.r:in.w])
		in.r = 0
	}
	n, err := in.nc.Read(in.buf[in.w:])
	if n == 0 {
		return noBytes(err)
	}
	in.w += n
	in.much = n >= inputMuch
	in.last.Store(h1.Now())
	return nil
}

// noBytes is the error of a read that got nothing.
func noBytes(err error) error {
	if err == nil {
		return io.ErrNoProgress
	}
	return err
}

func (in *input) hold() {
	if in.buf == nil {
		in.buf = inputs.Get().(*[inputSize]byte)
		in.r, in.w = 0, 0
	}
}

func (in *input) release() {
	if in.buf != nil {
		inputs.Put(in.buf)
		in.buf = nil
	}
	in.r, in.w = 0, 0
}

// Read reads for the Framer.
func (in *input) Read(p []byte) (int, error) {
	if in.buffered() == 0 {
		if err := in.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, in.buf[in.r:in.w])
	in.r += n
	return n, nil
}

// next returns what is buffered, n bytes at most and one at least, and takes it.
func (in *input) next(n int) ([]byte, error) {
	if in.buffered() == 0 {
		if err := in.fill(); err != nil {
			return nil, err
		}
	}
	n = min(n, in.buffered())
	in.r += n
	return in.buf[in.r-n : in.r], nil
}

// drop reads until nothing more comes, and forgets it.
func (in *input) drop() {
	in.hold()
	for {
		if _, err := in.nc.Read(in.buf[:]); err != nil {
			return
		}
	}
}
