package h1

import (
	"io"
	"net"
)

// Limits bound what a client may send. Zero values mean the defaults.
type Limits struct {
	Head   int // bytes of a request's head, and of its trailers: 64 KiB
	Fields int // fields in a head: 1000
}

// Default limits.
const (
	defaultHead   = 64 << 10
	defaultFields = 1000
)

// ServerConn is a connection from a client: requests come in, responses go out.
// While it waits for a request it holds no buffer.
type ServerConn struct {
	conn
	reader
	Writer
	req Request
}

// NewServerConn makes nc a client's connection. A *net.TCPConn or *net.UnixConn
// itself is read and written more cheaply than one that is wrapped.
func NewServerConn(nc net.Conn, limits Limits) *ServerConn {
	s := &ServerConn{}
	s.nc = nc
	s.io.init(nc)
	s.reader.c, s.Writer.c = &s.conn, &s.conn
	s.maxHead, s.maxFields = limits.Head, limits.Fields
	if s.maxHead <= 0 {
		s.maxHead = defaultHead
	}
	if s.maxFields <= 0 {
		s.maxFields = defaultFields
	}
	s.side = Broken
	s.state.Store(Now() << phaseBits)
	return s
}

// ReadRequest waits for the next request and reads its head. The request before
// must have been read to the end of its body; its head is gone.
//
// The error is io.EOF where the client closed or reset the connection before a
// byte of the request, else an *Error: Broken in the middle of the head,
// Malformed and HeadTooLarge with the status to answer, Interrupted. After
// an interruption ReadRequest may be called again.
func (s *ServerConn) ReadRequest() (*Request, error) {
	if !s.BodyDone() {
		return nil, malformed("the request before was not read to its end")
	}
	s.Release()
	s.Writer.reset()
	s.enter(Idle)
	scan := scanner{empty: maxEmptyLines}
	head, err := s.findHead(&scan, checkRequest)
	if err != nil {
		return nil, s.headError(err, len(s.buffered()) > scan.start)
	}
	s.req.Header = s.head.fields
	err = parseRequest(&s.req, head, s.maxFields)
	if s.req.Header != nil {
		s.head.fields = s.req.Header
	}
	s.enter(InRequest)
	if err != nil {
		s.req = Request{}
		return nil, err
	}
	s.body.start(s.req.Framing, s.req.ContentLength)
	return &s.req, nil
}

// headError gives an error while reading a head its kind.
func (s *ServerConn) headError(err error, began bool) error {
	if KindOf(err) != 0 {
		return err
	}
	if !began {
		return io.EOF
	}
	return ended(err, "request head")
}

// checkRequest refuses early what begins like no request: a request line that is
// wrong, or a first byte that is in no method.
func checkRequest(partial []byte) error {
	if len(partial) == 0 || partial[0] == '\r' {
		return nil
	}
	if charClass[partial[0]]&isToken == 0 {
		return malformed("invalid method in the request line")
	}
	for i, c := range partial {
		if c == '\n' {
			return parseRequestLine(&Request{}, partial[:i+1])
		}
	}
	return nil
}

// ReadBody reads the request's body; see reader.ReadBody. At its end the
// request's Trailer is there.
func (s *ServerConn) ReadBody(p []byte) (int, error) {
	n, err := s.reader.ReadBody(p)
	s.req.Trailer = s.body.trailer
	return n, err
}

// NextBody is ReadBody without a copy; see reader.NextBody.
func (s *ServerConn) NextBody() ([]byte, error) {
	p, err := s.reader.NextBody()
	s.req.Trailer = s.body.trailer
	return p, err
}

// Release forgets the request and gives its buffers back; bytes that were read
// but not consumed stay.
func (s *ServerConn) Release() {
	s.req = Request{}
	s.forget()
}

// Restart forgets the request and begins to wait for the next one, as ReadRequest
// does: for whoever looks at its first bytes (Peek) before that.
func (s *ServerConn) Restart() {
	s.Release()
	s.enter(Idle)
}

// Begun says that bytes which were looked at (Peek) are the beginning of something
// that has as long as a head to become whole.
func (s *ServerConn) Begun() { s.enter(ReadingHead) }

// Unread reports whether the client has sent more than was read: closing now
// would be a reset, which takes from the client what it has not read yet.
func (s *ServerConn) Unread() bool {
	if len(s.buffered()) > 0 {
		return true
	}
	unread := false
	control(tcp(s.nc), func(fd uintptr) { unread = pending(fd) })
	return unread
}

// Reusable reports whether the next request may be read: this one was read and
// answered wholly, and both sides let the connection persist.
func (s *ServerConn) Reusable() bool {
	return s.req.KeepAlive && s.BodyDone() && s.finished && !s.closing && s.framing != UntilClose &&
		s.failed() == nil && !s.Interrupted()
}
