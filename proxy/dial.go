package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"mulligan/proxy/h1"
)

// dialError says at which step of making a connection it failed, so that the
// class is decided by where the error was born and not by its text.
type dialError struct {
	step dialStep
	err  error
}

type dialStep uint8

const (
	stepConnect dialStep = iota
	stepParent           // the parent proxy refused to connect
	stepTLS
)

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// peer is what a pool dials: one authority, with or without TLS.
type peer struct {
	host   string
	port   int
	tls    *tls.Config // nil: plain
	exempt bool        // a configured endpoint
	plain  bool        // an http:// request through parent goes there in absolute-form
	parent *url.URL    // parent_proxy; nil: dial directly
	addrs  nameAddrs   // of host, where it is a name that was dialled directly
}

func (p *peer) addr() string { return hostport(dotted(p.host), p.port) }

// dotted writes a host that is an IPv4 address in another spelling (127.1) as the
// address that it is, so that no resolver is asked what it means.
func dotted(host string) string {
	if ip, ok := legacyIPv4(host); ok {
		return ip.String()
	}
	return host
}

type connectTimeoutKey struct{}

// withConnectTimeout makes dials under ctx end after d; 0 means no limit. The
// clock starts with the dial, not while the request waits for a free slot.
func withConnectTimeout(ctx context.Context, d time.Duration) context.Context {
	if d <= 0 {
		return ctx
	}
	return context.WithValue(ctx, connectTimeoutKey{}, d)
}

// dial makes one connection to p: TCP, the parent proxy's CONNECT, TLS. The
// address that is really dialled is judged, on every attempt.
func (s *Server) dial(ctx context.Context, p *peer) (net.Conn, error) {
	if d, ok := ctx.Value(connectTimeoutKey{}).(time.Duration); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	snap := s.snap.Load()
	conn, err := s.dialTCP(ctx, snap, p)
	if err != nil {
		return nil, err
	}
	if p.tls == nil {
		return conn, nil
	}
	below := &endSeen{Conn: conn}
	t := tls.Client(below, p.tlsFor(ctx))
	if err := t.HandshakeContext(ctx); err != nil {
		conn.Close()
		failedAddrsOf(ctx).add(h1.RemoteAddr(conn))
		return nil, &dialError{stepTLS, err}
	}
	return &tlsConn{t, below}, nil
}

type http1Key struct{}

// withHTTP1 makes dials under ctx offer nothing but HTTP/1.1: for requests that
// need a connection of their own.
func withHTTP1(ctx context.Context) context.Context { return context.WithValue(ctx, http1Key{}, true) }

// tlsFor is how TLS is begun under ctx.
func (p *peer) tlsFor(ctx context.Context) *tls.Config {
	if ctx.Value(http1Key{}) == nil {
		return p.tls
	}
	c := p.tls.Clone()
	c.NextProtos = []string{alpnHTTP1}
	return c
}

// endSeen is a connection that knows whether its own end has been read.
type endSeen struct {
	net.Conn
	ended atomic.Bool
}

func (e *endSeen) Read(p []byte) (int, error) {
	n, err := e.Conn.Read(p)
	if err == io.EOF {
		e.ended.Store(true)
	}
	return n, err
}

// NetConn returns the connection below.
func (e *endSeen) NetConn() net.Conn { return e.Conn }

// tlsConn lets the wire look at the TCP connection below TLS.
type tlsConn struct {
	*tls.Conn
	below *endSeen
}

