package blackbox

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
)

// Section 7: event streams pass without delay: each event is with the client
// before the next one is written.
func TestEventStream(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ fields, frame string }{
		"chunked":         {"Transfer-Encoding: chunked\r\n", ""},
		"close-delimited": {"Connection: close\r\n", "data: %d\n"},
		"length":          {"Content-Length: 100000\r\n", "data: %d\n"},
	} {
		for _, method := range []string{"GET", "POST"} {
			t.Run(name+" "+method, func(t *testing.T) {
				t.Parallel()
				received := make(chan bool)
				u := answers(t, func(p *peer, _ *request) bool {
					p.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n" + row.fields + "\r\n")
					for i := range 3 {
						<-received
						if name == "chunked" {
							p.write("8\r\ndata: " + fmt.Sprint(i) + "\n\r\n")
						} else {
							p.write(fmt.Sprintf(row.frame, i))
						}
					}
					<-received
					return false
				})
				p := start(t, "")
				c := dial(t, p.proxy)
				c.send(head(method, u.url("/events"), "Content-Length: 0"))
				r := c.head()
				want(t, "status", r.Status, 200)
				for i := range 3 {
					received <- true
					event := fmt.Sprintf("data: %d\n", i)
					if r.has("Transfer-Encoding") {
						event = "8\r\n" + event + "\r\n"
					}
					expectBytes(t, "event", c.r, event)
				}
				received <- true
			})
		}
	}
}

// A body that breaks off is never made to look whole (downstream).
func TestTruncatedResponseLooksBroken(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("z", 100_000) // past buffer.response: streamed, not held
	for name, bytes := range map[string]string{
		"chunked":             "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
		"within a chunk":      "Transfer-Encoding: chunked\r\n\r\n8\r\nhalf",
		"within the trailer":  "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\nX-T: 1\r\n",
		"last chunk half":     "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\n",
		"bad chunk size":      "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nzz\r\nmore\r\n0\r\n\r\n",
		"no CRLF after chunk": "Transfer-Encoding: chunked\r\n\r\n4\r\nhalfXX0\r\n\r\n",
		"long length":         "Content-Length: 100001\r\n\r\n" + big,
	} {
		for _, version := range []string{"1.1", "1.0"} {
			t.Run(name+" to HTTP/"+version, func(t *testing.T) {
				t.Parallel()
				u := answers(t, rawClose("HTTP/1.1 200 OK\r\n"+bytes))
				p := start(t, `defaults: {retry: {max_attempts: 1, `+quick+`}}`)
				c := dial(t, p.proxy)
				c.send(lines("GET "+u.url("/")+" HTTP/"+version, "Host: "+u.addr))
				r := c.next("GET")
				if r.Status == 502 {
					return // not a byte of it was sent: said in so many words
				}
				want(t, "status", r.Status, 200)
				if r.Whole {
					t.Errorf("the broken body looks whole: %q, %d bytes", r.Head, len(r.Body))
				}
				if version == "1.0" && !r.has("Content-Length") && !errors.Is(r.Broken, syscall.ECONNRESET) {
					t.Errorf("a close-delimited body broke off with %v, want a reset", r.Broken)
				}
			})
		}
	}
}

// A close-delimited body that ends with a reset is broken, too.
func TestResetOfCloseDelimitedBody(t *testing.T) {
	t.Parallel()
	received := make(chan bool)
	u := answers(t, func(p *peer, _ *request) bool {
		p.write("HTTP/1.1 200 OK\r\n\r\nsome")
		<-received
		return reset(p, nil)
	})
	p := start(t, "")
	for _, version := range []string{"1.1", "1.0"} {
		c := dial(t, p.proxy)
		c.send(lines("GET "+u.url("/")+" HTTP/"+version, "Host: "+u.addr))
		r := c.head()
		if r.has("Transfer-Encoding") {
			expectBytes(t, "what came so far", c.r, "4\r\nsome\r\n")
		} else {
			expectBytes(t, "what came so far", c.r, "some")
		}
		received <- true
		rest, err := io.ReadAll(c.r)
		if strings.Contains(string(rest), "0\r\n") || err == nil && !r.has("Transfer-Encoding") {
			t.Errorf("HTTP/%s: after the reset came %q and %v: it looks whole", version, rest, err)
		}
	}
}

// Close-delimited bodies come whole, to clients of either version.
func TestCloseDelimitedBody(t *testing.T) {
	t.Parallel()
	body := pattern(200_000)
	for _, start1 := range []string{"HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"} {
		u := answers(t, rawClose(start1+body))
		p := start(t, "")
		for _, version := range []string{"1.1", "1.0"} {
			r := p.raw(lines("GET "+u.url("/")+" HTTP/"+version, "Host: "+u.addr))
			r.expect(t, 200, "")
			want(t, "the body is whole", r.Body == body && r.Whole, true)
		}
	}
}

// Trailers pass both ways; a client of HTTP/1.0 gets the body without them.
func TestTrailers(t *testing.T) {
	t.Parallel()
	u := answers(t, raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\nx-OTHER: 2\r\n\r\n"))
	p := start(t, "")
	c := dial(t, p.proxy)
	c.send(head("POST", u.url("/"), "Transfer-Encoding: chunked", "Trailer: X-In") + "1\r\na\r\n0\r\nX-In: 3\r\n\r\n")
	r := c.next("POST")
	want(t, "body", r.Body, "ok")
	want(t, "response trailer", fmt.Sprint(r.Trailer), "[{X-Sum 1} {x-OTHER 2}]")
	want(t, "Trailer", r.get("Trailer"), "X-Sum")
	want(t, "request trailer", fmt.Sprint(u.request(1).Trailer), "[{X-In 3}]")
	old := p.raw(lines("GET "+u.url("/")+" HTTP/1.0", "Host: "+u.addr))
	want(t, "body for HTTP/1.0", old.Body, "ok")
	want(t, "framing for HTTP/1.0", old.has("Transfer-Encoding"), false)
}

// Bytes of bodies are unchanged, whatever they are: nothing is decoded.
func TestBodyBytesAreKept(t *testing.T) {
	t.Parallel()
	all := make([]byte, 0, 256*40)
	for i := range 256 * 40 {
		all = append(all, byte(i*(1+i/256)))
	}
	body := "\x1f\x8b\x08\x00" + string(all)
	u := answers(t, func(p *peer, r *request) bool {
		return text(200, r.Body, "Content-Encoding: gzip", "Content-Type: text/html; charset=x")(p, r)
	})
	p := start(t, "")
	r := p.do("POST", u.url("/"), body, "Content-Encoding: gzip")
	want(t, "body back is equal", r.Body == body, true)
	want(t, "Content-Encoding", r.get("Content-Encoding"), "gzip")
	want(t, "Content-Encoding at the upstream", u.request(1).get("Content-Encoding"), "gzip")
}
