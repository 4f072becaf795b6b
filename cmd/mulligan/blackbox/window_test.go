package blackbox

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// slowly answers after a while.
func slowly(d time.Duration, then answer) answer {
	return func(p *peer, r *request) bool { linger(d); return then(p, r) }
}

// timeout.attempt: an idempotent request is tried anew.
func TestAttemptTimeout(t *testing.T) {
	t.Parallel()
	u := answers(t, hang, text(200, "second"))
	p := start(t, `defaults: {timeout: {attempt: 5s}, retry: {`+quick+`}}`)
	r := p.get(u.url("/"))
	r.expect(t, 200, "attempts=2; stop=success; received-status=200")
	want(t, "body", r.Body, "second")
	if got := u.gap(1); got < 400*time.Millisecond { // the clock began before the upstream had read the first
		t.Errorf("the attempt was cut after %v", got)
	}
	p.wantMetric(1, "mulligan_attempts_total", "result=timeout")
	p.wantMetric(1, "mulligan_retries_total", "reason=timeout")
}

// It cuts only where a retry follows: not a POST, not the last attempt, not
// with the mode off.
func TestAttemptTimeoutCutsOnlyForARetry(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ method, retry string }{
		"POST":         {"POST", quick},
		"last attempt": {"GET", "max_attempts: 1, " + quick},
		"observe":      {"GET", "mode: observe, " + quick},
		"off":          {"GET", "mode: off, " + quick},
		"not listed":   {"GET", "retry_on: [503], " + quick},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := answers(t, slowly(700*time.Millisecond, text(200, "slow")))
			p := start(t, `defaults: {timeout: {attempt: 150ms}, retry: {`+row.retry+`}}`)
			r := p.do(row.method, u.url("/"), "")
			r.expect(t, 200, "")
			want(t, "body", r.Body, "slow")
			p.wantAttempts(u, 1)
		})
	}
}

// The rest of a held response belongs to the attempt, too.
func TestAttemptTimeoutOfAHeldResponse(t *testing.T) {
	t.Parallel()
	u := answers(t, func(p *peer, r *request) bool {
		p.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
		return hang(p, r)
	}, text(200, "whole"))
	p := start(t, `defaults: {timeout: {attempt: 5s}, retry: {`+quick+`}}`)
	r := p.get(u.url("/"))
	r.expect(t, 200, "attempts=2; stop=success; received-status=200")
	want(t, "body", r.Body, "whole")
	p.wantMetric(1, "mulligan_attempts_total", "result=timeout")
}

// timeout.attempt runs from the request's last byte: a slow upload is not cut.
func TestAttemptTimeoutStartsAfterTheUpload(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, `defaults: {timeout: {attempt: 3s}, retry: {`+quick+`}}`)
	c := dial(t, p.proxy)
	c.send(head("PUT", u.url("/"), "Content-Length: 12"))
	for range 12 {
		linger(300 * time.Millisecond)
		c.send("x")
	}
	c.next("PUT").expect(t, 200, "")
	p.wantAttempts(u, 1)
}

// The window ends an attempt in any case.
func TestWindowEndsAttempt(t *testing.T) {
	t.Parallel()
	gone := make(chan bool, 1)
	u := answers(t, func(p *peer, _ *request) bool { gone <- p.ended(); return false })
	p := start(t, `defaults: {timeout: {attempt: 0s, total: 3s}, retry: {`+quick+`}}`)
	begun := time.Now()
	p.get(u.url("/")).expectProblem(t, 504, "attempts=1; stop=window; error=http_response_timeout")
	if spent := time.Since(begun); spent < 2980*time.Millisecond {
		t.Errorf("the window of 3 s ended after %v", spent)
	}
	want(t, "the attempt was cancelled", <-gone, true)
	p.wantMetric(1, "mulligan_attempts_total", "result=timeout")
	p.wantMetric(1, "mulligan_requests_total", "outcome=failed")
	p.wantMetric(1, "mulligan_retries_denied_total", "stop=window")
}

// A POST's, too ("in any case").
func TestWindowEndsPOST(t *testing.T) {
	t.Parallel()
	u := answers(t, hang)
	p := start(t, `defaults: {timeout: {attempt: 0s, total: 3s}, retry: {`+quick+`}}`)
	p.do("POST", u.url("/"), "x").expectProblem(t, 504, "attempts=1; stop=window; error=http_response_timeout")
}

