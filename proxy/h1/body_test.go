package h1

import (
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
)

// chunkedRequest is a client's connection whose request has been read and whose
// chunked body is in.
func chunkedRequest(t *testing.T, body string, cut ...byte) *ServerConn {
	t.Helper()
	nc := play(head("Transfer-Encoding: chunked\r\n") + body)
	nc.cut = cut
	s := NewServerConn(nc, Limits{})
	if _, err := s.ReadRequest(); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestChunked(t *testing.T) {
	tests := []struct{ name, in, body, trailer, rest string }{
		{"one", "3\r\nabc\r\n0\r\n\r\n", "abc", "", ""},
		{"several", "1\r\na\r\n2\r\nbc\r\nA\r\n0123456789\r\n0\r\n\r\nX", "abc0123456789", "", "X"},
		{"empty", "0\r\n\r\n", "", "", ""},
		{"zeros", "00003\r\nabc\r\n000\r\n\r\n", "abc", "", ""},
		{"RFC 9112 7.1.1: extensions", "3;a=b\r\nabc\r\n3 ; q=\"x\"\r\ndef\r\n0;last\r\n\r\n", "abcdef", "", ""},
		{"RFC 9112 7.1.1: extensions of all kinds", "3\t; a ; b = c ; d=\"e\\\"; f\";g\r\nabc\r\n0\r\n\r\n", "abc", "", ""},
		{"RFC 9112 7.1.2: trailers", "3\r\nabc\r\n0\r\nX-Sum: 1\r\nY:\r\n\r\nGET", "abc", "X-Sum=1;Y=;", "GET"},
		{"16 digits", "0000000000000003\r\nabc\r\n0\r\n\r\n", "abc", "", ""},
	}
	for _, test := range tests {
		for _, cut := range [][]byte{nil, {0}, {1}, {6, 0, 2}} {
			s := chunkedRequest(t, test.in, cut...)
			b, err := io.ReadAll(readerFunc(s.ReadBody))
			rest, _ := io.ReadAll(s)
			if err != nil || string(b) != test.body || describe(s.req.Trailer) != test.trailer || string(rest) != test.rest || !s.BodyDone() {
				t.Errorf("%s, cut %v: %q %v, trailer %q, rest %q", test.name, cut, b, err, describe(s.req.Trailer), rest)
			}
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestRefusedChunks(t *testing.T) {
	for rule, in := range map[string]string{
		"RFC 9112 7.1: no size":                        "\r\nabc\r\n0\r\n\r\n",
		"RFC 9112 7.1: not hexadecimal":                "g\r\n",
		"RFC 9112 7.1: sign":                           "+3\r\nabc\r\n",
		"RFC 9112 7.1: negative":                       "-3\r\nabc\r\n",
		"RFC 9112 7.1: 0x":                             "0x3\r\nabc\r\n",
		"RFC 9112 7.1: space first":                    " 3\r\nabc\r\n",
		"RFC 9112 7.1: 17 digits":                      "00000000000000003\r\nabc\r\n0\r\n\r\n",
		"RFC 9112 7.1: over int64":                     "8000000000000000\r\n",
		"RFC 9112 7.1: over uint64":                    "10000000000000003\r\nabc\r\n0\r\n\r\n",
		"RFC 9112 2.2: bare LF after the size":         "3\nabc\r\n0\r\n\r\n",
		"RFC 9112 2.2: bare LF after the data":         "3\r\nabc\n0\r\n\r\n",
		"RFC 9112 2.2: bare CR after the size":         "3\rabc\r\n0\r\n\r\n",
		"RFC 9112 2.2: CR twice":                       "3\r\r\nabc\r\n0\r\n\r\n",
		"RFC 9112 2.2: bare LF in an extension":        "3;a\nabc\r\n0\r\n\r\n",
		"RFC 9112 2.2: control in an extension":        "3;a\x01\r\nabc\r\n0\r\n\r\n",
		"RFC 9112 7.1: data longer than the size":      "3\r\nabcd\r\n0\r\n\r\n",
		"RFC 9112 7.1: data shorter than the size":     "4\r\nabc\r\n0\r\n\r\n",
		"RFC 9112 7.1: white space after the size":     "3 \r\nabc\r\n0\r\n\r\n",
		"RFC 9112 7.1: garbage after the size":         "3 abc\r\nabc\r\n0\r\n\r\n",
		"RFC 9112 7.1.1: extension without a name":     "3;\r\nabc\r\n0\r\n\r\n",
		"RFC 9112 7.1.1: value without a name":         "3;=x\r\nabc\r\n0\r\n\r\n",
		"RFC 9112 7.1.1: name that is no token":        "3;bad[=x\r\nabc\r\n0\r\n\r\n",
		"RFC 9112 7.1.1: no value":                     "3;a=\r\nabc\r\n0\r\n\r\n",
		"RFC 9112 7.1.1: second extension empty":       "3;a;;b\r\nabc\r\n0\r\n\r\n",
		"RFC 9112 7.1.1: white space last":             "3;a \r\nabc\r\n0\r\n\r\n",
		"RFC 9110 5.6.4: quote that does not end":      "3;a=\"b\r\nabc\r\n0\r\n\r\n",
		"RFC 9110 5.6.4: quote that ends in \\":        "3;a=\"b\\\r\nabc\r\n0\r\n\r\n",
		"RFC 9110 5.6.4: control in a quote":           "3;a=\"\x01\"\r\nabc\r\n0\r\n\r\n",
		"RFC 9112 7.1.1: size line too long":           "3;" + strings.Repeat("x", 5000) + "\r\nabc\r\n0\r\n\r\n",
		"RFC 9112 7.1.1: size line that does not end":  "3;" + strings.Repeat("x", 20000),
		"RFC 9112 7.1.1: extensions too long together": strings.Repeat("1;"+strings.Repeat("x", 1000)+"\r\na\r\n", 70) + "0\r\n\r\n",
		"RFC 9112 7.1.2: bare LF in trailers":          "0\r\nA: b\n\r\n",
		"RFC 9112 7.1.2: bare LF ends trailers":        "0\r\n\n",
		"RFC 9112 7.1.2: folded trailer":               "0\r\nA: b\r\n c\r\n\r\n",
		"RFC 9112 7.1.2: bad name":                     "0\r\nA b: c\r\n\r\n",
	} {
		for _, cut := range [][]byte{nil, {0}} {
			s := chunkedRequest(t, in, cut...)
			_, err := io.ReadAll(readerFunc(s.ReadBody))
			var e *Error
			if !errors.As(err, &e) || e.Kind != Malformed || e.Status != 400 || s.BodyDone() || s.Reusable() {
				t.Errorf("%s, cut %v: %v", rule, cut, err)
			}
			if _, again := s.ReadBody(make([]byte, 1)); again != err {
				t.Errorf("%s: then %v", rule, again)
			}
		}
	}
}

func TestTrailersOverTheLimit(t *testing.T) {
	s := chunkedRequest(t, "0\r\nA: "+strings.Repeat("x", 64<<10)+"\r\n\r\n")
	wantKind(t, s.Drain(0), HeadTooLarge)
	s = chunkedRequest(t, "0\r\nA: "+strings.Repeat("x", 100<<10))
	wantKind(t, s.Drain(0), HeadTooLarge)
	s = chunkedRequest(t, "0\r\n"+strings.Repeat("A:\r\n", 1001)+"\r\n")
	wantKind(t, s.Drain(0), HeadTooLarge)
}

// Responses may be framed less exactly.
func TestLenientChunks(t *testing.T) {
	for _, in := range []string{
		"3 \r\nabc\r\n0\r\n\r\n", "3\r\nabc\r\n0 \r\n\r\n", "3 ;=x;\r\nabc\r\n0\r\nA : b\r\n c\r\n\r\n",
	} {
		for _, cut := range [][]byte{nil, {0}} {
			nc := play("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + in)
			nc.cut = cut
			c := asked(nc, "GET")
			if _, err := c.ReadResponse("GET"); err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(readerFunc(c.ReadBody))
			if err != nil || string(b) != "abc" || !c.Reusable() {
				t.Errorf("%q: %q %v %v", in, b, err, c.Reusable())
			}
		}
	}
}

// TestChunksEndInCRLF: servers' too. A size that was wrong by one made a body
// with a stray CR that looked whole.
func TestChunksEndInCRLF(t *testing.T) {
	for _, in := range []string{
		"3\rx\nabc\r\n0\r\n\r\n", "3\nabc\r\n0\r\n\r\n", "3;x\nabc\r\n0\r\n\r\n", "3\r\nabc\n0\r\n\r\n", "3\r\nabc\r\n0\r\n\n", "3\r\nabc\r\n0\r\nA: b\n\r\n", "4\r\nabc\r\n0\r\n\r\n",
	} {
		c := clientOf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + in)
		c.ReadResponse("GET")
		err := c.Drain(9)
		wantKind(t, err, Malformed)
		if err.(*Error).Status != 0 {
			t.Error("a status for a response:", err)
		}
	}
}

// TestSmallChunksWithExtensions: a long stream of them once ended after 64 KiB of
// extensions in all.
func TestSmallChunksWithExtensions(t *testing.T) {
	for _, chunk := range []string{"1;a=b1\r\nx\r\n", "1              \r\nx\r\n"} {
		in := strings.Repeat(chunk, 20000) + "0\r\n\r\n"
		c := clientOf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + in)
		c.ReadResponse("GET")
		if b, err := io.ReadAll(readerFunc(c.ReadBody)); err != nil || len(b) != 20000 {
			t.Errorf("%q: %d bytes, %v", chunk, len(b), err)
		}
	}
}

func TestBodiesThatBreakOff(t *testing.T) {
	for _, in := range []string{
		"Content-Length: 5\r\n\r\nabc", "Content-Length: 5\r\n\r\n",
		"Transfer-Encoding: chunked\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n5\r\nabc",
		"Transfer-Encoding: chunked\r\n\r\n3\r\nabc", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
		"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n",
	} {
		for _, end := range []error{nil, syscall.ECONNRESET} {
			nc := play("HTTP/1.1 200 OK\r\n" + in)
			nc.end = end
			c := asked(nc, "GET")
			if _, err := c.ReadResponse("GET"); err != nil {
				t.Fatal(err)
			}
			_, err := io.ReadAll(readerFunc(c.ReadBody))
			wantKind(t, err, Broken)
			if end != nil && !errors.Is(err, end) || end == nil && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%q: %v", in, err)
			}
			if c.BodyDone() || c.Reusable() {
				t.Errorf("%q: done", in)
			}
		}
	}
}

// A body that ends with the connection is whole only after a FIN.
func TestUntilClose(t *testing.T) {
	for _, end := range []error{nil, syscall.ECONNRESET, io.ErrUnexpectedEOF} {
		nc := play("HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("x", 100000))
		nc.end = end
		c := asked(nc, "GET")
		c.ReadResponse("GET")
		b, err := io.ReadAll(readerFunc(c.ReadBody))
		if len(b) != 100000 || (err == nil) != (end == nil) || c.BodyDone() != (end == nil) {
			t.Errorf("%v: %d %v", end, len(b), err)
		}
		if end != nil {
			wantKind(t, err, Broken)
		}
	}
	// The reset was seen by a write: the read that follows sees only an end.
	nc := play("HTTP/1.1 200 OK\r\n\r\nabc")
	c := NewClientConn(nc)
	c.Start()
	c.RequestLine("POST", []byte("/"))
	c.EndHead(Length, 9)
	c.Flush()
	nc.fail = syscall.ECONNRESET
	c.Body(make([]byte, 9))
	wantKind(t, c.Flush(), ResetBeforeHeader)
	if _, err := c.ReadResponse("POST"); err != nil {
		t.Fatal(err)
	}
	wantKind(t, c.Drain(9), Broken)
}

// Large bodies of each framing, read in every way.
func TestLargeBodies(t *testing.T) {
	want := strings.Repeat("0123456789abcdef", 20000)
	chunks := "10000\r\n" + want[:65536] + "\r\n3\r\nabc\r\n" + "3E000\r\n" + want[65536:65536+0x3e000] + "\r\n0\r\nA: b\r\n\r\n"
	ok := "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", 15000) + "\r\n" // leaves little room in the first buffer
	for _, test := range []struct{ in, want string }{
		{ok + "Content-Length: 320000\r\n\r\n" + want, want},
		{ok + "\r\n" + want, want},
		{ok + "Transfer-Encoding: chunked\r\n\r\n" + chunks, want[:65536] + "abc" + want[65536:65536+0x3e000]},
	} {
		for _, cut := range [][]byte{nil, {255}, {255, 3, 77}} {
			for _, size := range []int{0, 1000, 50000} {
				nc := play(test.in)
				nc.cut = cut
				c := asked(nc, "GET")
				resp, err := c.ReadResponse("GET")
				if err != nil {
					t.Fatal(err)
				}
				got, err := readAll(c, size)
				if err != io.EOF || got != test.want || len(resp.Header.Get("x")) != 15000 || strings.Trim(string(resp.Header.Get("x")), "y") != "" {
					t.Fatalf("cut %v size %d: %d bytes, %v", cut, size, len(got), err)
				}
			}
		}
	}
}

// bodyReader is the reading half of both connections.
type bodyReader interface {
	ReadBody([]byte) (int, error)
	NextBody() ([]byte, error)
}

// readAll reads a body with a buffer of size bytes; 0: with NextBody.
func readAll(r bodyReader, size int) (string, error) {
	var b strings.Builder
	p := make([]byte, size)
	for {
		var err error
		if size == 0 {
			var piece []byte
			piece, err = r.NextBody()
			b.Write(piece)
		} else {
			var n int
			n, err = r.ReadBody(p)
			b.Write(p[:n])
		}
		if err != nil {
			return b.String(), err
		}
	}
}

func TestBufferedBody(t *testing.T) {
	tests := []struct {
		in   string
		body string
		ok   bool
	}{
		{head(""), "", true},
		{head("Content-Length: 0\r\n"), "", true},
		{head("Content-Length: 3\r\n") + "abc", "abc", true},
		{head("Content-Length: 4\r\n") + "abc", "", false},
		{head("Transfer-Encoding: chunked\r\n") + "0\r\n\r\n", "", false},
	}
	for _, test := range tests {
		nc := play(test.in)
		nc.cut = []byte{0, 255} // one byte wakes, the rest comes at once
		s := NewServerConn(nc, Limits{})
		if _, err := s.ReadRequest(); err != nil {
			t.Fatal(err)
		}
		if b, ok := s.BufferedBody(); ok != test.ok || string(b) != test.body || ok && !s.BodyDone() {
			t.Errorf("%q: %q %v", test.in, b, ok)
		}
	}
	s := serverOf(head("Content-Length: 3\r\n") + "abc")
	s.ReadRequest()
	s.ReadBody(make([]byte, 3))
	if _, ok := s.BufferedBody(); ok {
		t.Error("a body that was read is buffered")
	}
	if n, err := s.ReadBody(nil); n != 0 || err != nil {
		t.Error(n, err)
	}
}

func TestDrain(t *testing.T) {
	s := serverOf(head("Content-Length: 3\r\n") + "abc")
	s.ReadRequest()
	wantKind(t, s.Drain(2), Broken)
}
