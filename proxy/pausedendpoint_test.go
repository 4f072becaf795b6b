package proxy_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"mulligan/policy"
)

// TestPausedEndpointGetsNoRetries: what an endpoint asks for in a 503 holds back the
// retries of requests that have failed elsewhere, too, though they have not been
// there yet: they rather go again to one that they know.
func TestPausedEndpointGetsNoRetries(t *testing.T) {
	inTrouble(t, struggling(2, func(u *policy.Upstream) {
		u.Budget.Burst = 1000
		u.Default.Timeout.Total = 0
		u.Default.AttemptHeader = "X-Attempt"
	}), func(b *bubble) {
		var mu sync.Mutex
		var hinted time.Time
		b.serve("a:80", func(_ int, req *http.Request) string {
			mu.Lock()
			defer mu.Unlock()
			if since := time.Since(hinted); req.Header.Get("X-Attempt") != "1" && since < 10*time.Second {
				b.Errorf("a retry came %v after a hint", since)
			}
			hinted = time.Now()
			return hinted503
		})
		b.serve("b:80", always(fiveOhThree))
		var all []<-chan reply
		for range 40 {
			all = append(all, b.later(getUp))
			time.Sleep(100 * time.Millisecond)
		}
		for _, one := range all {
			b.want(<-one, 503, "attempts=4; stop=max_attempts; received-status=503")
		}
	})
}

// TestHintOfOneEndpoint: what one endpoint asks for does not keep a request from
// another that it has not been to, however long that is; where all have been asked,
// it holds.
func TestHintOfOneEndpoint(t *testing.T) {
	for name, hint := range map[string]string{"obeyed": hinted503, "too long": strings.Replace(hinted503, ": 10", ": 1000", 1)} {
		t.Run(name, func(t *testing.T) {
			inTrouble(t, struggling(2, func(u *policy.Upstream) { u.Default.Timeout.Total = 0 }), func(b *bubble) {
				b.serve("a:80", always(hint))
				b.serve("b:80", always(ok))
				for range 20 {
					began := time.Now()
					if got := b.get(); got.status != 200 {
						b.Errorf("%+v", got)
					}
					if took := time.Since(began); took > 5*time.Second {
						b.Errorf("took %v", took)
					}
				}
			})
			inTrouble(t, struggling(2, func(u *policy.Upstream) { u.Default.Timeout.Total = 0 }), func(b *bubble) {
				b.serve("a:80", always(hint))
				b.serve("b:80", always(hint))
				began := time.Now()
				got := b.get()
				if name == "too long" {
					b.want(got, 503, "attempts=2; stop=retry_after; received-status=503")
				} else if took := time.Since(began); took < 20*time.Second {
					b.Errorf("four attempts, two waits of 10s at least: took %v", took)
				}
			})
		})
	}
}
