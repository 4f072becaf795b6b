package proxy_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mulligan/policy"
)

// TestBreakerAndPause: a circuit that opens comes before a hint as the reason to stop,
// and the hint goes to the client with the answer; who waits for the hint meanwhile
// finds out how the upstream is.
func TestBreakerAndPause(t *testing.T) {
	inPair(t, paired(1, breaking), func(b *bubble) {
		a := b.serve("a:80", script(hinted503, hinted503, ok))
		began := time.Now()
		first := b.later(getUp)
		time.Sleep(time.Second)
		second := b.get()
		b.want(second, 503, stopped(1, "circuit_open", 503))
		b.waits(second, 10, 10) // the upstream's own
		third := b.get()
		b.want(third, 503, circuitIsOpen)
		b.waits(third, 5, 6)
		b.want(<-first, 200, stopped(2, "success", 200))
		if took := time.Since(began); took < 11*time.Second || took > 14*time.Second { // the second's hint holds back the first one, too
			b.Errorf("took %v", took)
		}
		b.tally(3, 1, a)
		b.want(b.get(), 200, "")
	})
}

// TestBreakerAndWindow: attempts that end with their window are failures.
func TestBreakerAndWindow(t *testing.T) {
	inPair(t, paired(1, breaking, windowOf(2*time.Second)), func(b *bubble) {
		a := b.serve("a:80", always(""))
		for range 2 {
			b.want(b.get(), 504, "attempts=1; stop=window; error=http_response_timeout")
		}
		began := time.Now()
		b.want(b.get(), 503, circuitIsOpen)
		within(b.T, time.Since(began), 0)
		b.tally(2, 0, a)
	})
}

// TestBreakerAndBudget: without tokens it counts first attempts, and it comes before
// the budget as the reason to stop; a retry that an opened circuit ends is not paid for.
func TestBreakerAndBudget(t *testing.T) {
	t.Run("empty", func(t *testing.T) {
		inPair(t, paired(1, breaking, tokens(0)), func(b *bubble) {
			a := b.serve("a:80", always(fiveOhThree))
			b.want(b.get(), 503, stopped(1, "budget", 503))
			b.want(b.get(), 503, stopped(1, "circuit_open", 503))
			b.want(b.get(), 503, circuitIsOpen)
			b.counts(2, 0, a)
		})
	})
	t.Run("opened meanwhile", func(t *testing.T) {
		inPair(t, paired(1, breaking, after(2*time.Second)), func(b *bubble) {
			a := b.serve("a:80", always(fiveOhThree))
			began := time.Now()
			first := b.later(getUp)
			time.Sleep(time.Second)
			b.left(pairBudget - 1)
			b.want(b.get(), 503, stopped(1, "circuit_open", 503))
			got := <-first
			b.want(got, 503, stopped(1, "circuit_open", 503))
			within(b.T, time.Since(began), 2*time.Second)
			if got.body != "busy" {
				b.Errorf("%q", got.body)
			}
			b.tally(2, 0, a)
		})
	})
}

// TestBreakerAndPOST: what is not retried for its method is a failure all the same.
func TestBreakerAndPOST(t *testing.T) {
	inPair(t, paired(1, breaking), func(b *bubble) {
		a := b.serve("a:80", always(fiveOhThree))
		for range 2 {
			b.want(b.request(postUp), 503, stopped(1, "not_idempotent", 503))
		}
		b.want(b.request(postUp), 503, circuitIsOpen)
		b.want(b.get(), 503, circuitIsOpen)
		b.tally(2, 0, a)
	})
}

// TestBreakerAndBodyTooLong: the same of what cannot be sent again; and a long body
// that an open circuit refuses is no reason to lose the answer.
func TestBreakerAndBodyTooLong(t *testing.T) {
	inPair(t, paired(1, breaking), func(b *bubble) {
		a := b.serve("a:80", always(fiveOhThree))
		for range 2 {
			b.want(b.request(longPut), 503, stopped(1, "body_not_replayable", 503))
		}
		c := b.open()
		defer c.Close()
		go io.WriteString(c, longPut)
		resp := readResponse(b, bufio.NewReader(c))
		if got := resp.Header.Get("Proxy-Status"); resp.StatusCode != 503 || got != "mulligan; "+circuitIsOpen {
			b.Errorf("%s %q", resp.Status, got)
		}
		b.tally(2, 0, a)
	})
}

// TestBreakerAndObserve: it does its work, and decides first.
func TestBreakerAndObserve(t *testing.T) {
	inPair(t, paired(1, breaking, observing), func(b *bubble) {
		a := b.serve("a:80", always(fiveOhThree))
		b.want(b.get(), 503, stopped(1, "disabled", 503))
		b.want(b.get(), 503, stopped(1, "circuit_open", 503))
		b.want(b.get(), 503, circuitIsOpen)
		b.tally(2, 0, a)
	})
}

// TestBreakerAndNested: what another mulligan sent is as telling.
func TestBreakerAndNested(t *testing.T) {
	inPair(t, paired(1, breaking), func(b *bubble) {
		a := b.serve("a:80", always(fiveOhThree))
		for range 2 {
			b.want(b.request(nestedUp), 503, stopped(1, "nested", 503))
		}
		b.want(b.request(nestedUp), 503, circuitIsOpen)
		b.tally(2, 0, a)
	})
}

