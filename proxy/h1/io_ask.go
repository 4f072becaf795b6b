//go:build linux && (amd64 || arm64)

package h1

import "io"

// asking is how far fastIO.ask is.
type asking uint8

const (
	askLook  asking = iota // is the connection open, and nothing unexpected on it?
	askHeard               // no: nothing was written
	askFull                // not everything could be written at once
	askSent                // everything was written
)

// askResult is what fastIO.ask did.
type askResult struct {
	heard    bool     // see askHeard
	rest     [][]byte // what is still to be written
	written  int64
	writeErr error
	buf      *buffer // the answer's first n bytes
	n        int
	readErr  error
}

// ask writes the pieces and waits for the answer, in one go: RawConn.Read
// forgets earlier edges before the look, so whatever comes after the look is
// waited for, and the read that would find nothing right after the write can be
// left out. It saves a system call for each request.
func (f *fastIO) ask(pieces [][]byte) (a askResult) {
	f.asking, f.size = askLook, smallBuffer
	f.out, f.written, f.writeErr = pieces, 0, 0
	f.n, f.readErr = 0, 0
	err := f.raw.Read(f.askFunc)
	a = askResult{heard: f.asking == askHeard, rest: f.out, written: f.written, buf: f.buf, n: f.n}
	f.out, f.buf = nil, nil
	f.forget()
	switch {
	case f.asking == askSent && err != nil:
		a.readErr = err
	case f.asking == askSent && f.readErr != 0:
		a.readErr = f.readErr
	case f.asking == askSent && f.n == 0:
		a.readErr = io.EOF
	case f.asking == askSent:
	case err != nil:
		a.writeErr = err
	case f.writeErr != 0:
		a.writeErr = f.writeErr
	}
	if a.n == 0 {
		putBuffer(a.buf)
		a.buf = nil
	}
	return a
}

// tryAsk goes on wherever ask is; it returns false to wait.
func (f *fastIO) tryAsk(fd uintptr) bool {
	if f.asking == askSent {
		return f.tryRead(fd)
	}
	if !silent(fd) {
		f.asking = askHeard
		return true
	}
	f.asking = askFull
	if !f.tryWrite(fd) || f.writeErr != 0 {
		return true
	}
	f.asking = askSent
	return false
}
