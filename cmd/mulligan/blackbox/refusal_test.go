package blackbox

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A body that nobody read is never taken for the next request: whatever made
// mulligan answer before it, the connection is closed or the body skipped.
func TestUnreadBodyIsNoRequest(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, "open"))
	early := serve(t, func(p *peer) {
		if r := p.head(); r != nil {
			// A body that comes fast enough is sent on to its end: then the next
			// request could come here as well, and nobody answers it.
			text(413, "early", "Connection: close")(p, r)
			p.ended()
		}
	})
	config := authConfig + fmt.Sprintf(`
defaults: {retry: {max_attempts: 2, %s}}
upstreams: {m: {mount: /m, endpoints: ["http://%s"]}}
`, quick, u.addr)
	p := start(t, config, authEnv)
	good := "Proxy-Authorization: " + basic("u", "s3cr3t: pw")
	mine := p.raw(lines("GET /m/x HTTP/1.1", "Host: h")).get("Via")
	body := "GET " + u.url("/smuggled") + " HTTP/1.1\r\nHost: " + u.addr + "\r\n" + good + "\r\n\r\n"
	for name, row := range map[string]struct {
		start  string
		fields []string
		status int
	}{
		"407":          {"POST " + u.url("/") + " HTTP/1.1", nil, 407},
		"421":          {"POST /nobody HTTP/1.1", nil, 421},
		"403 denied":   {"POST http://169.254.169.254/ HTTP/1.1", []string{good}, 403},
		"403 browser":  {"POST /m/ HTTP/1.1", []string{"Sec-Fetch-Site: cross-site"}, 403},
		"502 refused":  {"POST http://" + closedAddr(t) + "/ HTTP/1.1", []string{good}, 502},
		"502 loop":     {"POST /m/ HTTP/1.1", []string{"Via: " + mine}, 502},
		"400 policy":   {"POST /m/ HTTP/1.1", []string{"Mulligan-Policy: x"}, 400},
		"early answer": {"POST " + early.url("/") + " HTTP/1.1", []string{good}, 413},
	} {
		for _, framing := range []string{"length", "chunked", "expect"} {
			fields := append([]string{"Host: h"}, row.fields...)
			payload := body
			switch framing {
			case "length":
				fields = append(fields, fmt.Sprintf("Content-Length: %d", len(body)))
			case "expect":
				fields = append(fields, "Expect: 100-continue", fmt.Sprintf("Content-Length: %d", len(body)))
			case "chunked":
				fields = append(fields, "Transfer-Encoding: chunked")
				payload = fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
			}
			before := u.count()
			c := dial(t, p.proxy)
			c.send(lines(row.start, fields...))
			r := c.final("POST")
			want(t, "status of "+name+", "+framing, r.Status, row.status)
			c.send(payload) // only now, as a client that was slow might
			c.send(head("GET", u.url("/after"), good, "Connection: close"))
			if r := c.final("GET"); r.Status != 0 && r.Status != 200 {
				t.Errorf("%s, %s: after the unread body came status %d", name, framing, r.Status)
			}
			for n := before + 1; n <= u.count(); n++ {
				if got := u.request(n); got.Target == "/smuggled" {
					t.Errorf("%s, %s: the body was taken for a request", name, framing)
				}
			}
			c.Close()
		}
	}
}

// A refusal in the middle of a pipeline: what was before it is answered first,
// what is behind it never.
func TestRefusalInAPipeline(t *testing.T) {
	t.Parallel()
	u := answers(t, slowly(200*time.Millisecond, text(200, "first")))
	p := start(t, "")
	c := dial(t, p.proxy)
	c.send(head("GET", u.url("/1")) + "GET " + u.url("/2") + " HTTP/1.1\r\nHost : x\r\n\r\n" + head("GET", u.url("/3")))
	r := c.next("GET")
	want(t, "first answer", r.Body, "first")
	c.next("GET").expectProblem(t, 400, "attempts=0; stop=permanent")
	c.expectEnd()
	want(t, "requests seen", u.count(), 1)
}

