package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"mulligan/metrics"
	"mulligan/policy"
	"mulligan/proxy"
)

// replica is one of the two addresses of a name.
type replica struct {
	ln       net.Listener
	opened   atomic.Int32 // connections
	closed   atomic.Int32 // of them
	requests atomic.Int32
	fails    atomic.Bool
	protocol atomic.Value // of the last request
}

func (r *replica) Accept() (net.Conn, error) {
	c, err := r.ln.Accept()
	if err != nil {
		return nil, err
	}
	r.opened.Add(1)
	return &replicaConn{Conn: c, r: r}, nil
}

// replicaConn is a connection whose end is counted.
type replicaConn struct {
	net.Conn
	r    *replica
	once sync.Once
}

func (c *replicaConn) Close() error {
	c.once.Do(func() { c.r.closed.Add(1) })
	return c.Conn.Close()
}

func (r *replica) Close() error   { return r.ln.Close() }
func (r *replica) Addr() net.Addr { return r.ln.Addr() }

func (r *replica) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.protocol.Store(req.Proto)
	r.requests.Add(1)
	if r.fails.Load() {
		w.WriteHeader(503)
	}
	io.WriteString(w, "body")
}

// seen checks how many connections and requests it got.
func (r *replica) seen(t *testing.T, name string, opened, requests int32) {
	t.Helper()
	if o, n := r.opened.Load(), r.requests.Load(); o != opened || n != requests {
		t.Errorf("%s: %d connections and %d requests, want %d and %d", name, o, n, opened, requests)
	}
}

// twoReplicas listens at 127.0.0.1 and 127.0.0.2, on the same port.
func twoReplicas(t *testing.T) (first, second *replica, port int) {
	t.Helper()
	for range 100 {
		a, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := a.Addr().(*net.TCPAddr).Port
		b, err := net.Listen("tcp", net.JoinHostPort("127.0.0.2", strconv.Itoa(port)))
		if err == nil {
			t.Cleanup(func() { a.Close(); b.Close() })
			return &replica{ln: a}, &replica{ln: b}, port
		}
		a.Close()
	}
	t.Skip("127.0.0.2 is no address here")
	return nil, nil, 0
}

// serveHTTP answers requests until the test ends.
func (r *replica) serveHTTP(t *testing.T) {
	srv := &http.Server{Handler: r}
	go srv.Serve(r)
	t.Cleanup(func() { srv.Close() })
}

var (
	address1 = netip.MustParseAddr("127.0.0.1")
	address2 = netip.MustParseAddr("127.0.0.2")
)

// both resolves every name to the two addresses, in this order.
func both(context.Context, string) ([]netip.Addr, error) {
	return []netip.Addr{address1, address2}, nil
}

// startResolving is start with a resolver of the test's own.
func startResolving(t *testing.T, s *proxy.Settings, resolve func(context.Context, string) ([]netip.Addr, error)) (*proxy.Server, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	srv, err := proxy.New(proxy.Options{
		Proxy: "127.0.0.1:0", Metrics: metrics.New(reg), Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Resolve: resolve,
	}, unhurried(s))
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(srv.Close)
	return srv, reg
}

// fetch makes a request for the name on the port, and checks how it ends.
func fetch(t *testing.T, client *http.Client, port, status int, proxyStatus string) {
	t.Helper()
	resp, err := client.Get("http://two.test:" + strconv.Itoa(port) + "/")
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if got := resp.Header.Get("Proxy-Status"); resp.StatusCode != status || got != proxyStatus {
		t.Fatal(resp.StatusCode, got)
	}
}

const retriedOnce = "mulligan; attempts=2; stop=success; received-status=200"

// TestRetryGoesToAnotherAddress: a pooled connection to the address that has just
// failed the request was as good as any.
func TestRetryGoesToAnotherAddress(t *testing.T) {
	first, second, port := twoReplicas(t)
	first.serveHTTP(t)
	second.serveHTTP(t)
	srv, _ := startResolving(t, settings(), both)
	client := through(srv)
	first.fails.Store(true)
	fetch(t, client, port, 200, retriedOnce) // though the connection to the first is there
	first.seen(t, "first", 1, 1)
	second.seen(t, "second", 1, 1)
	first.fails.Store(false)
	second.fails.Store(true)
	fetch(t, client, port, 200, retriedOnce) // on a connection that is there
	first.seen(t, "first", 1, 2)
	second.seen(t, "second", 1, 2)
	first.fails.Store(true)
	fetch(t, client, port, 503, "mulligan; attempts=4; stop=max_attempts; received-status=503") // and on those from then on
	first.seen(t, "first", 1, first.requests.Load())
	second.seen(t, "second", 1, 8-first.requests.Load())
}

