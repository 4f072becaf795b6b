package proxy_test

import (
	"bufio"
	"context"
	"encoding/pem"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mulligan/metrics"
	"mulligan/policy"
	"mulligan/proxy"
)

// startWith is start with a dial and a log of the test's own.
func startWith(t testing.TB, s *proxy.Settings, dial func(context.Context, string, string) (net.Conn, error), log io.Writer) (*proxy.Server, *prometheus.Registry) {
	t.Helper()
	if log == nil {
		log = io.Discard
	}
	reg := prometheus.NewRegistry()
	srv, err := proxy.New(proxy.Options{
		Proxy: "127.0.0.1:0", Metrics: metrics.New(reg), Log: slog.New(slog.NewTextHandler(log, nil)), Dial: dial,
	}, unhurried(s))
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(srv.Close)
	return srv, reg
}

// rawServe gives each connection to serve and returns the address.
func rawServe(t testing.TB, serve func(n int, c net.Conn, r *bufio.Reader)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for n := 1; ; n++ {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(n, c, bufio.NewReader(c))
			}()
		}
	}()
	return ln.Addr().String()
}

// call opens a connection to the proxy that gives up after a minute.
func call(t testing.TB, srv *proxy.Server) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	return c, bufio.NewReader(c)
}

// readHead reads a request's head off an upstream connection, and no more.
func readHead(r *bufio.Reader) string {
	head := ""
	for {
		line, err := r.ReadString('\n')
		head += line
		if err != nil || line == "\r\n" {
			return head
		}
	}
}

// secure runs an upstream that speaks TLS, and returns the policy whose host
// "secure" stands for it.
func secure(t testing.TB, h http.HandlerFunc) *policy.Upstream {
	t.Helper()
	up := httptest.NewTLSServer(h)
	t.Cleanup(up.Close)
	u := upstream("secure")
	u.TLS.CAFile = filepath.Join(t.TempDir(), "ca.pem")
	root := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: up.Certificate().Raw})
	if err := os.WriteFile(u.TLS.CAFile, root, 0o600); err != nil {
		t.Fatal(err)
	}
	u.Hosts = []policy.HostPattern{{Name: "secure"}}
	u.Endpoints = []policy.Endpoint{{Scheme: "https", Host: "127.0.0.1", Port: up.Listener.Addr().(*net.TCPAddr).Port}}
	return u
}

// syncBuffer is a log that may be read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  []byte
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.b = append(s.b, p...)
	return len(p), nil
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.b)
}

// gauge reads one gauge of an upstream.
func gauge(t testing.TB, reg *prometheus.Registry, name, upstream string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "upstream" && l.GetValue() == upstream {
					return m.GetGauge().GetValue()
				}
			}
			if len(m.GetLabel()) == 0 {
				return m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("no %s", name)
	return 0
}

// counter sums the series of a counter that have the labels, given as "name=value".
func counter(t testing.TB, reg *prometheus.Registry, name string, labels ...string) float64 {
	t.Helper()
	sum, _ := seriesSum(t, reg, name, labels...)
	return sum
}

// seriesSum sums the series of a counter or gauge that have the labels, and reports
// whether there are any.
func seriesSum(t testing.TB, reg *prometheus.Registry, name string, labels ...string) (sum float64, found bool) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			has := 0
			for _, l := range m.GetLabel() {
				if slices.Contains(labels, l.GetName()+"="+l.GetValue()) {
					has++
				}
			}
			if has == len(labels) {
				found = true
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum, found
}

// eventually waits for a condition, for longer than any machine is busy.
func eventually(ok func() bool) bool {
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return true
		}
	}
	return ok()
}

func readResponse(t testing.TB, r *bufio.Reader) *http.Response {
	t.Helper()
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}
