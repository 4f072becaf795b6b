package h1

import "sync/atomic"

// Writer composes messages and writes them. A head and small pieces of a body
// wait in a buffer for Flush, Finish or more; large pieces go out at once, with
// what waits, and are not copied. Its errors last: after one every later call
// returns it, and what it says about bytes written stays true.
type Writer struct {
	c     *conn
	side  Kind         // of a write error after the first byte
	out   *buffer      // nil: nothing waits
	wait  []byte       // what waits: out.b[:n], or larger
	sent  atomic.Int64 // bytes handed to the kernel
	tried atomic.Bool  // a write began, and did not fail before its first byte
	err   atomic.Pointer[Error]
	parts [maxPieces][]byte // the argument of a write
	look  func() bool       // before the first write, if not nil: is the connection still good?

	framing  Framing
	remain   int64 // of the length
	given    int64 // bytes given
	began    bool  // a head was begun
	open     bool  // a head was ended, the message is not finished
	interim  bool  // the head is a 1xx: another one follows
	finished bool
	closing  bool  // Connection: close was written
	lengths  int   // Content-Length fields written
	length   int64 // what the last of them said
	codings  int   // Transfer-Encoding fields written; odd ones count twice
}

// reset begins a new message.
func (w *Writer) reset() {
	w.drop()
	w.sent.Store(0)
	w.tried.Store(false)
	w.look = nil
	w.err.Store(nil)
	w.given, w.finished, w.closing, w.began, w.open = 0, false, false, false, false
}

// Written returns how many bytes of this message were handed to the kernel;
// those of a write that failed half-way count. It may be called from anywhere.
func (w *Writer) Written() int64 { return w.sent.Load() }

// BodyBytes returns how many bytes of the body were given to Body since the
// last head, framing not included.
func (w *Writer) BodyBytes() int64 { return w.given }

// Failed reports whether a write of this message has failed.
func (w *Writer) Failed() bool { return w.err.Load() != nil }

// Finished reports whether the whole message was handed to the kernel.
func (w *Writer) Finished() bool { return w.finished }

// begin starts a head.
func (w *Writer) begin() {
	w.hold()
	w.began, w.open, w.finished, w.interim = true, false, false, false
	w.given, w.lengths, w.codings = 0, 0, 0
}

// fail records the first error and drops what waits.
func (w *Writer) fail(e *Error) *Error {
	if !w.err.CompareAndSwap(nil, e) {
		e = w.err.Load()
	}
	w.drop()
	return e
}

// hold takes a buffer for what waits, if there is none.
func (w *Writer) hold() {
	if w.out == nil {
		w.out = getBuffer(smallBuffer)
		w.wait = w.out.b[:0]
	}
}

// drop gives the buffer back, and forgets what waits in it.
func (w *Writer) drop() {
	putBuffer(w.out)
	w.out, w.wait = nil, nil
}

// failed returns the lasting error, as an error that may be nil.
func (w *Writer) failed() error {
	if e := w.err.Load(); e != nil {
		return e
	}
	return nil
}
