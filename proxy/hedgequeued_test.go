package proxy_test

import (
	"net/http"
	"testing"
	"time"

	"mulligan/policy"
)

// TestHedgeStandsForWhatWasNotSent: where the attempt itself waits for a connection
// until the window ends, the hedge's failure is all there is, and the client gets it.
func TestHedgeStandsForWhatWasNotSent(t *testing.T) {
	const post = "POST http://up/ HTTP/1.1\r\nHost: up\r\nContent-Length: 0\r\n\r\n" // which is not hedged
	const get = "GET http://up/ HTTP/1.1\r\nHost: up\r\nMulligan-Policy: total=2\r\n\r\n"
	for name, test := range map[string]struct {
		answer string
		status int
		stop   string
	}{
		"a response": {fiveOhThree, 503, stopped(1, "window", 503)},
		"a reset":    {andBreaks, 502, "attempts=1; stop=window; error=connection_terminated"},
		"for good":   {"NONSENSE\r\n\r\n", 502, "attempts=1; stop=permanent; error=http_protocol_error"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 8 { // by chance, the attempt itself waits for the one or for the other
				inTrouble(t, struggling(2, func(u *policy.Upstream) {
					hedged(u)
					u.Connections.MaxPerEndpoint = 1
				}), func(b *bubble) {
					busyFor := func(d time.Duration) func(int, *http.Request) string {
						return func(_ int, req *http.Request) string {
							if req.Method == "POST" {
								time.Sleep(d)
								return ok
							}
							return test.answer
						}
					}
					b.serve("a:80", busyFor(time.Second))
					b.serve("b:80", busyFor(3*time.Second))
					one := b.later(post)
					time.Sleep(10 * time.Millisecond)
					other := b.later(post) // to the endpoint that has less to do
					time.Sleep(10 * time.Millisecond)
					began := time.Now()
					b.want(b.request(get), test.status, test.stop)
					within(b.T, time.Since(began), 2*time.Second)
					<-one
					<-other
					b.balanced()
				})
			}
		})
	}
}
