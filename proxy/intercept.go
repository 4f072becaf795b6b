package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"

	"mulligan/proxy/h1"
)

// Signer has the certificates by which this proxy is other servers to its clients.
type Signer interface {
	// Leaf returns a certificate for a host's name or IP address. It is asked only
	// for hosts of upstreams that intercept.
	Leaf(name string) (*tls.Certificate, error)
}

// intercept takes a CONNECT to an upstream with tls.intercept: the client is told
// at once that it is connected, TLS ends here, and the requests inside get the
// whole policy. What turns out to be neither TLS nor HTTP is closed.
func (c *clientConn) intercept() {
	x, wire := &c.x, c.wire
	in := &insideTunnel{host: x.to.host, port: x.to.port, placement: placement{snap: x.snap, up: x.up, named: x.to.named}, policy: x.seen.policy}
	c.closing = true // whatever comes now, it is no next request of the proxy's
	wire.StatusLine(1, 200, []byte("Connection established"))
	wire.EndHead(h1.NoBody, 0)
	c.watch.moving(nil) // a client that does not read is given up
	err := wire.Finish(nil)
	c.watch.rested()
	if err != nil {
		return
	}
	c.watch.end()
	wire.Restart()
	switch first, err := c.opening(); {
	case err != nil:
	case beginsTLS(first):
		c.interceptTLS(in)
	case speaksMethod(first):
		in.auth = x.tunnelAuthority(in.up)
		c.inside = in
		c.serveInside()
		c.closing = true
	default:
		c.hintOnce(in.host, "neither TLS nor HTTP came in a tunnel to an intercepted host, and it was closed",
			"name the hosts that speak something else in an upstream without tls.intercept")
	}
}

// opening returns the client's first bytes: as many as tell TLS, HTTP and
// anything else apart. They have as long as a request's head.
func (c *clientConn) opening() ([]byte, error) {
	for n := 1; ; n++ {
		b, err := c.wire.Peek(n)
		if err != nil {
			return nil, err
		}
		c.wire.Begun()
		n = len(b)
		if is, maybe := couldBeHTTP(b); is || !maybe && !(len(b) < 3 && b[0] == recordHandshake) {
			return b, nil
		}
	}
}

// speaksMethod reports whether a tunnel's first bytes are a known method and a
// space.
func speaksMethod(b []byte) bool {
	is, _ := couldBeHTTP(b)
	return is
}

// interceptTLS is the server of the tunnel's host, to its client.
func (c *clientConn) interceptTLS(in *insideTunnel) {
	wire := c.wire
	c.s.watcher.remove(&c.watch) // TLS sets its own deadlines
	wire.ClearInterrupt()
	below := &replayed{Conn: wire.NetConn(), first: bytes.Clone(wire.Buffered())}
	wire.Discard(len(below.first))
	wire.Release()
	hello := &greeting{c: c, in: in}
	t := tls.Server(below, c.s.intercepting)
	err := handshake(context.WithValue(context.Background(), greetingKey{}, hello), t)
	if err != nil {
		c.noteHandshake(hello, err)
		return
	}
	in.https, in.serverName = true, foldHost(t.ConnectionState().ServerName)
	c.inside = in
	c.serveOver(t)
	switch {
	case c.served.Load():
		c.s.hints.trusted(in.host)
	case !c.s.draining() && !c.s.hints.isTrusted(in.host):
		c.hintOnce(in.host, distrust, c.s.untrusting(), slog.String("error", "the connection ended without a request"))
	}
}

// handshake makes the TLS connection with a client, within the time that a
// request's head may take.
func handshake(ctx context.Context, t *tls.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, headTimeout)
	defer cancel()
	return t.HandshakeContext(ctx)
}

// serveOver takes the requests on a TLS connection whose handshake is done, in
// the version of HTTP that it has led to.
func (c *clientConn) serveOver(t *tls.Conn) {
	if t.ConnectionState().NegotiatedProtocol == alpnHTTP2 {
		c.serveShared(t)
		return
	}
	c.useTLS(t)
	c.s.watcher.add(&c.watch)
	c.serveInside()
}

// useTLS makes a TLS connection what requests of HTTP/1.1 are read from.
func (c *clientConn) useTLS(t *tls.Conn) {
	c.s.change(func() { c.use(h1.NewServerConn(&clientTLS{Conn: t}, h1.Limits{Fields: maxFields})) })
}

// recordHandshake is the type of a TLS record that a connection begins with (RFC
// 8446 5.1).
const recordHandshake = 0x16

// replayed is a connection whose first bytes have been read already.
type replayed struct {
	net.Conn
	first []byte
}

