package blackbox

import (
	"fmt"
	"strings"
	"testing"
)

// Section 7: hop-by-hop fields are removed both ways, the ones Connection names
// too, and nothing else is.
func TestHopByHopOfRequests(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, "")
	p.get(u.url("/"),
		"Connection: keep-alive, X-Hop", "connection: x-second", "Keep-Alive: timeout=7", "Proxy-Connection: keep-alive",
		"X-Hop: 1", "X-SECOND: 2", "X-Hop: 3", "TE: gzip", "Upgrade: websocket", "X-Hopper: stays", "Trailer: X-T").expect(t, 200, "")
	got := u.request(1)
	for _, name := range []string{"Keep-Alive", "Proxy-Connection", "X-Hop", "X-Second", "TE", "Upgrade"} {
		if got.has(name) {
			t.Errorf("%s reached the upstream: %q", name, got.all(name))
		}
	}
	want(t, "X-Hopper", got.get("X-Hopper"), "stays")
	for _, value := range got.all("Connection") {
		if strings.Contains(strings.ToLower(value), "hop") || strings.Contains(value, "second") {
			t.Errorf("Connection: %s reached the upstream", value)
		}
	}
}

func TestHopByHopOfResponses(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, "ok", "Connection: X-Hop, keep-alive", "Keep-Alive: timeout=60", "Proxy-Connection: keep-alive", "X-Hop: 1", "X-Hopper: stays", "Upgrade: h2c"))
	p := start(t, "")
	c := dial(t, p.proxy)
	c.send(head("GET", u.url("/")))
	r := c.next("GET")
	for _, name := range []string{"Keep-Alive", "Proxy-Connection", "X-Hop", "Upgrade"} {
		if r.has(name) {
			t.Errorf("%s reached the client: %q", name, r.all(name))
		}
	}
	want(t, "X-Hopper", r.get("X-Hopper"), "stays")
	want(t, "body", r.Body, "ok")
	c.expectOpen(u.url("/"))
}

// Connection: close is about one hop: a client's close does not close the
// upstream connection, nor the other way round.
func TestConnectionCloseIsPerHop(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, "1"), text(200, "2"), func(p *peer, r *request) bool {
		text(200, "3", "Connection: close")(p, r)
		return false
	}, text(200, "4"))
	p := start(t, "")
	for range 2 {
		c := dial(t, p.proxy)
		c.send(head("GET", u.url("/"), "Connection: close"))
		r := c.next("GET")
		r.expect(t, 200, "")
		if !strings.EqualFold(r.get("Connection"), "close") {
			t.Errorf("Connection %q in the answer to a close, want close (RFC 9112 9.6)", r.get("Connection"))
		}
		c.expectEnd()
	}
	want(t, "connections for two closing clients", u.connections(), 1)
	c := dial(t, p.proxy)
	for _, body := range []string{"3", "4"} {
		c.send(head("GET", u.url("/")))
		want(t, "body", c.next("GET").Body, body)
	}
	want(t, "connections after the upstream's close", u.connections(), 2)
}

// Framing and Host are not removed because Connection names them.
func TestConnectionCannotNameFraming(t *testing.T) {
	t.Parallel()
	p := start(t, "")
	for _, name := range []string{"Content-Length", "Transfer-Encoding", "Host"} {
		u := answers(t, text(200, ""))
		body, framing := "abc", "Content-Length: 3"
		if name == "Transfer-Encoding" {
			body, framing = "3\r\nabc\r\n0\r\n\r\n", "Transfer-Encoding: chunked"
		}
		r := p.raw(head("POST", u.url("/"), "Connection: "+name, framing) + body)
		if r.Status == 400 && u.count() == 0 {
			continue // refusing it is as good
		}
		want(t, "status with Connection: "+name, r.Status, 200)
		want(t, "body with Connection: "+name, u.request(1).Body, "abc")
		want(t, "Host with Connection: "+name, u.request(1).get("Host"), u.addr)
	}
}

// h2c is not forwarded.
func TestH2CIsNotForwarded(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, "plain"))
	p := start(t, "")
	r := p.get(u.url("/"), "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__")
	r.expect(t, 200, "")
	got := u.request(1)
	if got.has("Upgrade") || got.has("HTTP2-Settings") || strings.Contains(strings.ToLower(strings.Join(got.all("Connection"), ",")), "upgrade") {
		t.Errorf("the upgrade to h2c reached the upstream: %q", got.Head)
	}
}

// Nor does a response lose its framing that way.
func TestResponseConnectionCannotNameFraming(t *testing.T) {
	t.Parallel()
	p := start(t, `defaults: {retry: {`+quick+`}}`)
	for _, bytes := range []string{
		"HTTP/1.1 200 OK\r\nConnection: Content-Length\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nConnection: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	} {
		u := answers(t, raw(bytes))
		c := dial(t, p.proxy)
		c.send(head("GET", u.url("/")))
		r := c.next("GET")
		if r.Status == 502 {
			continue // refusing it is as good
		}
		want(t, "status", r.Status, 200)
		want(t, "body", r.Body, "hello")
		c.expectOpen(u.url("/"))
	}
}

