package blackbox

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// Section 2.4: the client asks in the clear, the endpoint is spoken to over TLS.
func TestTLSOrigination(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	u := ca.upstream(t, text(503, ""), text(200, "secret"))
	p := start(t, ca.config("stripe.internal", u.addr, ""))
	c := dial(t, p.proxy)
	r := c.do("GET", "http://stripe.internal/v1", "")
	r.expect(t, 200, "attempts=2; stop=success; received-status=200")
	want(t, "body", r.Body, "secret")
	want(t, "Host", u.request(1).get("Host"), u.addr)
	c.send(lines("GET / HTTP/1.1", "Host: stripe.internal"))
	c.next("GET").expect(t, 200, "")
	want(t, "connections for three attempts", u.connections(), 1)
	p.wantMetric(3, "mulligan_attempts_total", "upstream=secure")
}

// tls_failure: it will not heal, so it is never retried, whatever the method.
func TestTLSFailures(t *testing.T) {
	t.Parallel()
	ca, other := newAuthority(t), newAuthority(t)
	hour := time.Now().Add(time.Hour)
	for name, row := range map[string]struct {
		config *tls.Config
		errors string
	}{
		"self-signed":       {&tls.Config{Certificates: []tls.Certificate{other.leaf(hour, "127.0.0.1")}}, "tls_certificate_error"},
		"wrong name":        {&tls.Config{Certificates: []tls.Certificate{ca.leaf(hour, "other.example")}}, "tls_certificate_error"},
		"expired":           {&tls.Config{Certificates: []tls.Certificate{ca.leaf(time.Now().Add(-time.Minute), "127.0.0.1")}}, "tls_certificate_error"},
		"no common version": {&tls.Config{Certificates: []tls.Certificate{ca.leaf(hour, "127.0.0.1")}, MaxVersion: tls.VersionTLS10, MinVersion: tls.VersionTLS10}, "tls_alert_received|tls_protocol_error"},
		"alert":             {&tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, fmt.Errorf("no") }}, "tls_alert_received"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := ca.upstreamWith(t, row.config, text(200, "must not be seen"))
			p := start(t, ca.config("s.internal", u.addr, ""))
			for n, method := range []string{"GET", "POST"} {
				r := p.do(method, "http://s.internal/", "x")
				r.expectProblem(t, 502, "attempts=1; stop=permanent")
				if e := r.proxyStatus(t)["error"]; !strings.Contains("|"+row.errors+"|", "|"+e+"|") {
					t.Errorf("error=%s, want one of %s", e, row.errors)
				}
				want(t, "connections", u.connections(), n+1)
			}
			want(t, "requests seen", u.count(), 0)
			p.wantMetric(2, "mulligan_attempts_total", "result=tls_failure")
			p.wantMetric(2, "mulligan_requests_total", "outcome=permanent")
		})
	}
}

// Without ca_file the system's roots decide.
func TestTLSUntrustedByDefault(t *testing.T) {
	t.Parallel()
	u := newAuthority(t).upstream(t, text(200, ""))
	p := start(t, fmt.Sprintf(`upstreams: {s: {hosts: [s.internal], endpoints: ["https://%s"], %s}}`, u.addr, unhurried))
	p.get("http://s.internal/").expectProblem(t, 502, "attempts=1; stop=permanent; error=tls_certificate_error")
}

// A handshake that breaks off or gets no answer is a connect_failure: nothing
// was sent, any method is retried.
func TestTLSHandshakeBreaksOff(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	u := serve(t, func(p *peer) { _, _ = p.r.Peek(1) }) // a byte of the handshake, then the end
	p := start(t, ca.config("s.internal", u.addr, ""))
	r := p.do("POST", "http://s.internal/", "x")
	want(t, "status", r.Status, 502)
	r.expectProblem(t, 502, "attempts=4; stop=max_attempts")
	want(t, "connections", u.connections(), 4)
	p.wantMetric(4, "mulligan_attempts_total", "result=connect_failure")
}

