package blackbox

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// failure is one way an attempt can end without a usable response.
type failure struct {
	name    string
	answer  answer
	class   string
	errors  string // the RFC 9209 error types that say it, separated by |
	retried bool   // for GET
}

// failures are section 4's classes, each produced for real by an upstream that
// accepts the connection and reads the request.
func failures() []failure {
	return []failure{
		{"reset before a header", reset, "connection_reset", "connection_terminated", true},
		{"closed before a header", fin, "connection_reset", "connection_terminated", true},
		{"closed within the header", rawClose("HTTP/1.1 200 OK\r\nContent-Le"), "connection_reset", "connection_terminated|http_response_incomplete", true},
		{"reset within the header", func(p *peer, _ *request) bool {
			p.write("HTTP/1.1 200 OK\r\nContent-Le")
			p.up.flushed(p)
			return reset(p, nil)
		}, "connection_reset", "connection_terminated|http_response_incomplete", true},
		{"truncated length", rawClose("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"), "truncated", "http_response_incomplete", true},
		{"truncated length, no byte", rawClose("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"), "truncated", "http_response_incomplete", true},
		{"not HTTP", rawClose("SSH-2.0-OpenSSH\r\n\r\n"), "protocol_error", "http_protocol_error", false},
		{"garbage", rawClose("\x00\x01\x02\x03\r\n\r\n"), "protocol_error", "http_protocol_error", false},
		{"length and chunked", rawClose("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"), "protocol_error", "http_protocol_error", false},
		{"lengths that disagree", rawClose("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"), "protocol_error", "http_protocol_error", false},
		{"an upgrade nobody asked for", raw("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"), "protocol_error", "http_protocol_error|http_upgrade_failed", false},
	}
}

// flushed gives what was written a moment to be read before a RST may drop it.
func (u *upstream) flushed(*peer) { linger(100 * time.Millisecond) }

// Section 4: GET is retried where the class may be, up to max_attempts, and
// what is counted is what the upstream saw.
func TestFailureClasses(t *testing.T) {
	t.Parallel()
	for _, f := range failures() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			u := answers(t, f.answer)
			p := start(t, `defaults: {retry: {`+quick+`}}`)
			n, stop := 1, "permanent"
			if f.retried {
				n, stop = 4, "max_attempts"
			}
			r := p.get(u.url("/"))
			r.expectProblem(t, 502, fmt.Sprintf("attempts=%d; stop=%s", n, stop))
			f.expectError(t, r)
			p.wantAttempts(u, n)
			p.wantMetric(float64(n), "mulligan_attempts_total", "result="+f.class)
			if f.retried {
				p.wantMetric(3, "mulligan_retries_total", "reason="+f.class)
				p.wantMetric(1, "mulligan_requests_total", "outcome=failed")
			} else {
				p.wantMetric(1, "mulligan_requests_total", "outcome=permanent")
			}
		})
	}
}

func (f failure) expectError(t *testing.T, r response) {
	t.Helper()
	got := r.proxyStatus(t)
	if !strings.Contains("|"+f.errors+"|", "|"+got["error"]+"|") {
		t.Errorf("error=%s, want one of %s", got["error"], f.errors)
	}
	if got["received-status"] != "" && f.class != "truncated" {
		t.Errorf("received-status=%s of a response that was none", got["received-status"])
	}
}

// One failure, then a good answer: saved for GET.
func TestFailureThenSuccess(t *testing.T) {
	t.Parallel()
	for _, f := range failures() {
		if !f.retried {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			u := answers(t, f.answer, text(200, "saved"))
			p := start(t, `defaults: {retry: {`+quick+`}}`)
			r := p.get(u.url("/"))
			r.expect(t, 200, "attempts=2; stop=success; received-status=200")
			want(t, "body", r.Body, "saved")
			p.wantAttempts(u, 2)
		})
	}
}

