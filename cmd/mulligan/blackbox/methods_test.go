package blackbox

import (
	"fmt"
	"testing"
)

// Section 4: idempotent is a method of the list, or a request with the key.
func TestMethodsThatAreRetried(t *testing.T) {
	t.Parallel()
	p := start(t, `defaults: {retry: {`+quick+`}}`)
	for _, row := range []struct {
		method, field string
		retried       bool
	}{
		{"GET", "", true}, {"HEAD", "", true}, {"OPTIONS", "", true}, {"TRACE", "", true}, {"PUT", "", true}, {"DELETE", "", true},
		{"POST", "", false}, {"PATCH", "", false}, {"PROPFIND", "", false}, {"BREW", "", false}, {"M-SEARCH", "", false},
		{"get", "", false}, {"Get", "", false}, {"GETS", "", false},
		{"POST", "Idempotency-Key: k1", true}, {"PATCH", "idempotency-KEY: k1", true}, {"BREW", "Idempotency-Key: k", true},
		{"POST", "Idempotency-Key: ", false}, {"POST", "Idempotency-Key:  \t ", false}, {"POST", "Request-Id: k1", false},
	} {
		u := answers(t, text(503, ""), text(200, ""))
		var fields []string
		if row.field != "" {
			fields = append(fields, row.field)
		}
		r := p.do(row.method, u.url("/"), "", fields...)
		name := row.method + " " + row.field
		if row.retried {
			want(t, "status of "+name, r.Status, 200)
			want(t, "attempts of "+name, u.count(), 2)
			want(t, "method of the retry", u.request(2).Head, u.request(1).Head)
		} else {
			r.expect(t, 503, "attempts=1; stop=not_idempotent; received-status=503")
			want(t, "attempts of "+name, u.count(), 1)
		}
	}
}

// `methods` and `idempotency_key` (a name or a list) are the configuration's.
func TestConfiguredMethodsAndKeys(t *testing.T) {
	t.Parallel()
	p := start(t, `defaults: {retry: {methods: [POST, BREW], idempotency_key: [X-Key, Request-Id], `+quick+`}}`)
	for _, row := range []struct {
		method, field string
		retried       bool
	}{
		{"POST", "X-A: b", true}, {"BREW", "X-A: b", true}, {"GET", "X-A: b", false}, {"PATCH", "Request-Id: 1", true},
		{"PATCH", "x-key: 1", true}, {"PATCH", "Idempotency-Key: 1", false},
	} {
		u := answers(t, text(503, ""), text(200, ""))
		p.do(row.method, u.url("/"), "", row.field)
		want(t, fmt.Sprintf("%v retried", row), u.count() == 2, row.retried)
	}
}

// The body of a retry is the same bytes, whatever its framing.
func TestBodyIsReplayed(t *testing.T) {
	t.Parallel()
	p := start(t, `defaults: {retry: {`+quick+`}}`)
	body := pattern(100_000)
	u := answers(t, text(503, ""), reset, text(200, "done"))
	r := p.do("PUT", u.url("/"), body)
	r.expect(t, 200, "attempts=3; stop=success; received-status=200")
	for n := 1; n <= 3; n++ {
		want(t, fmt.Sprintf("body of attempt %d is whole and equal", n), u.request(n).Body == body, true)
	}

	u = answers(t, text(503, ""), text(200, ""))
	c := dial(t, p.proxy)
	c.send(head("PUT", u.url("/"), "Transfer-Encoding: chunked", "Trailer: X-Sum") + "3\r\nabc\r\n4;ext=1\r\ndefg\r\n0\r\nX-Sum: 7\r\n\r\n")
	c.next("PUT").expect(t, 200, "attempts=2; stop=success; received-status=200")
	for n := 1; n <= 2; n++ {
		got := u.request(n)
		want(t, "chunked body", got.Body, "abcdefg")
		want(t, "trailer", fmt.Sprint(got.Trailer), "[{X-Sum 7}]")
	}
}

// pattern is text of a length in which no part equals its neighbours.
func pattern(n int) string {
	b := make([]byte, 0, n+16)
	for i := 0; len(b) < n; i++ {
		b = fmt.Appendf(b, "%d,", i)
	}
	return string(b[:n])
}

// buffer.request: past it the body streams on and cannot be replayed.
func TestBodyPastTheBufferIsNotReplayed(t *testing.T) {
	t.Parallel()
	u := answers(t, text(503, ""), text(200, ""))
	p := start(t, `defaults: {buffer: {request: 10KiB}, retry: {`+quick+`}}`)
	body := pattern(10*1024 + 1)
	p.do("PUT", u.url("/"), body).expect(t, 503, "attempts=1; stop=body_not_replayable; received-status=503")
	want(t, "the body arrived whole", u.request(1).Body == body, true)
	p.wantMetric(1, "mulligan_retries_denied_total", "stop=body_not_replayable")

	u = answers(t, text(503, ""), text(200, ""))
	p.do("PUT", u.url("/"), pattern(10*1024)).expect(t, 200, "attempts=2; stop=success; received-status=200")
	p.wantMetric(0, "mulligan_buffered_bytes")
}

// A refused connection costs a long body nothing: it was not sent.
func TestUnsentBodyIsStillThere(t *testing.T) {
	t.Parallel()
	p := start(t, `defaults: {buffer: {request: 1KiB}, retry: {`+quick+`}}`)
	r := p.do("PUT", "http://"+closedAddr(t)+"/", pattern(5000))
	if got := r.proxyStatus(t)["stop"]; got != "max_attempts" && got != "body_not_replayable" {
		t.Errorf("stop=%s", got)
	}
	want(t, "status", r.Status, 502)
}

// buffer_total bounds all replay bytes together; past it a body is not replayable.
func TestBufferTotal(t *testing.T) {
	t.Parallel()
	u := answers(t, text(503, ""), text(200, ""))
	p := start(t, `
buffer_total: 64KiB
defaults: {retry: {`+quick+`}}
`)
	body := pattern(300_000)
	p.do("PUT", u.url("/"), body).expect(t, 503, "attempts=1; stop=body_not_replayable; received-status=503")
	want(t, "the body arrived whole", u.request(1).Body == body, true)
	p.wantMetric(0, "mulligan_buffered_bytes")
	u = answers(t, text(503, ""), text(200, ""))
	p.do("PUT", u.url("/"), "small").expect(t, 200, "attempts=2; stop=success; received-status=200")
}

// mulligan_buffered_bytes shows what is kept while it is kept.
func TestBufferedBytesGauge(t *testing.T) {
	t.Parallel()
	release := make(chan bool)
	u := answers(t, func(p *peer, r *request) bool { <-release; return text(200, "")(p, r) })
	p := start(t, "")
	c := dial(t, p.proxy)
	c.send(head("PUT", u.url("/"), "Content-Length: 50000") + pattern(50_000))
	eventually(t, "the body to be counted", func() bool { n, _ := p.metric("mulligan_buffered_bytes"); return n >= 50_000 })
	close(release)
	c.next("PUT").expect(t, 200, "")
	p.wantMetric(0, "mulligan_buffered_bytes")
}

// A request without a body is always replayable.
func TestEmptyBodyIsReplayable(t *testing.T) {
	t.Parallel()
	u := answers(t, text(503, ""), text(200, ""))
	p := start(t, `defaults: {buffer: {request: 0}, retry: {`+quick+`}}`)
	p.do("PUT", u.url("/"), "", "Content-Length: 0").expect(t, 200, "attempts=2; stop=success; received-status=200")
}
