package h1

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"testing"
)

// FuzzRoundTrip writes a message in pieces and reads it in others: the body, its
// end and the trailers must come through, in both directions.
func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte("hello"), []byte{2, 0}, []byte{1}, byte(Chunked), true)
	f.Add(bytes.Repeat([]byte("0123456789"), 9000), []byte{255, 1, 120}, []byte{}, byte(Length), false)
	f.Add(bytes.Repeat([]byte("0123456789"), 9000), []byte{255, 100, 3}, []byte{200, 4}, byte(Chunked), false)
	f.Add([]byte{}, []byte{}, []byte{0}, byte(UntilClose), false)
	f.Fuzz(func(t *testing.T, body, pieces, cut []byte, framing byte, last bool) {
		fr := Framing(framing%3) + Length
		trailer := Header{{Name: []byte("T"), Value: []byte("v")}, {Name: []byte("Content-Length"), Value: []byte("9")}}
		nc := &script{}
		s := NewServerConn(nc, Limits{})
		s.StatusLineText(1, 200)
		s.EndHead(fr, int64(len(body)))
		writePieces(t, &s.Writer, body, pieces, last, trailer)
		if s.Written() != int64(nc.out.Len()) || s.BodyBytes() != int64(len(body)) || !s.Finished() {
			t.Fatalf("written %d of %d, body %d of %d", s.Written(), nc.out.Len(), s.BodyBytes(), len(body))
		}
		c := asked(&script{in: bytes.Clone(nc.out.Bytes()), cut: cut}, "GET")
		if _, err := c.ReadResponse("GET"); err != nil {
			t.Fatal(err)
		}
		got, err := readAll(c, len(pieces)*5)
		checkTrip(t, body, got, err, fr, &c.reader)
		resp, err := http.ReadResponse(bufio.NewReader(&nc.out), nil)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(b, body) {
			t.Errorf("net/http: %d bytes of %d, %v", len(b), len(body), err)
		}
		if fr == UntilClose {
			return
		}
		requestTrip(t, body, pieces, cut, fr, trailer, last)
	})
}

func requestTrip(t *testing.T, body, pieces, cut []byte, fr Framing, trailer Header, last bool) {
	nc := &script{}
	c := NewClientConn(nc)
	c.Start()
	c.RequestLineString("POST", "/")
	c.FieldString("Host", "a")
	c.EndHead(fr, int64(len(body)))
	writePieces(t, &c.Writer, body, pieces, last, trailer)
	s := NewServerConn(&script{in: bytes.Clone(nc.out.Bytes()), cut: cut}, Limits{})
	if _, err := s.ReadRequest(); err != nil {
		t.Fatal(err)
	}
	got, err := readAll(s, len(pieces)*5)
	checkTrip(t, body, got, err, fr, &s.reader)
}

func checkTrip(t *testing.T, body []byte, got string, err error, fr Framing, r *reader) {
	t.Helper()
	if err != io.EOF || got != string(body) || !r.BodyDone() || len(r.Buffered()) > 0 {
		t.Fatalf("read %d of %d bytes, %v, rest %q", len(got), len(body), err, r.Buffered())
	}
	if want := map[bool]string{true: "T=v;"}[fr == Chunked]; describe(r.body.trailer) != want {
		t.Errorf("trailer %q", describe(r.body.trailer))
	}
}

// writePieces writes the body in pieces of 97 times the sizes given.
func writePieces(t *testing.T, w *Writer, body, sizes []byte, last bool, trailer Header) {
	t.Helper()
	for i := 0; len(body) > 0 && i < len(sizes); i++ {
		n := min(int(sizes[i])*97, len(body))
		if last && n == len(body) {
			break
		}
		if err := w.Body(body[:n]); err != nil {
			t.Fatal(err)
		}
		if body = body[n:]; sizes[i]%4 == 3 {
			w.Flush()
		}
	}
	if err := w.FinishWith(body, trailer); err != nil {
		t.Fatal(err)
	}
}

// FuzzChunks reads any bytes as a chunked body, in any pieces: the result must
// not depend on those, and net/http must not read another whole body.
func FuzzChunks(f *testing.F) {
	f.Add([]byte("3\r\nabc\r\n0\r\n\r\nX"), []byte{0}, false)
	f.Add([]byte("3 ; a=b\nabc\n00\nA: b\r\n c\n\nX"), []byte{3, 1}, true)
	f.Add([]byte("FFFFFFFFFFFFFFFF\r\n"), []byte{}, false)
	f.Fuzz(func(t *testing.T, in, cut []byte, lenient bool) {
		type result struct {
			body  string
			kind  Kind
			whole bool
			rest  string
		}
		read := func(cut []byte, size int) (got result) {
			r := reader{c: &conn{nc: &script{in: bytes.Clone(in), cut: cut}}, lenient: lenient, maxHead: 1000, maxFields: 5}
			r.body.start(Chunked, -1)
			var err error
			got.body, err = readAll(&r, size)
			got.kind, got.whole = KindOf(err), r.BodyDone()
			if got.kind == HeadTooLarge {
				got.kind = Malformed // which of two faults is seen first may depend on the pieces
			}
			if got.whole {
				rest, _ := io.ReadAll(&r)
				got.rest = string(rest)
			}
			return got
		}
		want := read(nil, 0)
		for _, got := range []result{read(cut, 0), read(cut, 3), read(nil, 5000)} {
			if got != want {
				t.Fatalf("got %+v, want %+v", got, want)
			}
		}
		br := bufio.NewReader(io.MultiReader(bytes.NewReader([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")), bytes.NewReader(in)))
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		if rest, _ := io.ReadAll(br); err == nil && want.whole && (string(b) != want.body || string(rest) != want.rest) {
			t.Errorf("ours %+v, net/http's %q then %q", want, b, rest)
		}
	})
}
