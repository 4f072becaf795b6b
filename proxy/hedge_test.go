package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"mulligan/policy"
)

func hedged(u *policy.Upstream) {
	u.Default.Hedge = policy.Hedge{Delay: 300 * time.Millisecond, Max: 1}
}

// TestHedge: the first acceptable response wins, and the loser is closed.
func TestHedge(t *testing.T) {
	inTrouble(t, struggling(2, hedged), func(b *bubble) {
		a, c := b.serve("a:80", always("")), b.serve("b:80", always(ok))
		sent := 0
		for range 20 {
			before, _ := a.seen()
			began := time.Now()
			got := b.get()
			if after, _ := a.seen(); after > before { // that went to the one that hangs first
				sent++
				b.want(got, 200, "attempts=2; stop=success; received-status=200")
				within(b.T, time.Since(began), 300*time.Millisecond)
			}
		}
		time.Sleep(time.Second)
		hung, ended := a.seen()
		if sent == 0 || hung != sent || ended != sent {
			b.Errorf("%d hedged, %d hung, of which %d were closed", sent, hung, ended)
		}
		if good, _ := c.seen(); good != 20 {
			b.Errorf("%d", good)
		}
		b.expect("mulligan_retries_total", float64(sent), "reason=hedge", "route=default", "upstream=up")
		b.expect("mulligan_requests_total", float64(sent), "outcome=success_after_retry", "route=default", "upstream=up")
		b.expect("mulligan_attempts_total", float64(sent), "result=cancelled", "route=default", "upstream=up")
	})
}

// TestHedgeLoses: the attempt itself may still win.
func TestHedgeLoses(t *testing.T) {
	inTrouble(t, struggling(1, hedged), func(b *bubble) {
		a := b.serve("a:80", func(n int, _ *http.Request) string {
			if n == 1 {
				time.Sleep(500 * time.Millisecond)
				return ok
			}
			return ""
		})
		b.want(b.get(), 200, "")
		time.Sleep(time.Second)
		if hits, ended := a.seen(); hits != 2 || ended != 1 {
			b.Errorf("%d, %d closed", hits, ended)
		}
		b.expect("mulligan_requests_total", 1, "outcome=success", "route=default", "upstream=up")
		b.expect("mulligan_attempts_total", 1, "result=cancelled", "route=default", "upstream=up")
	})
}

// TestHedgeFastFailureWaits: whichever fails first waits for its sibling.
func TestHedgeFastFailureWaits(t *testing.T) {
	for name, test := range map[string]struct {
		first, second func(int, *http.Request) string
		took          time.Duration
		stop          string
	}{
		"the attempt fails":       {lateBy(400*time.Millisecond, fiveOhThree), lateBy(400*time.Millisecond, ok), 700 * time.Millisecond, "attempts=2; stop=success; received-status=200"},
		"the hedge fails":         {lateBy(time.Second, ok), always(fiveOhThree), time.Second, ""},
		"both, the attempt first": {lateBy(400*time.Millisecond, fiveOhThree), lateBy(400*time.Millisecond, fiveOhThree), 700 * time.Millisecond, "attempts=2; stop=max_attempts; received-status=503"},
		"both, the hedge first":   {lateBy(time.Second, fiveOhThree), always(fiveOhThree), time.Second, "attempts=2; stop=max_attempts; received-status=503"},
		"both hang":               {always(""), always(""), 20 * time.Second, "attempts=2; stop=window; error=http_response_timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			inTrouble(t, struggling(1, func(u *policy.Upstream) { hedged(u); u.Default.Retry.MaxAttempts = 2 }), func(b *bubble) {
				a := b.serve("a:80", func(n int, req *http.Request) string {
					if n == 1 {
						return test.first(n, req)
					}
					return test.second(n, req)
				})
				began := time.Now()
				got := b.get()
				if got.stop != test.stop {
					b.Errorf("%d %q, want %q", got.status, got.stop, test.stop)
				}
				within(b.T, time.Since(began), test.took)
				if hits, _ := a.seen(); hits != 2 {
					b.Errorf("%d attempts", hits)
				}
				b.balanced()
			})
		})
	}
}

