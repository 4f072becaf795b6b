package proxy_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"mulligan/policy"
)

// TestRateLimitAndWindow: a turn that comes after the window's end is not waited for.
func TestRateLimitAndWindow(t *testing.T) {
	inPair(t, paired(1, paced(0.2, 1, time.Minute), windowOf(4*time.Second)), func(b *bubble) {
		a := b.serve("a:80", always(ok))
		b.want(b.get(), 200, "")
		began := time.Now()
		got := b.get() // its turn would come in 5 s
		b.want(got, 503, noRoom)
		b.waits(got, 5, 5)
		within(b.T, time.Since(began), 0)
		time.Sleep(2 * time.Second)
		b.want(b.request(b.soon("2")), 503, noRoom)
		b.want(b.get(), 200, "")                                       // now in 3 s: nobody has taken it
		within(b.T, time.Since(began)+time.Microsecond, 5*time.Second) // its arithmetic is of floating point
		b.tally(2, 0, a)
	})
}

// TestRateLimitAndClientGone: who leaves before its turn sends nothing, and the next
// one has it.
func TestRateLimitAndClientGone(t *testing.T) {
	inPair(t, paired(1, paced(0.25, 1, time.Minute)), func(b *bubble) {
		a := b.serve("a:80", always(ok))
		b.want(b.get(), 200, "")
		began := time.Now()
		b.leaves(getUp, time.Second)
		time.Sleep(time.Second)
		b.want(b.get(), 200, "")
		within(b.T, time.Since(began), 4*time.Second)
		b.tally(2, 0, a)
		b.expect("mulligan_requests_total", 1, "outcome=client_gone", "upstream=up", "route=default")
	})
}

// TestRateLimitAndBudget: a retry whose turn would come too late is not paid for, and
// its client gets the answer before.
func TestRateLimitAndBudget(t *testing.T) {
	inPair(t, paired(1, paced(0.1, 1, time.Second)), func(b *bubble) {
		a := b.serve("a:80", always(fiveOhThree))
		got := b.get()
		b.want(got, 503, stopped(1, "overloaded", 503))
		if got.body != "busy" {
			b.Errorf("%q", got.body)
		}
		b.tally(1, 0, a)
		b.expect("mulligan_requests_total", 1, "outcome=failed", "upstream=up", "route=default")
	})
}

// TestRateLimitAndRetries: each attempt takes a turn, retries too.
func TestRateLimitAndRetries(t *testing.T) {
	inPair(t, paired(1, paced(1, 1, 10*time.Second)), func(b *bubble) {
		a := b.serve("a:80", always(fiveOhThree))
		began := time.Now()
		b.want(b.get(), 503, stopped(4, "max_attempts", 503))
		within(b.T, time.Since(began)+time.Microsecond, 3*time.Second)
		b.tally(4, 3, a)
	})
}

// TestRateLimitAndDraining: a retry that waits for its turn is not sent any more; a
// first attempt is.
func TestRateLimitAndDraining(t *testing.T) {
	inPair(t, paired(1, paced(0.2, 1, 11*time.Second)), func(b *bubble) {
		a := b.serve("a:80", script(fiveOhThree, ok))
		began := time.Now()
		first := b.later(getUp)
		time.Sleep(time.Second)
		second := b.later(getUp) // after the first one's retry
		time.Sleep(time.Second)
		b.left(pairBudget - 1)
		b.drains()
		b.want(<-first, 503, stopped(1, "draining", 503))
		within(b.T, time.Since(began), 2*time.Second)
		b.want(<-second, 200, "")
		b.tally(2, 0, a)
	})
}

// TestRateLimitAndReload: who waits has its turn as it was told; without a limit
// nobody else waits.
func TestRateLimitAndReload(t *testing.T) {
	inPair(t, paired(1, paced(0.25, 1, time.Minute)), func(b *bubble) {
		a := b.serve("a:80", always(ok))
		began := time.Now()
		b.want(b.get(), 200, "")
		waiting := b.later(getUp)
		time.Sleep(time.Second)
		b.reload(paired(1))
		b.want(b.get(), 200, "")
		within(b.T, time.Since(began), time.Second)
		b.want(<-waiting, 200, "")
		within(b.T, time.Since(began), 4*time.Second)
		b.tally(3, 0, a)
	})
}

// TestRateLimitAndPause: a 429 holds back first attempts with the same credentials,
// and no others; who may not wait for so long is told for how long.
func TestRateLimitAndPause(t *testing.T) {
	inPair(t, paired(1, paced(100, 100, 5*time.Second), retries429), func(b *bubble) {
		a := b.serve("a:80", script(hinted429, ok))
		mine := strings.Replace(getUp, "\r\n\r\n", "\r\nAuthorization: Bearer one\r\n\r\n", 1)
		first := b.later(mine)
		time.Sleep(time.Second)
		b.want(b.get(), 200, "")
		b.want(b.request(strings.Replace(mine, "one", "two", 1)), 200, "")
		got := b.request(mine)
		b.want(got, 503, noRoom)
		b.waits(got, 9, 9)
		b.want(<-first, 200, stopped(2, "success", 200))
		b.tally(4, 1, a)
	})
}

