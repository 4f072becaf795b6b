package h1

import "errors"

// Kind says what happened on the wire, by type. The zero Kind is no error of
// this package.
type Kind uint8

// The kinds of errors.
const (
	// NothingWritten: the connection ended before any byte of the message was
	// handed to the kernel, so the peer cannot have seen any of it.
	NothingWritten Kind = iota + 1
	// ResetBeforeHeader: at least one byte was written, and the connection was
	// closed or reset before a whole response head.
	ResetBeforeHeader
	// Broken: a head or body that was begun broke off.
	Broken
	// Malformed: what was read is not HTTP, or its framing cannot be trusted.
	Malformed
	// HeadTooLarge: the head, or its number of fields, is over the limit.
	HeadTooLarge
	// Interrupted: Interrupt was called.
	Interrupted
	// Refused: the peer says that it did not process the message (RFC 9113
	// section 8.7): HTTP/2 only.
	Refused
)

var kindNames = [...]string{
	"", "nothing written", "reset before a response head", "broken off", "malformed", "head too large", "interrupted", "refused",
}

// String returns the kind in words.
func (k Kind) String() string { return kindNames[k] }

// Error is every error of a connection but io.EOF.
type Error struct {
	Kind   Kind
	Status int    // what a request with this error deserves as an answer; 0: none
	Reason string // what exactly was wrong; fixed words, nothing from the peer
	Code   uint32 // of the peer's RST_STREAM or GOAWAY, where that ended the message; 0: none
	Err    error  // of the network; may be nil
}

func (e *Error) Error() string {
	s := "h1: " + e.Kind.String()
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the network's error.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of the *Error in err's chain, or 0.
func KindOf(err error) Kind {
	if err == nil {
		return 0 // before e, which escapes, is made
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return 0
}

// malformed is a request or response that must not be trusted; 400 is what the
// client of a request gets.
func malformed(reason string) *Error { return &Error{Kind: Malformed, Status: 400, Reason: reason} }
