package h2

import (
	"io"

	"golang.org/x/net/http2"

	"mulligan/proxy/h1"
)

// connError ends a connection: what the peer did is no HTTP/2, or too much of it.
type connError struct {
	code   http2.ErrCode
	reason string // fixed words
}

func (e *connError) Error() string { return "h2: " + e.code.String() + ": " + e.reason }

func violation(reason string) *connError { return &connError{http2.ErrCodeProtocol, reason} }

func tooMuch(reason string) *connError { return &connError{http2.ErrCodeEnhanceYourCalm, reason} }

// malformed is a message that must not be trusted.
func malformed(reason string) *h1.Error {
	return &h1.Error{Kind: h1.Malformed, Status: 400, Reason: reason}
}

func interrupted() *h1.Error { return &h1.Error{Kind: h1.Interrupted} }

// headTooLarge is a head, or a trailer section, over its limit.
func headTooLarge(what string) *h1.Error {
	return &h1.Error{Kind: h1.HeadTooLarge, Status: 431, Reason: what + " over the limit"}
}

// refused reports whether a code says that the peer did not process the stream
// (RFC 9113 sections 7 and 8.7); for HTTP_1_1_REQUIRED it is as good as said.
func refused(code http2.ErrCode) bool {
	return code == http2.ErrCodeRefusedStream || code == http2.ErrCodeHTTP11Required
}

// resetError is what a stream's RST_STREAM, or the end of its connection, means
// for who reads or writes it.
func (s *stream) resetError(code http2.ErrCode, reason string, err error) *h1.Error {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	e := &h1.Error{Kind: h1.Broken, Reason: reason, Code: uint32(code), Err: err}
	switch {
	case s.c.server:
		e.Status = 400
	case s.final:
	case refused(code):
		e.Kind = h1.Refused
	default:
		e.Kind = h1.ResetBeforeHeader
	}
	return e
}

// unwritten reports whether nothing of a client's stream can have been seen by
// the peer.
func (s *stream) unwritten() bool { return !s.c.server && s.handed+s.inBatch == 0 && !s.heard }

// endError is what the end of the connection means for a stream.
func (s *stream) endError(cause *ending) *h1.Error {
	e := s.resetError(s.c.peerCode, cause.reason, cause.err)
	switch {
	case s.unwritten():
		e.Kind = h1.NothingWritten
	case e.Kind == h1.Refused: // only a frame about the stream itself says so
		e.Kind = h1.ResetBeforeHeader
	}
	if cause.malformed && e.Kind != h1.NothingWritten {
		e.Kind = h1.Malformed
	}
	return e
}
