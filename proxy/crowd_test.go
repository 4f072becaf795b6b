package proxy_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"mulligan/policy"
)

// TestCrowdComesBackSpread: requests that were told the same, one after the other,
// are all held back until the last hint is over, and do not come together then.
func TestCrowdComesBackSpread(t *testing.T) {
	const crowd = 200
	inTrouble(t, struggling(1, func(u *policy.Upstream) {
		u.Budget.Burst = 1000
		u.Default.Timeout.Total = 0
	}), func(b *bubble) {
		var mu sync.Mutex
		var last time.Time
		var back []time.Duration // after the last hint
		b.serve("a:80", func(int, *http.Request) string {
			mu.Lock()
			defer mu.Unlock()
			if last.IsZero() || time.Since(last) < 5*time.Second {
				last = time.Now()
				return hinted503
			}
			back = append(back, time.Since(last))
			return ok
		})
		var all []<-chan reply
		for range crowd {
			all = append(all, b.later(getUp))
			time.Sleep(10 * time.Millisecond)
		}
		for _, one := range all {
			b.want(<-one, 200, "attempts=2; stop=success; received-status=200")
		}
		early := 0
		for _, d := range back {
			if d < 10*time.Second {
				b.Errorf("one came %v after the last hint", d)
			}
			if d < 10*time.Second+250*time.Millisecond {
				early++
			}
		}
		if len(back) != crowd || early > 60 { // 28 on average, of which 8 were held back by others' hints; all 80 of those together make 100
			b.Errorf("%d of %d came in the first tenth", early, len(back))
		}
	})
}