func TestTLSHandshakeTimesOut(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	u := serve(t, func(p *peer) { p.ended() })
	p := start(t, strings.Replace(ca.config("s.internal", u.addr, ""), unhurried, "timeout: {connect: 300ms}", 1))
	p.do("POST", "http://s.internal/", "x").expectProblem(t, 504, "attempts=4; stop=max_attempts; error=connection_timeout")
	p.wantMetric(4, "mulligan_attempts_total", "result=connect_failure")
}

// Plain HTTP on an https endpoint: nothing was sent, and the client is told.
func TestPlainHTTPOnHTTPSEndpoint(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	u := serve(t, func(p *peer) {
		_, _ = p.r.Peek(5)
		p.write("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
	})
	p := start(t, ca.config("s.internal", u.addr, ""))
	r := p.get("http://s.internal/")
	r.expectProblem(t, 502, "attempts=1; stop=permanent; error=tls_protocol_error")
	p.wantMetric(1, "mulligan_attempts_total", "result=tls_failure")
}

// server_name is what is asked for and checked; a client certificate is shown.
func TestTLSServerNameAndClientCertificate(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	asked := make(chan string, 10)
	u := ca.upstreamWith(t, &tls.Config{
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots,
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			asked <- hello.ServerName
			cert := ca.leaf(time.Now().Add(time.Hour), "inner.example")
			return &cert, nil
		},
	}, text(200, "known"))
	certFile, keyFile := ca.write(ca.leaf(time.Now().Add(time.Hour), "client"))
	config := ca.config("s.internal", u.addr, "")
	config = strings.Replace(config, "ca_file:", fmt.Sprintf("server_name: inner.example, client_cert_file: %s, client_key_file: %s, ca_file:", certFile, keyFile), 1)
	p := start(t, config)
	want(t, "body", p.get("http://s.internal/").Body, "known")
	want(t, "the name asked for", <-asked, "inner.example")

	without := start(t, strings.Replace(ca.config("s.internal", u.addr, ""), "ca_file:", "server_name: inner.example, ca_file:", 1))
	r := without.do("POST", "http://s.internal/", "x")
	if r.Status != 502 {
		t.Errorf("without a client certificate: status %d", r.Status)
	}
	want(t, "requests seen", u.count(), 1)
}

// tls.rewrite maps the upstream's own https Location and Secure cookies back.
func TestTLSRewrite(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	var u *upstream
	u = ca.upstream(t, func(p *peer, r *request) bool {
		location := "https://" + u.addr + "/next?x=https://" + u.addr
		if r.Target == "/away" {
			location = "https://elsewhere.example/next"
		}
		return text(302, "", "Location: "+location, "Set-Cookie: a=b; Path=/; Secure; HttpOnly", "Set-Cookie: secure=Secure; SameSite=None")(p, r)
	})
	door := freeAddr(t)
	config := ca.config("r.internal", u.addr, fmt.Sprintf("    listen: \"%s\"\n", door))
	p := start(t, strings.Replace(config, "ca_file:", "rewrite: true, ca_file:", 1))
	r := p.get("http://r.internal/")
	want(t, "Location", r.get("Location"), "http://r.internal/next?x=https://"+u.addr)
	for _, cookie := range r.all("Set-Cookie") {
		if strings.Contains(cookie, "; Secure") {
			t.Errorf("the cookie stays Secure: %q", cookie)
		}
	}
	want(t, "the rest of the cookie", strings.ReplaceAll(r.get("Set-Cookie"), " ", ""), "a=b;Path=/;HttpOnly")
	want(t, "a value that says Secure", r.all("Set-Cookie")[1], "secure=Secure; SameSite=None")
	want(t, "another host's Location", p.get("http://r.internal/away").get("Location"), "https://elsewhere.example/next")
	c := dial(t, door)
	c.send(lines("GET / HTTP/1.1", "Host: "+door))
	want(t, "Location at its own port", c.next("GET").get("Location"), "http://"+door+"/next?x=https://"+u.addr)

	plain := start(t, ca.config("r.internal", u.addr, ""))
	r = plain.get("http://r.internal/")
	want(t, "Location without rewrite", r.get("Location"), "https://"+u.addr+"/next?x=https://"+u.addr)
	contains(t, "cookie without rewrite", r.get("Set-Cookie"), "Secure")
}

