package blackbox

import "testing"

// HEAD, 204 and 304 have no body, whatever their fields say; the connections on
// both sides stay in step.
func TestBodiless(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ method, answer, field, value string }{
		"HEAD with a length":  {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", "Content-Length", "1000"},
		"HEAD, chunked":       {"HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: b\r\n\r\n", "X-A", "b"},
		"HEAD without either": {"HEAD", "HTTP/1.1 200 OK\r\nX-A: b\r\n\r\n", "X-A", "b"},
		"204":                 {"GET", "HTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n", "X-A", "b"},
		"204 to a POST":       {"POST", "HTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n", "X-A", "b"},
		"304 with a length":   {"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 1000\r\nETag: e\r\n\r\n", "ETag", "e"},
		"304 without":         {"GET", "HTTP/1.1 304 Not Modified\r\nETag: e\r\n\r\n", "ETag", "e"},
		"length 0":            {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "Content-Length", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := answers(t, raw(row.answer))
			p := start(t, "")
			c := dial(t, p.proxy)
			for range 3 {
				c.send(head(row.method, u.url("/"), "Content-Length: 0"))
				r := c.next(row.method)
				want(t, row.field, r.get(row.field), row.value)
				if r.Status == 204 && (r.has("Content-Length") || r.has("Transfer-Encoding")) {
					t.Errorf("a 204 with framing (RFC 9110 8.6): %q", r.Head)
				}
			}
			want(t, "connections", u.connections(), 1)
			want(t, "requests", u.count(), 3)
		})
	}
}

// mulligan's own answers to HEAD have no body either.
func TestProblemToHEAD(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, "body"))
	p := start(t, `defaults: {retry: {`+quick+`}}`)
	c := dial(t, p.proxy)
	c.send(head("HEAD", "http://"+closedAddr(t)+"/") + head("GET", u.url("/")))
	r := c.next("HEAD")
	r.expect(t, 502, "attempts=4; stop=max_attempts; error=connection_refused")
	r = c.next("GET")
	r.expect(t, 200, "")
	want(t, "body of the next answer", r.Body, "body")
}

// A body after a response that has none is stray: it never becomes an answer to
// anyone else.
func TestStrayBytesAfterAResponse(t *testing.T) {
	t.Parallel()
	forged := "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"
	for name, first := range map[string]string{
		"204":    "HTTP/1.1 204 No Content\r\n\r\n",
		"304":    "HTTP/1.1 304 Not Modified\r\n\r\n",
		"length": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"HEAD":   "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n",
		"last":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := answers(t, raw(first+forged), text(200, "real"))
			p := start(t, "")
			method := "GET"
			if name == "HEAD" {
				method = name
			}
			p.do(method, u.url("/"), "")
			r := p.get(u.url("/"))
			want(t, "body", r.Body, "real")
			want(t, "connections", u.connections(), 2)
		})
	}
}
