package proxy_test

import (
	"bufio"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/policy"
)

// onePlace is an upstream with a single place, for which as many may wait, for so
// long.
func onePlace(queue int, wait time.Duration) func(*policy.Upstream) {
	return func(u *policy.Upstream) {
		u.Concurrency = policy.Concurrency{Max: 1, Queue: queue, MaxWait: wait}
	}
}

// TestPlaceIsKeptUntilTheBodyEnds: an answer whose body is still on its way has its
// place, whatever the client has of it already.
func TestPlaceIsKeptUntilTheBodyEnds(t *testing.T) {
	inTrouble(t, struggling(1, onePlace(0, 0)), func(b *bubble) {
		ln, _ := b.net.Listen("", "a:80")
		b.Cleanup(func() { ln.Close() })
		rest := make(chan struct{})
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					r := bufio.NewReader(c)
					for {
						if _, err := http.ReadRequest(r); err != nil {
							return
						}
						io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nha\r\n")
						<-rest
						io.WriteString(c, "2\r\nlf\r\n0\r\n\r\n")
					}
				}()
			}
		}()
		c := b.open()
		defer c.Close()
		resp := b.send(c, getUp)
		half := make([]byte, 2)
		if _, err := io.ReadFull(resp.Body, half); err != nil || resp.StatusCode != 200 {
			b.Fatalf("%s %v", resp.Status, err)
		}
		b.want(b.get(), 503, "attempts=0; stop=overloaded; error=connection_limit_reached")
		close(rest)
		if body, err := io.ReadAll(resp.Body); string(body) != "lf" || err != nil {
			b.Errorf("%q %v", body, err)
		}
		b.want(b.get(), 200, "")
		b.balanced()
	})
}

// TestOverloadedRetry: a retry that finds no room is none. The client gets what came
// before, and the budget its token back.
func TestOverloadedRetry(t *testing.T) {
	for name, limit := range map[string]func(*policy.Upstream){
		"concurrency": onePlace(0, 0),
		"rate_limit": func(u *policy.Upstream) {
			u.RateLimit = policy.RateLimit{PerSecond: 0.01, Burst: 2, MaxWait: time.Second}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inTrouble(t, struggling(1, func(u *policy.Upstream) {
				limit(u)
				u.Default.Retry.Backoff = policy.Backoff{Initial: time.Second, Max: time.Second, Multiplier: 1, Jitter: policy.NoJitter}
			}), func(b *bubble) {
				a := b.serve("a:80", func(n int, _ *http.Request) string {
					if n == 1 {
						return fiveOhThree
					}
					time.Sleep(10 * time.Second)
					return ok
				})
				first := b.later(getUp)
				time.Sleep(500 * time.Millisecond)
				other := b.later("POST http://up/ HTTP/1.1\r\nHost: up\r\nContent-Length: 0\r\n\r\n")
				got := <-first
				b.want(got, 503, "attempts=1; stop=overloaded; received-status=503")
				if got.body != "busy" {
					b.Errorf("body %q", got.body)
				}
				b.expect("mulligan_retry_budget_remaining", 100, "upstream=up")
				b.expect("mulligan_retries_denied_total", 1, "upstream=up", "stop=overloaded")
				b.expect("mulligan_requests_total", 1, "upstream=up", "outcome=failed")
				b.expect("mulligan_attempts_total", 1, "upstream=up", "result=5xx")
				b.want(<-other, 200, "")
				if hits, _ := a.seen(); hits != 2 {
					b.Errorf("%d requests reached the upstream", hits)
				}
				b.balanced()
			})
		})
	}
}

// TestWindowEndsAtTheGate: who waits for a place does so no longer than the window,
// and is told when to come back.
func TestWindowEndsAtTheGate(t *testing.T) {
	inTrouble(t, struggling(1, func(u *policy.Upstream) {
		onePlace(4, time.Minute)(u)
		u.Default.Timeout.Total = 3 * time.Second
	}), func(b *bubble) {
		a := b.serve("a:80", lateBy(2900*time.Millisecond, ok))
		first := b.later(getUp)
		time.Sleep(time.Second)
		second := b.later(getUp) // gets the place with a tenth of its window left
		third := b.later(getUp)
		began := time.Now()
		b.want(<-first, 200, "")
		late := []reply{<-second, <-third}
		within(b.T, time.Since(began), 3*time.Second)
		for _, got := range late {
			switch got.stop {
			case "attempts=1; stop=window; error=http_response_timeout":
			case "attempts=0; stop=overloaded; error=connection_limit_reached":
				if got.after == "" {
					b.Error("no Retry-After")
				}
			default:
				b.Errorf("%+v", got)
			}
		}
		if hits, _ := a.seen(); hits != 2 {
			b.Errorf("%d requests reached the upstream", hits)
		}
		b.balanced()
	})
}

// TestClientLeavesTheGate: its request ends at once, and nothing of it has failed.
func TestClientLeavesTheGate(t *testing.T) {
	for name, row := range map[string]struct {
		limit func(*policy.Upstream)
		next  time.Duration // the next to ask has its answer
	}{
		"concurrency": {onePlace(1, time.Minute), 4 * time.Second},
		"rate_limit": {func(u *policy.Upstream) {
			u.RateLimit = policy.RateLimit{PerSecond: 0.1, Burst: 1, MaxWait: time.Minute}
		}, 12 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inTrouble(t, struggling(1, row.limit), func(b *bubble) {
				began := time.Now()
				a := b.serve("a:80", lateBy(2*time.Second, ok))
				first := b.later(getUp)
				time.Sleep(100 * time.Millisecond)
				c := b.open()
				io.WriteString(c, getUp)
				time.Sleep(100 * time.Millisecond)
				b.expect("mulligan_requests_in_flight", 2, "upstream=up")
				c.Close()
				time.Sleep(100 * time.Millisecond)
				synctest.Wait()
				b.expect("mulligan_requests_in_flight", 1, "upstream=up")
				b.expect("mulligan_requests_total", 1, "upstream=up", "outcome=client_gone")
				if n := counter(b.T, b.reg, "mulligan_retries_denied_total"); n != 0 {
					b.Errorf("%v retries were denied", n)
				}
				if n := counter(b.T, b.reg, "mulligan_attempts_total"); n != 0 {
					b.Errorf("%v attempts", n)
				}
				b.want(<-first, 200, "")
				b.want(b.get(), 200, "")
				within(b.T, time.Since(began).Round(time.Millisecond), row.next) // in the place, or the turn, of who left
				if hits, _ := a.seen(); hits != 2 {
					b.Errorf("%d requests reached the upstream", hits)
				}
				b.balanced()
			})
		})
	}
}
