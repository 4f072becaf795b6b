package blackbox

import (
	"strings"
	"testing"
	"time"
)

// An upstream that stops within the header is as slow as one that never begins.
func TestHangWithinTheHeader(t *testing.T) {
	t.Parallel()
	for name, beginning := range map[string]string{
		"status line": "HTTP/1.1 20", "fields": "HTTP/1.1 200 OK\r\nX-A: b\r\n", "after a 103": early, "after a 100": "HTTP/1.1 100 Continue\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := answers(t, func(p *peer, r *request) bool { p.write(beginning); return hang(p, r) }, text(200, "second"))
			p := start(t, `defaults: {timeout: {attempt: 5s}, retry: {`+quick+`}}`)
			r := p.get(u.url("/"))
			r.expect(t, 200, "attempts=2; stop=success; received-status=200")
			want(t, "body", r.Body, "second")
			p.wantMetric(1, "mulligan_attempts_total", "result=timeout")
		})
	}
}

// An upstream that drips its header cannot stretch the attempt.
func TestDrippingHeader(t *testing.T) {
	t.Parallel()
	u := answers(t, func(p *peer, _ *request) bool {
		for range 60 {
			linger(50 * time.Millisecond)
			if _, err := p.Write([]byte("H")); err != nil {
				return false
			}
		}
		return false
	}, text(200, "second"))
	p := start(t, `defaults: {timeout: {attempt: 1s}, retry: {`+quick+`}}`)
	r := p.get(u.url("/"))
	if r.Status != 200 && r.Status != 502 {
		t.Errorf("status %d", r.Status)
	}
}

// The window ends while a response is held: the client is not left waiting.
func TestWindowEndsWhileHeld(t *testing.T) {
	t.Parallel()
	u := answers(t, func(p *peer, r *request) bool {
		p.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
		return hang(p, r)
	})
	p := start(t, `defaults: {timeout: {attempt: 0s, total: 400ms, idle: 2s}, retry: {`+quick+`}}`)
	r := p.get(u.url("/"))
	if r.Status == 200 && r.Whole {
		t.Errorf("half a body looks whole: %q", r.Body)
	}
	if r.Status != 200 {
		r.expectProblem(t, 504, "attempts=1; stop=window")
	}
}

// An upstream that does not read the upload: given up after timeout.idle, for
// the client as well.
func TestUpstreamThatDoesNotReadIsGivenUp(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"PUT", "POST"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			release := make(chan bool)
			u := serve(t, func(p *peer) { p.head(); <-release })
			defer close(release)
			p := start(t, `defaults: {timeout: {idle: 2s}, buffer: {request: 64KiB}, retry: {`+quick+`}}`)
			c := dial(t, p.proxy)
			upload := head(method, u.url("/"), "Content-Length: 40000000") + strings.Repeat("x", 40_000_000)
			begun := time.Now()
			go c.send(upload)
			r := c.final(method)
			if r.Status != 0 && r.Status != 502 && r.Status != 504 {
				t.Errorf("status %d", r.Status)
			}
			if spent := time.Since(begun); spent > patience-time.Second {
				t.Errorf("an upload that moves no byte was given up only after %v", spent)
			}
			p.wantMetric(0, "mulligan_requests_in_flight", "upstream=default")
		})
	}
}

// A client that resets while its upload is stuck at the upstream is noticed,
// though its last bytes are still unread. (A FIN would be behind them.)
func TestClientGoneWithAStuckUpload(t *testing.T) {
	t.Parallel()
	reached := make(chan bool, 1)
	release := make(chan bool)
	gone := make(chan bool, 1)
	u := serve(t, func(p *peer) {
		r := p.head()
		reached <- true
		<-release
		p.body(r)
		gone <- true
	})
	p := start(t, `defaults: {timeout: {idle: 5m}}`)
	c := dial(t, p.proxy)
	upload := strings.Repeat("x", 50_000_000) // made before the clock starts: that takes its time under load
	c.send(head("PUT", u.url("/"), "Content-Length: 60000000"))
	<-reached
	_ = c.SetWriteDeadline(time.Now().Add(time.Second))
	c.send(upload) // until it is stuck
	abort(c.TCPConn)
	p.wantMetric(0, "mulligan_requests_in_flight", "upstream=default")
	p.wantMetric(1, "mulligan_requests_total", "outcome=client_gone")
	close(release)
	<-gone
	want(t, "the upload looked whole", u.request(1).Whole, false)
}