// A wait that could not end before the window does is not begun.
func TestWaitPastTheWindowIsNotBegun(t *testing.T) {
	t.Parallel()
	u := answers(t, text(503, "now"))
	p := start(t, `defaults: {timeout: {attempt: 10s, total: 30s}, retry: {backoff: {strategy: constant, initial_delay: 60s, max_delay: 60s, jitter: none}}}`)
	begun := time.Now()
	r := p.get(u.url("/"))
	r.expect(t, 503, "attempts=1; stop=window; received-status=503")
	want(t, "body", r.Body, "now")
	if time.Since(begun) > 20*time.Second {
		t.Errorf("the answer took %v: the wait was begun", time.Since(begun))
	}
	p.wantMetric(3, "mulligan_retry_budget_remaining", "upstream=default")
}

// The attempts of one request share one window.
func TestWindowSpansAttempts(t *testing.T) {
	t.Parallel()
	u := answers(t, hang)
	p := start(t, `defaults: {timeout: {attempt: 1s, total: 4s}, retry: {max_attempts: 10, `+quick+`}}`)
	begun := time.Now()
	r := p.get(u.url("/"))
	r.expectProblem(t, 504, "stop=window; error=http_response_timeout")
	if spent := time.Since(begun); spent < 3900*time.Millisecond {
		t.Errorf("a window of 4 s ended after %v", spent)
	}
	if n := u.count(); n < 2 || n > 5 {
		t.Errorf("%d attempts of 1 s in a window of 4 s", n)
	}
	want(t, "attempts", r.proxyStatus(t)["attempts"], fmt.Sprint(u.count()))
}

// The window's clock stands still while the request's body arrives.
func TestWindowStandsStillDuringUpload(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, `defaults: {timeout: {attempt: 0s, total: 3s}, retry: {`+quick+`}}`)
	c := dial(t, p.proxy)
	c.send(head("POST", u.url("/"), "Content-Length: 12"))
	for range 12 {
		linger(300 * time.Millisecond)
		c.send("x")
	}
	c.next("POST").expect(t, 200, "")
	want(t, "body", u.request(1).Body, "xxxxxxxxxxxx")
}

// The window ends with the response header: it never cuts a body.
func TestWindowNeverCutsABody(t *testing.T) {
	t.Parallel()
	u := answers(t, func(p *peer, _ *request) bool {
		p.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		for range 8 {
			linger(500 * time.Millisecond)
			p.write("1\r\nx\r\n")
		}
		p.write("0\r\n\r\n")
		return true
	})
	p := start(t, `defaults: {timeout: {attempt: 3s, total: 3s}, retry: {`+quick+`}}`)
	r := p.get(u.url("/"))
	r.expect(t, 200, "")
	want(t, "body", r.Body, "xxxxxxxx")
	want(t, "whole", r.Whole, true)
}

// timeout.idle: a body that moves no byte for so long is given up, and does not
// look whole.
func TestIdleBodyIsGivenUp(t *testing.T) {
	t.Parallel()
	gone := make(chan bool, 1)
	u := answers(t, func(p *peer, _ *request) bool {
		p.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")
		gone <- p.ended()
		return false
	})
	p := start(t, `defaults: {timeout: {idle: 400ms}, retry: {`+quick+`}}`)
	r := p.get(u.url("/"))
	want(t, "status", r.Status, 200)
	want(t, "body so far", r.Body, "half")
	want(t, "looks whole", r.Whole, false)
	want(t, "the upstream connection ended", <-gone, true)
}

// The same for an upload whose client stalls: the upstream sees no whole body.
func TestIdleUploadIsGivenUp(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, `defaults: {timeout: {idle: 400ms}, retry: {`+quick+`}}`)
	c := dial(t, p.proxy)
	c.send(head("PUT", u.url("/"), "Content-Length: 10") + "half")
	r := c.next("PUT")
	if r.Status != 0 && r.Status != 408 && r.Status != 400 {
		t.Errorf("status %d for an upload that stalls", r.Status)
	}
	c.expectEnd()
	if u.count() > 0 {
		eventually(t, "the upstream to see the end", func() bool { return u.request(1).Broken != nil })
		want(t, "the body looked whole", u.request(1).Whole, false)
	}
}

// A slow reader is not an idle body of the upstream's; it is still given up in
// the end, so that it holds nothing for ever.
func TestClientThatDoesNotReadIsGivenUp(t *testing.T) {
	t.Parallel()
	gone := make(chan bool, 1)
	u := serve(t, func(p *peer) {
		if p.request() == nil {
			return
		}
		p.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		chunk := "10000\r\n" + strings.Repeat("x", 65536) + "\r\n"
		for {
			if _, err := p.Write([]byte(chunk)); err != nil {
				gone <- true
				return
			}
		}
	})
	p := start(t, `defaults: {timeout: {idle: 500ms}}`)
	c := dial(t, p.proxy)
	_ = c.SetReadBuffer(4096)
	c.send(head("GET", u.url("/")))
	select {
	case <-gone:
	case <-time.After(patience):
		t.Error("a client that reads nothing holds its upstream connection for ever")
	}
}
