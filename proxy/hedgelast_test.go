package proxy_test

import (
	"net/http"
	"testing"
	"time"

	"mulligan/policy"
)

// TestHedgeLastFailureStands: where all fail, what came last is what the client gets,
// whichever of them began last.
func TestHedgeLastFailureStands(t *testing.T) {
	const other = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 5\r\n\r\nother"
	for name, test := range map[string]struct {
		first, hedge string
		body         string
	}{
		"the attempt itself":          {aSecond + fiveOhThree, other, "busy"},
		"the hedge":                   {fiveOhThree, aSecond + other, "other"},
		"the attempt, not a reset":    {aSecond + fiveOhThree, andBreaks, "busy"},
		"the attempt, not half of it": {aSecond + fiveOhThree, halfAnswer, "busy"},
	} {
		t.Run(name, func(t *testing.T) {
			inPair(t, paired(1, hedged, atMost(2), func(u *policy.Upstream) { u.Default.Hedge.Delay = 100 * time.Millisecond }), func(b *bubble) {
				a := b.serve("a:80", func(n int, _ *http.Request) string {
					if n == 1 {
						time.Sleep(500 * time.Millisecond)
						return test.first
					}
					return test.hedge
				})
				got := b.get()
				b.want(got, 503, stopped(2, "max_attempts", 503))
				if got.body != test.body {
					b.Errorf("%q, want %q", got.body, test.body)
				}
				b.tally(2, 1, a)
			})
		})
	}
}
