package blackbox

import (
	"strings"
	"testing"
)

// HTTP/1.0 clients: without keep-alive the connection ends with the answer.
func TestHTTP10Closes(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, "ok"), raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"))
	p := start(t, "")
	for range 2 {
		c := dial(t, p.proxy)
		c.send(lines("GET " + u.url("/") + " HTTP/1.0"))
		r := c.next("GET")
		r.expect(t, 200, "")
		want(t, "body", r.Body, "ok")
		if r.has("Transfer-Encoding") {
			t.Errorf("a client of HTTP/1.0 got Transfer-Encoding (RFC 9112 6.1)")
		}
		c.expectEnd()
	}
	want(t, "Host made from the target", u.request(1).get("Host"), u.addr)
	want(t, "version at the upstream", strings.Fields(u.request(1).Line)[2], "HTTP/1.1")
}

// With it, it stays open where the length is known, and the answer says so.
func TestHTTP10KeepAlive(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, "one"), text(200, "two"), raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"))
	p := start(t, "")
	c := dial(t, p.proxy)
	for _, body := range []string{"one", "two"} {
		c.send(lines("GET "+u.url("/")+" HTTP/1.0", "Connection: Keep-Alive"))
		r := c.next("GET")
		want(t, "body", r.Body, body)
		want(t, "Connection", strings.ToLower(r.get("Connection")), "keep-alive")
	}
	c.send(lines("GET "+u.url("/")+" HTTP/1.0", "Connection: keep-alive")) // its length is not known
	r := c.next("GET")
	want(t, "body", r.Body, "ok")
	if !r.has("Content-Length") {
		c.expectEnd()
	}
}

// A body of HTTP/1.0 needs its length; retries work as for anyone.
func TestHTTP10Requests(t *testing.T) {
	t.Parallel()
	u := answers(t, text(503, ""), text(200, "saved"))
	p := start(t, `defaults: {retry: {`+quick+`}}`)
	r := p.raw(lines("PUT "+u.url("/")+" HTTP/1.0", "Content-Length: 3") + "abc")
	r.expect(t, 200, "attempts=2; stop=success; received-status=200")
	want(t, "body at the upstream", u.request(2).Body, "abc")
}

// An upstream of HTTP/1.0, with and without keep-alive.
func TestHTTP10Upstream(t *testing.T) {
	t.Parallel()
	u := answers(t,
		raw("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\n1"),
		rawClose("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n2"),
		rawClose("HTTP/1.0 200 OK\r\n\r\n3"),
		text(200, "4"))
	p := start(t, "")
	c := dial(t, p.proxy)
	for _, body := range []string{"1", "2", "3", "4"} {
		c.send(head("GET", u.url("/")))
		r := c.next("GET")
		r.expect(t, 200, "")
		want(t, "body", r.Body, body)
		want(t, "version to the client", strings.Fields(r.Line)[0], "HTTP/1.1")
	}
	want(t, "connections", u.connections(), 3)
}

// A response of HTTP/1.0 that claims to be chunked has framing that cannot be
// trusted (RFC 9112 6.1).
func TestHTTP10UpstreamChunked(t *testing.T) {
	t.Parallel()
	u := answers(t, rawClose("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"))
	p := start(t, `defaults: {retry: {`+quick+`}}`)
	p.get(u.url("/")).expectProblem(t, 502, "attempts=1; stop=permanent; error=http_protocol_error")
}

// A request of HTTP/1.0 needs no Host; one in a tunnel went on without any.
func TestHTTP10WithoutHostInATunnel(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	c := start(t, "").connect(u.addr)
	c.send(lines("GET /x HTTP/1.0"))
	c.next("GET").expect(t, 200, "")
	want(t, "Host, the tunnel's", u.request(1).get("Host"), u.addr)
}
