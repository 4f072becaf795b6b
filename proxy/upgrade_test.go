package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"mulligan/metrics"
	"mulligan/policy"
	"mulligan/proxy"
)

const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: foo\r\n\r\n"

// TestUpgradeIsLoggedWithItsOwnPath: the access log line is written after the
// tunnel; what it says must not lie in a buffer that others use by then.
func TestUpgradeIsLoggedWithItsOwnPath(t *testing.T) {
	addr := rawServe(t, func(n int, c net.Conn, r *bufio.Reader) {
		head := readHead(r)
		if !strings.Contains(head, "Upgrade: foo") {
			io.WriteString(c, ok)
			return
		}
		io.WriteString(c, switching)
		io.Copy(c, r)
	})
	s := settings()
	s.AccessLog = true
	var log syncBuffer
	srv, _ := startWith(t, s, nil, &log)
	c, r := call(t, srv)
	fmt.Fprintf(c, "GET http://%s/the-upgrade HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: foo\r\n\r\n", addr)
	if resp := readResponse(t, r); resp.StatusCode != 101 {
		t.Fatal(resp.Status)
	}
	io.WriteString(c, "echo")
	io.ReadFull(r, make([]byte, 4))
	for range 20 { // others use the pooled buffers meanwhile
		o, or := call(t, srv)
		fmt.Fprintf(o, "GET http://%s/SECRET-OF-ANOTHER-CLIENT-SECRET HTTP/1.1\r\nHost: x\r\nAuthorization: SECRET-OF-ANOTHER\r\n\r\n", addr)
		readResponse(t, or)
	}
	c.Close()
	if !eventually(func() bool { return strings.Contains(log.String(), "status=101") }) {
		t.Fatal(log.String())
	}
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "status=101") && !strings.Contains(line, "path=/the-upgrade ") {
			t.Errorf("logged: %s", line)
		}
	}
}

// TestUpgradeWhileTheBodyIsSent: a 101 that comes before the request's body is
// whole must not leave two goroutines at one connection: every byte arrives once
// and in order, or the upgrade is refused.
func TestUpgradeWhileTheBodyIsSent(t *testing.T) {
	body := make([]byte, 400_000)
	for i := range body {
		body[i] = byte(i / 1000)
	}
	got := make(chan []byte, 1)
	addr := rawServe(t, func(n int, c net.Conn, r *bufio.Reader) {
		readHead(r)
		io.WriteString(c, switching)
		b, _ := io.ReadAll(r)
		got <- b
	})
	s := settings()
	s.AccessLog = true
	srv := start(t, s)
	c, r := call(t, srv)
	fmt.Fprintf(c, "PUT http://%s/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: foo\r\nContent-Length: %d\r\n\r\n", addr, len(body))
	c.Write(body[:1000])
	resp := readResponse(t, r)
	if resp.StatusCode != 101 {
		return // refused: that is fine
	}
	for i := 1000; i < len(body); i += 1000 {
		c.Write(body[i : i+1000])
	}
	c.(*net.TCPConn).CloseWrite()
	if b := <-got; !bytes.Equal(b, body) {
		t.Errorf("%d of %d bytes, or not in order", len(b), len(body))
	}
}

// TestUnaskedUpgradeIsRefused: h2c is not forwarded, so a 101 answers nothing.
func TestUnaskedUpgradeIsRefused(t *testing.T) {
	addr := rawServe(t, func(n int, c net.Conn, r *bufio.Reader) {
		readHead(r)
		io.WriteString(c, switching)
		io.Copy(io.Discard, r)
	})
	c, r := call(t, start(t, settings()))
	fmt.Fprintf(c, "GET http://%s/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n", addr)
	if resp := readResponse(t, r); resp.StatusCode != 502 {
		t.Error(resp.Status)
	}
}

// TestTunnelsConnectionIsTheFirstThatIsUsed: CONNECT and a plain request inside
// it make one connection to the upstream, not two.
func TestTunnelsConnectionIsTheFirstThatIsUsed(t *testing.T) {
	var conns atomic.Int32
	addr := rawServe(t, func(n int, c net.Conn, r *bufio.Reader) {
		conns.Add(1)
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			io.Copy(io.Discard, req.Body)
			io.WriteString(c, ok)
		}
	})
	c, r := call(t, start(t, settings()))
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", addr, addr)
	readResponse(t, r)
	for range 3 {
		fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", addr)
		resp := readResponse(t, r)
		io.Copy(io.Discard, resp.Body)
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// countingConn counts the calls that move bytes.
type countingConn struct {
	net.Conn
	calls *atomic.Int64
}

func (c countingConn) NetConn() net.Conn { return c.Conn }

func (c countingConn) Read(p []byte) (int, error) {
	c.calls.Add(1)
	return c.Conn.Read(p)
}

func (c countingConn) Write(p []byte) (int, error) {
	c.calls.Add(1)
	return c.Conn.Write(p)
}

type countingListener struct {
	net.Listener
	calls *atomic.Int64
}

func (l countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return countingConn{c, l.calls}, err
}

// TestUpgradeIsPouredByTheBuffer: over a connection that is no plain socket, as
// one of TLS, an upgrade was poured byte by byte.
func TestUpgradeIsPouredByTheBuffer(t *testing.T) {
	const size = 100_000
	pours := func(w http.ResponseWriter, r *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		io.WriteString(c, switching)
		c.Write(make([]byte, size))
		io.Copy(io.Discard, c)
	}
	plain := upstream("plain")
	plain.Hosts = []policy.HostPattern{{Name: "127.0.0.1"}}
	for name, row := range map[string]struct {
		u   *policy.Upstream
		url string
	}{
		"wrapped": {plain, serve(t, pours).URL},
		"TLS":     {secure(t, pours), "http://secure"},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			srv, err := proxy.New(proxy.Options{
				Proxy: "127.0.0.1:0", Metrics: metrics.New(prometheus.NewRegistry()), Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
				Listen: func(network, addr string) (net.Listener, error) {
					ln, err := net.Listen(network, addr)
					return countingListener{ln, &calls}, err
				},
				Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
					c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
					return countingConn{c, &calls}, err
				},
			}, unhurried(settings(row.u)))
			if err != nil {
				t.Fatal(err)
			}
			srv.Start()
			t.Cleanup(srv.Close)
			c, r := call(t, srv)
			fmt.Fprintf(c, "GET %s/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: foo\r\n\r\n", row.url)
			readHead(r)
			if n, err := io.CopyN(io.Discard, r, size); err != nil {
				t.Fatalf("%d bytes, %v", n, err)
			}
			if n := calls.Load(); n > size/100 {
				t.Errorf("%d calls for %d bytes", n, size)
			}
		})
	}
}
