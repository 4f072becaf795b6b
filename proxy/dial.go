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
	"sync/atomic"
	"syscall"
	"time"
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
}

func (p *peer) addr() string {
	if ip, ok := legacyIPv4(p.host); ok {
		return hostport(ip.String(), p.port)
	}
	return hostport(p.host, p.port)
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
	t := tls.Client(conn, p.tls)
	if err := t.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, &dialError{stepTLS, err}
	}
	return &tlsConn{t, conn}, nil
}

// tlsConn lets the wire look at the TCP connection below TLS.
type tlsConn struct {
	*tls.Conn
	below net.Conn
}

// Close closes the connection without a close_notify: an upstream that reads
// nothing would hold it up for seconds, and nothing is read after it.
func (c *tlsConn) Close() error { return c.below.Close() }

// NetConn returns the connection that TLS runs over.
func (c *tlsConn) NetConn() net.Conn { return c.below }

func (s *Server) dialTCP(ctx context.Context, snap *snapshot, p *peer) (net.Conn, error) {
	parent := p.parent
	if parent == nil {
		conn, err := s.dialJudged(ctx, snap.guard, p.addr(), p.exempt)
		if err != nil {
			return nil, &dialError{stepConnect, err}
		}
		return conn, nil
	}
	if err := judgeBehindParent(ctx, snap.guard, p); err != nil {
		return nil, &dialError{stepConnect, err}
	}
	conn, err := s.dialJudged(ctx, snap.guard, parentAddr(parent), true)
	if err != nil {
		return nil, &dialError{stepConnect, err}
	}
	if p.plain {
		return conn, nil
	}
	if err := parentConnect(ctx, conn, parent, p.addr()); err != nil {
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

// dialJudged dials, and lets the guard see the address after name resolution.
func (s *Server) dialJudged(ctx context.Context, g *guard, addr string, exempt bool) (net.Conn, error) {
	if s.opts.Dial != nil {
		return s.opts.Dial(ctx, "tcp", addr)
	}
	// Of a name with several addresses the dialer tries all, and returns the error
	// of only one.
	var refused atomic.Pointer[deniedError]
	d := net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		err = g.judge(ap, exempt)
		if denied := new(deniedError); errors.As(err, &denied) {
			refused.Store(denied)
		}
		return err
	}}
	conn, err := d.DialContext(ctx, "tcp", addr)
	if denied := refused.Load(); err != nil && denied != nil {
		return nil, denied
	}
	return conn, err
}

func parentAddr(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// errParentRefused is a parent proxy's answer to CONNECT that is not a 2xx.
type errParentRefused struct{ status int }

func (e *errParentRefused) Error() string {
	return fmt.Sprintf("the parent proxy answered CONNECT with %d", e.status)
}

// parentConnect asks the parent proxy for a tunnel (RFC 9110 9.3.6). This is no
// request of a user's, so net/http's reader is good enough for the answer.
func parentConnect(ctx context.Context, conn net.Conn, parent *url.URL, addr string) error {
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	req := "CONNECT " + addr + " HTTP/1.1\r\nHost: " + addr + "\r\n"
	if auth := parentAuth(parent); auth != "" {
		req += "Proxy-Authorization: " + auth + "\r\n"
	}
	if _, err := io.WriteString(conn, req+"\r\n"); err != nil {
		return err
	}
	// One byte at a time past the head would be the tunnel's: a small buffer that
	// holds only what the head needs is made by reading byte by byte.
	br := bufio.NewReaderSize(oneByte{conn}, 16)
	resp, err := http.ReadResponse(br, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return &errParentRefused{resp.StatusCode}
	}
	if !stop() {
		return ctx.Err()
	}
	return nil
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
	var op *net.OpError
	if errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error") {
		return false // a TLS alert, which crypto/tls wraps so
	}
	var errno syscall.Errno
	var ne net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &errno) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		(errors.As(err, &ne) && ne.Timeout()) || errors.Is(err, net.ErrClosed)
}
