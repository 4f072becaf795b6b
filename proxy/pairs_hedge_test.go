package proxy_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"mulligan/policy"
)

// TestHedgeAndBreaker: a loser says nothing of its endpoint, a winner and a failure do;
// a circuit that is open, or half-open, gets no hedge.
func TestHedgeAndBreaker(t *testing.T) {
	t.Run("losers are neutral", func(t *testing.T) {
		inPair(t, paired(1, breaking, hedged, windowOf(0)), func(b *bubble) {
			a := b.serve("a:80", func(n int, _ *http.Request) string {
				if n%2 == 1 {
					return ""
				}
				return ok
			})
			for range 5 {
				b.want(b.get(), 200, stopped(2, "success", 200))
			}
			b.tally(10, 5, a)
			b.expect("mulligan_circuit_open", 0, "endpoint=http://a", "upstream=up")
		})
	})
	t.Run("failures count", func(t *testing.T) {
		inPair(t, paired(1, breaking, hedged), func(b *bubble) {
			a := b.serve("a:80", lateBy(time.Second, fiveOhThree))
			b.want(b.get(), 503, stopped(2, "circuit_open", 503))
			b.want(b.get(), 503, circuitIsOpen)
			b.tally(2, 1, a)
		})
	})
	t.Run("no hedge as a probe, nor beside one", func(t *testing.T) {
		inPair(t, paired(1, breaking, hedged, func(u *policy.Upstream) { u.Breaker.Probes = 3 }), func(b *bubble) {
			a := b.serve("a:80", func(n int, _ *http.Request) string {
				if n <= 2 {
					return fiveOhThree
				}
				time.Sleep(time.Second)
				return ok
			})
			b.request(postUp)
			b.request(postUp)
			time.Sleep(6 * time.Second)
			b.want(b.get(), 200, "")
			b.tally(3, 0, a)
		})
	})
	t.Run("the other circuit is open", func(t *testing.T) {
		inPair(t, paired(2, breaking, hedged), func(b *bubble) {
			a, c := b.serve("a:80", lateBy(time.Second, ok)), b.serve("b:80", always(fiveOhThree))
			for bad := 0; bad < 2; bad, _ = c.seen() {
				b.request(postUp)
			}
			before, _ := a.seen()
			for range 5 {
				b.want(b.get(), 200, "") // the hedge went to a, too, and lost
			}
			now, _ := a.seen()
			if bad, _ := c.seen(); bad != 2 || now-before != 10 {
				b.Errorf("%d and %d attempts", now-before, bad)
			}
			b.left(pairBudget - 5)
		})
	})
}

// TestHedgeAndBudget: a hedge takes a token of what retries would have, and is not
// made without; one that never went is not paid for.
func TestHedgeAndBudget(t *testing.T) {
	inPair(t, paired(1, hedged, tokens(1)), func(b *bubble) {
		a := b.serve("a:80", lateBy(500*time.Millisecond, fiveOhThree))
		b.want(b.get(), 503, stopped(2, "budget", 503))
		b.left(0)
		b.want(b.get(), 503, stopped(1, "budget", 503))
		b.counts(3, 1, a)
		b.expect("mulligan_retries_total", 1, "reason=hedge", "route=default", "upstream=up")
	})
}

// TestHedgeAndPause: while a hint holds retries back, no hedge goes; and one that gets
// a hint holds back the retry that follows both.
func TestHedgeAndPause(t *testing.T) {
	t.Run("paused", func(t *testing.T) {
		inPair(t, paired(1, hedged), func(b *bubble) {
			a := b.serve("a:80", func(n int, _ *http.Request) string {
				if n == 1 {
					return hinted503
				}
				time.Sleep(time.Second)
				return ok
			})
			b.request(postUp)
			b.want(b.get(), 200, "")
			time.Sleep(11 * time.Second)
			b.want(b.get(), 200, "") // its hedge lost
			b.tally(4, 1, a)
		})
	})
	t.Run("hint to the hedge", func(t *testing.T) {
		inPair(t, paired(1, hedged), func(b *bubble) {
			a := b.serve("a:80", func(n int, _ *http.Request) string {
				switch n {
				case 1:
					time.Sleep(time.Second)
					return fiveOhThree
				case 2:
					return hinted503
				}
				return ok
			})
			began := time.Now()
			b.want(b.get(), 200, stopped(3, "success", 200))
			if took := time.Since(began); took < 10300*time.Millisecond || took > 12700*time.Millisecond {
				b.Errorf("took %v", took)
			}
			b.tally(3, 2, a)
		})
	})
}

