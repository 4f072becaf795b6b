package blackbox

import (
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"
)

// dribble writes a message in segments that end at random places.
func dribble(w io.Writer, rng *rand.Rand, message string) {
	for len(message) > 0 {
		n := 1 + rng.IntN(min(len(message), 1+rng.IntN(60)))
		if _, err := io.WriteString(w, message[:n]); err != nil {
			return
		}
		message = message[n:]
		if rng.IntN(3) == 0 {
			linger(time.Millisecond) // lets the segment leave by itself
		}
	}
}

// Wherever the network cuts a message, on either side, it means the same.
func TestSegments(t *testing.T) {
	t.Parallel()
	const seeds = 40
	p := start(t, "log: {access: false}\ndefaults: {retry: {"+quick+"}}")
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 11))
			upRNG := rand.New(rand.NewPCG(seed, 12))
			respond := func(message string) answer {
				return func(p *peer, _ *request) bool { dribble(p, upRNG, message); return true }
			}
			u := answers(t,
				respond("HTTP/1.1 503 No\r\nContent-Length: 4\r\n\r\nbusy"),
				respond(early+"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: b\r\n\r\n5\r\nhello\r\n6;ext=\"x\"\r\n world\r\n0\r\nX-T: 1\r\nX-U: 2\r\n\r\n"),
				respond("HTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n"),
				respond("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 \nContent-Length: 3\nX-A:b\n\nend"),
			)
			c := dial(t, p.proxy)
			_ = c.SetNoDelay(true)
			go dribble(c, rng, head("PUT", u.url("/1"), "Transfer-Encoding: chunked", "X-In: 1")+"3\r\nabc\r\n0a\r\n0123456789\r\n0\r\nX-Sum: 2\r\n\r\n"+
				head("DELETE", u.url("/2"), "X-In: 2")+
				"\r\n"+head("POST", u.url("/3"), "Content-Length: 5", "X-In: 3")+"12345")
			want(t, "first interim", c.next("PUT").Status, 103)
			r := c.next("PUT")
			r.expect(t, 200, "attempts=2; stop=success; received-status=200")
			want(t, "first body", r.Body, "hello world")
			want(t, "first trailer", fmt.Sprint(r.Trailer), "[{X-T 1} {X-U 2}]")
			r = c.next("DELETE")
			r.expect(t, 204, "")
			want(t, "second X-A", r.get("X-A"), "b")
			r = c.final("POST")
			r.expect(t, 200, "")
			want(t, "third body", r.Body, "end")
			want(t, "requests seen", u.count(), 4)
			for n, body := range []string{"abc0123456789", "abc0123456789", "", "12345"} {
				got := u.request(n + 1)
				want(t, fmt.Sprintf("body of request %d", n+1), got.Body, body)
				if n < 2 {
					want(t, "trailer", fmt.Sprint(got.Trailer), "[{X-Sum 2}]")
				}
			}
		})
	}
}