// Failing responses with bodies of any size and framing are got out of the way;
// the last one comes whole.
func TestFailingResponsesWithBodies(t *testing.T) {
	t.Parallel()
	big := pattern(300_000)
	for name, failure := range map[string]answer{
		"small length":    text(503, "small"),
		"big length":      text(503, big),
		"chunked":         raw("HTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks(big, 10_000) + "0\r\n\r\n"),
		"close-delimited": rawClose("HTTP/1.1 503 No\r\n\r\n" + big),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, `defaults: {retry: {max_attempts: 3, `+quick+`}}`)
			u := answers(t, failure, failure, text(200, "good"))
			r := p.get(u.url("/"))
			r.expect(t, 200, "attempts=3; stop=success; received-status=200")
			want(t, "body", r.Body, "good")
			u = answers(t, failure)
			r = p.get(u.url("/"))
			r.expect(t, 503, "attempts=3; stop=max_attempts; received-status=503")
			if r.Body != big && r.Body != "small" || !r.Whole {
				t.Errorf("the last response's body: %d bytes, whole: %v", len(r.Body), r.Whole)
			}
			p.wantMetric(0, "mulligan_buffered_bytes")
		})
	}
}

// OPTIONS * by Host goes to the upstream as it is.
func TestOptionsAsterisk(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, fmt.Sprintf(`upstreams: {a: {hosts: [a.internal], endpoints: ["http://%s"]}}`, u.addr))
	r := p.raw(lines("OPTIONS * HTTP/1.1", "Host: a.internal"))
	r.expect(t, 200, "")
	want(t, "request line", u.request(1).Line, "OPTIONS * HTTP/1.1")
}

// WebSockets of clients that open a tunnel for them (CONNECT, then the plain
// handshake) work.
func TestUpgradeInsideATunnel(t *testing.T) {
	t.Parallel()
	u := answers(t, text(503, ""), func(p *peer, _ *request) bool {
		p.write(switching + "hi")
		line, _ := p.r.ReadString('\n')
		p.write("echo " + line)
		return false
	})
	p := start(t, `defaults: {retry: {`+quick+`}}`)
	c := p.connect(u.addr)
	c.send(lines("GET /chat HTTP/1.1", append([]string{"Host: " + u.addr}, upgradeFields...)...))
	want(t, "status", c.next("GET").Status, 101)
	expectBytes(t, "first bytes", c.r, "hi")
	c.send("there\n")
	expectBytes(t, "echo", c.r, "echo there\n")
	c.expectEnd()
	if got := u.request(2); !strings.EqualFold(got.get("Upgrade"), "websocket") {
		t.Errorf("Upgrade at the upstream: %q", got.Head)
	}
}

// A 400 ends its connection, also where the request could be read and only its
// target makes no sense: there it went on.
func TestMalformedTargetEndsTheConnection(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, "")
	refused := func(c *client, line string) {
		t.Helper()
		c.send(lines(line, "Host: q"))
		r := c.next("GET")
		want(t, line, r.Status, 400)
		if got := r.get("Connection"); got != "close" {
			t.Errorf("%s: Connection: %q", line, got)
			return
		}
		c.expectEnd()
	}
	for _, line := range []string{
		"GET pay HTTP/1.1", "GET ftp://x.invalid/ HTTP/1.1", "GET http://u@127.0.0.1/ HTTP/1.1",
		"GET http://[::1/ HTTP/1.1", "GET http://127.0.0.1:99999/ HTTP/1.1", "CONNECT q.invalid HTTP/1.1",
	} {
		refused(dial(t, p.proxy), line)
	}
	for _, line := range []string{"CONNECT q.invalid:80 HTTP/1.1", "GET ftp://x.invalid/ HTTP/1.1"} {
		c := p.connect(u.addr)
		c.send(lines("GET / HTTP/1.1", "Host: q")) // a tunnel that speaks HTTP
		c.next("GET").expect(t, 200, "")
		refused(c, line)
	}
}
