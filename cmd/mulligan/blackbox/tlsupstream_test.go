package blackbox

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// Issue, point 4: TLS to upstreams, for endpoints and for intercepted hosts alike.

// toUpstream is how a request gets to an https upstream.
type toUpstream struct {
	name   string
	config func(ca *authority, u *upstream, keys string) string // keys: more of `tls:`, each with ", " behind it
	do     func(p *inside, u *upstream, method string) response
}

var waysToUpstreams = []toUpstream{
	{"originated", func(ca *authority, u *upstream, keys string) string {
		return fmt.Sprintf("  up:\n    hosts: [up.internal]\n    endpoints: [\"https://%s\"]\n    tls: {%sca_file: %s}\n    %s\n", u.addr, keys, ca.file, unhurried)
	}, func(p *inside, u *upstream, method string) response {
		return p.do(method, "http://up.internal/", "")
	}},
	{"intercepted", func(ca *authority, u *upstream, keys string) string {
		return fmt.Sprintf("  up:\n    hosts: [localhost]\n    tls: {intercept: true, %sca_file: %s}\n    %s\n", keys, ca.file, unhurried)
	}, func(p *inside, u *upstream, method string) response {
		return p.caller(2).do(method, fmt.Sprintf("https://localhost:%d/", u.port()), "")
	}},
}

// Certificates that are wrong, and versions that do not fit, are permanent: one
// attempt, whatever the method.
func TestTLSFailuresEitherWay(t *testing.T) {
	t.Parallel()
	hour := time.Now().Add(time.Hour)
	rows := map[string]struct {
		server func(ca, other *authority) *tls.Config
		keys   string
		errors string
	}{
		"an unknown CA":  {func(_, other *authority) *tls.Config { return certified(other.leaf(hour, "127.0.0.1", "localhost")) }, "", "tls_certificate_error"},
		"a wrong name":   {func(ca, _ *authority) *tls.Config { return certified(ca.leaf(hour, "other.test")) }, "", "tls_certificate_error"},
		"no name at all": {func(ca, _ *authority) *tls.Config { return certified(ca.leaf(hour)) }, "", "tls_certificate_error"},
		"expired": {func(ca, _ *authority) *tls.Config {
			return certified(ca.leaf(time.Now().Add(-time.Minute), "127.0.0.1", "localhost"))
		}, "", "tls_certificate_error"},
		"a wrong server_name": {func(ca, _ *authority) *tls.Config { return rightConfig(ca) }, "server_name: other.test, ", "tls_certificate_error"},
		"under min_version": {func(ca, _ *authority) *tls.Config {
			c := rightConfig(ca)
			c.MaxVersion = tls.VersionTLS12
			return c
		}, `min_version: "1.3", `, "tls_alert_received|tls_protocol_error"},
		"TLS 1.1 only": {func(ca, _ *authority) *tls.Config {
			c := rightConfig(ca)
			c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
			return c
		}, "", "tls_alert_received|tls_protocol_error"},
		"no client certificate": {func(ca, _ *authority) *tls.Config {
			c := rightConfig(ca)
			c.ClientAuth = tls.RequireAnyClientCert
			return c
		}, "", "tls_alert_received"},
		"no client certificate in TLS 1.2": {func(ca, _ *authority) *tls.Config {
			c := rightConfig(ca)
			c.ClientAuth, c.MaxVersion = tls.RequireAnyClientCert, tls.VersionTLS12
			return c
		}, "", "tls_alert_received"},
		"HTTP/2 and no client certificate": {func(ca, _ *authority) *tls.Config {
			c := rightConfig(ca)
			c.ClientAuth, c.NextProtos = tls.RequireAnyClientCert, []string{"h2"}
			return c
		}, "", "tls_alert_received"},
		"no common protocol": {func(ca, _ *authority) *tls.Config {
			c := rightConfig(ca)
			c.NextProtos = []string{"imap"}
			return c
		}, "", "tls_alert_received"},
	}
	for _, way := range waysToUpstreams {
		for name, row := range rows {
			t.Run(way.name+": "+name, func(t *testing.T) {
				t.Parallel()
				ca, other := newAuthority(t), newAuthority(t)
				u := ca.upstreamWith(t, row.server(ca, other), text(200, "must not be seen"))
				p := startInside(t, fmt.Sprintf("defaults: {retry: {%s}}\nupstreams:\n", quick)+way.config(ca, u, row.keys))
				for n, method := range []string{"GET", "POST"} {
					r := way.do(p, u, method)
					r.expectProblem(t, 502, "attempts=1; stop=permanent")
					if e := r.proxyStatus(t)["error"]; !strings.Contains("|"+row.errors+"|", "|"+e+"|") {
						t.Errorf("error=%s, want %s", e, row.errors)
					}
					want(t, "connections", u.connections(), n+1)
				}
				want(t, "requests seen", u.count(), 0)
				p.wantMetric(2, "mulligan_attempts_total", "result=tls_failure")
				p.wantMetric(2, "mulligan_requests_total", "outcome=permanent")
				p.wantMetric(0, "mulligan_retries_total")
			})
		}
	}
}

