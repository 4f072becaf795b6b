package blackbox

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

// names are hosts in the spellings that clients use, under one wildcard.
var names = []struct{ connect, sni, inside string }{
	{"a.wild.localhost", "a.wild.localhost", "a.wild.localhost"},
	{"under_score.wild.localhost", "under_score.wild.localhost", "under_score.wild.localhost"},
	{"_dmarc._x.wild.localhost", "_dmarc._x.wild.localhost", "_dmarc._x.wild.localhost"},
	{"ab--cd.wild.localhost", "ab--cd.wild.localhost", "ab--cd.wild.localhost"},
	{"xn--bcher-kva.wild.localhost", "xn--bcher-kva.wild.localhost", "xn--bcher-kva.wild.localhost"},
	{strings.Repeat("l", 63) + ".wild.localhost", strings.Repeat("l", 63) + ".wild.localhost", strings.Repeat("l", 63) + ".wild.localhost"},
	{strings.Repeat(strings.Repeat("m", 50)+".", 4) + "wild.localhost", strings.Repeat(strings.Repeat("m", 50)+".", 4) + "wild.localhost", strings.Repeat(strings.Repeat("m", 50)+".", 4) + "wild.localhost"},
	{"UPPER.Wild.LocalHost", "UPPER.Wild.LocalHost", "upper.wild.localhost"},
	{"dot.wild.localhost.", "dot.wild.localhost", "dot.wild.localhost"},
	{"dot.wild.localhost.", "dot.wild.localhost", "dot.wild.localhost."},
	{"1.2.wild.localhost", "1.2.wild.localhost", "1.2.wild.localhost"},
	{"-.wild.localhost", "-.wild.localhost", "-.wild.localhost"},
}

// Every name that an intercepted wildcard covers gets a certificate for itself,
// and its requests are served.
func TestNamesInside(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	u := answersTo(t, ca)
	p := startInside(t, "upstreams:\n"+fmt.Sprintf("  w:\n    hosts: [\"*.wild.localhost\"]\n    tls: {intercept: true, ca_file: %s, server_name: localhost}\n    %s\n", ca.file, unhurried))
	for _, protocol := range []string{"http/1.1", "h2"} {
		for _, name := range names {
			c := p.connect(net.JoinHostPort(name.connect, u.port))
			s, err := p.handshake(c, name.sni, protocol)
			if err != nil {
				t.Errorf("CONNECT %s: %v", name.connect, err)
				continue
			}
			leaf := s.ConnectionState().PeerCertificates[0]
			if got := fmt.Sprint(leaf.DNSNames); !strings.EqualFold(got, fmt.Sprintf("[%s]", strings.TrimSuffix(name.sni, "."))) {
				t.Errorf("CONNECT %s: signed for %s", name.connect, got)
			}
			want(t, "answer at "+name.connect+" as "+name.inside, askOver(t, s, name.inside+":"+u.port), 200)
			c.Close()
		}
	}
	p.wantMetric(float64(2*len(names)), "mulligan_requests_total", "upstream=w", "outcome=success")
}

// answersTo serves 200 with the Host it was asked for, once a request is whole.
func answersTo(t *testing.T, ca *authority) *site {
	return newSite(t, ca, 2, func(w http.ResponseWriter, r *http.Request, n int) {
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, r.Host)
	})
}

// apiInside is such a server as api.localhost, which is intercepted.
func apiInside(t *testing.T) (p *inside, u *site, host string) {
	t.Helper()
	ca := newAuthority(t)
	u = answersTo(t, ca)
	return startInside(t, "upstreams:\n"+ca.intercepting("api", "api.localhost", "")), u, "api.localhost:" + u.port
}

