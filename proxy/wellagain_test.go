package proxy_test

import (
	"net/http"
	"testing"
	"time"
)

// TestWellAgain: an endpoint whose circuit was open is probed when open_for is
// over, and gets its share once it has answered, though the other one never
// failed: what its failures counted as does not keep requests off it.
func TestWellAgain(t *testing.T) {
	inTrouble(t, struggling(2, withBreaker), func(b *bubble) {
		answers := fiveOhThree
		a := b.serve("a:80", func(int, *http.Request) string {
			time.Sleep(20 * time.Millisecond)
			return answers
		})
		b.serve("b:80", lateBy(20*time.Millisecond, ok))
		get := func(n int) (more int) {
			before, _ := a.seen()
			for range n {
				if got := b.get(); got.status != 200 {
					b.Errorf("%+v", got)
				}
				time.Sleep(20 * time.Millisecond)
			}
			now, _ := a.seen()
			return now - before
		}
		var all []<-chan reply
		for range 16 { // at once: after its first failure it gets none
			all = append(all, b.later(getUp))
		}
		for _, answer := range all {
			if got := <-answer; got.status != 200 {
				b.Errorf("%+v", got)
			}
		}
		answers = ok
		time.Sleep(6 * time.Second)
		if n := get(20); n == 0 {
			b.Errorf("open_for is over, and the endpoint is not probed")
		}
		if n := get(200); n < 50 {
			b.Errorf("the endpoint is well again, and gets %d of 200", n)
		}
	})
}