// TestBreakerAndRules: what rules have retried is a failure, whatever its status, and
// what they do not is none.
func TestBreakerAndRules(t *testing.T) {
	t.Run("retry", func(t *testing.T) {
		inPair(t, paired(1, breaking, withRules), func(b *bubble) {
			a := b.serve("a:80", always(rateLimited))
			b.want(b.get(), 200, stopped(2, "circuit_open", 200))
			b.want(b.get(), 503, circuitIsOpen)
			b.tally(2, 1, a)
		})
	})
	t.Run("final", func(t *testing.T) {
		inPair(t, paired(1, breaking, func(u *policy.Upstream) {
			u.Default.Retry.Rules = []policy.Rule{{Status: statuses("503"), JSON: []policy.PathRule{{Path: []string{"error", "code"}, Values: []string{"insufficient_quota"}}}}}
		}), func(b *bubble) {
			a := b.serve("a:80", always(withLength(503, spent)))
			for range 20 {
				b.want(b.get(), 503, stopped(1, "permanent", 503))
			}
			b.tally(20, 0, a)
		})
	})
}

// TestBreakerAndFirstEvent: so is a stream that begins with an error.
func TestBreakerAndFirstEvent(t *testing.T) {
	inPair(t, paired(1, breaking, firstEvents), func(b *bubble) {
		a := b.serve("a:80", always(errorEvent))
		got := b.get()
		b.want(got, 200, stopped(2, "circuit_open", 200))
		if got.body != overloaded {
			b.Errorf("%q", got.body)
		}
		b.want(b.get(), 503, circuitIsOpen)
		b.tally(2, 1, a)
	})
}

// TestBreakerAndConcurrency: who waits for a place when the circuit opens is refused
// as soon as there is one, and keeps none.
func TestBreakerAndConcurrency(t *testing.T) {
	inPair(t, paired(1, breaking, atOnce(2, 10, 30*time.Second)), func(b *bubble) {
		a := b.serve("a:80", lateBy(2*time.Second, fiveOhThree))
		first, second := b.later(postUp), b.later(postUp)
		time.Sleep(time.Second)
		var waiting []<-chan reply
		for range 5 {
			waiting = append(waiting, b.later(getUp))
		}
		began := time.Now()
		b.want(<-first, 503, stopped(1, "not_idempotent", 503))
		b.want(<-second, 503, stopped(1, "not_idempotent", 503))
		for _, answer := range waiting {
			got := <-answer
			if got.status != 503 || got.stop != circuitIsOpen && !strings.HasPrefix(got.stop, "attempts=1") {
				b.Errorf("%+v", got)
			}
		}
		if took := time.Since(began); took > 3500*time.Millisecond { // one may have got the first one's place before the second failed
			b.Errorf("took %v", took)
		}
		if hits, _ := a.seen(); hits > 3 {
			b.Errorf("%d attempts", hits)
		}
	})
}

// TestBreakerAndRateLimit: what an open circuit refuses takes nobody's turn.
func TestBreakerAndRateLimit(t *testing.T) {
	for endpoints := 1; endpoints <= 2; endpoints++ {
		inPair(t, paired(endpoints, breaking, paced(0.1, 2*endpoints+1, 0)), func(b *bubble) {
			well := false
			answer := func(int, *http.Request) string {
				if well {
					return ok
				}
				return fiveOhThree
			}
			peers := []*peer{b.serve("a:80", answer), b.serve("b:80", answer)}
			for range 2 * endpoints {
				b.want(b.request(postUp), 503, stopped(1, "not_idempotent", 503))
			}
			for range 5 {
				b.want(b.get(), 503, circuitIsOpen)
			}
			well = true
			time.Sleep(6 * time.Second)
			b.want(b.get(), 200, "")
			refused := b.get()
			b.want(refused, 503, noRoom)
			b.waits(refused, 3, 4)
			b.tally(2*endpoints+1, 0, peers...)
		})
	}
}

// TestBreakerAndReload: a circuit stays open over a reload that does not change it,
// and there is none without a breaker.
func TestBreakerAndReload(t *testing.T) {
	inPair(t, paired(1, breaking), func(b *bubble) {
		a := b.serve("a:80", always(fiveOhThree))
		for range 2 {
			b.request(postUp)
		}
		b.reload(paired(1, breaking, atOnce(8, 0, 0)))
		b.want(b.get(), 503, circuitIsOpen)
		b.expect("mulligan_circuit_open", 1, "endpoint=http://a", "upstream=up")
		b.reload(paired(1))
		b.want(b.request(postUp), 503, stopped(1, "not_idempotent", 503))
		b.reload(paired(1, breaking))
		b.want(b.request(postUp), 503, stopped(1, "not_idempotent", 503))
		b.expect("mulligan_circuit_open", 0, "endpoint=http://a", "upstream=up")
		b.tally(4, 0, a)
	})
}

