package blackbox

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Helpers for requests inside of intercepted tunnels: the local CA's root as a
// user gets it, tunnels with TLS in them, and an HTTP client for either version.

// inside is a mulligan that intercepts, and what its clients trust.
type inside struct {
	*mulligan
	rootFile string
	roots    *x509.CertPool
}

// startInside starts mulligan and asks `mulligan ca` for the root.
func startInside(t *testing.T, config string) *inside {
	t.Helper()
	p := start(t, config)
	pemText := p.rootPEM()
	i := &inside{mulligan: p, rootFile: filepath.Join(t.TempDir(), "root.pem"), roots: x509.NewCertPool()}
	writeFile(t, i.rootFile, pemText)
	if !i.roots.AppendCertsFromPEM([]byte(pemText)) {
		t.Fatalf("`mulligan ca` printed no certificate: %q", pemText)
	}
	return i
}

// rootPEM is what `mulligan ca` prints.
func (p *mulligan) rootPEM() string {
	p.t.Helper()
	code, stdout, stderr := commandIn(p.t, filepath.Dir(p.file), nil, "ca", "--config", p.file)
	if code != 0 {
		p.t.Fatalf("mulligan ca: exit status %d\n%s", code, stderr)
	}
	return stdout
}

// parsePEM returns the certificate in a PEM text that has just this one.
func parsePEM(t *testing.T, text string) *x509.Certificate {
	t.Helper()
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != "CERTIFICATE" || len(bytes.TrimSpace(rest)) > 0 {
		t.Fatalf("not one certificate: %q", text)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// intercepting is an upstream's mapping: its hosts, and that they are intercepted;
// extra is more of it, each line indented by four.
func (a *authority) intercepting(name, hosts, extra string) string {
	if !strings.Contains(extra, "timeout:") {
		extra += "    " + unhurried + "\n"
	}
	return fmt.Sprintf("  %s:\n    hosts: [%s]\n    tls: {intercept: true, ca_file: %s}\n%s", name, hosts, a.file, extra)
}

// handshake makes TLS in a tunnel that is open; an empty name sends no SNI.
func (i *inside) handshake(c *client, name string, protocols ...string) (*tls.Conn, error) {
	config := &tls.Config{RootCAs: i.roots, ServerName: name, NextProtos: protocols}
	if name == "" { // the certificate is judged as for an address
		config.InsecureSkipVerify = true
	}
	t := tls.Client(c.TCPConn, config)
	return t, t.Handshake()
}

// secure opens a tunnel to an authority with TLS in it, and fails the test unless
// both go well.
func (i *inside) secure(authority string, protocols ...string) *tls.Conn {
	i.t.Helper()
	host, _, err := net.SplitHostPort(authority)
	if err != nil {
		i.t.Fatal(err)
	}
	t, err := i.handshake(i.connect(authority), host, protocols...)
	if err != nil {
		i.t.Fatalf("TLS in a tunnel to %s: %v", authority, err)
	}
	return t
}

// secure1 is a raw HTTP/1.1 client inside of a tunnel.
func (i *inside) secure1(authority string) *secureClient {
	i.t.Helper()
	t := i.secure(authority, "http/1.1")
	return &secureClient{Conn: t, client: &client{t: i.t, r: bufio.NewReader(t)}}
}

// secureClient is a client whose bytes go through TLS.
type secureClient struct {
	*tls.Conn
	*client
}

func (c *secureClient) send(text string) { _, _ = io.WriteString(c.Conn, text) }

// ask sends a request for the tunnel's own host and reads the final response.
func (c *secureClient) ask(method, path, host string, fields ...string) response {
	c.client.t.Helper()
	c.send(lines(method+" "+path+" HTTP/1.1", append([]string{"Host: " + host}, fields...)...))
	return c.final(method)
}

// soon takes what comes over a channel, which has to be soon.
func soon[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	timer := time.NewTimer(2 * patience)
	defer timer.Stop()
	select {
	case v := <-from:
		return v
	case <-timer.C:
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}

// versions runs a test as a subtest for each version of HTTP that a client may
// speak.
func versions(t *testing.T, test func(t *testing.T, version int)) {
	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprintf("client HTTP %d", version), func(t *testing.T) {
			t.Parallel()
			test(t, version)
		})
	}
}

// caller is an HTTP client of the standard library, through the proxy.
type caller struct {
	*http.Client
	t *testing.T
}

// caller makes one that speaks the given version inside of its tunnels.
func (i *inside) caller(version int) *caller {
	i.t.Helper()
	return newCaller(i.t, version, &http.Transport{
		Proxy:           http.ProxyURL(&url.URL{Scheme: "http", Host: i.proxy}),
		TLSClientConfig: &tls.Config{RootCAs: i.roots},
	})
}

func newCaller(t *testing.T, version int, tr *http.Transport) *caller {
	tr.Protocols = new(http.Protocols)
	tr.Protocols.SetHTTP1(version == 1)
	tr.Protocols.SetHTTP2(version == 2)
	tr.DisableCompression = true
	t.Cleanup(tr.CloseIdleConnections)
	return &caller{t: t, Client: &http.Client{
		Transport: tr, Timeout: 2 * patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// do sends a request and reads its answer whole.
func (c *caller) do(method, url, body string, fields ...string) response {
	c.t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if body == "" {
		req.Body, req.ContentLength = nil, 0
	}
	for _, f := range parseFields(fields) {
		if strings.EqualFold(f.Name, "Host") {
			req.Host = f.Value
		}
		req.Header.Add(f.Name, f.Value)
	}
	resp, err := c.Do(req)
	if err != nil {
		return response{message: message{Broken: err}}
	}
	defer resp.Body.Close()
	r := response{Status: resp.StatusCode, message: message{Line: resp.Proto}}
	for name, values := range resp.Header {
		for _, value := range values {
			r.Fields = append(r.Fields, field{name, value})
		}
	}
	all, err := io.ReadAll(resp.Body)
	r.Body, r.Broken, r.Whole = string(all), err, err == nil
	for name, values := range resp.Trailer {
		for _, value := range values {
			r.Trailer = append(r.Trailer, field{name, value})
		}
	}
	return r
}

// site is an https server of the standard library.
type site struct {
	*httptest.Server
	addr string
	port string

	mu    sync.Mutex
	paths map[string]int // requests seen, by path
	conns map[string]bool
}

// nth is how many requests for the path of r came, it included.
func (s *site) nth(r *http.Request) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paths[r.URL.Path]++
	return s.paths[r.URL.Path]
}

// seen is how many requests for a path came.
func (s *site) seen(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paths[path]
}

// over is how many connections requests came over.
func (s *site) over() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// newSite serves HTTP/1.1, or with version 2 that too, with a certificate for
// 127.0.0.1 and the names given. The handler gets n, which request for its path
// this is.
func newSite(t *testing.T, ca *authority, version int, handle func(w http.ResponseWriter, r *http.Request, n int), names ...string) *site {
	t.Helper()
	s := &site{paths: map[string]int{}, conns: map[string]bool{}}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.conns[r.RemoteAddr] = true
		s.mu.Unlock()
		handle(w, r, s.nth(r))
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.EnableHTTP2 = version == 2
	names = append([]string{"127.0.0.1", "localhost", "*.localhost"}, names...)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{ca.leaf(time.Now().Add(time.Hour), names...)}}
	s.StartTLS()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	s.addr = s.Listener.Addr().String()
	_, s.port, _ = net.SplitHostPort(s.addr)
	return s
}