// TestHedgeAndDraining: none is begun any more; one that is under way may win.
func TestHedgeAndDraining(t *testing.T) {
	for name, test := range map[string]struct {
		at       time.Duration
		attempts int
		stop     string
	}{
		"before": {100 * time.Millisecond, 1, ""},
		"after":  {400 * time.Millisecond, 2, stopped(2, "success", 200)},
	} {
		t.Run(name, func(t *testing.T) {
			inPair(t, paired(1, hedged), func(b *bubble) {
				a := b.serve("a:80", func(n int, _ *http.Request) string {
					time.Sleep(time.Duration(3-n) * time.Second)
					return ok
				})
				answer := b.later(getUp)
				time.Sleep(test.at)
				b.drains()
				b.want(<-answer, 200, test.stop)
				b.tally(test.attempts, test.attempts-1, a)
			})
		})
	}
}

// TestHedgeAndConcurrency: a hedge needs a place of its own, which is never the last,
// and does not wait for one.
func TestHedgeAndConcurrency(t *testing.T) {
	for most, attempts := range map[int]int{1: 1, 2: 1, 3: 2} {
		inPair(t, paired(1, hedged, atOnce(most, 10, 10*time.Second)), func(b *bubble) {
			a := b.serve("a:80", lateBy(time.Second, ok))
			b.want(b.get(), 200, "")
			b.tally(attempts, attempts-1, a)
		})
	}
}

// TestHedgeAndRateLimit: likewise a turn.
func TestHedgeAndRateLimit(t *testing.T) {
	for burst, attempts := range map[int]int{1: 1, 2: 1, 3: 2} {
		inPair(t, paired(1, hedged, paced(0.01, burst, time.Minute)), func(b *bubble) {
			a := b.serve("a:80", lateBy(time.Second, ok))
			b.want(b.get(), 200, "")
			b.tally(attempts, attempts-1, a)
		})
	}
}

// TestHedgeAndRules: what rules have retried is no answer to win with; what they make
// final is.
func TestHedgeAndRules(t *testing.T) {
	inPair(t, paired(1, hedged, withRules), func(b *bubble) {
		a := b.serve("a:80", func(n int, _ *http.Request) string {
			switch n {
			case 2:
				return rateLimited
			case 4:
				return withLength(429, spent)
			}
			time.Sleep(time.Second)
			return ok
		})
		began := time.Now()
		b.want(b.get(), 200, "")
		within(b.T, time.Since(began), time.Second)
		began = time.Now()
		b.want(b.get(), 429, stopped(2, "permanent", 429))
		within(b.T, time.Since(began), 300*time.Millisecond)
		b.tally(4, 2, a)
	})
}

// TestHedgeAndFirstEvent: the first stream with an event wins, and goes on to its end;
// one that begins with an error waits for the other.
func TestHedgeAndFirstEvent(t *testing.T) {
	for name, test := range map[string]struct {
		first, hedge string
		took         time.Duration
		stop         string
	}{
		"the hedge wins":  {"", streamOf(started, message, message), 2300 * time.Millisecond, stopped(2, "success", 200)},
		"the hedge fails": {aSecond + streamOf(started, message, message), errorEvent, 3 * time.Second, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inPair(t, paired(1, hedged, firstEvents, windowOf(0)), func(b *bubble) {
				a := b.serve("a:80", script(test.first, test.hedge))
				began := time.Now()
				got := b.get()
				b.want(got, 200, test.stop)
				if got.body != started+message+message {
					b.Errorf("%q", got.body)
				}
				within(b.T, time.Since(began), test.took)
				b.tally(2, 1, a)
			})
		})
	}
}

// TestHedgeAndNothing: what is never retried is never hedged.
func TestHedgeAndNothing(t *testing.T) {
	for name, test := range map[string]struct {
		request string
		change  func(u *policy.Upstream)
	}{
		"nested":  {nestedUp, hedged},
		"observe": {getUp, observing},
		"off":     {getUp, func(u *policy.Upstream) { u.Default.Retry.Mode = policy.ModeOff }},
		"POST":    {postUp, hedged},
		"one":     {getUp, atMost(1)},
		"upgrade": {strings.Replace(getUp, "\r\n\r\n", "\r\nConnection: Upgrade\r\nUpgrade: foo\r\n\r\n", 1), hedged},
	} {
		t.Run(name, func(t *testing.T) {
			inPair(t, paired(1, hedged, test.change), func(b *bubble) {
				a := b.serve("a:80", lateBy(time.Second, ok))
				b.want(b.request(test.request), 200, "")
				b.tally(1, 0, a)
			})
		})
	}
}

// TestHedgeAndTunnels: a dial has no company; a request in a tunnel has, at the host
// that the tunnel names.
func TestHedgeAndTunnels(t *testing.T) {
	inPair(t, paired(1, hedged), func(b *bubble) {
		up, a := b.serve("up:80", script("", ok)), b.serve("a:80", always(ok))
		c, _ := b.tunnel("up:80")
		defer c.Close()
		resp := b.send(c, "GET / HTTP/1.1\r\nHost: up\r\n\r\n")
		io.Copy(io.Discard, resp.Body)
		if got := resp.Header.Get("Proxy-Status"); resp.StatusCode != 200 || got != "mulligan; "+stopped(2, "success", 200) {
			b.Errorf("%s %q", resp.Status, got)
		}
		b.tally(2, 1, up, a)
		if hits, _ := a.seen(); hits > 0 {
			b.Error("it went to an endpoint")
		}
	})
}

