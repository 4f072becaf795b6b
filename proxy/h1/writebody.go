package h1

import "strconv"

const (
	// copyLimit is the size, in bytes, up to which a piece of a body is copied
	// behind what waits, if there is room.
	copyLimit = 4 << 10
	// chunkFraming is the most that framing adds to one piece: a size of 16
	// digits, two line ends and a last chunk.
	chunkFraming = 16 + 2 + 2 + 5
)

// Body writes a piece of the body. It may stay in the buffer until Flush,
// Finish or more comes.
func (w *Writer) Body(p []byte) error { return w.piece(p, false, nil) }

// Finish ends the message: it writes the last chunk with the trailers, and all
// that waits. Trailers that RFC 9110 section 6.5.1 forbids are left out, and all
// of them where the body is not chunked. A body shorter than its length is
// Broken, and the connection must be closed then.
func (w *Writer) Finish(trailer Header) error { return w.piece(nil, true, trailer) }

// FinishWith is Body and Finish in one write.
func (w *Writer) FinishWith(p []byte, trailer Header) error { return w.piece(p, true, trailer) }

// Flush writes what waits.
func (w *Writer) Flush() error {
	if err := w.failed(); err != nil || len(w.wait) == 0 {
		return err
	}
	w.parts[0] = w.wait
	return w.send(1)
}

// piece adds p to the body, and the body's end if last.
func (w *Writer) piece(p []byte, last bool, trailer Header) error {
	parts, err := w.compose(p, last, trailer)
	if err != nil {
		return err
	}
	if parts > 0 {
		if err := w.send(parts); err != nil {
			return err
		}
	}
	if last {
		w.done()
	}
	return nil
}

// compose puts p and its framing behind what waits. Where something must be
// written now it returns how many of w.parts are to be written.
func (w *Writer) compose(p []byte, last bool, trailer Header) (parts int, err error) {
	if err := w.account(len(p), last); err != nil {
		return 0, err
	}
	chunked := w.framing == Chunked
	if chunked {
		w.hold()
	}
	direct := len(p) > 0 && !w.fits(len(p), last)
	if len(p) > 0 && chunked {
		w.wait = append(strconv.AppendInt(w.wait, int64(len(p)), 16), '\r', '\n')
	}
	split := len(w.wait)
	if !direct && len(p) > 0 {
		w.hold()
		w.wait = append(w.wait, p...)
	}
	if len(p) > 0 && chunked {
		w.wait = append(w.wait, '\r', '\n')
	}
	if last && chunked {
		w.lastChunk(trailer)
	}
	return w.divide(p, split, direct, last), nil
}

// divide lays out w.parts: what waits, and p between its framing if it was not
// copied.
func (w *Writer) divide(p []byte, split int, direct, last bool) int {
	switch {
	case direct:
		w.parts[0], w.parts[1], w.parts[2] = w.wait[:split], p, w.wait[split:]
		return 3
	case last && len(w.wait) > 0:
		w.parts[0] = w.wait
		return 1
	}
	return 0
}

// account checks n more bytes against the framing and counts them.
func (w *Writer) account(n int, last bool) error {
	if err := w.failed(); err != nil {
		return err
	}
	switch {
	case !w.open:
		return w.fail(malformed("no message is open for a body"))
	case w.framing == NoBody && n > 0:
		return w.fail(malformed("body where there is none"))
	case w.framing == Length && int64(n) > w.remain:
		return w.fail(malformed("body longer than its length"))
	}
	w.given += int64(n)
	if w.framing != Length {
		return nil
	}
	w.remain -= int64(n)
	if last && w.remain > 0 {
		return w.fail(&Error{Kind: Broken, Reason: "body shorter than its length"})
	}
	return nil
}

// fits reports whether n bytes are better copied than written directly: small
// ones, and larger ones that do not go out now anyway.
func (w *Writer) fits(n int, last bool) bool {
	if len(w.wait)+n+chunkFraming > smallBuffer {
		return false
	}
	now := last || w.framing == Length && w.remain == 0
	return n <= copyLimit || !now
}

// lastChunk ends a chunked body.
func (w *Writer) lastChunk(trailer Header) {
	w.wait = append(w.wait, "0\r\n"...)
	for i := range trailer {
		if f := &trailer[i]; allowedInTrailer(f.Known()) {
			w.wait = append(append(w.wait, f.Name...), ": "...)
			w.wait = append(append(w.wait, f.Value...), "\r\n"...)
		}
	}
	w.wait = append(w.wait, "\r\n"...)
}

// allowedInTrailer is false for fields that frame or route a message, or belong
// to the connection: RFC 9110 section 6.5.1.
func allowedInTrailer(k KnownName) bool {
	switch k {
	case NameConnection, NameContentLength, NameTransferEncoding, NameHost, NameExpect, NameKeepAlive,
		NameProxyConnection, NameProxyAuthorization, NameProxyAuthenticate, NameTE, NameTrailer, NameUpgrade,
		NameMaxForwards, NameHTTP2Settings, NameContentType, NameAuthorization, NameSetCookie:
		return false
	}
	return true
}

// done ends the message, or a 1xx.
func (w *Writer) done() {
	w.drop()
	w.open, w.finished = false, !w.interim
}

// send writes the first n parts. Nothing waits after it.
func (w *Writer) send(n int) error {
	if look := w.look; look != nil {
		if w.look = nil; !look() {
			return w.fail(errDead())
		}
	}
	w.tried.Store(true) // before: an answer may be read before the write returns
	return w.accountSent(w.c.write(w.parts[:n]))
}

// errDead is a connection that ended, or spoke, while nobody used it.
func errDead() *Error { return &Error{Kind: NothingWritten, Reason: "the idle connection had ended"} }

// accountSent accounts for a write.
func (w *Writer) accountSent(written int64, err error) error {
	w.parts = [maxPieces][]byte{}
	sent := w.sent.Add(written)
	w.drop()
	if err == nil {
		return nil
	}
	if sent == 0 {
		w.tried.Store(false)
	}
	return w.fail(w.sendError(err, sent))
}

// sendError gives the error of a write its kind.
func (w *Writer) sendError(err error, sent int64) *Error {
	if e, ok := err.(*Error); ok {
		return e
	}
	kind := w.side
	if kind == ResetBeforeHeader && sent == 0 {
		kind = NothingWritten
	}
	return &Error{Kind: kind, Err: err}
}
