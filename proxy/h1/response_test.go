package h1

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestReadResponse(t *testing.T) {
	c := clientOf("HTTP/1.1 200 Fine thing\r\nServer: x\r\nCoNtent-length: 3\r\n\r\nabc")
	resp, err := c.ReadResponse("GET")
	if err != nil {
		t.Fatal(err)
	}
	if resp.Status != 200 || string(resp.Reason) != "Fine thing" || resp.Minor != 1 || resp.Framing != Length || resp.ContentLength != 3 || !resp.KeepAlive {
		t.Errorf("%+v", resp)
	}
	if got := describe(resp.Header); got != "Server=x;CoNtent-length=3;" {
		t.Error(got)
	}
	if b, ok := c.BufferedBody(); !ok || string(b) != "abc" || !c.Reusable() {
		t.Errorf("%q %v %v", b, ok, c.Reusable())
	}
}

func TestLenientResponses(t *testing.T) {
	tests := []struct {
		rule string
		in   string
		want string // the header
	}{
		{"RFC 9112 2.2: bare LF", "HTTP/1.1 200 OK\nA: b\nC: d\n\n", "A=b;C=d;"},
		{"RFC 9112 2.2: mixed line ends", "HTTP/1.1 200 OK\r\nA: b\nC: d\r\n\n", "A=b;C=d;"},
		{"RFC 9112 5.1: space before the colon", "HTTP/1.1 200 OK\r\nA : b\r\nC\t : d\r\n\r\n", "A=b;C=d;"},
		{"RFC 9112 5.2: folded line", "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\td\r\nE: f\r\n\r\n", "A=b   c   d;E=f;"},
		{"RFC 9112 5.2: folded line, bare LF", "HTTP/1.1 200 OK\nA: b\n c\nE: f\n\n", "A=b  c;E=f;"},
		{"RFC 9112 5.2: folded empty line", "HTTP/1.1 200 OK\r\nA: b\r\n \r\nE: f\r\n\r\n", "A=b;E=f;"},
		{"RFC 9110 5.5: other control characters", "HTTP/1.1 200 OK\r\nA: b\x01\x7f\r\n\r\n", "A=b\x01\x7f;"},
		{"RFC 9112 4: empty reason", "HTTP/1.1 200 \r\nA: b\r\n\r\n", "A=b;"},
		{"RFC 9112 4: no reason and no space", "HTTP/1.1 200\r\nA: b\r\n\r\n", "A=b;"},
		{"no fields", "HTTP/1.1 200 OK\r\n\r\n", ""},
		{"no fields, bare LF", "HTTP/1.0 200 OK\n\n", ""},
		{"status over 599", "HTTP/1.1 999 Odd\r\n\r\n", ""},
		{"obs-text in the reason", "HTTP/1.1 200 \xe9\r\n\r\n", ""},
	}
	for _, test := range tests {
		resp, err := clientOf(test.in).ReadResponse("GET")
		if err != nil {
			t.Errorf("%s: %v", test.rule, err)
		} else if got := describe(resp.Header); got != test.want {
			t.Errorf("%s: got %q, want %q", test.rule, got, test.want)
		}
	}
}

