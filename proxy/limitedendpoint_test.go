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
