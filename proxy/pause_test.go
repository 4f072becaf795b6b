package proxy_test

import (
	"net/http"
	"testing"
	"time"

	"mulligan/policy"
)

// TestPause: a 503's hint holds back the retries of every request to the authority,
// a 429's those with the same credentials.
func TestPause(t *testing.T) {
	for name, test := range map[string]struct {
		hint       string
		credential string
		held       bool
	}{
		"503, anybody":             {hinted503, "Authorization: Bearer other\r\n", true},
		"429, the same":            {hinted429, "Authorization: Bearer one\r\n", true},
		"429, another":             {hinted429, "Authorization: Bearer other\r\n", false},
		"429, none":                {hinted429, "", false},
		"429, the same by its key": {hinted429, "X-API-Key: one\r\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			inTrouble(t, struggling(1, func(u *policy.Upstream) {
				u.Default.Timeout.Total = 0
				u.Default.Retry.RetryOn.Add("429")
			}), func(b *bubble) {
				b.serve("a:80", func(n int, req *http.Request) string {
					switch {
					case req.URL.Path == "/first" && n == 1:
						return test.hint
					case req.URL.Path == "/second" && n == 2:
						return fiveOhThree
					}
					return ok
				})
				first := b.later("GET http://up/first HTTP/1.1\r\nHost: up\r\nAuthorization: Bearer one\r\n\r\n")
				time.Sleep(2 * time.Second)
				began := time.Now()
				b.want(b.request("GET http://up/second HTTP/1.1\r\nHost: up\r\n"+test.credential+"\r\n"), 200, "attempts=2; stop=success; received-status=200")
				took := time.Since(began)
				if held := took >= 8*time.Second && took <= 10*time.Second+50*time.Millisecond; held != test.held {
					b.Errorf("waited %v", took)
				}
				b.want(<-first, 200, "attempts=2; stop=success; received-status=200")
			})
		})
	}
}

// TestPauseComesLate: a hint that comes while a retry waits holds that back, too.
func TestPauseComesLate(t *testing.T) {
	inTrouble(t, struggling(1, func(u *policy.Upstream) {
		u.Default.Timeout.Total = 0
		u.Default.Retry.Backoff = policy.Backoff{Initial: 4 * time.Second, Max: 4 * time.Second, Multiplier: 1, Strategy: policy.Constant, Jitter: policy.NoJitter}
	}), func(b *bubble) {
		b.serve("a:80", func(n int, req *http.Request) string { return []string{fiveOhThree, hinted503, ok, ok}[n-1] })
		began := time.Now()
		first := b.later(getUp)
		time.Sleep(2 * time.Second)
		second := b.later(getUp)
		b.want(<-first, 200, "attempts=2; stop=success; received-status=200")
		if took := time.Since(began); took < 12*time.Second || took > 15*time.Second {
			b.Errorf("retried after %v", took)
		}
		b.want(<-second, 200, "attempts=2; stop=success; received-status=200")
	})
}

// TestPauseTooLong: a hint that is not obeyed holds back nobody.
func TestPauseTooLong(t *testing.T) {
	inTrouble(t, struggling(1, func(u *policy.Upstream) { u.Default.Retry.RetryAfter = 5 * time.Second }), func(b *bubble) {
		b.serve("a:80", script(hinted503, fiveOhThree, ok))
		b.want(b.get(), 503, "attempts=1; stop=retry_after; received-status=503")
		began := time.Now()
		b.want(b.get(), 200, "attempts=2; stop=success; received-status=200")
		within(b.T, time.Since(began), 0)
	})
}
