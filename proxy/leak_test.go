package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mulligan/policy"
	"mulligan/proxy"
)

// flaky is an endpoint on a real socket that answers in all the ways there are. It
// never closes a connection that could be used again, so that each request that is
// written to it is seen.
type flaky struct {
	addr  string
	bad   float64 // the share of answers that are not simply good
	seen  atomic.Int64
	open  atomic.Int64
	peace atomic.Bool // all answers are good
}

func newFlaky(t *testing.T, seed uint64, bad float64) *flaky {
	f := &flaky{bad: bad}
	f.addr = rawServe(t, func(n int, c net.Conn, r *bufio.Reader) {
		f.open.Add(1)
		defer f.open.Add(-1)
		random := rand.New(rand.NewPCG(seed, uint64(n)))
		for {
			if _, err := r.Peek(1); err != nil {
				return
			}
			f.seen.Add(1)
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				return
			}
			if !f.answer(c, r, req, random) {
				return
			}
		}
	})
	return f
}

func (f *flaky) endpoint() policy.Endpoint {
	var port int
	fmt.Sscanf(f.addr, "127.0.0.1:%d", &port)
	return policy.Endpoint{Scheme: "http", Host: "127.0.0.1", Port: port}
}

// answer reports whether the connection goes on.
func (f *flaky) answer(c net.Conn, r *bufio.Reader, req *http.Request, random *rand.Rand) bool {
	say := func(answer string) bool {
		_, err := io.WriteString(c, answer)
		return err == nil
	}
	if f.peace.Load() || random.Float64() > f.bad {
		time.Sleep(time.Duration(random.IntN(3)) * time.Millisecond)
		if req.Header.Get("Upgrade") != "" {
			say(switching)
			io.Copy(io.Discard, r)
			return false
		}
		return say(ok)
	}
	switch random.IntN(14) {
	case 0, 1:
		return say(unavailable)
	case 2:
		return say("HTTP/1.1 503 Busy\r\nRetry-After-Ms: 10\r\nContent-Length: 0\r\n\r\n")
	case 3:
		return say("HTTP/1.1 429 Slow Down\r\nRetry-After-Ms: 20\r\nContent-Length: 0\r\n\r\n")
	case 4: // hangs
		io.Copy(io.Discard, r)
		return false
	case 5:
		c.(*net.TCPConn).SetLinger(0)
		return false
	case 6:
		say("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
		return false
	case 7:
		return say(errorEvent)
	case 8:
		for _, part := range strings.SplitAfter(streamOf(comment, started, message), aSecond) {
			time.Sleep(time.Duration(random.IntN(15)) * time.Millisecond)
			if !say(strings.TrimSuffix(part, aSecond)) {
				return false
			}
		}
		return true
	case 9:
		return say(rateLimited)
	case 10:
		return say(withLength(429, spent))
	case 11: // breaks off on its way to the client
		say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
		time.Sleep(time.Millisecond)
		return false
	case 12: // slow enough for a hedge
		time.Sleep(30 * time.Millisecond)
		return say(ok)
	default: // too long to be held
		return say("HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n" + strings.Repeat("y", 300_000))
	}
}

// leakBudget pays for all retries of the test; no answer pays in, so that it says to
// the token what was paid.
const leakBudget = 1_000_000

// allOn has all features on.
func allOn(endpoints ...policy.Endpoint) *policy.Upstream {
	u := upstream("up")
	u.Hosts = []policy.HostPattern{{Name: "up"}}
	u.Endpoints = endpoints
	u.Budget = policy.BudgetConfig{Burst: leakBudget, Window: time.Second}
	u.Breaker = policy.BreakerConfig{FailureRatio: 0.7, MinRequests: 20, Window: time.Second, OpenFor: 5 * time.Millisecond, MaxOpenFor: 20 * time.Millisecond, Probes: 2}
	u.Concurrency = policy.Concurrency{Max: 40, Queue: 20, MaxWait: 50 * time.Millisecond}
	u.RateLimit = policy.RateLimit{PerSecond: 100_000, Burst: 10_000, MaxWait: 50 * time.Millisecond}
	u.HealthCheck = policy.HealthCheck{Path: "/healthz", Interval: time.Hour, Timeout: time.Second, UnhealthyAfter: 2, HealthyAfter: 2}
	u.Connections.MaxPerEndpoint = 48
	withRules(u)
	firstEvents(u)
	r := u.Default
	r.Hedge = policy.Hedge{Delay: 15 * time.Millisecond, Max: 1}
	r.Buffer.Request = 40_000
	r.Timeout = policy.TimeoutConfig{Connect: 10 * time.Second, Attempt: 60 * time.Millisecond, Total: 500 * time.Millisecond, Idle: 300 * time.Millisecond, TunnelIdle: 100 * time.Millisecond}
	return u
}

// mixed makes requests on connections of its own until enough have begun, and goes
// away from many.
func mixed(addr, tunnel string, random *rand.Rand, begun *atomic.Int64, enough int64) error {
	for begun.Load() < enough {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return err
		}
		c.SetDeadline(time.Now().Add(2 * time.Minute))
		r := bufio.NewReader(c)
		for on := true; on && begun.Add(1) <= enough; {
			on = oneOfMany(c, r, tunnel, random)
		}
		if random.IntN(4) == 0 {
			c.(*net.TCPConn).SetLinger(0)
		}
		c.Close()
	}
	return nil
}

