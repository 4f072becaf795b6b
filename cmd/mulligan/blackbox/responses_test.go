package blackbox

import (
	"strings"
	"testing"
)

// Section 7: in response heads a bare LF is accepted and space before a colon
// removed: what the client gets is clean.
func TestLenientResponseHeads(t *testing.T) {
	t.Parallel()
	p := start(t, "")
	for name, row := range map[string]struct{ head, field, value string }{
		"bare LF everywhere":     {"HTTP/1.1 200 OK\nX-A: b\nContent-Length: 2\n\n", "X-A", "b"},
		"bare LF in one place":   {"HTTP/1.1 200 OK\r\nX-A: b\nContent-Length: 2\r\n\r\n", "X-A", "b"},
		"bare LF ends the head":  {"HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: 2\r\n\n", "X-A", "b"},
		"space before the colon": {"HTTP/1.1 200 OK\r\nX-A : b\r\nContent-Length: 2\r\n\r\n", "X-A", "b"},
		"space in framing":       {"HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length : 2\r\n\r\n", "X-A", "b"},
		"tab before the colon":   {"HTTP/1.1 200 OK\r\nX-A\t \t: b\r\nContent-Length: 2\r\n\r\n", "X-A", "b"},
		"no reason":              {"HTTP/1.1 200 \r\nX-A: b\r\nContent-Length: 2\r\n\r\n", "X-A", "b"},
		"no reason, no space":    {"HTTP/1.1 200\r\nX-A: b\r\nContent-Length: 2\r\n\r\n", "X-A", "b"},
		"equal lengths":          {"HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n", "X-A", "b"},
		"Chunked":                {"HTTP/1.1 200 OK\r\nX-A: b\r\nTransfer-Encoding: CHUNKED\r\n\r\n", "X-A", "b"},
	} {
		body := "ok"
		if name == "Chunked" {
			body = "2\r\nok\r\n0\r\n\r\n"
		}
		u := answers(t, raw(row.head+body))
		r := p.get(u.url("/"))
		if name == "equal lengths" && r.Status == 502 {
			continue // RFC 9112 6.3 lets a recipient do either
		}
		want(t, "status of "+name, r.Status, 200)
		want(t, row.field+" of "+name, r.get(row.field), row.value)
		want(t, "body of "+name, r.Body, "ok")
		if strings.Count(r.Head, "\n") != strings.Count(r.Head, "\r\n") {
			t.Errorf("%s: bare LF reached the client: %q", name, r.Head)
		}
	}
}

// Ambiguous framing, and what is not HTTP, is a protocol_error: 502, not retried.
func TestUntrustworthyResponses(t *testing.T) {
	t.Parallel()
	p := start(t, `defaults: {retry: {`+quick+`}}`)
	for name, bytes := range map[string]string{
		"TE and CL":               "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		"two lengths":             "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!",
		"a list of lengths":       "HTTP/1.1 200 OK\r\nContent-Length: 2, 3\r\n\r\nok!",
		"signed length":           "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok",
		"negative length":         "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"length that is no digit": "HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\nok",
		"length past any integer": "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nok",
		"xchunked":                "HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\nok",
		"chunked, identity":       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
		"chunked twice":           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"gzip, chunked":           "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"NUL in a value":          "HTTP/1.1 200 OK\r\nX: a\x00b\r\nContent-Length: 0\r\n\r\n",
		"NUL in a name":           "HTTP/1.1 200 OK\r\nX\x00: b\r\nContent-Length: 0\r\n\r\n",
		"no colon":                "HTTP/1.1 200 OK\r\nJustText\r\nContent-Length: 0\r\n\r\n",
		"empty name":              "HTTP/1.1 200 OK\r\n: x\r\nContent-Length: 0\r\n\r\n",
		"two digits":              "HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n",
		"four digits":             "HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n",
		"status 099":              "HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n",
		"no status":               "HTTP/1.1 OK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/2":                  "HTTP/2 200 OK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/2.0":                "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
		"ICY":                     "ICY 200 OK\r\n\r\n",
		"junk before":             "junk\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"a request":               "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"bad first chunk":         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nok\r\n0\r\n\r\n",
	} {
		u := answers(t, rawClose(bytes))
		r := p.get(u.url("/"))
		if name == "bad first chunk" {
			want(t, "a bad chunk looks whole", r.Status == 200 && r.Whole, false)
			continue
		}
		if r.Status != 502 {
			t.Errorf("%s: status %d, want 502; %q", name, r.Status, r.Head)
			continue
		}
		r.expectProblem(t, 502, "attempts=1; stop=permanent; error=http_protocol_error")
		want(t, "attempts with "+name, u.count(), 1)
	}
}