// TestDeadAddressIsNoAttempt: what another address makes up for is no failure.
func TestDeadAddressIsNoAttempt(t *testing.T) {
	first, second, port := twoReplicas(t)
	first.Close()
	second.serveHTTP(t)
	srv, _ := startResolving(t, settings(), both)
	fetch(t, through(srv), port, 200, "")
	second.seen(t, "second", 1, 1)
}

// TestOneAddress: where there is no other, a retry uses the connection that is there.
func TestOneAddress(t *testing.T) {
	first, _, port := twoReplicas(t)
	first.serveHTTP(t)
	srv, _ := startResolving(t, settings(), func(context.Context, string) ([]netip.Addr, error) { return []netip.Addr{address1}, nil })
	first.fails.Store(true)
	fetch(t, through(srv), port, 503, "mulligan; attempts=4; stop=max_attempts; received-status=503")
	first.seen(t, "first", 1, 4)
}

// TestEachDialAsksTheResolver: an address that is there only now is gone to.
func TestEachDialAsksTheResolver(t *testing.T) {
	first, second, port := twoReplicas(t)
	first.Close()
	second.serveHTTP(t)
	var asked atomic.Int32
	srv, _ := startResolving(t, settings(), func(context.Context, string) ([]netip.Addr, error) {
		if asked.Add(1) == 1 {
			return []netip.Addr{address1}, nil
		}
		return []netip.Addr{address2}, nil
	})
	fetch(t, through(srv), port, 200, retriedOnce)
}

// TestNameWithoutAddress: what a resolver says keeps its class.
func TestNameWithoutAddress(t *testing.T) {
	for want, err := range map[string]error{
		"mulligan; attempts=1; stop=permanent; error=dns_error":    &net.DNSError{IsNotFound: true},
		"mulligan; attempts=4; stop=max_attempts; error=dns_error": &net.DNSError{IsTemporary: true},
	} {
		srv, _ := startResolving(t, settings(), func(context.Context, string) ([]netip.Addr, error) { return nil, err })
		fetch(t, through(srv), 80, 502, want)
	}
	srv, _ := startResolving(t, settings(), func(context.Context, string) ([]netip.Addr, error) { return nil, nil })
	fetch(t, through(srv), 80, 502, "mulligan; attempts=1; stop=permanent; error=dns_error")
}

// TestDeniedAddressIsPassedBy: of a name's addresses those are used that may be.
func TestDeniedAddressIsPassedBy(t *testing.T) {
	first, second, port := twoReplicas(t)
	first.serveHTTP(t)
	second.serveHTTP(t)
	s := settings()
	s.DenyDestinations = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	srv, _ := startResolving(t, s, both)
	client := through(srv)
	second.fails.Store(true)
	fetch(t, client, port, 503, "mulligan; attempts=4; stop=max_attempts; received-status=503")
	first.seen(t, "first", 0, 0)
	next := *s
	next.DenyDestinations = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	if err := srv.Reload(&next); err != nil {
		t.Fatal(err)
	}
	fetch(t, client, port, 403, "mulligan; attempts=1; stop=permanent; error=http_request_denied")
}

// TestBrokenAddress: however the first address fails, the next attempt is at the other.
func TestBrokenAddress(t *testing.T) {
	for name, broken := range map[string]string{
		"no answer":          "",
		"an answer in parts": "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
	} {
		t.Run(name, func(t *testing.T) {
			first, second, port := twoReplicas(t)
			second.serveHTTP(t)
			go func() {
				for {
					c, err := first.Accept()
					if err != nil {
						return
					}
					readHead(bufio.NewReader(c))
					io.WriteString(c, broken)
					c.Close()
				}
			}()
			srv, _ := startResolving(t, settings(), both)
			fetch(t, through(srv), port, 200, retriedOnce)
			if n := first.opened.Load(); n != 1 {
				t.Errorf("%d connections to the first", n)
			}
			second.seen(t, "second", 1, 1)
		})
	}
}

