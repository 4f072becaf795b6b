package proxy_test

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/policy"
)

// half is a failed response whose body does not come whole for a while.
const half = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 100000\r\n\r\nbegin"

// TestConcurrencyOfRetryAfterHalfResponse: that the response before is let go of
// does not give away the place that the retry has.
func TestConcurrencyOfRetryAfterHalfResponse(t *testing.T) {
	inTrouble(t, struggling(1, func(u *policy.Upstream) {
		u.Concurrency = policy.Concurrency{Max: 1, Queue: 4, MaxWait: 30 * time.Second}
	}), func(b *bubble) {
		var now, most atomic.Int32
		b.serve("a:80", func(n int, _ *http.Request) string {
			if n == 1 {
				return half
			}
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			time.Sleep(2 * time.Second)
			return ok
		})
		first := b.later(getUp)
		time.Sleep(time.Second)
		second := b.later(getUp)
		b.want(<-first, 200, "attempts=2; stop=success; received-status=200")
		b.want(<-second, 200, "")
		if most.Load() != 1 {
			b.Errorf("%d at once", most.Load())
		}
	})
}

// TestHedgeGoneAfterFailure: a retry that failed while its hedge went on was sent, and
// stays paid for when the client leaves.
func TestHedgeGoneAfterFailure(t *testing.T) {
	inTrouble(t, struggling(1, func(u *policy.Upstream) { hedged(u); u.Budget.Burst = 10; u.Budget.Ratio = 0 }), func(b *bubble) {
		b.serve("a:80", func(n int, _ *http.Request) string {
			switch n {
			case 1:
				return fiveOhThree
			case 2:
				time.Sleep(time.Second)
				return fiveOhThree
			}
			return ""
		})
		c := b.open()
		io.WriteString(c, getUp)
		time.Sleep(2 * time.Second)
		c.Close()
		time.Sleep(time.Second)
		b.expect("mulligan_retry_budget_remaining", 8, "upstream=up")
		b.expect("mulligan_retries_total", 1, "reason=503", "route=default", "upstream=up")
		b.expect("mulligan_retries_total", 1, "reason=hedge", "route=default", "upstream=up")
		b.expect("mulligan_attempts_total", 1, "result=cancelled", "route=default", "upstream=up")
		b.expect("mulligan_attempts_total", 2, "result=5xx", "route=default", "upstream=up")
	})
}

// TestHedgeWinsUnsentRetry: a retry that was still dialling when its hedge won was not
// sent, and gets its token back.
func TestHedgeWinsUnsentRetry(t *testing.T) {
	inTrouble(t, struggling(2, func(u *policy.Upstream) {
		hedged(u)
		u.Budget = policy.BudgetConfig{Burst: 100}
		u.Default.Timeout.Connect = time.Second
	}), func(b *bubble) {
		failed := false
		b.serve("a:80", func(int, *http.Request) string {
			if failed = !failed; failed {
				return fiveOhThree
			}
			return ok
		})
		ln, _ := b.net.Listen("", "b:80") // nobody accepts
		defer ln.Close()
		seen := 0
		for range 20 {
			failed = false
			before := b.value("mulligan_retry_budget_remaining", "upstream=up")
			began := time.Now()
			got := b.get()
			if time.Since(began) > 500*time.Millisecond {
				continue // b was first
			}
			b.want(got, 200, "attempts=2; stop=success; received-status=200")
			seen++
			if paid := before - b.value("mulligan_retry_budget_remaining", "upstream=up"); paid != 1 {
				b.Errorf("%v tokens were paid for one hedge", paid)
			}
		}
		if seen == 0 {
			b.Error("no retry was dialling when its hedge won")
		}
	})
}

// TestHedgeTakenTwice: the connection of a hedge that failed, and whose
// response was passed over for a later one, is its pool's and nobody breaks into it.
func TestHedgeTakenTwice(t *testing.T) {
	inTrouble(t, struggling(1, func(u *policy.Upstream) {
		hedged(u)
		u.Default.Hedge.Max = 2
	}), func(b *bubble) {
		a := b.serve("a:80", func(n int, _ *http.Request) string {
			switch n {
			case 1:
				time.Sleep(700 * time.Millisecond)
				return fiveOhThree
			case 2:
				time.Sleep(500 * time.Millisecond)
				return fiveOhThree
			case 3:
				time.Sleep(2 * time.Second)
			default:
				time.Sleep(200 * time.Millisecond)
			}
			return ok
		})
		b.want(b.get(), 200, "attempts=3; stop=success; received-status=200")
		b.balanced()
		var all []<-chan reply
		for range 3 {
			all = append(all, b.later(getUp))
		}
		for _, answer := range all {
			b.want(<-answer, 200, "")
		}
		if a.conns != 3 {
			b.Errorf("%d connections", a.conns)
		}
	})
}

