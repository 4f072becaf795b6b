package h1

import (
	"bytes"
	"net"
	"net/netip"
	"sync/atomic"
)

// Limits for upstreams.
const (
	upstreamHead   = 1 << 20                      // bytes of a response's head, and of its trailers
	upstreamFields = upstreamHead / len("a:\r\n") // the bytes alone bound them
	maxInterim     = 32                           // 1xx before a final response
)

// ClientConn is a connection to an upstream: requests go out, responses come
// in. Pooled and idle it holds no buffer and no goroutine.
type ClientConn struct {
	conn
	reader
	Writer
	resp     Response
	final    bool // resp is a final response
	persist  bool // its server lets the connection persist
	upgraded bool // HTTP ended with it
	interims int
	spoiled  bool // a message before was not ended well
	pooled   bool // it has been idle in a pool
	quiet    quiet
	check    func() bool // Check, made once

	idleSince atomic.Int64
	keepAlive int64 // the server's Keep-Alive timeout in seconds; -1: none said
}

// RemoteAddr is the address that the connection was dialled to; see RemoteAddr.
func (c *ClientConn) RemoteAddr() netip.AddrPort { return RemoteAddr(c.nc) }

// RemoteAddr is the address that a connection was dialled to, an IPv4 one always
// written as such; not valid where it is none of TCP.
func RemoteAddr(nc net.Conn) netip.AddrPort {
	tcp, ok := nc.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := tcp.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

// NewClientConn makes nc a connection to an upstream. A *net.TCPConn or
// *net.UnixConn itself is read and written more cheaply than one that is
// wrapped.
func NewClientConn(nc net.Conn) *ClientConn {
	c := &ClientConn{keepAlive: -1}
	c.idleSince.Store(Now())
	c.nc = nc
	c.io.init(nc)
	c.quiet.init(nc)
	c.reader.c, c.Writer.c = &c.conn, &c.conn
	c.lenient = true
	c.maxHead, c.maxFields = upstreamHead, upstreamFields
	c.side = ResetBeforeHeader
	c.check = c.Check
	return c
}

// Start begins a new message: a request may be written and its response read.
// What belonged to the message before is gone.
func (c *ClientConn) Start() {
	c.spoiled = !c.Reusable()
	c.clear()
	if c.pooled {
		c.look = c.check
	}
}

// clear forgets the message and gives its buffers back.
func (c *ClientConn) clear() {
	c.Release()
	c.final, c.upgraded, c.interims, c.late = false, false, 0, nil
	c.Writer.reset()
}

// Release forgets the response and gives its buffers back; bytes that were read
// but not consumed stay.
func (c *ClientConn) Release() {
	c.resp = Response{}
	c.forget()
}

// ReadResponse reads the head of the next response to a request with method:
// once for each 1xx, then for the final one. It may run while another goroutine
// still writes the request, and after a write failed: an upstream may answer
// and close before it has read everything.
//
// A 101, and a 2xx to a CONNECT, ends HTTP: what follows is the new protocol's
// (Buffered, Read, NetConn).
//
// The error is an *Error: NothingWritten, ResetBeforeHeader, Malformed,
// HeadTooLarge or Interrupted.
func (c *ClientConn) ReadResponse(method string) (*Response, error) {
	if e := c.err.Load(); e != nil && e.Kind == NothingWritten {
		return nil, e
	}
	c.forget()
	c.resp = Response{}
	scan := scanner{lenient: true}
	head, err := c.findHead(&scan, checkResponse)
	if err != nil {
		return nil, c.headError(err)
	}
	if !c.tried.Load() {
		// Said to nobody: a server that gives up an idle connection may send a 408.
		return nil, &Error{Kind: NothingWritten, Reason: "a response without a request"}
	}
	c.resp.Header = c.head.fields
	err = parseResponse(&c.resp, head, c.maxFields, method)
	if c.resp.Header != nil {
		c.head.fields = c.resp.Header
	}
	if err != nil {
		c.resp = Response{}
		return nil, c.headError(err)
	}
	return c.accept(method)
}

// accept counts a 1xx, or begins the body of a final response.
func (c *ClientConn) accept(method string) (*Response, error) {
	status := c.resp.Status
	if status < 200 && status != 101 {
		if c.interims++; c.interims > maxInterim {
			return nil, &Error{Kind: Malformed, Reason: "too many 1xx responses"}
		}
		return &c.resp, nil
	}
	c.final, c.persist = true, c.resp.KeepAlive
	c.upgraded = status == 101 || method == "CONNECT" && status < 300
	c.readKeepAlive()
	c.body.start(c.resp.Framing, c.resp.ContentLength)
	return &c.resp, nil
}

// headError gives an error before or in a response's head its kind.
func (c *ClientConn) headError(err error) error {
	if e, ok := err.(*Error); ok {
		e.Status = 0 // that is for requests
		return e
	}
	kind := ResetBeforeHeader
	if !c.tried.Load() {
		kind = NothingWritten
	}
	return &Error{Kind: kind, Err: err}
}

// checkResponse refuses early what begins like no response.
func checkResponse(partial []byte) error {
	const start = "HTTP/1."
	n := min(len(partial), len(start))
	if string(partial[:n]) != start[:n] {
		return malformed("not an HTTP/1 status line")
	}
	return nil
}

// ReadBody reads the response's body; see reader.ReadBody. At its end the
// response's Trailer is there.
func (c *ClientConn) ReadBody(p []byte) (int, error) {
	n, err := c.reader.ReadBody(p)
	c.resp.Trailer = c.body.trailer
	return n, err
}

// NextBody is ReadBody without a copy; see reader.NextBody.
func (c *ClientConn) NextBody() ([]byte, error) {
	p, err := c.reader.NextBody()
	c.resp.Trailer = c.body.trailer
	return p, err
}

// Reusable reports whether the connection may carry another request: nothing
// was written or read, or the request was written wholly, its response was read
// to a delimited end with nothing behind it, and both sides let the connection
// persist.
func (c *ClientConn) Reusable() bool {
	if c.spoiled || len(c.buffered()) > 0 || c.failed() != nil || c.Interrupted() {
		return false
	}
	if c.untouched() {
		return true
	}
	return c.final && !c.upgraded && c.persist && c.BodyDone() && c.finished && !c.closing
}

// untouched reports whether the message is still empty.
func (c *ClientConn) untouched() bool {
	return !c.tried.Load() && len(c.wait) == 0 && !c.final && c.interims == 0
}

// Check reports whether an idle connection is still good for a request: open,
// and nothing has come on it. It does not wait.
func (c *ClientConn) Check() bool {
	c.interrupts.Lock()
	defer c.interrupts.Unlock()
	return c.stopped.Load() == 0 && len(c.buffered()) == 0 && c.quiet.check(c.nc)
}

// IdleSince returns since when nothing has been sent on the connection, on the
// clock of Now: since its last message was over, or since it was made.
func (c *ClientConn) IdleSince() int64 { return c.idleSince.Load() }

// readKeepAlive notes what the response's Keep-Alive fields promise: the least,
// where there are several. A response without one changes nothing.
func (c *ClientConn) readKeepAlive() {
	said := false
	for i := range c.resp.Header {
		f := &c.resp.Header[i]
		if f.known != NameKeepAlive {
			continue
		}
		n := keepAliveTimeout(f.Value)
		if !said || n >= 0 && (c.keepAlive < 0 || n < c.keepAlive) {
			c.keepAlive = n
		}
		said = true
	}
}

// keepAliveTimeout returns the seconds in a Keep-Alive field's timeout
// parameter, or -1. The parameter may be a quoted string, and have white space
// around its "=", as any list of parameters that people write by hand.
func keepAliveTimeout(value []byte) int64 {
	for len(value) > 0 {
		var element []byte
		element, value = nextElement(value)
		name, seconds, _ := bytes.Cut(element, []byte("="))
		if !EqualName(trimSpace(name), "timeout") {
			continue
		}
		seconds = trimSpace(seconds)
		if n := len(seconds); n > 2 && seconds[0] == '"' && seconds[n-1] == '"' {
			seconds = seconds[1 : n-1]
		}
		if n, ok := parseDecimal(seconds); ok {
			return n
		}
	}
	return -1
}