// A fold or a bare CR in a response is cleaned or refused, never passed on
// (RFC 9112 2.2, 5.2).
func TestFoldsAndBareCRInResponses(t *testing.T) {
	t.Parallel()
	p := start(t, "")
	for _, field := range []string{"X-A: one\r\n two", "X-A: one\r\n\tContent-Length: 7", "X-A: one\rtwo", "X-A: one\rContent-Length: 9"} {
		u := answers(t, rawClose("HTTP/1.1 200 OK\r\n"+field+"\r\nContent-Length: 2\r\n\r\nok"))
		r := p.get(u.url("/"))
		if r.Status == 502 {
			continue
		}
		want(t, "status", r.Status, 200)
		want(t, "body", r.Body, "ok")
		if strings.Contains(strings.ReplaceAll(r.Head, "\r\n", ""), "\r") || strings.Contains(r.Head, "\r\n ") || strings.Contains(r.Head, "\r\n\t") {
			t.Errorf("%q reached the client: %q", field, r.Head)
		}
	}
}

// Odd statuses and reasons pass through as they are.
func TestOddStatuses(t *testing.T) {
	t.Parallel()
	p := start(t, "")
	for _, line := range []string{"HTTP/1.1 299 Odd", "HTTP/1.1 499 Client Closed Request", "HTTP/1.1 599 ", "HTTP/1.1 799 What", "HTTP/1.1 999 Request denied", "HTTP/1.1 200 \xc3\xa9t\xe9"} {
		u := answers(t, raw(line+"\r\nContent-Length: 2\r\n\r\nok"))
		r := p.get(u.url("/"))
		want(t, "status line", r.Line, line)
		want(t, "body", r.Body, "ok")
	}
}

// An answer's head is at most 1 MiB; below it passes, above it is a protocol_error.
func TestResponseHeadLimit(t *testing.T) {
	t.Parallel()
	p := start(t, `defaults: {retry: {`+quick+`}}`)
	line := "X-Big: " + strings.Repeat("b", 9_000) + "\r\n"
	u := answers(t, raw("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"+strings.Repeat(line, 100)+"\r\nok"))
	r := p.get(u.url("/"))
	r.expect(t, 200, "")
	want(t, "fields", len(r.all("X-Big")), 100)

	u = answers(t, rawClose("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"+strings.Repeat(line, 130)+"\r\nok"))
	r = p.get(u.url("/"))
	r.expectProblem(t, 502, "attempts=1; stop=permanent")
	if e := r.proxyStatus(t)["error"]; e != "http_protocol_error" && !strings.HasPrefix(e, "http_response_header") {
		t.Errorf("error=%s", e)
	}
	p.wantMetric(1, "mulligan_attempts_total", "result=protocol_error")
}

// A response before any request is stray: the connection is not used.
func TestResponseBeforeTheRequest(t *testing.T) {
	t.Parallel()
	u := serve(t, func(p *peer) {
		p.write("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged")
		p.request()
		p.request()
	})
	p := start(t, "")
	r := p.get(u.url("/"))
	if r.Status == 0 {
		t.Errorf("no answer: %v", r.Broken)
	}
	r = p.get(u.url("/"))
	if r.Status == 0 {
		t.Errorf("no second answer: %v", r.Broken)
	}
}
