package blackbox

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const early = "HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n"

// Section 7: 1xx is passed at once where no retry can follow.
func TestInterimAtOnce(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ method, retry string }{
		"POST":         {"POST", quick},
		"last attempt": {"GET", "max_attempts: 1, " + quick},
		"mode off":     {"GET", "mode: off, " + quick},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			received := make(chan bool)
			u := answers(t, func(p *peer, r *request) bool {
				p.write(early)
				<-received // the final answer waits for the client to have the interim one
				return text(200, "final")(p, r)
			})
			p := start(t, `defaults: {retry: {`+row.retry+`}}`)
			c := dial(t, p.proxy)
			c.send(head(row.method, u.url("/"), "Content-Length: 0"))
			r := c.next(row.method)
			close(received)
			want(t, "first status", r.Status, 103)
			want(t, "Link", r.get("Link"), "</style.css>; rel=preload")
			r = c.next(row.method)
			r.expect(t, 200, "")
			want(t, "body", r.Body, "final")
		})
	}
}

// Where one can, it comes with the final header, and never that of a failed attempt.
func TestInterimOfFailedAttempts(t *testing.T) {
	t.Parallel()
	u := answers(t,
		raw("HTTP/1.1 103 Early Hints\r\nX-Of: first\r\n\r\nHTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"),
		rawClose("HTTP/1.1 103 Early Hints\r\nX-Of: second\r\n\r\n"),
		raw("HTTP/1.1 103 Early Hints\r\nX-Of: third\r\n\r\nHTTP/1.1 102 Processing\r\nX-Of: third\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
	p := start(t, `defaults: {retry: {`+quick+`}}`)
	c := dial(t, p.proxy)
	c.send(head("GET", u.url("/")))
	for _, status := range []int{103, 102} {
		r := c.next("GET")
		want(t, "status", r.Status, status)
		want(t, "of which attempt", r.get("X-Of"), "third")
		if r.has("Proxy-Status") {
			t.Errorf("an interim response carries Proxy-Status: %q", r.Head)
		}
	}
	r := c.next("GET")
	r.expect(t, 200, "attempts=3; stop=success; received-status=200")
	want(t, "body", r.Body, "ok")
}

// More than 32 are a protocol_error; 32 are not.
func TestTooManyInterims(t *testing.T) {
	t.Parallel()
	p := start(t, `defaults: {retry: {`+quick+`}}`)
	many := func(n int) answer {
		return raw(strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", n) + "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	}
	for _, method := range []string{"GET", "POST"} {
		u := answers(t, many(32))
		want(t, method+" after 32 interim responses", p.do(method, u.url("/"), "").Status, 200)
		u = answers(t, many(33))
		p.do(method, u.url("/"), "").expectProblem(t, 502, "attempts=1; stop=permanent; error=http_protocol_error")
		want(t, "attempts", u.count(), 1)
	}
	p.wantMetric(2, "mulligan_attempts_total", "result=protocol_error")
}

// A client of HTTP/1.0 gets none (RFC 9110 15.2).
func TestNoInterimForHTTP10(t *testing.T) {
	t.Parallel()
	u := answers(t, raw(early+"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
	p := start(t, "")
	c := dial(t, p.proxy)
	c.send(lines("POST "+u.url("/")+" HTTP/1.0", "Content-Length: 0"))
	want(t, "first status", c.next("POST").Status, 200)
}

// Expect: 100-continue: the upstream's 100 is passed on, and only then the body
// comes, whether a retry can follow (PUT) or not (POST).
func TestContinue(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"POST", "PUT"} {
		for _, framing := range []string{"Content-Length: 5", "Transfer-Encoding: chunked"} {
			t.Run(method+" "+framing, func(t *testing.T) {
				t.Parallel()
				u := serve(t, func(p *peer) {
					r := p.head()
					if r == nil {
						return
					}
					p.write("HTTP/1.1 100 Continue\r\n\r\n")
					p.body(r)
					text(200, "got "+r.Body)(p, r)
					p.ended()
				})
				p := start(t, `defaults: {retry: {`+quick+`}}`)
				c := dial(t, p.proxy)
				c.send(head(method, u.url("/"), "Expect: 100-continue", framing))
				want(t, "interim status", c.next(method).Status, 100)
				if strings.HasPrefix(framing, "T") {
					c.send("5\r\nhello\r\n0\r\n\r\n")
				} else {
					c.send("hello")
				}
				r := c.next(method)
				r.expect(t, 200, "")
				want(t, "body", r.Body, "got hello")
				if got := u.request(1); !strings.EqualFold(got.get("Expect"), "100-continue") {
					t.Errorf("Expect reached the upstream as %q", got.get("Expect"))
				}
			})
		}
	}
}

// A final answer instead of the 100 comes to the client at once, and the
// body that was never sent is not waited for.
func TestContinueRefused(t *testing.T) {
	t.Parallel()
	u := serve(t, func(p *peer) {
		if r := p.head(); r != nil {
			text(401, "who are you?")(p, r)
			p.ended()
		}
	})
	p := start(t, "")
	for _, method := range []string{"POST", "PUT"} {
		c := dial(t, p.proxy)
		c.send(head(method, u.url("/"), "Expect: 100-continue", "Content-Length: 500"))
		r := c.next(method)
		r.expect(t, 401, "attempts=1; stop=permanent; received-status=401")
		want(t, "body", r.Body, "who are you?")
	}
}

// A body that was not asked for yet can be asked for by the next attempt.
func TestContinueAfterRetry(t *testing.T) {
	t.Parallel()
	u := serve(t, func(p *peer) {
		r := p.head()
		if r == nil {
			return
		}
		if p.up.count() == 1 {
			text(503, "", "Connection: close")(p, r)
			return
		}
		p.write("HTTP/1.1 100 Continue\r\n\r\n")
		p.body(r)
		text(200, r.Body)(p, r)
		p.ended()
	})
	p := start(t, `defaults: {retry: {`+quick+`}}`)
	c := dial(t, p.proxy)
	c.send(head("PUT", u.url("/"), "Expect: 100-continue", "Content-Length: 5"))
	r := c.next("PUT")
	if r.Status == 100 {
		c.send("hello")
		r = c.next("PUT")
	}
	r.expect(t, 200, "attempts=2; stop=success; received-status=200")
	want(t, "body", r.Body, "hello")
}

// An upstream that ignores the expectation gets the body when the client stops
// waiting and sends it.
func TestContinueIgnoredByUpstream(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, "fine"))
	p := start(t, "")
	c := dial(t, p.proxy)
	c.send(head("POST", u.url("/"), "Expect: 100-continue", "Content-Length: 5"))
	linger(300 * time.Millisecond)
	c.send("hello")
	r := c.final("POST")
	r.expect(t, 200, "")
	want(t, "body at the upstream", u.request(1).Body, "hello")
}

// Interim responses change nothing about trailers or the connection.
func TestInterimThenKeepAlive(t *testing.T) {
	t.Parallel()
	u := answers(t, raw(early+"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-T: 1\r\n\r\n"))
	p := start(t, "")
	c := dial(t, p.proxy)
	for i := range 3 {
		c.send(head("GET", u.url(fmt.Sprintf("/%d", i))))
		want(t, "interim", c.next("GET").Status, 103)
		r := c.next("GET")
		want(t, "body", r.Body, "ok")
		want(t, "trailer", fmt.Sprint(r.Trailer), "[{X-T 1}]")
	}
	want(t, "connections", u.connections(), 1)
}

// An interim response is no response header: neither timeout.attempt nor the
// window is stretched by any number of them.
func TestInterimsStretchNothing(t *testing.T) {
	t.Parallel()
	dripping := func(p *peer, _ *request) bool {
		for range 60 {
			if _, err := p.Write([]byte(early)); err != nil {
				return false
			}
			linger(200 * time.Millisecond) // 32 at most are let pass
		}
		return false
	}
	u := answers(t, dripping, text(200, "second"))
	p := start(t, `defaults: {timeout: {attempt: 3s, total: 20s}, retry: {`+quick+`}}`)
	p.get(u.url("/")).expect(t, 200, "attempts=2; stop=success; received-status=200")
	p.wantMetric(1, "mulligan_attempts_total", "result=timeout")

	u = answers(t, dripping)
	c := dial(t, p.proxy)
	c.send(head("POST", u.url("/"), "Content-Length: 0", "Mulligan-Policy: total=3"))
	want(t, "interim", c.next("POST").Status, 103)
	c.final("POST").expectProblem(t, 504, "attempts=1; stop=window; error=http_response_timeout")
}

// An interim response has no body (RFC 9110 8.6): its framing went on to the
// client all the same, who could wait for that body.
func TestInterimHasNoFraming(t *testing.T) {
	t.Parallel()
	p := start(t, "")
	for _, framing := range []string{"Content-Length: 5", "content-length: 0", "Transfer-Encoding: chunked"} {
		u := answers(t, raw("HTTP/1.1 103 Early Hints\r\n"+framing+"\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
		for _, method := range []string{"POST", "GET"} { // passed at once, and with the final header
			c := dial(t, p.proxy)
			c.send(head(method, u.url("/"), "Content-Length: 0"))
			r := c.next(method)
			want(t, "interim status", r.Status, 103)
			want(t, "Link", r.get("Link"), "</a>")
			if r.has("Content-Length") || r.has("Transfer-Encoding") {
				t.Errorf("%s, %s: %q", method, framing, r.Head)
			}
			want(t, "body", c.next(method).Body, "ok")
		}
	}
}

// Only an Expect that was 100-continue and nothing else was taken for one: with
// another member the client waited for its 100 in vain.
func TestContinueAmongOtherExpectations(t *testing.T) {
	t.Parallel()
	u := serve(t, func(p *peer) {
		for r := p.head(); r != nil; r = p.head() {
			p.write("HTTP/1.1 100 Continue\r\n\r\n")
			p.body(r)
			text(200, "got "+r.Body)(p, r)
		}
	})
	p := start(t, "")
	for _, fields := range [][]string{
		{"Expect: 100-continue, foo"}, {"Expect: foo, 100-Continue"}, {"Expect: foo", "Expect: 100-continue"},
	} {
		c := dial(t, p.proxy)
		c.send(head("POST", u.url("/"), append(fields, "Content-Length: 5")...))
		if r := c.next("POST"); r.Status != 100 {
			t.Fatalf("%q: status %d", fields, r.Status)
		}
		c.send("hello")
		want(t, "body", c.next("POST").Body, "got hello")
	}
}

// RFC 9110 15.2: a proxy forwards every 1xx that it did not ask for itself. A 100
// to a request without Expect was dropped.
func TestContinueThatNobodyAskedFor(t *testing.T) {
	t.Parallel()
	u := answers(t, raw("HTTP/1.1 100 Continue\r\nX-Of: it\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
	p := start(t, "")
	for _, fields := range [][]string{nil, {"Expect: 100-continue", "Content-Length: 0"}} {
		c := dial(t, p.proxy)
		c.send(head("GET", u.url("/"), fields...))
		r := c.next("GET")
		want(t, "first status", r.Status, 100)
		want(t, "its field", r.get("X-Of"), "it")
		c.next("GET").expect(t, 200, "")
	}
}
