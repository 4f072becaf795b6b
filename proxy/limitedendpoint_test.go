package proxy_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"mulligan/policy"
)

// TestLimitedEndpoint: an endpoint that has said when to come back gets no first
// attempts either until then, where there is another; after that it gets its
// share, since a 429 is no sign that it is slow.
func TestLimitedEndpoint(t *testing.T) {
	retries429 := func(u *policy.Upstream) { u.Default.Retry.RetryOn.Add("429") }
	inTrouble(t, struggling(2, retries429), func(b *bubble) {
		var limited atomic.Int32
		limited.Store(3)
		a := b.serve("a:80", func(int, *http.Request) string {
			time.Sleep(10 * time.Millisecond)
			if limited.Add(-1) < 0 {
				return ok
			}
			return hinted429
		})
		b.serve("b:80", lateBy(10*time.Millisecond, ok))
		get := func(n int) (toA int) {
			before, _ := a.seen()
			for range n {
				if got := b.get(); got.status != 200 {
					b.Errorf("%+v", got)
				}
			}
			now, _ := a.seen()
			return now - before
		}
		for n := int32(3); n >= 1; n-- {
			for limited.Load() == n { // it waits for as long as it was told
				b.later(getUp)
				time.Sleep(20 * time.Millisecond)
			}
			if toA := get(50); toA != 0 {
				b.Errorf("%d of 50 requests went to an endpoint that has asked for none", toA)
			}
			time.Sleep(15 * time.Second)
		}
		if toA := get(200); toA < 50 {
			b.Errorf("the endpoint takes requests again, and gets %d of 200", toA)
		}
	})
}

// TestRetryPassesByAPausedEndpoint: rather than to an endpoint whose hint, to another
// request, holds it back, a retry goes where it was before.
func TestRetryPassesByAPausedEndpoint(t *testing.T) {
	inTrouble(t, struggling(2, nil), func(b *bubble) {
		var down atomic.Bool
		down.Store(true)
		a := b.serve("a:80", func(int, *http.Request) string {
			if down.Load() {
				return hinted503
			}
			return ok
		})
		b.serve("b:80", func(n int, _ *http.Request) string {
			if n%2 == 1 {
				return fiveOhThree
			}
			return ok
		})
		for hits, _ := a.seen(); hits == 0; hits, _ = a.seen() {
			b.later(getUp)
			time.Sleep(20 * time.Millisecond)
		}
		for range 20 {
			began := time.Now()
			if got := b.get(); got.status != 200 {
				b.Errorf("%+v", got)
			}
			within(b.T, time.Since(began), 0)
		}
		if hits, _ := a.seen(); hits != 1 {
			b.Errorf("%d requests went to the endpoint that has asked for none", hits)
		}
	})
}
