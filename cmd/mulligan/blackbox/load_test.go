package blackbox

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// crowd keeps so many clients busy until stop is closed; each response is given
// to check, which says what is wrong with it.
func crowd(t *testing.T, p *mulligan, n int, stop chan struct{}, request func(i int) string, check func(r response) string) (wait func() int64) {
	var wg sync.WaitGroup
	var served atomic.Int64
	for worker := range n {
		c := dial(t, p.proxy)
		wg.Go(func() {
			for i := worker; ; i += n {
				select {
				case <-stop:
					return
				default:
				}
				_ = c.SetDeadline(time.Now().Add(2 * patience))
				c.send(request(i))
				r := c.final("GET")
				if complaint := check(r); complaint != "" {
					t.Errorf("request %d: %s", i, complaint)
					return
				}
				if r.Status == 0 {
					return
				}
				served.Add(1)
			}
		})
	}
	return func() int64 { wg.Wait(); return served.Load() }
}

// firstOf gives the first attempt for each nth target one answer, all others the
// other: no request can have bad luck in all of its attempts.
func firstOf(n int, this, other answer) answer {
	var mu sync.Mutex
	tries := map[string]int{}
	return func(p *peer, r *request) bool {
		mu.Lock()
		tries[r.Target]++
		first := tries[r.Target] == 1 && len(tries)%n == 0
		mu.Unlock()
		if first {
			return this(p, r)
		}
		return other(p, r)
	}
}

// Reloads under load lose nothing: each request is answered, in the old policy
// or the new.
func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	u := answers(t, firstOf(5, text(503, "no"), text(200, "yes")))
	config := func(n int) string {
		return fmt.Sprintf("defaults: {retry: {max_attempts: %d, %s}}\nupstreams: {named: {hosts: [\"%s\"]}}\n", 8+n%3, quick, u.addr)
	}
	p := start(t, "log: {access: false}\n"+config(0))
	stop := make(chan struct{})
	wait := crowd(t, p, 6, stop, func(i int) string { return head("GET", u.url(fmt.Sprint("/", i))) }, func(r response) string {
		if r.Status != 200 || r.Body != "yes" {
			return fmt.Sprintf("status %d, %v, body %q, %q", r.Status, r.Broken, r.Body, r.get("Proxy-Status"))
		}
		return ""
	})
	for n := range 12 {
		before, _ := p.metric("mulligan_config_reloads_total", "result=success")
		writeFile(t, p.file, p.fill("log: {access: false}\n"+config(n+1)))
		p.signal(syscall.SIGHUP)
		eventually(t, "the reload", func() bool {
			now, _ := p.metric("mulligan_config_reloads_total", "result=success")
			return now > before
		})
	}
	close(stop)
	if served := wait(); served < 20 {
		t.Errorf("only %d requests were served", served)
	}
	p.wantMetric(float64(u.count()), "mulligan_attempts_total")
	p.wantMetric(0, "mulligan_requests_in_flight")
}

// A drain under load cuts nothing: what is answered is answered whole.
func TestDrainUnderLoad(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("0123456789", 20_000)
	u := answers(t, text(200, body))
	p := start(t, "log: {access: false}")
	stop := make(chan struct{})
	wait := crowd(t, p, 6, stop, func(int) string { return head("GET", u.url("/")) }, func(r response) string {
		if r.Status == 0 && r.Head == "" {
			return "" // closed between two requests
		}
		if r.Status != 200 || r.Body != body {
			return fmt.Sprintf("status %d, %v, %d bytes", r.Status, r.Broken, len(r.Body))
		}
		return ""
	})
	eventually(t, "some requests", func() bool { return u.count() > 30 })
	p.signal(syscall.SIGTERM)
	p.expectExit(0)
	close(stop)
	wait()
}

// Clients that leave at every moment, while others stay: none of the leaving
// disturbs who stays.
func TestLeavingUnderLoad(t *testing.T) {
	t.Parallel()
	u := answers(t, func(p *peer, r *request) bool {
		body := pattern(20_000)
		return text(200, r.Target+body)(p, r)
	})
	p := start(t, "log: {access: false}\ndefaults: {retry: {"+quick+"}}")
	stop := make(chan struct{})
	wait := crowd(t, p, 4, stop, func(i int) string { return head("GET", u.url(fmt.Sprintf("/%d", i))) }, func(r response) string {
		if r.Status != 200 || !r.Whole || !strings.HasPrefix(r.Body, "/") {
			return fmt.Sprintf("status %d, %v, %d bytes, %q", r.Status, r.Broken, len(r.Body), r.get("Proxy-Status"))
		}
		return ""
	})
	for i := range 150 {
		c := dial(t, p.proxy)
		whole := head("PUT", u.url("/leaver"), "Content-Length: 100") + strings.Repeat("x", 99)
		c.send(whole[:1+i*(len(whole)-1)/150])
		if i%3 == 0 {
			abort(c.TCPConn)
		} else {
			c.Close()
		}
	}
	close(stop)
	if served := wait(); served < 4 {
		t.Errorf("only %d requests were served", served)
	}
	p.wantMetric(0, "mulligan_requests_in_flight")
	p.wantMetric(0, "mulligan_buffered_bytes")
	if counted, _ := p.metric("mulligan_attempts_total"); counted < float64(u.count()) {
		t.Errorf("%v attempts were counted, the upstream saw %d", counted, u.count()) // some leave before it sees anything
	}
}