// A truncated answer over TLS without close_notify is broken as well.
func TestTLSTruncated(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	u := ca.upstream(t, func(p *peer, _ *request) bool {
		p.write("HTTP/1.1 200 OK\r\n\r\nclose-delimited, but")
		abort(p.Conn.(*tls.Conn).NetConn())
		return false
	})
	p := start(t, ca.config("s.internal", u.addr, ""))
	r := p.do("POST", "http://s.internal/", "x")
	if r.Status == 200 && r.Whole {
		t.Errorf("a TLS stream cut without close_notify looks whole: %q", r.Body)
	}
}

// Only a close_notify ends a body that ends with the connection (RFC 9112 9.8): a
// FIN without one, which anybody on the way can send, made it look whole.
func TestTLSEndsWithoutCloseNotify(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, notify := range []bool{false, true} {
			config := rightConfig(ca)
			config.MaxVersion = version
			u := ca.upstreamWith(t, config, func(p *peer, _ *request) bool {
				p.write("HTTP/1.1 200 OK\r\n\r\nuntil the end")
				c := p.Conn.(*tls.Conn)
				if notify {
					_ = c.CloseWrite()
				}
				_ = c.NetConn().(*net.TCPConn).CloseWrite()
				p.ended()
				return false
			})
			p := start(t, ca.config("s.internal", u.addr, ""))
			r := p.do("POST", "http://s.internal/", "x")
			want(t, "status", r.Status, 200)
			want(t, fmt.Sprintf("whole (TLS %x, close_notify: %v)", version, notify), r.Whole, notify)
		}
	}
}

// In TLS 1.3 a client's certificate is refused after the handshake: an alert all
// the same, which will not heal. It was a connection_reset, and retried.
func TestTLSAlertAfterTheHandshake(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	config := rightConfig(ca)
	config.ClientAuth, config.MinVersion = tls.RequireAnyClientCert, tls.VersionTLS13
	u := ca.upstreamWith(t, config, text(200, ""))
	p := start(t, ca.config("s.internal", u.addr, ""))
	p.get("http://s.internal/").expectProblem(t, 502, "attempts=1; stop=permanent; error=tls_alert_received")
	p.wantMetric(1, "mulligan_attempts_total", "result=tls_failure")
}

// tls.rewrite knows its endpoint in every spelling of a URL reference.
func TestTLSRewriteSpellings(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	location := make(chan string, 1)
	u := ca.upstream(t, func(p *peer, r *request) bool {
		return text(302, "", "Location: "+<-location, "Set-Cookie: a=b; Secure=1")(p, r)
	})
	_, port, _ := net.SplitHostPort(u.addr)
	for _, row := range []struct{ keep, sent, want string }{
		{"false", "//" + u.addr + "/n", "http://r.internal/n"},
		{"false", "https://127.0.0.1.:" + port + "/n", "http://r.internal/n"},
		{"true", "https://r.internal/n", "http://r.internal/n"},
		{"true", "https://other.internal/n", "https://other.internal/n"},
		{"false", "/n", "/n"},
	} {
		config := ca.config("r.internal", u.addr, "    preserve_host: "+row.keep+"\n")
		p := start(t, strings.Replace(config, "ca_file:", "rewrite: true, ca_file:", 1))
		location <- row.sent
		r := p.get("http://r.internal/")
		want(t, row.sent, r.get("Location"), row.want)
		want(t, "cookie", r.get("Set-Cookie"), "a=b")
	}
}
