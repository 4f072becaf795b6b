package proxy_test

import (
	"net/http"
	"sync/atomic"
	"testing"
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