// askOver asks for / in the version that TLS was made for, and returns the status.
func askOver(t *testing.T, s *tls.Conn, host string) (status int) {
	t.Helper()
	if s.ConnectionState().NegotiatedProtocol == "h2" {
		f := asClient(t, s)
		f.ask(1, true, "GET", host, "/")
		fmt.Sscan(f.hear(t, 1).head[":status"], &status)
		return status
	}
	fmt.Fprintf(s, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", host)
	fmt.Fscanf(s, "HTTP/1.1 %d", &status)
	return status
}

// IP targets have no SNI; their certificates name the address.
func TestAddressesInside(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	u := answersTo(t, ca)
	p := startInside(t, "upstreams:\n"+ca.intercepting("four", "127.0.0.1", ""))
	for _, protocol := range []string{"http/1.1", "h2"} {
		host := "127.0.0.1:" + u.port
		s := p.secure(host, protocol) // verified for the address, SNI absent
		want(t, "answer", askOver(t, s, host), 200)
		if ips := s.ConnectionState().PeerCertificates[0].IPAddresses; len(ips) != 1 || ips[0].String() != "127.0.0.1" {
			t.Errorf("signed for %v", ips)
		}
		r := p.caller(map[string]int{"http/1.1": 1, "h2": 2}[protocol]).do("GET", "https://"+host+"/", "")
		r.expect(t, 200, "")
		want(t, "Host", r.Body, host)
	}
}

// IPv6 literals are addresses too, however they are written.
func TestIPv6Inside(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 here")
	}
	ca := newAuthority(t)
	config := rightConfig(ca)
	config.Certificates = []tls.Certificate{ca.leaf(parsePEM(t, readFile(t, ca.file)).NotAfter, "::1")}
	u := upstreamOn(t, tls.NewListener(ln, config), answering(text(503, ""), text(200, "six")))
	_, port, _ := net.SplitHostPort(u.addr)
	p := startInside(t, fmt.Sprintf("defaults: {retry: {%s}}\nupstreams:\n", quick)+ca.intercepting("six", `"[::1]"`, ""))
	for _, host := range []string{"[::1]:" + port, "[0:0:0:0:0:0:0:1]:" + port} {
		s, err := p.handshake(p.connect(host), "")
		if err != nil {
			t.Fatal(host, err)
		}
		leaf := s.ConnectionState().PeerCertificates[0]
		if len(leaf.IPAddresses) != 1 || !leaf.IPAddresses[0].Equal(net.IPv6loopback) {
			t.Errorf("%s: signed for %v", host, leaf.IPAddresses)
		}
		want(t, host, askOver(t, s, host), 200)
	}
}

// Only names of upstreams that ask for it are ever signed: what a client asks for
// in TLS has to belong to the upstream of its tunnel.
func TestNamesThatAreNotSigned(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	u := answersTo(t, ca)
	p := startInside(t, "upstreams:\n"+
		ca.intercepting("mine", `mine.localhost, also.localhost, "*.mine.localhost:`+u.port+`"`, "")+
		ca.intercepting("yours", "yours.localhost", "")+
		"  plain: {hosts: [plain.localhost]}\n")
	for _, row := range []struct {
		connect, sni string
		signed       bool
	}{
		{"mine.localhost", "mine.localhost", true},
		{"mine.localhost", "also.localhost", true}, // the same upstream, and so the same policy
		{"mine.localhost", "x.mine.localhost", true},
		{"mine.localhost", "yours.localhost", false},
		{"mine.localhost", "plain.localhost", false},
		{"mine.localhost", "localhost", false},
		{"mine.localhost", "mine.localhost.evil.test", false},
		{"mine.localhost", "evil.test", false},
		{"mine.localhost", "*.mine.localhost", false},
		{"x.mine.localhost", "y.x.mine.localhost", true},
		{"yours.localhost", "mine.localhost", false},
	} {
		c := p.connect(row.connect + ":" + u.port)
		s := tls.Client(c.TCPConn, &tls.Config{InsecureSkipVerify: true, ServerName: row.sni})
		err := s.Handshake()
		if (err == nil) != row.signed {
			t.Errorf("CONNECT %s, SNI %s: %v, want signed: %v", row.connect, row.sni, err, row.signed)
		}
		if err == nil {
			err := s.ConnectionState().PeerCertificates[0].VerifyHostname(row.sni)
			if err != nil {
				t.Error(err)
			}
		} else if all := err.Error(); !strings.Contains(all, "tls:") {
			t.Errorf("CONNECT %s, SNI %s: not told in TLS, but %v", row.connect, row.sni, err)
		}
		c.Close()
	}
	// The port of a host's pattern counts for SNI too.
	c := p.connect("mine.localhost:1")
	if _, err := p.handshake(c, "x.mine.localhost"); err == nil {
		t.Error("signed for a port that the pattern does not name")
	}
	want(t, "requests seen", u.seen("/"), 0)
	p.wantMetric(0, "mulligan_attempts_total")
}