// oneOfMany makes a request, and reports whether another can follow.
func oneOfMany(c net.Conn, r *bufio.Reader, tunnel string, random *rand.Rand) bool {
	method := []string{"GET", "GET", "GET", "PUT", "POST"}[random.IntN(5)]
	fields, body := "", ""
	switch {
	case method == "GET" && random.IntN(40) == 0:
		fields = "Connection: Upgrade\r\nUpgrade: foo\r\n"
	case method == "GET" && random.IntN(20) == 0:
		fields = "Via: 1.1 mulligan-0a1b2c3d\r\n"
	case method != "GET":
		body = strings.Repeat("x", []int{0, 10, 20_000, 60_000}[random.IntN(4)])
		if random.IntN(2) == 0 || body == "" {
			fields = fmt.Sprintf("Content-Length: %d\r\n", len(body))
		} else {
			fields, body = "Transfer-Encoding: chunked\r\n", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
		}
	}
	switch random.IntN(8) {
	case 0:
		fields += "Authorization: Bearer one\r\n"
	case 1:
		fields += "Mulligan-Policy: max-attempts=2, total=0.05\r\n"
	case 2:
		fields += "Idempotency-Key: k\r\n"
	}
	request := method + " http://up/ HTTP/1.1\r\nHost: up\r\n" + fields + "\r\n" + body
	if random.IntN(40) == 0 {
		request = "CONNECT " + tunnel + " HTTP/1.1\r\nHost: " + tunnel + "\r\n\r\n\x16\x03\x01"
	}
	if random.IntN(20) == 0 {
		io.WriteString(c, request[:random.IntN(len(request))])
		return false
	}
	if _, err := io.WriteString(c, request); err != nil {
		return false
	}
	switch random.IntN(4) {
	case 0: // goes away
		time.Sleep(time.Duration(random.IntN(80)) * time.Millisecond)
		return false
	case 1: // in the middle of the answer
		c.Read(make([]byte, 1+random.IntN(1000)))
		return false
	}
	resp, err := http.ReadResponse(r, nil)
	if err != nil || request[0] == 'C' || resp.StatusCode == 101 {
		return false
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err == nil && !resp.Close
}

// TestNothingLeaks: after many mixed requests with everything on, of which many are
// given up by their clients, all that attempts take is back where it was, each attempt
// that the upstreams saw is counted, and each token that is missing has paid for a
// retry that was sent.
func TestNothingLeaks(t *testing.T) {
	requests, atOnce := int64(10_000), 64
	if testing.Short() {
		requests = 1000
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	a, b := newFlaky(t, seed, 0.5), newFlaky(t, seed+1, 0.15)
	echo := rawServe(t, func(_ int, c net.Conn, r *bufio.Reader) { io.Copy(c, r) })
	var unmade atomic.Int64 // dials that failed
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			unmade.Add(1)
		}
		return c, err
	}
	srv, reg := startWith(t, settings(allOn(a.endpoint(), b.endpoint())), dial, nil)
	checked := func() bool { return a.seen.Load() == 1 && b.seen.Load() == 1 && a.open.Load()+b.open.Load() == 0 }
	a.peace.Store(true)
	b.peace.Store(true)
	if !eventually(checked) { // by the health checks, which are no attempts
		t.Fatal("no health checks")
	}
	a.peace.Store(false)
	b.peace.Store(false)
	before := runtime.NumGoroutine()

	var begun atomic.Int64
	var clients sync.WaitGroup
	for i := range atOnce {
		clients.Go(func() {
			if err := mixed(srv.Addr().String(), echo, rand.New(rand.NewPCG(seed, uint64(i))), &begun, requests); err != nil {
				t.Error(err)
			}
		})
	}
	clients.Wait()

	calm := func() bool {
		for _, name := range []string{"mulligan_requests_in_flight", "mulligan_retries_waiting", "mulligan_tunnels_open", "mulligan_buffered_bytes"} {
			if gauge(t, reg, name, "up") != 0 {
				return false
			}
		}
		return gauge(t, reg, "mulligan_tunnels_open", "default") == 0 && srv.Held() == ""
	}
	if !eventually(calm) {
		t.Errorf("%v in flight, %v waiting, %v bytes held\n%s", gauge(t, reg, "mulligan_requests_in_flight", "up"),
			gauge(t, reg, "mulligan_retries_waiting", "up"), gauge(t, reg, "mulligan_buffered_bytes", ""), srv.Held())
	}
	addsUp(t, srv, reg, unmade.Load(), a, b)

	// All idle connections go when their time is over, and then nothing is left.
	next := allOn(a.endpoint(), b.endpoint())
	next.Connections.Idle = time.Millisecond
	if err := srv.Reload(settings(next)); err != nil {
		t.Fatal(err)
	}
	if !eventually(func() bool { return a.open.Load()+b.open.Load() == 0 && srv.OpenTo("up") == 0 }) {
		t.Errorf("%d and %d connections stay open upstream, %d here", a.open.Load(), b.open.Load(), srv.OpenTo("up"))
	}
	if !eventually(func() bool { return runtime.NumGoroutine() <= before }) {
		stacks := make([]byte, 1<<20)
		t.Errorf("%d goroutines, %d before\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
	}
}

// addsUp compares what was counted with what the endpoints saw.
func addsUp(t *testing.T, srv *proxy.Server, reg *prometheus.Registry, unmade int64, all ...*flaky) {
	t.Helper()
	seen, open := int64(-len(all)), int64(0) // but for one health check each
	for _, f := range all {
		seen += f.seen.Load()
	}
	eventually(func() bool {
		open = 0
		for _, f := range all {
			open += f.open.Load()
		}
		return int(open) == srv.OpenTo("up")
	})
	if open != int64(srv.OpenTo("up")) {
		t.Errorf("%d connections open upstream, %d here", open, srv.OpenTo("up"))
	}
	attempts, retries := counter(t, reg, "mulligan_attempts_total", "upstream=up"), counter(t, reg, "mulligan_retries_total", "upstream=up")
	if unseen := int64(attempts) - seen; unseen < 0 || unseen > unmade {
		t.Errorf("%d attempts were seen, %v counted, and %d dials failed", seen, attempts, unmade)
	}
	if left := gauge(t, reg, "mulligan_retry_budget_remaining", "up"); left+retries != leakBudget {
		t.Errorf("%v tokens left of %d, and %v retries", left, leakBudget, retries)
	}
	for _, what := range [][]string{
		{"mulligan_attempts_total", "result=cancelled"}, {"mulligan_attempts_total", "result=truncated"}, {"mulligan_attempts_total", "result=timeout"},
		{"mulligan_attempts_total", "result=error_event"}, {"mulligan_attempts_total", "result=connection_reset"}, {"mulligan_attempts_total", "result=4xx"},
		{"mulligan_retries_total", "reason=hedge"}, {"mulligan_requests_total", "outcome=client_gone"}, {"mulligan_retries_denied_total", "stop=overloaded"},
		{"mulligan_retries_denied_total", "stop=window"}, {"mulligan_retries_denied_total", "stop=nested"},
	} {
		n := counter(t, reg, what[0], append(what[1:], "upstream=up")...)
		t.Logf("%v %v", what, n)
		if n == 0 && !testing.Short() {
			t.Errorf("no %v: the test says nothing of it", what)
		}
	}
	t.Logf("%v attempts, %v retries", attempts, retries)
}
