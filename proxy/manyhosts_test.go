package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mulligan/metrics"
	"mulligan/policy"
	"mulligan/proxy"
)

const (
	manyHosts = 10_000
	keptHosts = 1024 // of which an upstream keeps state, one for each endpoint
)

// manyHostsNet is a proxy and any number of hosts, in virtual time. What is asked
// for /sick gets a 503, /slow an answer that ends when release is closed, anything
// else a 200.
type manyHostsNet struct {
	*testing.T
	net     *memNet
	reg     *prometheus.Registry
	hosts   int // to be asked
	release chan struct{}

	mu   sync.Mutex
	open map[string]int // connections, by the address that was dialled
}

func (m *manyHostsNet) dial(_ context.Context, _, addr string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	m.count(addr, 1)
	go func() {
		defer m.count(addr, -1)
		defer theirs.Close()
		m.serve(theirs)
	}()
	return ours, nil
}

func (m *manyHostsNet) count(addr string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open[addr] += n; m.open[addr] == 0 {
		delete(m.open, addr)
	}
}

// connections returns how many are open to the address, or with "" to all.
func (m *manyHostsNet) connections(addr string) (sum int) {
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	for at, n := range m.open {
		if addr == "" || at == addr {
			sum += n
		}
	}
	return sum
}

func (m *manyHostsNet) serve(c net.Conn) {
	r := bufio.NewReaderSize(c, 512)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		for rest := line; rest != "\r\n"; {
			if rest, err = r.ReadString('\n'); err != nil {
				return
			}
		}
		answer := ok
		switch {
		case strings.Contains(line, " /sick "):
			answer = unavailable
		case strings.Contains(line, " /slow "):
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
			<-m.release
			answer = strings.Repeat("s", 100000)
		}
		if _, err := io.WriteString(c, answer); err != nil {
			return
		}
	}
}

// manyHostsClient is a connection to the proxy.
type manyHostsClient struct {
	m *manyHostsNet
	c net.Conn
	r *bufio.Reader
}

func (m *manyHostsNet) client() *manyHostsClient {
	c, err := m.net.Dial(context.Background(), "", "proxy:1")
	if err != nil {
		m.Fatal(err)
	}
	return &manyHostsClient{m, c, bufio.NewReader(c)}
}

// begin asks a host and returns the answer before its body.
func (c *manyHostsClient) begin(host, path string) *http.Response {
	c.m.Helper()
	fmt.Fprintf(c.c, "GET http://%s%s HTTP/1.1\r\nHost: %s\r\n\r\n", host, path, host)
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		c.m.Fatal(err)
	}
	return resp
}

// ask returns what Proxy-Status says, but for a success at the first attempt.
func (c *manyHostsClient) ask(host, path string) string {
	c.m.Helper()
	resp := c.begin(host, path)
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		c.m.Fatal(err)
	}
	return resp.Header.Get("Proxy-Status")
}

// askMany asks n hosts that nobody has asked, one after the other.
func (c *manyHostsClient) askMany(name string, n int) {
	c.m.Helper()
	for i := range n {
		if status := c.ask(fmt.Sprintf("%s%d.wild.test", name, i), "/"); status != "" {
			c.m.Fatal(status)
		}
	}
}

// heap is what is in use once the timers of dials, which the runtime keeps for as
// long as they could fire, are gone.
func heap() float64 {
	time.Sleep(time.Minute)
	synctest.Wait()
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// series is how many there are.
func series(t *testing.T, reg *prometheus.Registry) (n int) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		n += len(f.GetMetric())
	}
	return n
}