// TestBreakerAndReloadDuringAProbe: a probe of before a reload has a place, and
// gives it back.
func TestBreakerAndReloadDuringAProbe(t *testing.T) {
	inPair(t, paired(1, breaking, windowOf(0)), func(b *bubble) {
		a := b.serve("a:80", script(fiveOhThree, fiveOhThree, "", ok))
		for range 2 {
			b.request(postUp)
		}
		time.Sleep(6 * time.Second)
		go b.leaves(postUp, 2*time.Second) // the probe
		time.Sleep(time.Second)
		b.reload(paired(1, breaking))
		b.want(b.get(), 503, circuitIsOpen)
		time.Sleep(2 * time.Second)
		b.want(b.get(), 200, "")
		b.tally(4, 0, a)
	})
}

// TestBreakerAndTunnels: a tunnel's attempt is its dial, and counts as such; those
// of a host have a circuit apart from the endpoint's.
func TestBreakerAndTunnels(t *testing.T) {
	s := paired(0, breaking)
	inPair(t, s, func(b *bubble) {
		b.net.mu.Lock()
		was := b.net.listeners["up:80"]
		delete(b.net.listeners, "up:80")
		b.net.mu.Unlock()
		_, resp := b.tunnel("up:80")
		if got := resp.Header.Get("Proxy-Status"); resp.StatusCode != 502 || !strings.HasPrefix(got, "mulligan; attempts=2; stop=circuit_open; error=") {
			b.Errorf("%s %q", resp.Status, got)
		}
		_, resp = b.tunnel("up:80")
		if got := resp.Header.Get("Proxy-Status"); resp.StatusCode != 503 || got != "mulligan; "+circuitIsOpen || resp.Header.Get("Retry-After") == "" {
			b.Errorf("%s %q", resp.Status, got)
		}
		b.expect("mulligan_circuit_open", 1, "endpoint=-", "upstream=up")
		b.want(b.get(), 503, circuitIsOpen) // to the same host
		b.net.mu.Lock()
		b.net.listeners["up:80"] = was
		b.net.mu.Unlock()
		time.Sleep(6 * time.Second)
		c, resp := b.tunnel("up:80")
		if resp.StatusCode != 200 {
			b.Errorf("%s", resp.Status)
		}
		c.Close()
		b.expect("mulligan_circuit_open", 0, "endpoint=-", "upstream=up")
		b.counts(2, 1)
		b.left(pairBudget - 1)
	})
}

// TestBreakerAndHealthCheck: checks are no attempts: failed ones open no circuit, and
// an open one does not keep them away. An endpoint that fails its checks still gets
// what an open circuit keeps from the other.
func TestBreakerAndHealthCheck(t *testing.T) {
	inPair(t, paired(2, breaking, func(u *policy.Upstream) {
		u.HealthCheck = policy.HealthCheck{Path: "/healthz", Interval: time.Second, Timeout: time.Second, UnhealthyAfter: 2, HealthyAfter: 2}
	}), func(b *bubble) {
		var checksOfB, a, bad atomic.Int32
		b.serve("a:80", func(_ int, req *http.Request) string {
			if req.URL.Path == "/healthz" {
				return fiveOhThree
			}
			a.Add(1)
			return ok
		})
		b.serve("b:80", func(_ int, req *http.Request) string {
			if req.URL.Path == "/healthz" {
				checksOfB.Add(1)
				return ok
			}
			bad.Add(1)
			return fiveOhThree
		})
		time.Sleep(10 * time.Second)
		b.expect("mulligan_circuit_open", 0, "endpoint=http://a", "upstream=up")
		for range 2 {
			b.want(b.request(postUp), 503, stopped(1, "not_idempotent", 503)) // a is skipped
		}
		before := checksOfB.Load()
		for range 5 {
			b.want(b.get(), 200, "")
		}
		time.Sleep(4 * time.Second)
		if now := checksOfB.Load(); now < before+3 || a.Load() != 5 || bad.Load() != 2 {
			b.Errorf("%d checks, %d before; %d and %d attempts", now, before, a.Load(), bad.Load())
		}
		b.left(pairBudget)
	})
}

// TestBreakerAndCrowd: of many that come when circuits are half-open, all but the
// probes are told when to come back.
func TestBreakerAndCrowd(t *testing.T) {
	inPair(t, paired(2, breaking), func(b *bubble) {
		well := false
		answer := func(int, *http.Request) string {
			if well {
				time.Sleep(time.Second)
				return ok
			}
			return fiveOhThree
		}
		a, c := b.serve("a:80", answer), b.serve("b:80", answer)
		for b.request(postUp).stop != circuitIsOpen {
		}
		before, _ := a.seen()
		others, _ := c.seen()
		well = true
		time.Sleep(7 * time.Second)
		var all []<-chan reply
		for range 50 {
			all = append(all, b.later(postUp))
		}
		for _, answer := range all {
			if got := <-answer; got.status != 200 {
				b.want(got, 503, circuitIsOpen)
				b.waits(got, 1, 6)
			}
		}
		now, _ := a.seen()
		too, _ := c.seen()
		if now-before != 1 || too-others != 1 {
			b.Errorf("%d and %d probes", now-before, too-others)
		}
	})
}
