package proxy_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"mulligan/policy"
)

// TestConcurrency: so many attempts at once and no more; who finds no place in time
// gets 503 with Retry-After.
func TestConcurrency(t *testing.T) {
	inTrouble(t, struggling(1, func(u *policy.Upstream) {
		u.Concurrency = policy.Concurrency{Max: 2, Queue: 2, MaxWait: 3 * time.Second}
	}), func(b *bubble) {
		a := b.serve("a:80", lateBy(2*time.Second, ok))
		var all []<-chan reply
		for range 4 {
			all = append(all, b.later(getUp))
			time.Sleep(10 * time.Millisecond)
		}
		full := b.get()
		b.want(full, 503, "attempts=0; stop=overloaded; error=connection_limit_reached")
		if full.after == "" {
			b.Error("no Retry-After")
		}
		if hits, _ := a.seen(); hits != 2 {
			b.Errorf("%d at once", hits)
		}
		for _, answer := range all {
			b.want(<-answer, 200, "")
		}
		slow := b.later(getUp)
		again := b.later(getUp)
		time.Sleep(10 * time.Millisecond)
		c := b.open()
		io.WriteString(c, getUp)
		time.Sleep(50 * time.Millisecond)
		c.Close() // one that leaves the queue takes nobody's place
		b.want(<-slow, 200, "")
		b.want(<-again, 200, "")
		b.want(b.get(), 200, "")
		if hits, _ := a.seen(); hits != 7 {
			b.Errorf("%d requests reached the upstream", hits)
		}
	})
}

// TestConcurrencyUntilTheBodyEnds: the place is kept until the body has ended, and
// never while a retry waits.
func TestConcurrencyUntilTheBodyEnds(t *testing.T) {
	inTrouble(t, struggling(1, func(u *policy.Upstream) {
		u.Concurrency = policy.Concurrency{Max: 1, Queue: 4, MaxWait: 30 * time.Second}
		u.Default.Retry.Backoff = policy.Backoff{Initial: 4 * time.Second, Max: 4 * time.Second, Multiplier: 1, Jitter: policy.NoJitter}
	}), func(b *bubble) {
		b.serve("a:80", func(n int, req *http.Request) string {
			if n == 1 {
				return fiveOhThree
			}
			return ok
		})
		began := time.Now()
		first := b.later(getUp)
		time.Sleep(time.Second)
		b.want(b.get(), 200, "") // while the first waits
		within(b.T, time.Since(began), time.Second)
		b.want(<-first, 200, "attempts=2; stop=success; received-status=200")
		within(b.T, time.Since(began), 4*time.Second)
	})
}

// TestRateLimit: attempts are spaced, and what would wait for too long is refused.
func TestRateLimit(t *testing.T) {
	inTrouble(t, struggling(1, func(u *policy.Upstream) {
		u.RateLimit = policy.RateLimit{PerSecond: 2, Burst: 2, MaxWait: time.Second}
	}), func(b *bubble) {
		a := b.serve("a:80", always(ok))
		began := time.Now()
		var all []<-chan reply
		for range 8 {
			all = append(all, b.later(getUp))
		}
		good, refused := 0, 0
		for _, answer := range all {
			switch got := <-answer; {
			case got.status == 200:
				good++
			case got.status == 503 && got.stop == "attempts=0; stop=overloaded; error=connection_limit_reached" && got.after != "":
				refused++
			default:
				b.Errorf("%+v", got)
			}
		}
		if hits, _ := a.seen(); good != 4 || refused != 4 || hits != 4 {
			b.Errorf("%d and %d, %d reached the upstream", good, refused, hits)
		}
		within(b.T, time.Since(began), time.Second)
	})
}

// TestRateLimitHoldsFirstAttemptsBack: with rate_limit a hint holds back first
// attempts, too, as far as max_wait allows.
func TestRateLimitHoldsFirstAttemptsBack(t *testing.T) {
	inTrouble(t, struggling(1, func(u *policy.Upstream) {
		u.Default.Timeout.Total = 0
		u.RateLimit = policy.RateLimit{PerSecond: 100, Burst: 100, MaxWait: 9 * time.Second}
	}), func(b *bubble) {
		b.serve("a:80", script(hinted503, ok))
		first := b.later(getUp)
		time.Sleep(500 * time.Millisecond)
		refused := b.get()
		b.want(refused, 503, "attempts=0; stop=overloaded; error=connection_limit_reached")
		if refused.after != "10" {
			b.Errorf("Retry-After: %s", refused.after)
		}
		time.Sleep(3500 * time.Millisecond)
		began := time.Now()
		b.want(b.get(), 200, "")
		if took := time.Since(began); took < 6*time.Second || took > 8*time.Second {
			b.Errorf("held back for %v", took)
		}
		b.want(<-first, 200, "attempts=2; stop=success; received-status=200")
	})
}