// A key that Connection takes away before the upstream protects nothing: the
// request is repeated only if the upstream can see the key.
func TestConnectionCannotNameTheKey(t *testing.T) {
	t.Parallel()
	p := start(t, `defaults: {retry: {`+quick+`}}`)
	u := answers(t, text(503, ""), text(200, ""))
	p.do("POST", u.url("/"), "", "Connection: Idempotency-Key", "Idempotency-Key: k")
	if got := u.request(1); !got.has("Idempotency-Key") && u.count() > 1 {
		t.Errorf("a POST was repeated though its key never reached the upstream: %q", got.Head)
	}
}

// The Via of other hops, and our own, are there whatever Connection names.
func TestConnectionCannotNameVia(t *testing.T) {
	t.Parallel()
	p := start(t, "")
	u := answers(t, text(200, "", "Connection: Via, Proxy-Status", "Via: 1.0 wilma"))
	r := p.get(u.url("/"), "Connection: Via, Mulligan-Policy", "Via: 1.1 fred", "Mulligan-Policy: max-attempts=1")
	r.expect(t, 200, "")
	got := u.request(1)
	contains(t, "Via at the upstream", strings.Join(got.all("Via"), ", "), "1.1 fred", "mulligan-")
	contains(t, "Via at the client", strings.Join(r.all("Via"), ", "), "1.0 wilma", "mulligan-")
	want(t, "Mulligan-Policy at the upstream", got.has("Mulligan-Policy"), false)
	mine := r.all("Via")[len(r.all("Via"))-1]
	r = p.get(u.url("/"), "Connection: Via", "Via: "+mine) // a loop stays one
	r.expectProblem(t, 502, "error=proxy_loop_detected")
}

// What Connection names was removed from the header only: trailers carried it
// on, both ways, and Mulligan-Policy too. What comes with the rest of the
// message is one case, what comes later another.
func TestConnectionNamesTrailers(t *testing.T) {
	t.Parallel()
	const first, last = "2\r\nab\r\n", "0\r\nX-Stays: 1\r\nx-HOP: 2\r\nMulligan-Policy: max-attempts=1\r\nX-Also: 3\r\n\r\n"
	for _, later := range []bool{false, true} {
		t.Run(fmt.Sprint("later ", later), func(t *testing.T) {
			t.Parallel()
			headRead := make(chan bool, 1)
			u := serve(t, func(p *peer) {
				r := p.head()
				if r == nil {
					return
				}
				p.body(r)
				p.write("HTTP/1.1 200 OK\r\nConnection: X-Hop\r\nTransfer-Encoding: chunked\r\n\r\n" + first)
				if later {
					<-headRead
				}
				p.write(last)
				p.ended()
			})
			c := dial(t, start(t, "").proxy)
			c.send(head("PUT", u.url("/"), "Connection: x-hop", "Transfer-Encoding: chunked") + first)
			if later {
				eventually(t, "the head at the upstream", func() bool { return u.count() == 1 })
			}
			c.send(last)
			r := c.head()
			headRead <- true
			_, trailer, err := readBody(c.r, r.message, true)
			if err != nil {
				t.Fatal(err)
			}
			want(t, "trailer at the client", fmt.Sprint(trailer), "[{X-Stays 1} {X-Also 3}]")
			want(t, "trailer at the upstream", fmt.Sprint(u.request(1).Trailer), "[{X-Stays 1} {X-Also 3}]")
		})
	}
}

// The fields that mulligan minds itself were written with a spelling of its own.
func TestMindedFieldsKeepTheirCase(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""), text(200, ""), func(p *peer, _ *request) bool {
		p.write("HTTP/1.1 101 Switching\r\ncoNNection: upgrade\r\nupGRADE: websocket\r\n\r\n")
		return false
	})
	p := start(t, "")
	named := func(m message, name string) {
		t.Helper()
		if !strings.Contains(m.Head, "\r\n"+name+": ") {
			t.Errorf("no %s in %q", name, m.Head)
		}
	}
	p.raw(head("POST", u.url("/"), "transfer-ENCODING: chunked")+"2\r\nab\r\n0\r\n\r\n").expect(t, 200, "")
	named(u.request(1).message, "transfer-ENCODING")
	p.do("OPTIONS", u.url("/"), "", "max-FORWARDS: 4").expect(t, 200, "")
	named(u.request(2).message, "max-FORWARDS")
	c := dial(t, p.proxy)
	c.send(head("GET", u.url("/"), "conNECTION: upgrade", "upGRADE: websocket"))
	r := c.next("GET")
	want(t, "status", r.Status, 101)
	named(u.request(3).message, "conNECTION")
	named(u.request(3).message, "upGRADE")
	named(r.message, "coNNection")
	named(r.message, "upGRADE")
}

// Max-Forwards went on, counted down, though Connection named it.
func TestConnectionNamesMaxForwards(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	start(t, "").do("OPTIONS", u.url("/"), "", "Connection: max-forwards", "Max-Forwards: 4").expect(t, 200, "")
	if got := u.request(1); got.has("Max-Forwards") {
		t.Errorf("it reached the upstream: %q", got.Head)
	}
}