// TestBrokenHandshake: an address at which TLS breaks off is left too.
func TestBrokenHandshake(t *testing.T) {
	first, second, port := twoReplicas(t)
	go func() {
		for {
			c, err := first.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	u := serveTLS(t, port, second)
	srv, _ := startResolving(t, settings(u), both)
	fetch(t, through(srv), 80, 200, retriedOnce)
	if n := first.opened.Load(); n != 1 {
		t.Errorf("%d connections to the first", n)
	}
}

// serveTLS serves HTTP/2 on the replicas, and returns the policy of two.test.
func serveTLS(t *testing.T, port int, replicas ...*replica) *policy.Upstream {
	t.Helper()
	var cert bytes.Buffer
	for _, r := range replicas {
		up := httptest.NewUnstartedServer(r)
		up.Listener.Close()
		up.Listener = r
		up.EnableHTTP2 = true
		up.StartTLS()
		t.Cleanup(up.Close)
		cert.Reset()
		pem.Encode(&cert, &pem.Block{Type: "CERTIFICATE", Bytes: up.Certificate().Raw})
	}
	u := upstream("two")
	u.Hosts = []policy.HostPattern{{Name: "two.test"}}
	u.Endpoints = []policy.Endpoint{{Scheme: "https", Host: "replicas.test", Port: port}}
	u.TLS.ServerName = "example.com"
	u.TLS.CAFile = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(u.TLS.CAFile, cert.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return u
}

// TestSharedConnectionsToBothAddresses: the same as TestRetryGoesToAnotherAddress,
// for HTTP/2.
func TestSharedConnectionsToBothAddresses(t *testing.T) {
	first, second, port := twoReplicas(t)
	u := serveTLS(t, port, first, second)
	srv, _ := startResolving(t, settings(u), both)
	client := through(srv)
	first.fails.Store(true)
	fetch(t, client, 80, 200, retriedOnce)
	first.fails.Store(false)
	second.fails.Store(true)
	fetch(t, client, 80, 200, retriedOnce)
	first.seen(t, "first", 1, 2)
	second.seen(t, "second", 1, 2)
	first.fails.Store(true)
	fetch(t, client, 80, 503, "mulligan; attempts=4; stop=max_attempts; received-status=503")
	first.seen(t, "first", 1, first.requests.Load())
	second.seen(t, "second", 1, 8-first.requests.Load())
}

// TestSharedConnectionWithoutPlace: a retry does not wait for a place at another
// address where the connection that is there has the only one.
func TestSharedConnectionWithoutPlace(t *testing.T) {
	first, second, port := twoReplicas(t)
	u := serveTLS(t, port, first, second)
	u.Connections.MaxPerEndpoint = 1
	srv, _ := startResolving(t, settings(u), both)
	first.fails.Store(true)
	fetch(t, through(srv), 80, 503, "mulligan; attempts=4; stop=max_attempts; received-status=503")
	first.seen(t, "first", 1, 4)
	second.seen(t, "second", 0, 0)
}

// TestTunnelToAnotherAddress: the dial of a CONNECT tries all addresses too.
func TestTunnelToAnotherAddress(t *testing.T) {
	first, second, port := twoReplicas(t)
	first.Close()
	u := serveTLS(t, port, second)
	u.Endpoints = nil
	srv, _ := startResolving(t, settings(u), both)
	client := through(srv)
	client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	resp, err := client.Get("https://two.test:" + strconv.Itoa(port) + "/")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	second.seen(t, "second", 1, 1)
}

// TestManyAtTwoAddresses: requests that avoid each its own address share one pool.
func TestManyAtTwoAddresses(t *testing.T) {
	first, second, port := twoReplicas(t)
	first.serveHTTP(t)
	second.serveHTTP(t)
	s := settings()
	s.Default.Budget.Burst = 10000
	s.Default.Connections.MaxPerEndpoint = 4
	srv, _ := startResolving(t, s, both)
	first.fails.Store(true)
	var done sync.WaitGroup
	for range 16 {
		done.Go(func() {
			client := through(srv)
			for range 20 {
				resp, err := client.Get("http://two.test:" + strconv.Itoa(port) + "/")
				if err != nil {
					t.Error(err)
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode != 200 {
					t.Error(resp.Header)
					return
				}
			}
		})
	}
	done.Wait()
}
