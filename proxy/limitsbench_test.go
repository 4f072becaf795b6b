package proxy_test

import (
	"bufio"
	"net"
	"testing"
	"time"

	"mulligan/policy"
)

// BenchmarkLimits compares requests to an upstream with everything off with those to
// one of two endpoints that has a circuit breaker, concurrency and rate_limit, in
// interleaved rounds. The time is CPU time of client, proxy and upstream; without the
// proxy, the same is measured for the client and the upstream alone.
func BenchmarkLimits(b *testing.B) {
	one, other := benchServe(b, nil).(*net.TCPAddr), benchServe(b, nil).(*net.TCPAddr)
	endpoint := func(a *net.TCPAddr) policy.Endpoint {
		return policy.Endpoint{Scheme: "http", Host: "127.0.0.1", Port: a.Port}
	}
	off := upstream("off")
	off.Hosts, off.Endpoints = []policy.HostPattern{{Name: "off"}}, []policy.Endpoint{endpoint(one)}
	on := upstream("on")
	on.Hosts, on.Endpoints = []policy.HostPattern{{Name: "on"}}, []policy.Endpoint{endpoint(one), endpoint(other)}
	on.Breaker = policy.BreakerConfig{FailureRatio: 0.5, MinRequests: 20, Window: 10 * time.Second, OpenFor: 5 * time.Second, MaxOpenFor: time.Minute, Probes: 1}
	on.Concurrency = policy.Concurrency{Max: 64, Queue: 128, MaxWait: time.Second}
	on.RateLimit = policy.RateLimit{PerSecond: 1e6, Burst: 1e6, MaxWait: time.Second}
	hedging := upstream("hedging")
	hedging.Hosts, hedging.Endpoints = []policy.HostPattern{{Name: "hedging"}}, off.Endpoints
	hedging.Default.Hedge = policy.Hedge{Delay: 300 * time.Millisecond, Max: 1}
	srv := start(b, settings(off, on, hedging))

	ways := []struct {
		name, target string
		to           net.Addr
		nc           net.Conn
		r            *bufio.Reader
		cpu          time.Duration
	}{
		{name: "off", target: "http://off/", to: srv.Addr()},
		{name: "on", target: "http://on/", to: srv.Addr()},
		{name: "hedge", target: "http://hedging/", to: srv.Addr()},
		{name: "no-proxy", target: "/", to: one},
	}
	for w := range ways {
		nc, err := net.Dial("tcp", ways[w].to.String())
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { nc.Close() })
		ways[w].nc, ways[w].r = nc, bufio.NewReader(nc)
	}
	round := func(n int) {
		for w := range ways {
			way := &ways[w]
			req := []byte("GET " + way.target + " HTTP/1.1\r\nHost: api\r\nAccept: */*\r\nUser-Agent: bench\r\n\r\n")
			way.cpu += ask(b, way.nc, way.r, req, n)
		}
	}
	round(100)
	for w := range ways {
		ways[w].cpu = 0
	}
	b.ResetTimer()
	for left := b.N; left > 0; left -= 200 {
		round(min(left, 200))
	}
	for _, w := range ways {
		b.ReportMetric(float64(w.cpu.Nanoseconds())/1000/float64(b.N), w.name+"-µs/op")
	}
	for _, w := range ways[1:3] {
		b.ReportMetric(float64(w.cpu)/float64(ways[0].cpu), w.name+"/off")
		b.ReportMetric(float64(w.cpu-ways[3].cpu)/float64(ways[0].cpu-ways[3].cpu), w.name+"/off-proxy-alone")
	}
}