func TestRefusedResponses(t *testing.T) {
	ok := "HTTP/1.1 200 OK\r\n"
	for rule, in := range map[string]string{
		"RFC 9112 4: not HTTP":                   "SSH-2.0-x\r\n\r\n",
		"RFC 9112 4: HTTP/2":                     "HTTP/2.0 200 OK\r\n\r\n",
		"RFC 9112 4: HTTP/2, short":              "HTTP/2 200 OK\r\n\r\n",
		"RFC 9112 4: no version":                 "HTTP/1. 200 OK\r\n\r\n",
		"RFC 9112 4: two spaces":                 "HTTP/1.1  200 OK\r\n\r\n",
		"RFC 9112 4: two digits":                 "HTTP/1.1 20\r\n\r\n",
		"RFC 9112 4: four digits":                "HTTP/1.1 2000 OK\r\n\r\n",
		"RFC 9112 4: letters":                    "HTTP/1.1 2x0 OK\r\n\r\n",
		"RFC 9112 4: status under 100":           "HTTP/1.1 099 OK\r\n\r\n",
		"RFC 9112 4: bare CR in the reason":      "HTTP/1.1 200 O\rK\r\n\r\n",
		"RFC 9112 4: NUL in the reason":          "HTTP/1.1 200 O\x00K\r\n\r\n",
		"RFC 9112 4: ICY":                        "ICY 200 OK\r\n\r\n",
		"RFC 9112 4: empty line first":           "\r\n" + ok + "\r\n",
		"RFC 9112 2.2: bare CR":                  ok + "A: b\rc\r\n\r\n",
		"RFC 9112 2.2: bare CR, else lenient":    ok + "A: b\rc\nD : e\n\n",
		"RFC 9112 2.2: NUL":                      ok + "A: b\x00c\r\n\r\n",
		"RFC 9112 2.2: white space first":        ok + " A: b\r\n\r\n",
		"RFC 9112 5: no colon":                   ok + "Ab\r\n\r\n",
		"RFC 9112 5: empty name":                 ok + ": b\r\n\r\n",
		"RFC 9112 5: space in a name":            ok + "A b: c\r\n\r\n",
		"RFC 9112 5: name of white space":        ok + "A: b\r\n" + "\x0b: c\r\n\r\n",
		"RFC 9112 6.3: both length and coding":   ok + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
		"RFC 9112 6.3: lengths differ":           ok + "Content-Length: 3\r\nContent-Length: 4\r\n\r\n",
		"RFC 9112 6.3: lengths differ in a list": ok + "Content-Length: 3, 4\r\n\r\n",
		"RFC 9112 6.3: length and a list":        ok + "Content-Length: 3\r\nContent-Length: 3, 4\r\n\r\n",
		"RFC 9112 6.3: invalid length":           ok + "Content-Length: x\r\n\r\n",
		"RFC 9110 8.6: empty element first":      ok + "Content-Length: ,3\r\n\r\n",
		"RFC 9110 8.6: empty element last":       ok + "Content-Length: 3,\r\n\r\n",
		"RFC 9112 6.3: empty length":             ok + "Content-Length:\r\n\r\n",
		"RFC 9112 6.3: length too large":         ok + "Content-Length: 9223372036854775808\r\n\r\n",
		"RFC 9112 5.2: fold in a name":           ok + "Content-Length\r\n :3\r\n\r\n",
		"RFC 9112 5.1: length and spaced coding": ok + "Content-Length: 3\r\nTransfer-Encoding : chunked\r\n\r\n",
		"RFC 9112 6.1: chunked in HTTP/1.0":      "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
		"RFC 9112 6.1: another coding":           ok + "Transfer-Encoding: gzip, chunked\r\n\r\n",
		"RFC 9112 6.1: not chunked":              ok + "Transfer-Encoding: gzip\r\n\r\n",
		"RFC 9112 6.1: identity":                 ok + "Transfer-Encoding: identity\r\n\r\n",
		"RFC 9112 6.1: odd coding":               ok + "Transfer-Encoding: chunked;q=1\r\n\r\n",
		"RFC 9112 6.1: folded coding":            ok + "Transfer-Encoding: chun\r\n ked\r\n\r\n",
		"RFC 9112 6.1: chunked twice":            ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
	} {
		c := clientOf(in)
		_, err := c.ReadResponse("GET")
		var e *Error
		if !errors.As(err, &e) || e.Kind != Malformed || e.Status != 0 || c.Reusable() {
			t.Errorf("%s: %v", rule, err)
		}
	}
}