// eachWildcard runs a test for every way in which one upstream has hosts without
// number.
func eachWildcard(t *testing.T, test func(m *manyHostsNet)) {
	wild := func(ends ...policy.Endpoint) *policy.Upstream {
		u := upstream("wild")
		u.Hosts = []policy.HostPattern{{Wildcard: true, Name: "wild.test"}}
		u.Endpoints = ends
		return u
	}
	one, two := policy.Endpoint{Scheme: "http", Host: "one", Port: 80}, policy.Endpoint{Scheme: "http", Host: "two", Port: 80}
	for name, s := range map[string]*proxy.Settings{
		"unmatched": settings(), "wildcard": settings(wild()),
		"wildcard to an endpoint": settings(wild(one)), "wildcard to two endpoints": settings(wild(one, two)),
	} {
		hosts := manyHosts
		if raceEnabled && name != "wildcard" {
			hosts = 3 * keptHosts // the race detector is slow, and finds no less
		}
		for _, u := range append([]*policy.Upstream{s.Default}, s.Upstreams...) {
			u.Budget = policy.BudgetConfig{Burst: 3}
			u.Connections.Idle = time.Hour // nothing but the bound closes any
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &manyHostsNet{T: t, net: newMemNet(), reg: prometheus.NewRegistry(), hosts: hosts, release: make(chan struct{}), open: map[string]int{}}
				srv, err := proxy.New(proxy.Options{
					Proxy: "proxy:1", Metrics: metrics.New(m.reg), Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
					Listen: m.net.Listen, Dial: m.dial,
				}, s)
				if err != nil {
					t.Fatal(err)
				}
				srv.Start()
				defer srv.Close()
				test(m)
			})
		})
	}
}

const (
	fourTimes = "mulligan; attempts=4; stop=max_attempts; received-status=503"
	noToken   = "mulligan; attempts=1; stop=budget; received-status=503"
)

// TestManyHosts: what is kept of hosts without number is bounded, in memory, in
// connections and in the metrics; a budget is its host's own for as long as it is
// kept.
func TestManyHosts(t *testing.T) {
	eachWildcard(t, func(m *manyHostsNet) {
		c := m.client()
		if a, again, b := c.ask("a.wild.test", "/sick"), c.ask("a.wild.test", "/sick"), c.ask("b.wild.test", "/sick"); a != fourTimes || again != noToken || b != fourTimes {
			m.Errorf("%q, %q and of another host %q: one host's outage is at the other's expense, or at nobody's", a, again, b)
		}
		c.askMany("near", keptHosts/4)
		if a := c.ask("a.wild.test", "/sick"); a != noToken {
			m.Errorf("%q: its budget was forgotten for %d others", a, keptHosts/4)
		}
		c.askMany("full", keptHosts)
		before, names := heap(), series(m.T, m.reg)
		c.askMany("far", m.hosts)
		if n := m.connections(""); n > keptHosts {
			m.Errorf("%d connections are open, to more hosts than are kept", n)
		}
		if after := heap(); after > 1.4*before {
			m.Errorf("%.0f bytes after %d hosts, %.0f after as many as are kept", after, m.hosts, before)
		}
		if n := series(m.T, m.reg); n != names {
			m.Errorf("%d series, and %d before", n, names)
		}
		if a := c.ask("a.wild.test", "/sick"); a != fourTimes {
			m.Errorf("%q: it was forgotten long ago, and begins anew", a)
		}
	})
}

// TestForgottenHostInUse: a host that others push out while it answers goes on to
// its end, its connection ends there, and who remembers the host finds it anew.
func TestForgottenHostInUse(t *testing.T) {
	eachWildcard(t, func(m *manyHostsNet) {
		slow, idle := m.client(), m.client()
		resp := slow.begin("a.wild.test", "/slow")
		idle.ask("b.wild.test", "/")
		m.client().askMany("far", 2*keptHosts)
		others := m.connections("")
		close(m.release)
		if n, err := io.Copy(io.Discard, resp.Body); n != 100000 || err != nil {
			m.Errorf("%d bytes, %v", n, err)
		}
		if n := m.connections(""); n != others-1 {
			m.Errorf("%d connections, %d before the last request of a forgotten host ended", n, others)
		}
		for range 2 {
			if a, b := slow.ask("a.wild.test", "/"), idle.ask("b.wild.test", "/"); a != "" || b != "" {
				m.Errorf("%q, %q", a, b)
			}
		}
	})
}
