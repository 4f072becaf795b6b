package blackbox

import (
	"strings"
	"testing"
	"time"
)

// leavings are the ways a client goes away.
func leavings() map[string]func(c *client) {
	return map[string]func(c *client){
		"close":      func(c *client) { c.Close() },
		"reset":      func(c *client) { abort(c.TCPConn) },
		"half-close": func(c *client) { _ = c.CloseWrite() },
	}
}

// Section 7: a client that closes its connection, or its writing side, is gone:
// its attempt is cancelled at once.
func TestClientGoneMidAttempt(t *testing.T) {
	t.Parallel()
	for name, leave := range leavings() {
		for _, method := range []string{"GET", "POST"} {
			t.Run(name+" "+method, func(t *testing.T) {
				t.Parallel()
				arrived, gone := make(chan bool, 1), make(chan bool, 1)
				u := answers(t, func(p *peer, _ *request) bool {
					arrived <- true
					gone <- p.ended()
					return false
				})
				p := start(t, "")
				c := dial(t, p.proxy)
				c.send(head(method, u.url("/"), "Content-Length: 2") + "hi")
				<-arrived
				leave(c)
				want(t, "the attempt was cancelled", <-gone, true)
				p.wantMetric(1, "mulligan_requests_total", "outcome=client_gone")
				p.wantMetric(0, "mulligan_requests_in_flight", "upstream=default")
				want(t, "attempts seen", u.count(), 1)
			})
		}
	}
}

// The same once the response is on its way: its upstream connection ends.
func TestClientGoneMidResponse(t *testing.T) {
	t.Parallel()
	gone := make(chan bool, 1)
	u := answers(t, func(p *peer, _ *request) bool {
		p.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
		gone <- p.ended()
		return false
	})
	p := start(t, "")
	c := dial(t, p.proxy)
	c.send(head("GET", u.url("/")))
	want(t, "status", c.head().Status, 200)
	c.Close()
	want(t, "the upstream connection ended", <-gone, true)
	p.wantMetric(0, "mulligan_requests_in_flight", "upstream=default")
}

// A client that leaves during its own upload: the upstream never sees a body
// that looks whole, whatever the framing.
func TestTruncatedUpload(t *testing.T) {
	t.Parallel()
	for name, leave := range leavings() {
		for framing, bytes := range map[string]string{
			"length":             "Content-Length: 10\r\n\r\nhalf",
			"large length":       "Content-Length: 2000000\r\n\r\n" + strings.Repeat("y", 1_500_000),
			"chunked":            "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
			"within a chunk":     "Transfer-Encoding: chunked\r\n\r\n8\r\nhalf",
			"within a size":      "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n1",
			"within the trailer": "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\nX-T: 1\r\n",
		} {
			t.Run(name+" "+framing, func(t *testing.T) {
				t.Parallel()
				u := answers(t, text(200, ""))
				p := start(t, `defaults: {retry: {`+quick+`}}`)
				for _, method := range []string{"PUT", "POST"} {
					before := u.count()
					c := dial(t, p.proxy)
					c.send(strings.TrimSuffix(head(method, u.url("/")), "\r\n") + bytes)
					eventually(t, "the head at the upstream, before the leaving", func() bool { return u.count() > before })
					linger(50 * time.Millisecond) // and those of the body
					leave(c)
					p.wantMetric(0, "mulligan_requests_in_flight")
					eventually(t, "the upstream to see the end", func() bool { r := u.request(u.count()); return r.Broken != nil || r.Whole })
					want(t, "the upload looked whole", u.request(u.count()).Whole, false)
					want(t, "attempts", u.count(), before+1)
				}
			})
		}
	}
}

// Nobody waits for a client that is gone: with attempts left, no further one.
func TestNoRetryForAClientThatIsGone(t *testing.T) {
	t.Parallel()
	release := make(chan bool)
	u := answers(t, func(p *peer, r *request) bool { <-release; return text(503, "")(p, r) })
	p := start(t, `defaults: {retry: {`+quick+`}}`)
	c := dial(t, p.proxy)
	c.send(head("GET", u.url("/")))
	eventually(t, "the first attempt", func() bool { return u.count() == 1 })
	c.Close()
	p.wantMetric(1, "mulligan_requests_total", "outcome=client_gone")
	close(release)
	linger(200 * time.Millisecond)
	p.wantAttempts(u, 1)
}

// A client that sends its next request early (pipelining) is not gone.
func TestPipeliningIsNotLeaving(t *testing.T) {
	t.Parallel()
	u := answers(t, slowly(300*time.Millisecond, text(200, "1")), text(200, "2"))
	p := start(t, "")
	c := dial(t, p.proxy)
	c.send(head("GET", u.url("/1")))
	linger(50 * time.Millisecond)
	c.send(head("GET", u.url("/2")))
	want(t, "first", c.next("GET").Body, "1")
	want(t, "second", c.next("GET").Body, "2")
}

// Clients that leave between requests, or before one, cost nothing.
func TestClientsThatSayNothing(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, "")
	for _, leave := range leavings() {
		leave(dial(t, p.proxy))
		c := dial(t, p.proxy)
		c.send(head("GET", u.url("/")))
		c.next("GET").expect(t, 200, "")
		leave(c)
		c = dial(t, p.proxy)
		c.send("GET /")
		leave(c)
	}
	p.wantMetric(3, "mulligan_requests_total")
	p.wantMetric(3, "mulligan_requests_total", "outcome=success")
}