// TestBodilessWhateverItSays: a response that ends with its head does so whatever
// its fields say (RFC 9112 6.3, rule 1); a 103 with an odd length once spoiled the
// answer behind it.
func TestBodilessWhateverItSays(t *testing.T) {
	for _, test := range []struct {
		method, in string
		length     int64
		reusable   bool
	}{
		{"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n", 3, true},
		{"HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", -1, true},
		{"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: x\r\n\r\n", -1, false},
		{"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n", -1, false},
		{"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", -1, false},
		{"GET", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: identity\r\n\r\n", -1, false},
		{"HEAD", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n", -1, false},
		{"GET", "HTTP/1.1 103 Early Hints\r\nContent-Length: zz\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", -1, true},
	} {
		c := clientOf(test.in)
		c.RequestLineString(test.method, "/")
		c.EndHead(NoBody, 0)
		if err := c.Finish(nil); err != nil {
			t.Fatal(err)
		}
		resp, err := c.ReadResponse(test.method)
		if err == nil && resp.Status < 200 {
			resp, err = c.ReadResponse(test.method)
		}
		if err != nil || resp.Framing != NoBody || resp.ContentLength != test.length || c.Reusable() != test.reusable {
			t.Errorf("%q: %v %+v, reusable: %v", test.in, err, resp, c.Reusable())
		}
	}
}

// TestSpaceBeforeColon: white space before a colon is removed (RFC 9112 5.1), of
// framing fields too: what is sent on is what we understood.
func TestSpaceBeforeColon(t *testing.T) {
	resp, err := clientOf("HTTP/1.1 200 OK\r\nContent-Length : 3\r\nX-A\t: b\r\n\r\nabc").ReadResponse("GET")
	if err != nil || resp.ContentLength != 3 || string(resp.Header[0].Name) != "Content-Length" || string(resp.Header.Get("x-a")) != "b" {
		t.Errorf("%+v %v", resp, err)
	}
}

func TestResponseHeadLimits(t *testing.T) {
	in := "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("x", 1<<20-100) + "\r\n\r\n"
	if resp, err := clientOf(in).ReadResponse("GET"); err != nil || len(resp.Header.Get("a")) != 1<<20-100 {
		t.Error(err)
	}
	for _, in := range []string{
		"HTTP/1.1 200 OK\r\nA: " + strings.Repeat("x", 1<<20) + "\r\n\r\n",
		"HTTP/1.1 200 OK\r\n" + strings.Repeat("A:\r\n", upstreamFields+1) + "\r\n",
		"HTTP/1.1 200 OK\n" + strings.Repeat("A:\n", upstreamFields+1) + "\n",
	} {
		_, err := clientOf(in).ReadResponse("GET")
		wantKind(t, err, HeadTooLarge)
	}
}

// The framing of responses: RFC 9112 section 6.3.
func TestResponseFraming(t *testing.T) {
	tests := []struct {
		method, head string
		framing      Framing
		length       int64
		keep         bool
	}{
		{"GET", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n", Length, 3, true},
		{"GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n", Length, 0, true},
		{"GET", "HTTP/1.1 200 OK\r\nContent-Length: 3, 3\r\n", Length, 3, true},
		{"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n", Chunked, -1, true},
		{"GET", "HTTP/1.1 200 OK\r\n", UntilClose, -1, false},
		{"GET", "HTTP/1.1 204 No Content\r\n", NoBody, -1, true},
		{"GET", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n", NoBody, -1, true},
		{"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n", NoBody, 9, true},
		{"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n", NoBody, 9, true},
		{"HEAD", "HTTP/1.1 200 OK\r\n", NoBody, -1, true},
		{"CONNECT", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n", NoBody, 9, true},
		{"CONNECT", "HTTP/1.1 403 No\r\nContent-Length: 9\r\n", Length, 9, true},
		{"GET", "HTTP/1.1 101 Switching\r\nUpgrade: x\r\n", NoBody, -1, true},
		{"GET", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n", Length, 3, false},
		{"GET", "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n", Length, 3, false},
		{"GET", "HTTP/1.0 200 OK\r\nContent-Length: 3\r\nConnection: Keep-Alive\r\n", Length, 3, true},
		{"GET", "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n", UntilClose, -1, false},
	}
	for _, test := range tests {
		resp, err := asked(play(test.head+"\r\n"), test.method).ReadResponse(test.method)
		if err != nil || resp.Framing != test.framing || resp.ContentLength != test.length || resp.KeepAlive != test.keep {
			t.Errorf("%s %q: %v %+v", test.method, test.head, err, resp)
		}
	}
}

func TestInterimResponses(t *testing.T) {
	c := clientOf("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nz")
	for _, want := range []string{"100 ", "103 Link=x;", "200 Content-Length=1;"} {
		resp, err := c.ReadResponse("GET")
		if err != nil {
			t.Fatal(err)
		}
		if c.Reusable() {
			t.Error("reusable after", resp.Status)
		}
		if got := fmt.Sprintf("%d %s", resp.Status, describe(resp.Header)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if b, ok := c.BufferedBody(); string(b) != "z" || !ok || !c.Reusable() {
		t.Error(string(b))
	}

	c = clientOf(strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 33) + "HTTP/1.1 200 OK\r\n\r\n")
	for range 32 {
		if _, err := c.ReadResponse("GET"); err != nil {
			t.Fatal(err)
		}
	}
	_, err := c.ReadResponse("GET")
	wantKind(t, err, Malformed)
}

// A 101 ends HTTP, and so does a 2xx to CONNECT: what follows belongs to nobody.
func TestUpgrade(t *testing.T) {
	for method, in := range map[string]string{
		"GET":     "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nearly",
		"CONNECT": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nearly",
	} {
		c := asked(play(in), method)
		resp, err := c.ReadResponse(method)
		if err != nil || resp.Framing != NoBody || !c.BodyDone() || string(c.Buffered()) != "early" || c.Reusable() {
			t.Fatalf("%s: %v %+v %q", method, err, resp, c.Buffered())
		}
		b, err := io.ReadAll(c)
		if err != nil || string(b) != "early" || c.Reusable() {
			t.Errorf("%s: %q %v", method, b, err)
		}
	}
}

func TestReusable(t *testing.T) {
	ok := "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n"
	tests := []struct {
		name string
		c    func() *ClientConn
		want bool
	}{
		{"whole", func() *ClientConn { return clientOf(ok + "\r\nz") }, true},
		{"server closes", func() *ClientConn { return clientOf(ok + "Connection: close\r\n\r\nz") }, false},
		{"stray bytes", func() *ClientConn { return clientOf(ok + "\r\nzz") }, false},
		{"request not finished", func() *ClientConn {
			c := NewClientConn(play(ok + "\r\nz"))
			c.Start()
			c.RequestLine("POST", []byte("/"))
			c.EndHead(Length, 2)
			c.Body([]byte("a"))
			c.Flush()
			return c
		}, false},
		{"request closes", func() *ClientConn {
			c := NewClientConn(play(ok + "\r\nz"))
			c.Start()
			c.RequestLine("GET", []byte("/"))
			c.Field([]byte("connection"), []byte("close"))
			c.EndHead(NoBody, 0)
			c.Finish(nil)
			return c
		}, false},
		{"until close", func() *ClientConn { return clientOf("HTTP/1.1 200 OK\r\n\r\nz") }, false},
		{"interrupted", func() *ClientConn {
			c := clientOf(ok + "\r\nz")
			c.ReadResponse("GET")
			c.Drain(1)
			c.Interrupt()
			return c
		}, false},
	}
	for _, test := range tests {
		c := test.c()
		if !c.Interrupted() {
			if _, err := c.ReadResponse("GET"); err != nil {
				t.Fatal(test.name, err)
			}
			if c.Reusable() {
				t.Errorf("%s: reusable before the body was read", test.name)
			}
			c.Drain(1)
		}
		if c.Reusable() != test.want {
			t.Errorf("%s: %v", test.name, c.Reusable())
		}
	}
	c := NewClientConn(play(""))
	c.Start()
	if !c.Reusable() {
		t.Error("a new connection is not reusable")
	}
	c.RequestLine("GET", []byte("/"))
	if c.Start(); c.Reusable() {
		t.Error("reusable after a message that was not ended")
	}
}