// A client that resets while a response streams to it frees the upstream.
func TestClientGoneWithAStuckDownload(t *testing.T) {
	t.Parallel()
	gone := make(chan bool, 1)
	u := serve(t, func(p *peer) {
		if p.request() == nil {
			return
		}
		p.write("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
		var err error
		piece := []byte(strings.Repeat("x", 100_000))
		for n := 0; err == nil && n < 1000; n++ {
			_, err = p.Write(piece)
		}
		gone <- err != nil
	})
	p := start(t, "")
	c := dial(t, p.proxy)
	c.send(head("GET", u.url("/")))
	want(t, "status", c.head().Status, 200)
	linger(300 * time.Millisecond) // the pipes fill
	abort(c.TCPConn)
	select {
	case broken := <-gone:
		want(t, "the upstream's write broke off", broken, true)
	case <-time.After(patience):
		t.Error("the upstream is still held")
	}
	p.wantMetric(0, "mulligan_requests_in_flight", "upstream=default")
}

// Crowds that leave in the middle of their uploads, at the very moment in which
// their attempts begin: each is noticed.
func TestCrowdLeavesMidUpload(t *testing.T) {
	t.Parallel()
	u := serve(t, func(p *peer) { p.ended() }) // it never answers
	p := start(t, "log: {access: false}")
	message := head("PUT", u.url("/"), "Content-Length: 100") + strings.Repeat("x", 18)
	for round := range 6 {
		conns := make([]*client, 100)
		for i := range conns {
			conns[i] = dial(t, p.proxy)
		}
		for _, c := range conns {
			go func() {
				c.send(message)
				if round%2 == 0 {
					c.Close()
				} else {
					abort(c.TCPConn)
				}
			}()
		}
		p.wantMetric(0, "mulligan_requests_in_flight", "upstream=default")
	}
	p.wantMetric(0, "mulligan_buffered_bytes")
}

// An upload that stalls at one upstream connection is tried anew on another, and
// the second attempt has all of timeout.idle for itself.
func TestRetryAfterAStalledUpload(t *testing.T) {
	t.Parallel()
	release := make(chan bool)
	u := serve(t, func(p *peer) {
		r := p.head()
		if r == nil {
			return
		}
		if p.number%2 == 1 {
			<-release // reads no body
			return
		}
		linger(2 * time.Second) // of the 6 that timeout.idle leaves it
		p.body(r)
		text(200, "whole", "Connection: close")(p, r)
	})
	defer close(release)
	p := start(t, `defaults: {timeout: {idle: 6s}, buffer: {request: 60MiB}, retry: {`+quick+`}}`)
	body := strings.Repeat("y", 20_000_000)
	for range 2 {
		c := dial(t, p.proxy)
		go c.send(head("PUT", u.url("/"), "Content-Length: 20000000") + body)
		r := c.final("PUT")
		r.expect(t, 200, "attempts=2; stop=success; received-status=200")
		c.Close()
	}
	p.wantMetric(2, "mulligan_attempts_total", "result=timeout")
}

// Clients that stop in their own uploads are to blame themselves, each of them:
// nothing is retried for them, and no budget is spent.
func TestStalledClientsAreToBlame(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, `defaults: {timeout: {idle: 2s}, retry: {`+quick+`}}`)
	conns := make([]*client, 60)
	for i := range conns {
		conns[i] = dial(t, p.proxy)
		conns[i].send(head("PUT", u.url("/"), "Content-Length: 10") + "half")
	}
	for _, c := range conns {
		if r := c.final("PUT"); r.Status != 408 {
			t.Errorf("status %d, %q", r.Status, r.get("Proxy-Status"))
		}
	}
	p.wantMetric(0, "mulligan_retries_total")
	want(t, "attempts seen", u.count(), len(conns))
}