// TestHedgeWithoutResponseDoesNotWin: what ends without a response wins nothing,
// also where policy would not retry it.
func TestHedgeWithoutResponseDoesNotWin(t *testing.T) {
	const nonsense = "NONSENSE\r\n\r\n"
	for name, test := range map[string]struct {
		first, second func(int, *http.Request) string
		status        int
		stop          string
	}{
		"the hedge":   {lateBy(time.Second, ok), always(nonsense), 200, ""},
		"the attempt": {lateBy(500*time.Millisecond, nonsense), lateBy(time.Second, ok), 200, "attempts=2; stop=success; received-status=200"},
		"both":        {lateBy(500*time.Millisecond, nonsense), lateBy(time.Second, nonsense), 502, "attempts=2; stop=permanent; error=http_protocol_error"},
	} {
		t.Run(name, func(t *testing.T) {
			inTrouble(t, struggling(1, hedged), func(b *bubble) {
				b.serve("a:80", func(n int, req *http.Request) string {
					if n == 1 {
						return test.first(n, req)
					}
					return test.second(n, req)
				})
				b.want(b.get(), test.status, test.stop)
				b.balanced()
			})
		})
	}
}

// TestHedgeIsTimedByItself: how long an attempt took does not depend on how long the
// others beside it went on.
func TestHedgeIsTimedByItself(t *testing.T) {
	inTrouble(t, struggling(1, hedged), func(b *bubble) {
		b.serve("a:80", func(n int, _ *http.Request) string {
			if n == 1 {
				time.Sleep(4 * time.Second)
				return ok
			}
			time.Sleep(500 * time.Millisecond) // from 300 ms on
			return fiveOhThree
		})
		b.want(b.get(), 200, "")
		if sum := b.seconds("mulligan_attempt_duration_seconds"); sum != 4.5 {
			b.Errorf("%v s in all, want 4 and 0.5", sum)
		}
	})
}

// TestHedgeFailureIsTimedByItself is the same of an attempt that fails first.
func TestHedgeFailureIsTimedByItself(t *testing.T) {
	inTrouble(t, struggling(1, hedged), func(b *bubble) {
		b.serve("a:80", func(n int, _ *http.Request) string {
			if n == 1 {
				time.Sleep(time.Second)
				return fiveOhThree
			}
			time.Sleep(3 * time.Second) // from 300 ms on
			return ok
		})
		b.want(b.get(), 200, "attempts=2; stop=success; received-status=200")
		if sum := b.seconds("mulligan_attempt_duration_seconds"); sum != 4 {
			b.Errorf("%v s in all, want 1 and 3", sum)
		}
	})
}

// seconds is the sum of a histogram.
func (b *bubble) seconds(name string) float64 {
	b.Helper()
	synctest.Wait()
	families, err := b.reg.Gather()
	if err != nil {
		b.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetHistogram().GetSampleSum()
			}
		}
	}
	return sum
}

// TestHedgeFailureFreesItsPlace: a hedge that has failed has no place any more, and
// its endpoint's circuit breaker knows it, while the attempt beside it goes on.
func TestHedgeFailureFreesItsPlace(t *testing.T) {
	slowly := func(n int, req *http.Request) string {
		switch {
		case n == 1:
			time.Sleep(4 * time.Second)
		case n == 2:
			return fiveOhThree
		default:
			time.Sleep(200 * time.Millisecond)
		}
		return ok
	}
	t.Run("concurrency", func(t *testing.T) {
		inTrouble(t, struggling(1, func(u *policy.Upstream) {
			hedged(u)
			u.Concurrency = policy.Concurrency{Max: 3, Queue: 1, MaxWait: time.Second}
		}), func(b *bubble) {
			b.serve("a:80", slowly)
			first := b.later(getUp)
			time.Sleep(time.Second)
			began := time.Now()
			one, other := b.later(getUp), b.later(getUp)
			b.want(<-one, 200, "")
			b.want(<-other, 200, "")
			within(b.T, time.Since(began), 200*time.Millisecond)
			b.want(<-first, 200, "")
		})
	})
	t.Run("circuit breaker", func(t *testing.T) {
		inTrouble(t, struggling(1, func(u *policy.Upstream) { hedged(u); withBreaker(u); u.Breaker.MinRequests = 1 }), func(b *bubble) {
			b.serve("a:80", slowly)
			first := b.later(getUp)
			time.Sleep(time.Second)
			b.want(b.get(), 503, "attempts=0; stop=circuit_open; error=destination_unavailable")
			b.want(<-first, 200, "")
		})
	})
}

// TestHedgeFailsAsItIsCut: a hedge that is cut by timeout.attempt, for the retry that
// follows, may end by itself at that moment; the client gets an answer nevertheless.
func TestHedgeFailsAsItIsCut(t *testing.T) {
	for i := range 40 {
		inTrouble(t, struggling(1, func(u *policy.Upstream) { hedged(u); u.Default.Hedge.Max = 2 }), func(b *bubble) {
			b.serve("a:80", func(n int, _ *http.Request) string {
				switch n {
				case 1, 2:
					time.Sleep(time.Second)
				case 3:
					time.Sleep(5*time.Second + time.Duration(i%20)*time.Millisecond)
				default:
					return ok
				}
				return fiveOhThree
			})
			b.want(b.get(), 200, "attempts=4; stop=success; received-status=200")
			b.balanced()
		})
	}
}

