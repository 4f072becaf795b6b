package proxy_test

import (
	"net/http"
	"testing"
	"time"

	"mulligan/policy"
)

// TestHedgeIsToldAtOnce: what an attempt of a race says to other requests, by a hint
// or as a failure, they know when it comes, not when the race is over.
func TestHedgeIsToldAtOnce(t *testing.T) {
	for name, test := range map[string]int{"the hedge's": 2, "the attempt's own": 1} {
		t.Run(name, func(t *testing.T) {
			inPair(t, paired(1, hedged, breaking, func(u *policy.Upstream) { u.Breaker.MinRequests = 3 }), func(b *bubble) {
				a := b.serve("a:80", func(n int, _ *http.Request) string {
					switch n {
					case test:
						time.Sleep(500 * time.Millisecond)
						return hinted503
					case 3:
						return fiveOhThree
					case 4:
						return ok
					}
					time.Sleep(4 * time.Second)
					return fiveOhThree
				})
				began := time.Now()
				first := b.later(getUp)
				time.Sleep(2 * time.Second)
				second := b.later(b.soon("5"))
				b.want(<-second, 503, stopped(1, "retry_after", 503)) // by the hint to the first one
				b.expect("mulligan_circuit_open", 0, "endpoint=http://a", "upstream=up")
				time.Sleep(6 * time.Second)
				b.expect("mulligan_circuit_open", 1, "endpoint=http://a", "upstream=up")
				b.want(<-first, 503, stopped(2, "circuit_open", 503))
				if took := time.Since(began); took > 8*time.Second {
					b.Errorf("took %v", took)
				}
				b.tally(3, 1, a)
			})
		})
	}
}