// Read is that of TLS, but that an end without a close_notify is none: anybody on
// the way could have made it, and a body that ends with the connection would look
// whole (RFC 9112 9.8). crypto/tls says io.EOF for both; after a close_notify it
// does not read on to the connection's own end.
func (c *tlsConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == io.EOF && c.below.ended.Load() {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Close closes the connection without a close_notify: an upstream that reads
// nothing would hold it up for seconds, and nothing is read after it.
func (c *tlsConn) Close() error { return c.below.Close() }

// NetConn returns the connection that TLS runs over.
func (c *tlsConn) NetConn() net.Conn { return c.below }

func (s *Server) dialTCP(ctx context.Context, snap *snapshot, p *peer) (net.Conn, error) {
	parent := p.parent
	if parent == nil {
		conn, err := s.dialJudged(ctx, snap.guard, p.addr(), p.exempt, &p.addrs)
		if err != nil {
			return nil, &dialError{stepConnect, err}
		}
		return conn, nil
	}
	if err := judgeBehindParent(ctx, snap.guard, p); err != nil {
		return nil, &dialError{stepConnect, err}
	}
	conn, err := s.dialJudged(ctx, snap.guard, parentAddr(parent), true, nil)
	if err != nil {
		return nil, &dialError{stepConnect, err}
	}
	if p.plain {
		return conn, nil
	}
	if err := s.parentConnect(ctx, conn, parent, p.addr()); err != nil {
		conn.Close()
		return nil, &dialError{stepParent, err}
	}
	return conn, nil
}

// judgeBehindParent judges what can be judged of a destination that the parent
// proxy will dial: a literal address. Names are the parent's to resolve, unless
// the port is one of our own listeners': a parent on this host would come back.
func judgeBehindParent(ctx context.Context, g *guard, p *peer) error {
	if ap, err := netip.ParseAddrPort(p.addr()); err == nil {
		return g.judge(ap, p.exempt)
	}
	if !g.own.port(uint16(p.port)) {
		return nil
	}
	if isLocalhost(p.host) {
		return g.judgeLocalhost(uint16(p.port), true)
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", p.host)
	if err != nil {
		return nil // then it is none of our names
	}
	for _, ip := range ips {
		if err := g.judge(netip.AddrPortFrom(ip, uint16(p.port)), true); err != nil {
			return err
		}
	}
	return nil
}

// dialJudged dials, and lets the guard see the address after name resolution. Which
// addresses a name has is noted in found, where that is not nil.
func (s *Server) dialJudged(ctx context.Context, g *guard, addr string, exempt bool, found *nameAddrs) (net.Conn, error) {
	if s.opts.Dial != nil {
		return s.opts.Dial(ctx, "tcp", addr)
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if isLocalhost(host) {
		return g.dialLocalhost(ctx, port, exempt)
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return g.dial(ctx, addr, exempt)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, err
	}
	return s.dialName(ctx, g, host, uint16(n), exempt, found)
}

// dialLocalhost dials what RFC 6761 6.3 says that localhost, and every name under
// it, stands for. Resolvers differ: some know the name but none under it, some
// would ask the world.
func (g *guard) dialLocalhost(ctx context.Context, port string, exempt bool) (net.Conn, error) {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, err
	}
	if err := g.judgeLocalhost(uint16(n), exempt); err != nil {
		return nil, err
	}
	conn, err := g.dial(ctx, net.JoinHostPort(loopbackIPv4.String(), port), exempt)
	if err == nil || ctx.Err() != nil {
		return conn, err
	}
	if conn, other := g.dial(ctx, net.JoinHostPort(netip.IPv6Loopback().String(), port), exempt); other == nil {
		return conn, nil
	}
	return nil, err
}

// dial dials an address; the guard judges it as it is about to be dialled.
func (g *guard) dial(ctx context.Context, addr string, exempt bool) (net.Conn, error) {
	d := net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return g.judge(ap, exempt)
	}}
	return d.DialContext(ctx, "tcp", addr)
}

// parentAddr is the address of parent_proxy to dial.
func parentAddr(u *url.URL) string {
	host, port := parentAuthority(u)
	return hostport(host, port)
}

// parentAuthority is the host of parent_proxy, read as that of any peer, and the
// port; the configuration has checked that it is one.
func parentAuthority(u *url.URL) (host string, port int) {
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		port = 80 // none is written
	}
	return dotted(u.Hostname()), port
}

// errParentRefused is a parent proxy's answer to CONNECT that is not a 2xx.
type errParentRefused struct{ status int }

func (e *errParentRefused) Error() string {
	return fmt.Sprintf("the parent proxy answered CONNECT with %d", e.status)
}

// errParentMalformed is an answer to CONNECT that is no HTTP.
type errParentMalformed struct{ err error }

func (e *errParentMalformed) Error() string {
	return "the parent proxy's answer to CONNECT is not HTTP"
}
func (e *errParentMalformed) Unwrap() error { return e.err }

// Limits of a parent proxy's answer to CONNECT: bytes, which are read one by one,
// and 1xx before it.
const (
	parentHead     = 64 << 10
	parentInterims = 32
)

type receivedViaKey struct{}

// parentConnect asks the parent proxy for a tunnel (RFC 9110 9.3.6). This is no
// request of a user's, so net/http's reader is good enough for the answer. Via
// says through whom the request has come, so that the next mulligan does not try
// it more than once, and a ring of them ends.
func (s *Server) parentConnect(ctx context.Context, conn net.Conn, parent *url.URL, addr string) error {
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	req := "CONNECT " + addr + " HTTP/1.1\r\nHost: " + addr + "\r\n"
	if auth := parentAuth(parent); auth != "" {
		req += "Proxy-Authorization: " + auth + "\r\n"
	}
	if received, ok := ctx.Value(receivedViaKey{}).(string); ok {
		req += "Via: " + received + "\r\n"
	}
	if _, err := io.WriteString(conn, req+"Via: "+s.via[1]+"\r\n\r\n"); err != nil {
		return err
	}
	status, err := readParentStatus(conn)
	if err != nil {
		return err
	}
	if status/100 != 2 {
		return &errParentRefused{status}
	}
	if !stop() {
		return ctx.Err()
	}
	return nil
}

// readParentStatus reads the parent's answer past its 1xx, and not a byte of the
// tunnel behind it.
func readParentStatus(conn net.Conn) (int, error) {
	// A small buffer that holds only what the head needs is made by reading byte by
	// byte: one past it would be the tunnel's.
	limited := &io.LimitedReader{R: oneByte{conn}, N: parentHead}
	br := bufio.NewReaderSize(limited, 16)
	for range parentInterims {
		resp, err := http.ReadResponse(br, &http.Request{Method: http.MethodConnect})
		switch {
		case err != nil && (!brokeOff(err) || limited.N == 0):
			return 0, &errParentMalformed{err}
		case err != nil:
			return 0, err
		case resp.StatusCode >= 200:
			return resp.StatusCode, nil
		}
	}
	return 0, &errParentMalformed{errors.New("too many 1xx responses")}
}

func parentAuth(u *url.URL) string {
	if u.User == nil {
		return ""
	}
	password, _ := u.User.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))
}

// oneByte reads a byte at a time, so that a buffered reader above it never
// takes more than it was asked for.
type oneByte struct{ r io.Reader }

func (o oneByte) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	return o.r.Read(p[:1])
}

// brokeOff reports whether a handshake failed because the connection did (and
// so may be tried again), and not because of what the peer said.
func brokeOff(err error) bool {
	if isTLSError(err) {
		return false
	}
	var errno syscall.Errno
	var ne net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &errno) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		(errors.As(err, &ne) && ne.Timeout()) || errors.Is(err, net.ErrClosed)
}
