package proxy

import (
	"net/netip"
	"sync/atomic"

	"mulligan/proxy/h1"
	"mulligan/proxy/h2"
)

// What the loop needs of the two sides between which it stands. A side is a
// connection of HTTP/1.1, or one stream of an HTTP/2 connection; the meaning of
// each method is documented with h1, and is the same in h2.

// headWriter composes the head of a message.
type headWriter interface {
	Field(name, value []byte)
	Forward(f *h1.Field)
	FieldString(name, value string)
	FieldBytes(name string, value []byte)
	FieldInt(name string, n int64)
	EndHead(f h1.Framing, length int64)
}

// bodyWriter sends a message.
type bodyWriter interface {
	Body(p []byte) error
	Finish(trailer h1.Header) error
	FinishWith(p []byte, trailer h1.Header) error
	Flush() error
	Finished() bool
}

// bodyReader reads the body behind a head.
type bodyReader interface {
	BufferedBody() ([]byte, bool)
	ArrivedBody() ([]byte, error)
	NextBody() ([]byte, error)
	BodyDone() bool
}

// mover knows whether its bytes move.
type mover interface {
	Progress() uint64
	Unsent() uint64
	Writing() bool
}

// interrupter is a side whose blocked reads and writes can be made to return at
// once.
type interrupter interface {
	Interrupt()
	InterruptRead()
	InterruptWrite()
	ClearInterrupt()
}

// closer ends a side: properly, as far as that is still possible, or in a way
// that the peer cannot take for a proper end.
type closer interface {
	Close() error
	CloseReset() error
}

// clientSide is where a request came from, and its answer goes to.
type clientSide interface {
	ReadRequest() (*h1.Request, error)
	StatusLine(minor, code int, reason []byte)
	headWriter
	bodyWriter
	bodyReader
	mover
	interrupter
	closer
	PeerGone() bool
}

// upstreamSide is where an attempt goes to, and its answer comes from.
type upstreamSide interface {
	Start()
	RequestLine(method string, target []byte)
	ReadResponse(method string) (*h1.Response, error)
	FinishAndReadResponse(p []byte, trailer h1.Header, method string) (*h1.Response, error)
	headWriter
	bodyWriter
	bodyReader
	mover
	interrupter
	closer
	Written() int64
	Failed() bool
	RemoteAddr() netip.AddrPort
}

var (
	_ clientSide   = (*h1.ServerConn)(nil)
	_ clientSide   = (*h2.ServerStream)(nil)
	_ upstreamSide = (*h1.ClientConn)(nil)
	_ upstreamSide = (*h2.ClientStream)(nil)
)

// isStream reports whether an upstream's side is a stream of HTTP/2.
func isStream(uc upstreamSide) bool {
	_, is := uc.(*h2.ClientStream)
	return is
}

// upstreamRef is an upstreamSide, or none, that the watcher may look at while it
// changes. An atomic pointer to an interface would be an allocation for each
// request.
type upstreamRef struct {
	conn   atomic.Pointer[h1.ClientConn]
	stream atomic.Pointer[h2.ClientStream]
}

// Store sets the side; nil for none.
func (r *upstreamRef) Store(uc upstreamSide) {
	stream, _ := uc.(*h2.ClientStream)
	if stream != nil || r.stream.Load() != nil { // mostly not, and a store costs more than a look
		r.stream.Store(stream)
	}
	conn, _ := uc.(*h1.ClientConn)
	r.conn.Store(conn)
}

// Load returns the side, or nil.
func (r *upstreamRef) Load() upstreamSide {
	if uc := r.conn.Load(); uc != nil {
		return uc
	}
	if uc := r.stream.Load(); uc != nil {
		return uc
	}
	return nil
}

// alpnHTTP2 is HTTP/2's name where TLS begins (RFC 9113 3.2), as alpnHTTP1 is
// HTTP/1.1's.
const (
	alpnHTTP2 = "h2"
	alpnHTTP1 = "http/1.1"
)