// A request for another host than its connection's gets 421, is nobody's request,
// and hurts no other.
func TestForeignAuthorityInside(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	u := answersTo(t, ca)
	p := startInside(t, "upstreams:\n"+ca.intercepting("mine", "mine.localhost, also.localhost", ""))
	host := "mine.localhost:" + u.port
	foreign := []string{"yours.localhost:" + u.port, "mine.localhost:1", "mine.localhost", "also.localhost:" + u.port, "127.0.0.1:" + u.port, "x.mine.localhost:" + u.port}
	account := "attempts=0; stop=permanent; error=http_request_error"

	c := p.secure1(host)
	for _, authority := range foreign {
		c.ask("GET", "/", authority).expectProblem(t, 421, account)
	}
	c.ask("GET", "https://"+foreign[0]+"/", host).expectProblem(t, 421, account)
	c.ask("GET", "http://"+host+"/", host).expectProblem(t, 421, account)
	c.ask("GET", "https://"+host+"/absolute", "ignored.localhost").expect(t, 200, "") // RFC 9112 3.2.2
	c.ask("GET", "/", strings.ToUpper(host)).expect(t, 200, "")

	f := p.frames(host)
	for i, authority := range foreign {
		stream := uint32(2*i + 1)
		f.ask(stream, true, "GET", authority, "/")
		f.hear(t, stream).expect(t, 421, account)
	}
	f.ask(101, false, "POST", host, "/")
	f.ask(103, true, "GET", foreign[0], "/")
	f.hear(t, 103).expect(t, 421, account)
	f.data(101, true, "body")
	f.hear(t, 101).expect(t, 200, "")
	// A body behind a foreign head is dropped without harm.
	f.ask(105, false, "POST", foreign[0], "/")
	f.hear(t, 105).expect(t, 421, account)
	f.reset(105, http2.ErrCodeCancel)
	f.headers(107, true, ":method: GET", ":scheme: http", ":authority: "+host, ":path: /")
	f.hear(t, 107).expect(t, 421, account)
	f.ask(109, true, "GET", host, "/")
	f.hear(t, 109).expect(t, 200, "")

	want(t, "requests seen", u.seen("/")+u.seen("/absolute"), 4)
	p.wantMetric(4, "mulligan_requests_total")
	p.wantMetric(4, "mulligan_attempts_total")
}

// The same name again is the same leaf, for every client: one is minted.
func TestOneLeafForAName(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	p := startInside(t, "upstreams:\n"+ca.intercepting("w", `"*.localhost"`, ""))
	const clients = 32
	leaves := make(chan *x509.Certificate, clients)
	for range clients {
		c := p.connect("fresh.localhost:1")
		go func() {
			s, err := p.handshake(c, "fresh.localhost")
			if err != nil {
				t.Error(err)
				leaves <- nil
				return
			}
			leaves <- s.ConnectionState().PeerCertificates[0]
		}()
	}
	serials := map[string]bool{}
	for range clients {
		if leaf := soon(t, "a handshake", leaves); leaf != nil {
			serials[leaf.SerialNumber.String()] = true
		}
	}
	want(t, "leaves minted", len(serials), 1)
}

// A client's TLS session is resumed in its next tunnel to the host.
func TestSessionResumedInTheNextTunnel(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	u := answersTo(t, ca)
	p := startInside(t, "upstreams:\n"+ca.intercepting("a", "a.localhost", "")+ca.intercepting("b", "b.localhost", ""))
	cache := tls.NewLRUClientSessionCache(8)
	through := func(host string) bool {
		c := p.connect(host + ":" + u.port)
		s := tls.Client(c.TCPConn, &tls.Config{RootCAs: p.roots, ServerName: host, ClientSessionCache: cache, NextProtos: []string{"http/1.1"}})
		if err := s.Handshake(); err != nil {
			t.Fatal(err)
		}
		want(t, "answer", askOver(t, s, host+":"+u.port), 200)
		c.Close()
		return s.ConnectionState().DidResume
	}
	want(t, "the first is resumed", through("a.localhost"), false)
	want(t, "the second is resumed", through("a.localhost"), true)
	want(t, "another host's is resumed", through("b.localhost"), false)
}