// TestHedgeThenRetry: attempts and hedges together stay within max_attempts, and a
// hung pair is cut by timeout.attempt where a retry follows.
func TestHedgeThenRetry(t *testing.T) {
	for _, most := range []int{3, 4} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			inTrouble(t, struggling(1, func(u *policy.Upstream) { hedged(u); u.Default.Retry.MaxAttempts = most }), func(b *bubble) {
				a := b.serve("a:80", script("", "", ok))
				began := time.Now()
				b.want(b.get(), 200, "attempts=3; stop=success; received-status=200")
				took := time.Since(began)
				if took < 5*time.Second || took > 5*time.Second+500*time.Millisecond {
					b.Errorf("took %v", took)
				}
				if hits, ended := a.seen(); hits != 3 || ended != 2 {
					b.Errorf("%d attempts, %d closed", hits, ended)
				}
				b.balanced()
			})
		})
	}
}

// TestHedgeOnlyWhatIsSafe: a POST is not, nor what the budget does not pay for.
func TestHedgeOnlyWhatIsSafe(t *testing.T) {
	for name, test := range map[string]struct {
		request string
		burst   float64
		hits    int
	}{
		"GET":          {getUp, 1, 2},
		"no budget":    {getUp, 0, 1},
		"POST":         {postUp, 1, 1},
		"keyed POST":   {strings.Replace(postUp, "\r\n\r\n", "\r\nIdempotency-Key: k\r\n\r\n", 1), 1, 2},
		"PUT":          {strings.Replace(postUp, "POST", "PUT", 1), 1, 2},
		"one attempt":  {strings.Replace(getUp, "\r\n\r\n", "\r\nMulligan-Policy: max-attempts=1\r\n\r\n", 1), 1, 1},
		"long PUT":     {"PUT http://up/ HTTP/1.1\r\nHost: up\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 100000), 1, 2},
		"too long PUT": {"PUT http://up/ HTTP/1.1\r\nHost: up\r\nContent-Length: 2000000\r\n\r\n" + strings.Repeat("x", 2000000), 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inTrouble(t, struggling(1, func(u *policy.Upstream) { hedged(u); u.Budget.Burst = test.burst; u.Budget.Ratio = 0 }), func(b *bubble) {
				a := b.serve("a:80", lateBy(2*time.Second, ok))
				if got := b.request(test.request); got.status != 200 {
					b.Errorf("%+v", got)
				}
				if hits, _ := a.seen(); hits != test.hits {
					b.Errorf("%d attempts, want %d", hits, test.hits)
				}
				b.balanced()
			})
		})
	}
}

// TestHedgeClientGone: the client's leaving ends both.
func TestHedgeClientGone(t *testing.T) {
	inTrouble(t, struggling(2, hedged), func(b *bubble) {
		a, c := b.serve("a:80", always("")), b.serve("b:80", always(""))
		conn := b.open()
		io.WriteString(conn, getUp)
		time.Sleep(time.Second)
		conn.Close()
		time.Sleep(time.Second)
		h1, e1 := a.seen()
		h2, e2 := c.seen()
		if h1 != 1 || h2 != 1 || e1 != 1 || e2 != 1 {
			b.Errorf("%d %d, %d %d closed", h1, h2, e1, e2)
		}
		b.balanced()
	})
}

// TestHedgeP95: the delay is what most answers took of late.
func TestHedgeP95(t *testing.T) {
	inTrouble(t, struggling(1, func(u *policy.Upstream) { u.Default.Hedge = policy.Hedge{Max: 1} }), func(b *bubble) {
		b.serve("a:80", func(n int, _ *http.Request) string {
			if n > 40 && n%2 == 1 {
				return ""
			}
			time.Sleep(100*time.Millisecond + time.Duration(n%10/9)*50*time.Millisecond)
			return ok
		})
		for range 40 {
			if got := b.get(); got.status != 200 {
				b.Errorf("%+v", got)
			}
		}
		began := time.Now()
		b.want(b.get(), 200, "attempts=2; stop=success; received-status=200")
		within(b.T, time.Since(began), 250*time.Millisecond)
	})
}