func certified(cert tls.Certificate) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{cert}}
}

// What is asked for in TLS: the name, the client's certificate, the version, and
// the session again.
func TestTLSToUpstreams(t *testing.T) {
	t.Parallel()
	for _, way := range waysToUpstreams {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			t.Run(fmt.Sprintf("%s: TLS %x", way.name, version), func(t *testing.T) {
				t.Parallel()
				ca := newAuthority(t)
				roots := x509.NewCertPool()
				roots.AddCert(ca.cert)
				var mu sync.Mutex
				var states []tls.ConnectionState
				config := certified(ca.leaf(time.Now().Add(time.Hour), "inner.test"))
				config.ClientAuth, config.ClientCAs, config.MaxVersion = tls.RequireAndVerifyClientCert, roots, version
				config.VerifyConnection = func(s tls.ConnectionState) error {
					mu.Lock()
					defer mu.Unlock()
					states = append(states, s)
					return nil
				}
				u := ca.upstreamWith(t, config, text(200, "known", "Connection: close"))
				certFile, keyFile := ca.write(ca.leaf(time.Now().Add(time.Hour), "client.test"))
				p := startInside(t, "upstreams:\n"+way.config(ca, u,
					fmt.Sprintf("server_name: inner.test, client_cert_file: %s, client_key_file: %s, ", certFile, keyFile)))
				for range 3 {
					r := way.do(p, u, "GET")
					r.expect(t, 200, "")
					want(t, "body", r.Body, "known")
				}
				mu.Lock()
				defer mu.Unlock()
				want(t, "connections", len(states), 3)
				for n, s := range states {
					want(t, "name asked for", s.ServerName, "inner.test")
					want(t, "client's certificate", s.PeerCertificates[0].DNSNames[0], "client.test")
					want(t, fmt.Sprintf("connection %d resumed", n+1), s.DidResume, n > 0)
				}
			})
		}
	}
}

// Both versions are offered, HTTP/2 first, and a server without ALPN is spoken to
// in HTTP/1.1.
func TestALPNToUpstreams(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	offered := make(chan []string, 10)
	config := rightConfig(ca)
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		offered <- hello.SupportedProtos
		return nil, nil
	}
	u := ca.upstreamWith(t, config, text(200, "one"))
	p := startInside(t, "upstreams:\n"+waysToUpstreams[1].config(ca, u, ""))
	for _, version := range []int{1, 2} {
		r := p.caller(version).do("GET", fmt.Sprintf("https://localhost:%d/", u.port()), "")
		want(t, "body", r.Body, "one")
	}
	want(t, "ALPN", fmt.Sprint(soon(t, "a handshake", offered)), "[h2 http/1.1]")
	want(t, "connections", u.connections(), 1)
}

// Origination speaks HTTP/2 too, and what an HTTP/1.1 client gets of it is plain
// HTTP/1.1; tls.rewrite holds.
func TestOriginationOverHTTP2(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	u := newSite(t, ca, 2, func(w http.ResponseWriter, r *http.Request, n int) {
		w.Header().Set("Location", "https://"+r.Host+"/next")
		w.Header().Add("Set-Cookie", "a=b; Secure; HttpOnly")
		w.Header().Add("Trailer", "Sum")
		w.WriteHeader(map[bool]int{true: 503, false: 302}[n == 1])
		fmt.Fprint(w, r.Proto)
		w.Header().Set("Sum", "42")
	})
	p := start(t, fmt.Sprintf("defaults: {%s, retry: {%s}}\nupstreams:\n  up:\n    hosts: [up.internal]\n    endpoints: [\"https://%s\"]\n    tls: {rewrite: true, ca_file: %s}\n", unhurried, quick, u.addr, ca.file))
	r := p.get("http://up.internal/", "TE: trailers", "Connection: TE")
	r.expect(t, 302, "attempts=2; stop=success; received-status=302")
	want(t, "body", r.Body, "HTTP/2.0")
	want(t, "whole", r.Whole, true)
	want(t, "Location", r.get("Location"), "http://up.internal/next")
	want(t, "Set-Cookie", strings.ReplaceAll(r.get("Set-Cookie"), " ", ""), "a=b;HttpOnly")
	want(t, "trailer", strings.Join(valuesOf(r.Trailer, "Sum"), ","), "42")
	contains(t, "Via", r.get("Via"), "2.0 mulligan-")
	want(t, "connections", u.over(), 1)
}