// TestHedgeAndReload: a race ends under the policy that it began with.
func TestHedgeAndReload(t *testing.T) {
	inPair(t, paired(2, hedged, breaking, atOnce(10, 0, 0)), func(b *bubble) {
		a, c := b.serve("a:80", lateBy(time.Second, ok)), b.serve("b:80", lateBy(time.Second, ok))
		answer := b.later(getUp)
		time.Sleep(100 * time.Millisecond)
		b.reload(paired(1))
		time.Sleep(500 * time.Millisecond)
		b.reload(paired(2, hedged, breaking, atOnce(10, 0, 0)))
		b.want(<-answer, 200, "")
		b.tally(2, 1, a, c)
		if hits, _ := a.seen(); hits != 1 {
			b.Errorf("%d attempts at the one", hits)
		}
	})
}

// TestHedgeAndHealthCheck: the hedge goes to an endpoint that is well, even a second
// time, rather than to one that is not.
func TestHedgeAndHealthCheck(t *testing.T) {
	inPair(t, paired(2, hedged, func(u *policy.Upstream) {
		u.HealthCheck = policy.HealthCheck{Path: "/healthz", Interval: time.Second, Timeout: time.Second, UnhealthyAfter: 2, HealthyAfter: 2}
	}), func(b *bubble) {
		unwell := 0
		b.serve("a:80", func(_ int, req *http.Request) string {
			if req.URL.Path == "/healthz" {
				return fiveOhThree
			}
			unwell++
			return ok
		})
		b.serve("b:80", func(_ int, req *http.Request) string {
			if req.URL.Path != "/healthz" {
				time.Sleep(time.Second)
			}
			return ok
		})
		time.Sleep(5 * time.Second)
		b.want(b.get(), 200, "")
		if unwell > 0 {
			b.Error("it went to the one that is unwell")
		}
		b.expect("mulligan_attempts_total", 2, "route=default", "upstream=up")
		b.left(pairBudget - 1)
	})
}

// TestHedgeAndTruncated: a hedge whose answer breaks off has not won.
func TestHedgeAndTruncated(t *testing.T) {
	inPair(t, paired(1, hedged), func(b *bubble) {
		a := b.serve("a:80", func(n int, _ *http.Request) string {
			if n == 2 {
				return halfAnswer
			}
			time.Sleep(3 * time.Second)
			return ok
		})
		began := time.Now()
		b.want(b.get(), 200, "")
		within(b.T, time.Since(began), 3*time.Second)
		b.tally(2, 1, a)
	})
}

// TestHedgeAndClientGone: who leaves in a race gets no token back, since the hedge has
// gone; both are closed.
func TestHedgeAndClientGone(t *testing.T) {
	inPair(t, paired(2, hedged, breaking, atOnce(3, 0, 0)), func(b *bubble) {
		a, c := b.serve("a:80", always("")), b.serve("b:80", always(""))
		b.leaves(getUp, 200*time.Millisecond) // before its hedge
		b.leaves(getUp, time.Second)
		time.Sleep(time.Second)
		h1, e1 := a.seen()
		h2, e2 := c.seen()
		if h1 != e1 || h2 != e2 {
			b.Errorf("%d and %d attempts, %d and %d were closed", h1, h2, e1, e2)
		}
		b.tally(3, 1, a, c)
		b.expect("mulligan_attempts_total", 3, "result=cancelled", "route=default", "upstream=up")
	})
}

// TestHedgeAndBodies: a hedge sends the same body, whole.
func TestHedgeAndBodies(t *testing.T) {
	inPair(t, paired(2, hedged), func(b *bubble) {
		lengths := make(chan int64, 9)
		answer := func(n int, req *http.Request) string {
			lengths <- req.ContentLength
			time.Sleep(time.Second)
			return ok
		}
		a, c := b.serve("a:80", answer), b.serve("b:80", answer)
		b.want(b.request("PUT http://up/ HTTP/1.1\r\nHost: up\r\nContent-Length: 100000\r\n\r\n"+strings.Repeat("x", 100_000)), 200, "")
		b.want(b.request(longPut), 200, "")
		b.tally(3, 1, a, c)
	})
}

// TestHedgeAndConnections: a hedge that finds no free connection was none, and is not
// paid for.
func TestHedgeAndConnections(t *testing.T) {
	inPair(t, paired(1, hedged, func(u *policy.Upstream) { u.Connections.MaxPerEndpoint = 1 }), func(b *bubble) {
		a := b.serve("a:80", lateBy(time.Second, ok))
		b.want(b.get(), 200, "")
		b.tally(1, 0, a)
	})
}
