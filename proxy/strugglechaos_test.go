package proxy_test

import (
	"encoding/pem"
	"fmt"
	"io"
	stdlog "log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mulligan/policy"
)

// erratic answers in every way there is.
func erratic(hits *atomic.Int64) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		hits.Add(1)
		if rand.IntN(4) > 0 {
			io.Copy(io.Discard, req.Body)
		}
		abort := func() { panic(http.ErrAbortHandler) }
		switch rand.IntN(14) {
		case 0:
			abort()
		case 1:
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, "half")
			abort()
		case 2:
			w.WriteHeader(503)
			io.WriteString(w, "begin")
			w.(http.Flusher).Flush()
			time.Sleep(30 * time.Millisecond)
			abort()
		case 3:
			w.WriteHeader(503)
			io.WriteString(w, "busy")
		case 4:
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(429)
		case 5:
			select {
			case <-req.Context().Done():
			case <-time.After(100 * time.Millisecond):
			}
		case 6, 7:
			time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
			w.WriteHeader([]int{200, 404, 502, 503}[rand.IntN(4)])
			io.WriteString(w, strings.Repeat("z", rand.IntN(3000)))
		case 8:
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, ": ping\n\n")
			w.(http.Flusher).Flush()
			time.Sleep(20 * time.Millisecond)
			io.WriteString(w, []string{"event: error\ndata: x\n\n", "data: x\n\n", ""}[rand.IntN(3)])
		case 9:
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"error":{"code":"`+[]string{"busy", "never"}[rand.IntN(2)]+`"}}`)
		case 10:
			io.WriteString(w, strings.Repeat("y", 300000))
		default:
			io.WriteString(w, "fine")
		}
	}
}

func everything(u *policy.Upstream) {
	withBreaker(u)
	u.Breaker.MinRequests = 12
	u.Breaker.FailureRatio, u.Breaker.OpenFor, u.Breaker.MaxOpenFor, u.Breaker.Window = 0.9, 20*time.Millisecond, 40*time.Millisecond, 200*time.Millisecond
	u.Concurrency = policy.Concurrency{Max: 24, Queue: 6, MaxWait: 30 * time.Millisecond}
	u.RateLimit = policy.RateLimit{PerSecond: 2000, Burst: 200, MaxWait: 20 * time.Millisecond}
	u.Budget = policy.BudgetConfig{Burst: 1e6}
	u.Connections.MaxPerEndpoint = 8
	r := u.Default
	r.Hedge = policy.Hedge{Delay: 3 * time.Millisecond, Max: 2}
	r.Timeout.Attempt, r.Timeout.Total, r.Timeout.Idle = 15*time.Millisecond, 150*time.Millisecond, 100*time.Millisecond
	r.Timeout.TunnelIdle = 100 * time.Millisecond
	r.Buffer.Request, r.Buffer.FirstEvent = 40_000, true
	r.Retry.RetryOn.Add("429")
	r.Retry.RetryOn.Add("error_event")
}

func sum(t testing.TB, reg *prometheus.Registry, name string, not string) (n float64) {
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				skip := false
				for _, l := range m.GetLabel() {
					skip = skip || not != "" && l.GetValue() == not
				}
				if !skip {
					n += m.GetCounter().GetValue() + m.GetGauge().GetValue()
				}
			}
		}
	}
	return n
}

// TestNothingIsHeldAfterStruggle: whatever upstreams, clients and reloads do, all
// places, tokens and bytes are back, and each retry that was sent was paid for.
func TestNothingIsHeldAfterStruggle(t *testing.T) {
	for _, https := range []bool{false, true} {
		for _, reloads := range []bool{false, true} {
			t.Run(fmt.Sprintf("https %v, reloads %v", https, reloads), func(t *testing.T) { struggle(t, https, reloads) })
		}
	}
}

func struggle(t *testing.T, https, reloads bool) {
	var hits atomic.Int64
	log := new(syncBuffer)
	u := upstream("up")
	u.Hosts = []policy.HostPattern{{Name: "up"}}
	scheme := "http"
	if https {
		scheme = "https"
	}
	for range 2 {
		s := httptest.NewUnstartedServer(erratic(&hits))
		s.EnableHTTP2 = https
		s.Config.ErrorLog = stdlog.New(io.Discard, "", 0)
		if https {
			s.StartTLS()
			root := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
			u.TLS.CAFile = filepath.Join(t.TempDir(), "ca.pem")
			if err := os.WriteFile(u.TLS.CAFile, root, 0o600); err != nil {
				t.Fatal(err)
			}
		} else {
			s.Start()
		}
		t.Cleanup(s.Close)
		u.Endpoints = append(u.Endpoints, policy.Endpoint{Scheme: scheme, Host: "127.0.0.1", Port: s.Listener.Addr().(*net.TCPAddr).Port})
	}
	everything(u)
	set := settings(u)
	srv, reg := startWith(t, set, nil, log)
	before := runtime.NumGoroutine()
	stop := make(chan struct{})
	var all, side sync.WaitGroup
	if reloads {
		side.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(15 * time.Millisecond):
				}
				next := *u
				d := *u.Default
				next.Default = &d
				switch rand.IntN(6) {
				case 0:
					next.Breaker = policy.BreakerConfig{}
				case 1:
					next.Concurrency = policy.Concurrency{}
				case 2:
					next.RateLimit = policy.RateLimit{}
				case 3:
					next.Endpoints = next.Endpoints[:1]
				case 4:
					d.Hedge = policy.Hedge{}
				}
				if err := srv.Reload(settings(&next)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 24 {
		all.Go(func() {
			for end := time.Now().Add(time.Second); time.Now().Before(end); {
				c, err := net.Dial("tcp", srv.Addr().String())
				if err != nil {
					t.Error(err)
					return
				}
				for range 1 + rand.IntN(4) {
					chaoticRequest(c, "up")
				}
				if rand.IntN(3) == 0 {
					c.(*net.TCPConn).SetLinger(0)
				}
				c.Close()
			}
		})
	}
	all.Wait()
	close(stop)
	side.Wait()
	for _, name := range []string{"mulligan_requests_in_flight", "mulligan_retries_waiting", "mulligan_tunnels_open", "mulligan_buffered_bytes"} {
		if !eventually(func() bool { return gauge(t, reg, name, "up") == 0 }) {
			t.Errorf("%s stays at %v", name, gauge(t, reg, name, "up"))
		}
	}
	if !eventually(func() bool { return srv.Held() == "" }) {
		t.Error(srv.Held())
	}
	if !eventually(func() bool { return runtime.NumGoroutine() <= before+60 }) {
		b := make([]byte, 1<<20)
		t.Errorf("%d goroutines, %d before\n%s", runtime.NumGoroutine(), before, b[:runtime.Stack(b, true)])
	}
	attempts := sum(t, reg, "mulligan_attempts_total", "connect_failure")
	retries := sum(t, reg, "mulligan_retries_total", "")
	paid := 1e6 - gauge(t, reg, "mulligan_retry_budget_remaining", "up")
	if seen := float64(hits.Load()); seen > attempts || seen == 0 {
		t.Errorf("%v attempts were counted, and the upstream saw %v", attempts, seen)
	}
	if retries != paid || retries == 0 {
		t.Errorf("%v retries were sent, and %v paid for", retries, paid)
	}
	if strings.Contains(log.String(), "panic") {
		i := strings.Index(log.String(), "panic")
		t.Error(log.String()[i:min(len(log.String()), i+3000)])
	}
}