// TestRateLimitAndHealthCheck: checks take no turn, nor a place.
func TestRateLimitAndHealthCheck(t *testing.T) {
	inPair(t, paired(1, paced(0.01, 1, 0), atOnce(1, 0, 0), func(u *policy.Upstream) {
		u.HealthCheck = policy.HealthCheck{Path: "/healthz", Interval: time.Second, Timeout: time.Second, UnhealthyAfter: 2, HealthyAfter: 2}
	}), func(b *bubble) {
		a := b.serve("a:80", func(_ int, req *http.Request) string {
			if req.URL.Path != "/healthz" {
				time.Sleep(10 * time.Second)
			}
			return ok
		})
		time.Sleep(5 * time.Second)
		first := b.later(postUp)
		time.Sleep(5 * time.Second)
		b.want(<-first, 200, "")
		if hits, _ := a.seen(); hits < 12 {
			b.Errorf("%d requests", hits)
		}
		b.expect("mulligan_attempts_total", 1, "upstream=up", "route=default")
	})
}

// TestPauseAndWindow: a hint to another request that outlasts a window ends it, and the
// client gets its own answer.
func TestPauseAndWindow(t *testing.T) {
	inPair(t, paired(1), func(b *bubble) {
		a := b.serve("a:80", script(hinted503, fiveOhThree, ok))
		first := b.later(getUp)
		time.Sleep(time.Second)
		began := time.Now()
		got := b.request(b.soon("5"))
		b.want(got, 503, stopped(1, "retry_after", 503))
		if got.body != "busy" || got.after != "" {
			b.Errorf("%+v", got)
		}
		within(b.T, time.Since(began), 0)
		b.want(<-first, 200, stopped(2, "success", 200))
		b.tally(3, 1, a)
	})
}

// TestPauseAndClientGone: who leaves while it is held back gets its token back.
func TestPauseAndClientGone(t *testing.T) {
	inPair(t, paired(1), func(b *bubble) {
		a := b.serve("a:80", script(hinted503, fiveOhThree, ok))
		go b.leaves(getUp, 3*time.Second)
		time.Sleep(time.Second)
		go b.leaves(getUp, 3*time.Second)
		time.Sleep(time.Second)
		b.left(pairBudget - 2)
		time.Sleep(5 * time.Second)
		b.tally(2, 0, a)
		b.expect("mulligan_requests_total", 2, "outcome=client_gone", "upstream=up", "route=default")
	})
}

// TestPauseAndPOST: whoever asked, a 503's hint holds back everybody's retries; also
// where mode observe or another mulligan's Via keep the one that got it from a retry.
func TestPauseAndPOST(t *testing.T) {
	for name, request := range map[string]string{"POST": postUp, "nested": nestedUp, "too long": longPut} {
		t.Run(name, func(t *testing.T) {
			inPair(t, paired(1), func(b *bubble) {
				a := b.serve("a:80", script(hinted503, fiveOhThree, ok))
				if got := b.request(request); got.status != 503 || got.after != "10" {
					b.Errorf("%+v", got)
				}
				time.Sleep(time.Second)
				began := time.Now()
				b.want(b.get(), 200, stopped(2, "success", 200))
				if took := time.Since(began); took < 9*time.Second || took > 12*time.Second {
					b.Errorf("retried after %v", took)
				}
				b.tally(3, 1, a)
			})
		})
	}
}

// TestPauseAndDraining: no wait for a hint outlives the drain.
func TestPauseAndDraining(t *testing.T) {
	inPair(t, paired(1), func(b *bubble) {
		a := b.serve("a:80", script(hinted503, ok))
		began := time.Now()
		first := b.later(getUp)
		time.Sleep(time.Second)
		b.drains()
		got := <-first
		b.want(got, 503, stopped(1, "draining", 503))
		b.waits(got, 10, 10)
		within(b.T, time.Since(began), time.Second)
		b.tally(1, 0, a)
	})
}

// TestPauseAndReload: a hint holds over a reload.
func TestPauseAndReload(t *testing.T) {
	inPair(t, paired(1), func(b *bubble) {
		a := b.serve("a:80", script(hinted503, fiveOhThree, ok))
		b.request(postUp)
		b.reload(paired(1, atOnce(10, 0, 0)))
		began := time.Now()
		b.want(b.get(), 200, stopped(2, "success", 200))
		if took := time.Since(began); took < 10*time.Second {
			b.Errorf("retried after %v", took)
		}
		b.tally(3, 1, a)
	})
}

// TestPauseAndHealthCheck: checks are no retries: an upstream that asked to be left
// alone is checked all the same, and their answers hold nobody back.
func TestPauseAndHealthCheck(t *testing.T) {
	inPair(t, paired(1, func(u *policy.Upstream) {
		u.HealthCheck = policy.HealthCheck{Path: "/healthz", Interval: time.Second, Timeout: time.Second, UnhealthyAfter: 2, HealthyAfter: 2}
	}), func(b *bubble) {
		n := 0
		b.serve("a:80", func(_ int, req *http.Request) string {
			if req.URL.Path == "/healthz" {
				return hinted503
			}
			if n++; n == 1 {
				return fiveOhThree
			}
			return ok
		})
		time.Sleep(5 * time.Second)
		began := time.Now()
		b.want(b.get(), 200, stopped(2, "success", 200)) // though it is the only one, and unwell
		within(b.T, time.Since(began), 0)
		b.left(pairBudget - 1)
	})
}