// POST is not: it was or may have been sent. Its client never gets a body that
// looks whole.
func TestFailuresOfPOST(t *testing.T) {
	t.Parallel()
	for _, f := range failures() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			u := answers(t, f.answer, text(200, "twice"))
			p := start(t, `defaults: {retry: {`+quick+`}}`)
			r := p.do("POST", u.url("/"), "x")
			stop := "not_idempotent"
			if !f.retried {
				stop = "permanent"
			}
			if r.Status == 200 && f.class == "truncated" {
				want(t, "a broken body looks whole", r.Whole, false)
			} else {
				r.expectProblem(t, 502, "attempts=1; stop="+stop)
				f.expectError(t, r)
			}
			p.wantAttempts(u, 1)
		})
	}
}

// protocol_error is retried where it is listed.
func TestProtocolErrorListed(t *testing.T) {
	t.Parallel()
	u := answers(t, rawClose("junk\r\n\r\n"), text(200, ""))
	p := start(t, `defaults: {retry: {retry_on: [inherit, protocol_error], `+quick+`}}`)
	p.get(u.url("/")).expect(t, 200, "attempts=2; stop=success; received-status=200")
}

// A class that is taken off the list is permanent.
func TestClassNotListed(t *testing.T) {
	t.Parallel()
	u := answers(t, fin)
	p := start(t, `defaults: {retry: {retry_on: [503], `+quick+`}}`)
	p.get(u.url("/")).expectProblem(t, 502, "attempts=1; stop=permanent; error=connection_terminated")
	p.get("http://"+closedAddr(t)+"/").expectProblem(t, 502, "attempts=1; stop=permanent; error=connection_refused")
}

// connect_failure: any method, since nothing was sent.
func TestConnectionRefused(t *testing.T) {
	t.Parallel()
	p := start(t, `defaults: {retry: {`+quick+`}}`)
	dead := "http://" + closedAddr(t) + "/"
	p.get(dead).expectProblem(t, 502, "attempts=4; stop=max_attempts; error=connection_refused")
	p.do("POST", dead, "body").expectProblem(t, 502, "attempts=4; stop=max_attempts; error=connection_refused")
	p.do("BREW", dead, "").expectProblem(t, 502, "attempts=4; stop=max_attempts; error=connection_refused")
	p.wantMetric(12, "mulligan_attempts_total", "result=connect_failure")
	p.wantMetric(9, "mulligan_retries_total", "reason=connect_failure")
	p.wantMetric(3, "mulligan_requests_total", "outcome=failed")
}

// A POST to a port that opens during its retries arrives once, and whole.
func TestPOSTWaitsForThePort(t *testing.T) {
	t.Parallel()
	p := start(t, `defaults: {retry: {max_attempts: 10, backoff: {strategy: constant, initial_delay: 1s, jitter: none}, budget: {burst: 100}}}`)
	addr := freeAddr(t)
	c := dial(t, p.proxy)
	c.send(head("POST", "http://"+addr+"/", "Content-Length: 5") + "hello")
	p.wantMetric(1, "mulligan_retries_waiting")
	u := upstreamOn(t, listen(t, addr), answering(text(200, "")))
	want(t, "status", c.next("POST").Status, 200)
	want(t, "requests", u.count(), 1)
	want(t, "body", u.request(1).Body, "hello")
}

// dns_not_found is never retried; where the resolver cannot say, it is a
// connect_failure ("DNS failed for now").
func TestUnknownName(t *testing.T) {
	t.Parallel()
	p := start(t, `defaults: {retry: {max_attempts: 2, `+quick+`}}`)
	r := p.get("http://no-such-name.invalid/")
	class := "dns_not_found"
	if resolverFailsForNow("no-such-name.invalid") {
		class = "connect_failure"
		if r.Status != 502 && r.Status != 504 {
			t.Errorf("status %d", r.Status)
		}
		p.wantMetric(2, "mulligan_attempts_total", "result="+class)
		return
	}
	r.expectProblem(t, 502, "attempts=1; stop=permanent; error=dns_error")
	p.wantMetric(1, "mulligan_attempts_total", "result="+class)
	p.wantMetric(1, "mulligan_requests_total", "outcome=permanent")
}
