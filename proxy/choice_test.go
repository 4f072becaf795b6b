package proxy_test

import (
	"net/http"
	"testing"
	"time"
)

// TestRetryGoesElsewhere: with two endpoints a retry goes to the other one.
func TestRetryGoesElsewhere(t *testing.T) {
	inTrouble(t, struggling(2, nil), func(b *bubble) {
		a, c := b.serve("a:80", always(fiveOhThree)), b.serve("b:80", always(ok))
		for range 50 {
			if got := b.get(); got.status != 200 {
				b.Errorf("%+v", got)
			}
		}
		bad, _ := a.seen()
		if good, _ := c.seen(); good != 50 || bad > 25 { // it is avoided, too, since failures weigh
			b.Errorf("%d and %d", bad, good)
		}
	})
}

// TestOpenEndpointIsSkipped: the other one gets everything, and first attempts fail
// no more; when it is well again it gets its share.
func TestOpenEndpointIsSkipped(t *testing.T) {
	inTrouble(t, struggling(2, withBreaker), func(b *bubble) {
		well := false
		a := b.serve("a:80", func(int, *http.Request) string {
			if well {
				return ok
			}
			return fiveOhThree
		})
		c := b.serve("b:80", always(ok))
		for i := range 200 {
			if got := b.get(); got.status != 200 {
				b.Errorf("%d: %+v", i, got)
			}
			time.Sleep(20 * time.Millisecond)
		}
		if bad, _ := a.seen(); bad > 6 {
			b.Errorf("%d requests went to the open endpoint", bad)
		}
		b.expect("mulligan_circuit_open", 1, "endpoint=http://a", "upstream=up")
		b.expect("mulligan_circuit_open", 0, "endpoint=http://b", "upstream=up")
		well = true
		time.Sleep(time.Minute)
		before, _ := a.seen()
		for range 200 {
			b.want(b.get(), 200, "")
		}
		now, _ := a.seen()
		other, _ := c.seen()
		if now-before < 50 {
			b.Errorf("only %d of 200 go to the endpoint that is well again (%d)", now-before, other)
		}
	})
}

// TestAllCircuitsOpen: with every endpoint open it is 503 at once.
func TestAllCircuitsOpen(t *testing.T) {
	inTrouble(t, struggling(2, withBreaker), func(b *bubble) {
		b.serve("a:80", always(fiveOhThree))
		b.serve("b:80", always(fiveOhThree))
		for range 3 {
			b.get()
		}
		began := time.Now()
		b.want(b.get(), 503, "attempts=0; stop=circuit_open; error=destination_unavailable")
		within(b.T, time.Since(began), 0)
	})
}
