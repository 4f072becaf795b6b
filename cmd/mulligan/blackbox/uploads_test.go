package blackbox

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// Pipelined requests are answered in order, each with its own answer.
func TestPipelining(t *testing.T) {
	t.Parallel()
	echo := func(p *peer, r *request) bool { return text(200, r.Target+" "+r.Body)(p, r) }
	slow := answers(t, slowly(300*time.Millisecond, echo))
	fast := answers(t, echo)
	p := start(t, "")
	c := dial(t, p.proxy)
	c.send(head("GET", slow.url("/1")) +
		head("POST", fast.url("/2"), "Content-Length: 3") + "two" +
		head("PUT", fast.url("/3"), "Transfer-Encoding: chunked") + "5\r\nthree\r\n0\r\n\r\n" +
		"\r\n" + // an empty line before a request line is skipped (RFC 9112 2.2)
		head("HEAD", fast.url("/4")) +
		head("GET", "http://"+closedAddr(t)+"/", "Mulligan-Policy: max-attempts=1") +
		head("GET", slow.url("/6")))
	for i, row := range []struct{ method, body string }{{"GET", "/1 "}, {"POST", "/2 two"}, {"PUT", "/3 three"}, {"HEAD", ""}, {"GET", "502"}, {"GET", "/6 "}} {
		r := c.next(row.method)
		if row.body == "502" {
			want(t, "status of the fifth", r.Status, 502)
			continue
		}
		want(t, fmt.Sprintf("answer %d", i+1), r.Body, row.body)
	}
}

// An answer that comes before the upload has ended is the client's, though the
// client goes on sending.
func TestEarlyAnswerToABigUpload(t *testing.T) {
	t.Parallel()
	for name, framing := range map[string]string{"length": "Content-Length: 4000000", "chunked": "Transfer-Encoding: chunked"} {
		for _, method := range []string{"POST", "PUT"} {
			t.Run(name+" "+method, func(t *testing.T) {
				t.Parallel()
				u := serve(t, func(p *peer) {
					if r := p.head(); r != nil {
						text(413, "too big", "Connection: close")(p, r)
						_ = p.Conn.(interface{ CloseWrite() error }).CloseWrite()
						_, _ = io.Copy(io.Discard, p.r) // a kind server: no RST over its answer
					}
				})
				p := start(t, `defaults: {buffer: {request: 64KiB}, retry: {`+quick+`}}`)
				c := dial(t, p.proxy)
				go func() {
					c.send(head(method, u.url("/"), framing))
					block := strings.Repeat("u", 100_000)
					for range 40 {
						if name == "chunked" {
							c.send("186a0\r\n" + block + "\r\n")
						} else {
							c.send(block)
						}
					}
					if name == "chunked" {
						c.send("0\r\n\r\n")
					}
				}()
				r := c.final(method)
				r.expect(t, 413, "attempts=1; stop=permanent; received-status=413")
				want(t, "body", r.Body, "too big")
			})
		}
	}
}

// The same from an upstream that simply closes: the answer that arrived counts
// where it can be read; what never happens is a retry of it, or silence.
func TestEarlyAnswerThenReset(t *testing.T) {
	t.Parallel()
	u := serve(t, func(p *peer) {
		if r := p.head(); r != nil {
			text(403, "no", "Connection: close")(p, r)
			linger(300 * time.Millisecond)
		}
	})
	p := start(t, `defaults: {buffer: {request: 64KiB}, retry: {`+quick+`}}`)
	c := dial(t, p.proxy)
	go c.send(head("POST", u.url("/"), "Content-Length: 3000000") + strings.Repeat("u", 3_000_000))
	r := c.final("POST")
	if r.Status != 403 && r.Status != 502 {
		t.Errorf("status %d, want the upstream's 403, or 502 where the reset took it", r.Status)
	}
	want(t, "attempts", u.count(), 1)
}