func (r *replayed) Read(p []byte) (int, error) {
	if len(r.first) > 0 {
		n := copy(p, r.first)
		r.first = r.first[n:]
		return n, nil
	}
	return r.Conn.Read(p)
}

// NetConn returns the connection below.
func (r *replayed) NetConn() net.Conn { return r.Conn }

// greeting is what the TLS configuration, which is one for all tunnels, has to
// know of the one that shakes hands.
type greeting struct {
	c    *clientConn
	in   *insideTunnel
	came bool // a whole ClientHello
	name string
}

type greetingKey struct{}

// interceptConfig is the TLS configuration of all intercepted tunnels: one, so that
// a client's session is resumed in its next tunnel.
func (s *Server) interceptConfig() *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{alpnHTTP2, alpnHTTP1}}
	nothing := &tls.Config{MinVersion: tls.VersionTLS12} // has no certificate: the client is told that its name is not known
	c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		g := hello.Context().Value(greetingKey{}).(*greeting)
		g.came = true
		if g.name = hello.ServerName; g.name == "" {
			g.name = g.in.host
		} else if !g.agrees() {
			return nothing, nil
		}
		return nil, nil // c itself
	}
	c.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		g := hello.Context().Value(greetingKey{}).(*greeting)
		return s.signer.Leaf(g.name)
	}
	return c
}

// agrees reports whether the name that the client asks for in TLS belongs to the
// upstream that the tunnel's host does: nothing else is signed.
func (g *greeting) agrees() bool {
	matched, _ := g.in.snap.table.Lookup(g.name, g.in.port)
	return g.in.snap.upstreams[matched] == g.in.up
}

// distrust is what is seen of a client that does not trust the local CA, among
// others: some say so, some only leave.
const distrust = "no TLS with the client of an intercepted host"

// untrusting is what to do about a client that does not trust the local CA, where
// that is the one of data_dir.
const untrusting = "if it does not trust mulligan's CA: give it the root that `mulligan ca` prints, or start it with `mulligan exec`"

func (s *Server) untrusting() string {
	if s.opts.Untrusting != "" {
		return s.opts.Untrusting
	}
	return untrusting
}

// noteHandshake tells of a client with which there is no TLS, once for each host.
// Clients say in many ways that they do not trust a certificate, or only leave.
func (c *clientConn) noteHandshake(g *greeting, err error) {
	switch {
	case !g.came || c.s.draining():
		c.s.log.Debug("a tunnel to an intercepted host ended before a ClientHello", slog.String("host", g.in.host), slog.Any("error", err))
	case g.name != g.in.host && !g.agrees():
		c.hintOnce(g.in.host, "a client asked in TLS for a host of another upstream than its tunnel's", "", slog.String("asked", g.name))
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		c.s.log.Debug("a client did not finish its TLS handshake", slog.String("host", g.in.host))
	default:
		c.hintOnce(g.in.host, distrust, c.s.untrusting(), slog.Any("error", err))
	}
}

// hintOnce warns of a host, of each thing the first time only.
func (c *clientConn) hintOnce(host, message, hint string, more ...slog.Attr) {
	if !c.s.hints.first(host + " " + message) {
		return
	}
	attrs := append([]slog.Attr{slog.String("host", host), slog.String("client", c.remote.String())}, more...)
	if hint != "" {
		attrs = append(attrs, slog.String("hint", hint))
	}
	c.s.log.LogAttrs(context.Background(), slog.LevelWarn, message, attrs...)
}

// owns reports whether a request in an intercepted tunnel is for the tunnel's own
// host and port, or for the name that TLS was made for; authority is that of an
// absolute-form target, or nil.
func (in *insideTunnel) owns(req *h1.Request, authority []byte) bool {
	if authority == nil {
		if authority = req.Header.GetKnown(h1.NameHost); authority == nil {
			return true // HTTP/1.0 asks whom it has called
		}
	}
	host, port, err := splitAuthority(authority, 443)
	if err != nil || port != in.port {
		return false
	}
	name := foldHost(string(host))
	return name == foldHost(in.host) || in.serverName != "" && name == in.serverName || sameIP(name, in.host)
}

// names says for whom the tunnel is.
func (in *insideTunnel) names() string {
	called := hostport(in.host, in.port)
	if in.serverName != "" && in.serverName != foldHost(in.host) {
		called += " (" + in.serverName + ")"
	}
	return called
}

// sameIP reports whether two hosts are the same address in two spellings.
func sameIP(a, b string) bool {
	pa, erra := netip.ParseAddr(a)
	pb, errb := netip.ParseAddr(b)
	return erra == nil && errb == nil && pa == pb
}
