package proxy_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"mulligan/policy"
)

// TestBreakerOpensAndCloses: from the first failure over the ratio on nothing more
// is sent; then one probe is, and by its success all is as before.
func TestBreakerOpensAndCloses(t *testing.T) {
	inTrouble(t, struggling(1, withBreaker), func(b *bubble) {
		well := false
		a := b.serve("a:80", func(int, *http.Request) string {
			if well {
				return ok
			}
			return fiveOhThree
		})
		b.want(b.get(), 503, "attempts=4; stop=max_attempts; received-status=503")
		first := b.get()
		b.want(first, 503, "attempts=0; stop=circuit_open; error=destination_unavailable")
		if first.after != "4" && first.after != "5" {
			b.Errorf("Retry-After: %q", first.after)
		}
		if hits, _ := a.seen(); hits != 4 {
			b.Errorf("%d requests reached the upstream", hits)
		}
		b.expect("mulligan_circuit_open", 1, "endpoint=http://a", "upstream=up")
		time.Sleep(6 * time.Second)
		well = true
		b.want(b.get(), 200, "")
		b.want(b.get(), 200, "")
		b.expect("mulligan_circuit_open", 0, "endpoint=http://a", "upstream=up")
	})
}

// TestBreakerStopsRetries: a circuit that opens under a request's hands gives it
// the upstream's last answer.
func TestBreakerStopsRetries(t *testing.T) {
	inTrouble(t, struggling(1, func(u *policy.Upstream) { withBreaker(u); u.Breaker.MinRequests = 2 }), func(b *bubble) {
		b.serve("a:80", always(fiveOhThree))
		got := b.get()
		b.want(got, 503, "attempts=2; stop=circuit_open; received-status=503")
		if got.body != "busy" {
			b.Errorf("body %q", got.body)
		}
	})
}

// TestBreakerProbes: no second probe is let through, nor one more when a probe's
// client leaves; one that hangs does not keep its place for ever.
func TestBreakerProbes(t *testing.T) {
	inTrouble(t, struggling(1, func(u *policy.Upstream) { withBreaker(u); u.Default.Timeout.Attempt = 10 * time.Second }), func(b *bubble) {
		a := b.serve("a:80", script(fiveOhThree, fiveOhThree, fiveOhThree, fiveOhThree, "", "", ok))
		b.get()
		time.Sleep(6 * time.Second)
		c := b.open()
		io.WriteString(c, getUp) // the probe
		time.Sleep(time.Second)
		b.want(b.get(), 503, "attempts=0; stop=circuit_open; error=destination_unavailable")
		c.Close() // its place is free, and it says nothing
		time.Sleep(time.Second)
		hanging := b.later(getUp)
		time.Sleep(time.Second)
		b.want(b.get(), 503, "attempts=0; stop=circuit_open; error=destination_unavailable")
		time.Sleep(5 * time.Second)
		b.want(b.get(), 200, "")
		if hits, _ := a.seen(); hits != 7 {
			b.Errorf("%d requests reached the upstream", hits)
		}
		b.want(<-hanging, 200, "attempts=2; stop=success; received-status=200")
	})
}

// TestBreakerNeutral: 4xx and clients that leave say nothing of the upstream.
func TestBreakerNeutral(t *testing.T) {
	inTrouble(t, struggling(1, withBreaker), func(b *bubble) {
		b.serve("a:80", func(n int, _ *http.Request) string {
			switch {
			case n <= 20:
				return "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
			case n <= 40:
				return ""
			}
			return fiveOhThree
		})
		for range 20 {
			b.get()
		}
		for range 20 {
			c := b.open()
			io.WriteString(c, getUp)
			time.Sleep(100 * time.Millisecond)
			c.Close()
			time.Sleep(100 * time.Millisecond)
		}
		b.want(b.get(), 503, "attempts=4; stop=max_attempts; received-status=503") // 4 of 4, not 4 of 44
		b.want(b.get(), 503, "attempts=0; stop=circuit_open; error=destination_unavailable")
	})
}

// TestBreakerCountsSlow: what is not cut, since nothing could follow, is as bad
// once timeout.attempt has passed.
func TestBreakerCountsSlow(t *testing.T) {
	inTrouble(t, struggling(1, withBreaker), func(b *bubble) {
		b.serve("a:80", lateBy(6*time.Second, ok))
		var all []<-chan reply
		for range 4 {
			all = append(all, b.later("POST http://up/ HTTP/1.1\r\nHost: up\r\nContent-Length: 0\r\n\r\n"))
		}
		time.Sleep(5500 * time.Millisecond)
		b.want(b.get(), 503, "attempts=0; stop=circuit_open; error=destination_unavailable")
		for _, answer := range all {
			b.want(<-answer, 200, "")
		}
	})
}