// A 503 before the upload has ended: the retry gets the whole body once it is there.
func TestRetryDuringTheUpload(t *testing.T) {
	t.Parallel()
	u := serve(t, func(p *peer) {
		r := p.head()
		if r == nil {
			return
		}
		if p.up.count() == 1 {
			text(503, "busy", "Connection: close")(p, r)
			_ = p.Conn.(interface{ CloseWrite() error }).CloseWrite()
			_, _ = io.Copy(io.Discard, p.r)
			return
		}
		p.body(r)
		text(200, fmt.Sprint(len(r.Body)))(p, r)
		p.ended()
	})
	p := start(t, `defaults: {retry: {`+quick+`}}`)
	c := dial(t, p.proxy)
	body := pattern(60_000)
	c.send(head("PUT", u.url("/"), "Content-Length: 60000") + body[:20_000])
	eventually(t, "the first attempt", func() bool { return u.count() >= 1 })
	linger(100 * time.Millisecond)
	c.send(body[20_000:])
	r := c.final("PUT")
	r.expect(t, 200, "attempts=2; stop=success; received-status=200")
	want(t, "length seen by the second attempt", r.Body, "60000")
	want(t, "the second body is equal", u.request(2).Body == body, true)
}

// Uploads stream: the upstream has the first bytes before the client sends the last.
func TestUploadStreams(t *testing.T) {
	t.Parallel()
	for _, framing := range []string{"Content-Length: 8", "Transfer-Encoding: chunked"} {
		first := make(chan string, 1)
		u := serve(t, func(p *peer) {
			r := p.head()
			if r == nil {
				return
			}
			if r.has("Transfer-Encoding") {
				line, _ := p.r.ReadString('\n')
				part := make([]byte, 4)
				_, _ = io.ReadFull(p.r, part)
				first <- strings.TrimSpace(line) + ":" + string(part)
				_, _ = p.r.ReadString('\n')
			} else {
				part := make([]byte, 4)
				_, _ = io.ReadFull(p.r, part)
				first <- "4:" + string(part)
				r.Fields = append(r.Fields[:0:0], field{"Content-Length", "4"})
			}
			p.body(r)
			text(200, r.Body)(p, r)
			p.ended()
		})
		p := start(t, `defaults: {retry: {`+quick+`}}`)
		c := dial(t, p.proxy)
		chunked := strings.HasPrefix(framing, "T")
		send := func(part string) {
			if chunked {
				part = fmt.Sprintf("%x\r\n%s\r\n", len(part), part)
			}
			c.send(part)
		}
		c.send(head("PUT", u.url("/"), framing))
		send("abcd")
		want(t, "first part before the second was sent", <-first, "4:abcd")
		send("efgh")
		if chunked {
			c.send("0\r\n\r\n")
		}
		r := c.next("PUT")
		r.expect(t, 200, "")
		want(t, "the rest", r.Body, "efgh")
	}
}

// Big bodies both ways, both framings, byte for byte.
func TestBigBodiesBothWays(t *testing.T) {
	t.Parallel()
	body := pattern(3_000_000)
	u := answers(t, func(p *peer, r *request) bool {
		if r.has("Transfer-Encoding") {
			p.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks(r.Body, 70_001) + "0\r\n\r\n")
			return true
		}
		return text(200, r.Body)(p, r)
	})
	p := start(t, "")
	c := dial(t, p.proxy)
	for _, framing := range []string{fmt.Sprintf("Content-Length: %d", len(body)), "Transfer-Encoding: chunked"} {
		go func() {
			if strings.HasPrefix(framing, "T") {
				c.send(head("POST", u.url("/"), framing) + chunks(body, 12_345) + "0\r\n\r\n")
			} else {
				c.send(head("POST", u.url("/"), framing) + body)
			}
		}()
		r := c.final("POST")
		r.expect(t, 200, "")
		want(t, framing+": the body came back equal", r.Body == body, true)
	}
}

// chunks frames a body in chunks of a size, without the last one.
func chunks(body string, size int) string {
	var b strings.Builder
	for len(body) > 0 {
		n := min(size, len(body))
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	return b.String()
}
