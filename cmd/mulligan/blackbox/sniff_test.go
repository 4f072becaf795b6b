package blackbox

import (
	"errors"
	"io"
	"syscall"
	"testing"
	"time"
)

// Section 2.2: in a tunnel whose client speaks plain HTTP, the requests get the
// whole policy.
func TestPlainHTTPInTunnel(t *testing.T) {
	t.Parallel()
	u := answers(t, text(503, "no"), text(200, "yes"), text(503, "no"))
	p := start(t, `defaults: {retry: {`+quick+`}}`)
	c := p.connect(u.addr)
	c.send(lines("GET /one?q HTTP/1.1", "Host: "+u.addr))
	r := c.next("GET")
	r.expect(t, 200, "attempts=2; stop=success; received-status=200")
	want(t, "body", r.Body, "yes")
	got := u.request(1)
	want(t, "request line", got.Line, "GET /one?q HTTP/1.1")
	want(t, "Host", got.get("Host"), u.addr)
	want(t, "Via fields", len(got.all("Via")), 1)
	c.send(lines("POST /two HTTP/1.1", "Host: "+u.addr, "Content-Length: 3") + "abc")
	c.next("POST").expect(t, 503, "attempts=1; stop=not_idempotent; received-status=503")
	p.wantMetric(2, "mulligan_requests_total")
	p.wantMetric(3, "mulligan_attempts_total")
}

// The tunnel's host is where its requests go, whatever their Host says.
func TestPlainHTTPInTunnelStaysInIt(t *testing.T) {
	t.Parallel()
	u, other := answers(t, text(200, "tunnel")), answers(t, text(200, "other"))
	p := start(t, "")
	for _, request := range []string{
		lines("GET / HTTP/1.1", "Host: "+other.addr),
		head("GET", other.url("/")),
	} {
		c := p.connect(u.addr)
		c.send(request)
		if r := c.final("GET"); r.Status != 400 && r.Status != 421 && r.Body != "tunnel" {
			t.Errorf("%q: status %d, body %q", request, r.Status, r.Body)
		}
		c.Close()
	}
	want(t, "connections to the other host", other.connections(), 0)
}

// Malformed requests in a tunnel are refused as anywhere.
func TestMalformedInTunnel(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, "")
	for _, bytes := range []string{
		"GET / HTTP/1.1\nHost: x\n\n",
		"GET \x00\x01\x02\r\n\r\n",
		lines("POST / HTTP/1.1", "Host: x", "Content-Length: 1", "Transfer-Encoding: chunked") + "0\r\n\r\n",
	} {
		c := p.connect(u.addr)
		c.send(bytes)
		want(t, "status", c.final("GET").Status, 400)
		c.expectEnd()
	}
	want(t, "requests seen", u.count(), 0)
}

// Anything else passes as soon as it differs from every known method and a space.
func TestBytesThatAreNoRequest(t *testing.T) {
	t.Parallel()
	for name, bytes := range map[string]string{
		"differs at the third byte": "GEX",
		"differs at the first":      "x",
		"a method without a space":  "GET/",
		"lower case":                "get / HTTP/1.1\r\n",
		"an unknown method":         "BREW / HTTP/1.1\r\nHost: x\r\n\r\n",
		"a longer word":             "POSTAL code",
		"TLS":                       opaque,
		"empty lines":               "\r\n\r\n",
		"HTTP/2 preface":            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"NUL":                       "GET\x00",
		"SSH":                       "SSH-2.0-x\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := make(chan string, 1)
			u := serve(t, func(p *peer) {
				first := make([]byte, len(bytes)) // the client sends no more and does not close
				n, _ := io.ReadFull(p.r, first)
				got <- string(first[:n])
				p.ended()
			})
			c := start(t, "").connect(u.addr)
			c.send(bytes)
			want(t, "bytes at the upstream", <-got, bytes)
		})
	}
}

// They also pass byte by byte.
func TestBytesThatAreNoRequestSlowly(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	u := serve(t, func(p *peer) {
		first := make([]byte, 3)
		_, _ = io.ReadFull(p.r, first)
		got <- string(first)
	})
	c := start(t, "").connect(u.addr)
	_ = c.SetNoDelay(true)
	for _, b := range []string{"G", "E", "X"} {
		c.send(b)
		linger(30 * time.Millisecond)
	}
	want(t, "bytes at the upstream", <-got, "GEX")
}

// A method that arrives byte by byte is still a request.
func TestRequestInTunnelSlowly(t *testing.T) {
	t.Parallel()
	u := answers(t, text(503, ""), text(200, "whole policy"))
	c := start(t, `defaults: {retry: {`+quick+`}}`).connect(u.addr)
	_ = c.SetNoDelay(true)
	request := lines("GET / HTTP/1.1", "Host: "+u.addr)
	for i := range 6 {
		c.send(request[i : i+1])
		linger(20 * time.Millisecond)
	}
	c.send(request[6:])
	c.next("GET").expect(t, 200, "attempts=2; stop=success; received-status=200")
}

// A beginning of a method that never goes on passes with the half-close.
func TestHalfAMethodThenHalfClose(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	u := serve(t, func(p *peer) {
		all, _ := io.ReadAll(p.r)
		got <- string(all)
		p.write("bye")
	})
	c := start(t, "").connect(u.addr)
	c.send("GE")
	_ = c.CloseWrite()
	want(t, "bytes at the upstream", <-got, "GE")
	expectBytes(t, "answer", c.r, "bye")
	expectEOF(t, "the end", c.r)
}

// A client that half-closes at once in a tunnel is passed on, too.
func TestHalfCloseBeforeAnyByte(t *testing.T) {
	t.Parallel()
	u := serve(t, func(p *peer) {
		_, _ = io.ReadAll(p.r)
		p.write("only me")
	})
	c := start(t, "").connect(u.addr)
	_ = c.CloseWrite()
	expectBytes(t, "answer", c.r, "only me")
	expectEOF(t, "the end", c.r)
}

// The connection that CONNECT dialled is idle from then on, as any in the pool:
// a POST went onto it however long that was.
func TestFirstRequestInATunnelAvoidsAnIdleConnection(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	c := start(t, "").connect(u.addr)
	linger(1400 * time.Millisecond)
	c.send(lines("POST / HTTP/1.1", "Host: "+u.addr, "Content-Length: 1") + "x")
	c.next("POST").expect(t, 200, "")
	if n := u.request(1).Conn; n == 1 {
		t.Errorf("the POST went onto the connection that was idle for 1.4 s")
	}
}

// A reset is passed on as one, also while a tunnel's first bytes are looked at:
// the look took the error, and what was read next was an end.
func TestResetWhileATunnelIsLookedAt(t *testing.T) {
	t.Parallel()
	for name, sent := range map[string]string{"nothing": "", "part of a method": "GE"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := make(chan bool)
			u := serve(t, func(p *peer) { <-release; abort(p.Conn) })
			c := start(t, "").connect(u.addr)
			c.send(sent)
			close(release)
			_ = c.SetReadDeadline(time.Now().Add(patience))
			if _, err := c.r.ReadByte(); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("%v, want a reset", err)
			}
		})
	}
}