// TestHedgeIsToldTheWindow: what is left of the request's window is for a hedge, too.
func TestHedgeIsToldTheWindow(t *testing.T) {
	inTrouble(t, struggling(1, func(u *policy.Upstream) {
		hedged(u)
		u.Default.AttemptHeader, u.Default.RemainingHeader = "X-Attempt", "X-Left"
	}), func(b *bubble) {
		told := make(chan string, 2)
		b.serve("a:80", func(n int, req *http.Request) string {
			told <- req.Header.Get("X-Attempt") + " " + req.Header.Get("X-Left")
			if n == 1 {
				return ""
			}
			return ok
		})
		b.get()
		for _, want := range []string{"1 20000", "2 19700"} {
			if got := <-told; got != want {
				b.Errorf("%q, want %q", got, want)
			}
		}
	})
}

// TestLeavingTheQueueIsNoFailure: a client that leaves while its first attempt waits
// for a place has seen no failure, and no retry was denied it.
func TestLeavingTheQueueIsNoFailure(t *testing.T) {
	inTrouble(t, struggling(1, func(u *policy.Upstream) {
		u.Concurrency = policy.Concurrency{Max: 1, Queue: 4, MaxWait: 10 * time.Second}
	}), func(b *bubble) {
		b.serve("a:80", lateBy(2*time.Second, ok))
		first := b.later(getUp)
		time.Sleep(100 * time.Millisecond)
		c := b.open()
		io.WriteString(c, getUp)
		time.Sleep(time.Second)
		c.Close()
		b.want(<-first, 200, "")
		b.expect("mulligan_requests_total", 1, "outcome=client_gone", "route=default", "upstream=up")
		if denied := sum(b, b.reg, "mulligan_retries_denied_total", ""); denied != 0 {
			b.Errorf("%v retries denied", denied)
		}
	})
}

// TestHedgeP95IsOfAnswers: how fast attempts fail does not count, not even where they
// fail beside others.
func TestHedgeP95IsOfAnswers(t *testing.T) {
	inTrouble(t, struggling(1, func(u *policy.Upstream) {
		u.Default.Hedge = policy.Hedge{Max: 1}
		u.Default.Retry.MaxAttempts = 2
		u.Budget.Burst = 1000
	}), func(b *bubble) {
		var failing, hanging atomic.Bool
		b.serve("a:80", func(int, *http.Request) string {
			switch {
			case hanging.Swap(false):
				return ""
			case failing.Load():
				time.Sleep(200 * time.Millisecond)
				return fiveOhThree
			}
			time.Sleep(100 * time.Millisecond)
			return ok
		})
		for i := range 175 {
			failing.Store(i >= 25)
			b.get()
		}
		failing.Store(false)
		hanging.Store(true)
		began := time.Now()
		b.want(b.get(), 200, "attempts=2; stop=success; received-status=200")
		within(b.T, time.Since(began), 200*time.Millisecond)
	})
}

// TestHedgeGoesWhereItMay: a hedge is never a probe, and so goes to another endpoint
// than one whose circuit is half-open.
func TestHedgeGoesWhereItMay(t *testing.T) {
	inTrouble(t, struggling(3, func(u *policy.Upstream) {
		hedged(u)
		withBreaker(u)
		u.Breaker.MinRequests, u.Breaker.MaxOpenFor = 1, 5*time.Second
	}), func(b *bubble) {
		b.serve("a:80", always(""))
		b.serve("b:80", always(fiveOhThree))
		b.serve("c:80", always(ok))
		for b.value("mulligan_circuit_open", "endpoint=http://b", "upstream=up") == 0 {
			b.get()
		}
		for range 40 {
			began := time.Now()
			if got := b.get(); got.status != 200 || time.Since(began) > time.Second {
				b.Errorf("%+v after %v", got, time.Since(began))
			}
			time.Sleep(6 * time.Second)
		}
	})
}

// TestHedgeForGoodDoesNotStand: a hedge that failed for good, without a response, does
// not keep the attempt's own failure from being retried.
func TestHedgeForGoodDoesNotStand(t *testing.T) {
	for name, first := range map[string]func(int, *http.Request) string{
		"a response": lateBy(400*time.Millisecond, fiveOhThree),
		"a timeout":  always(""),
	} {
		t.Run(name, func(t *testing.T) {
			inTrouble(t, struggling(1, hedged), func(b *bubble) {
				b.serve("a:80", func(n int, req *http.Request) string {
					switch n {
					case 1:
						return first(n, req)
					case 2:
						time.Sleep(500 * time.Millisecond)
						return "NONSENSE\r\n\r\n"
					}
					return ok
				})
				b.want(b.get(), 200, "attempts=3; stop=success; received-status=200")
				b.balanced()
			})
		})
	}
}
