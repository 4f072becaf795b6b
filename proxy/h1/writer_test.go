package h1

import (
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
)

// respond writes one response with f to a connection in memory.
func respond(f func(s *ServerConn)) *script {
	nc := &script{}
	f(NewServerConn(nc, Limits{}))
	return nc
}

func TestWriter(t *testing.T) {
	tests := []struct {
		name   string
		write  func(s *ServerConn)
		want   string
		writes int
	}{
		{"head and body in one write", func(s *ServerConn) {
			s.StatusLine(1, 200, []byte("Fine"))
			s.Field([]byte("content-LENGTH"), []byte("3"))
			s.EndHead(Length, 3)
			s.Body([]byte("a"))
			s.FinishWith([]byte("bc"), nil)
		}, "HTTP/1.1 200 Fine\r\ncontent-LENGTH: 3\r\n\r\nabc", 1},
		{"length added", func(s *ServerConn) {
			s.StatusLineText(0, 404)
			s.EndHead(Length, 0)
			s.Finish(nil)
		}, "HTTP/1.0 404 Not Found\r\nContent-Length: 0\r\n\r\n", 1},
		{"no reason", func(s *ServerConn) {
			s.StatusLine(1, 599, nil)
			s.EndHead(NoBody, 0)
			s.Finish(nil)
		}, "HTTP/1.1 599 \r\n\r\n", 1},
		{"chunked in one write", func(s *ServerConn) {
			s.StatusLine(1, 200, nil)
			s.EndHead(Chunked, -1)
			s.Body([]byte("0123456789abcdef"))
			s.Body(nil)
			s.Body([]byte("x"))
			s.Finish(Header{{Name: []byte("X-Sum"), Value: []byte("1")}, {Name: []byte("Transfer-Encoding"), Value: []byte("x")}})
		}, "HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n10\r\n0123456789abcdef\r\n1\r\nx\r\n0\r\nX-Sum: 1\r\n\r\n", 1},
		{"coding passed through", func(s *ServerConn) {
			f := Field{Name: []byte("transfer-encoding"), Value: []byte("Chunked")}
			s.StatusLine(1, 200, nil)
			s.Forward(&f)
			s.EndHead(Chunked, -1)
			s.Finish(nil)
		}, "HTTP/1.1 200 \r\ntransfer-encoding: Chunked\r\n\r\n0\r\n\r\n", 1},
		{"until close", func(s *ServerConn) {
			s.StatusLine(1, 200, nil)
			s.EndHead(UntilClose, -1)
			s.FinishWith([]byte("abc"), nil)
		}, "HTTP/1.1 200 \r\nConnection: close\r\n\r\nabc", 1},
		{"until close, said already", func(s *ServerConn) {
			s.StatusLine(1, 200, nil)
			s.FieldString("connection", "x, close")
			s.EndHead(UntilClose, -1)
			s.Finish(nil)
		}, "HTTP/1.1 200 \r\nconnection: x, close\r\n\r\n", 1},
		{"flushes between", func(s *ServerConn) {
			s.StatusLine(1, 200, nil)
			s.EndHead(Chunked, -1)
			s.Flush()
			s.Flush()
			s.Body([]byte("abc"))
			s.Flush()
			s.Finish(nil)
		}, "HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 3},
		{"what a HEAD is answered stands", func(s *ServerConn) {
			s.StatusLine(1, 200, nil)
			s.FieldInt("Content-Length", 1234)
			s.EndHead(NoBody, 0)
			s.Finish(nil)
		}, "HTTP/1.1 200 \r\nContent-Length: 1234\r\n\r\n", 1},
		{"line ends in values", func(s *ServerConn) {
			s.StatusLine(1, 200, nil)
			s.FieldString("A", "b\r\nC: d\x00")
			s.FieldBytes("E", []byte("f\ng"))
			s.EndHead(NoBody, 0)
			s.Finish(nil)
		}, "HTTP/1.1 200 \r\nA: b  C: d \r\nE: f g\r\n\r\n", 1},
		{"1xx with the final head", func(s *ServerConn) {
			s.StatusLine(1, 103, []byte("Early"))
			s.FieldString("Link", "x")
			s.EndHead(NoBody, 0)
			s.StatusLine(1, 100, []byte("Continue"))
			s.EndHead(NoBody, 0)
			s.StatusLine(1, 204, nil)
			s.FieldString("A", "b")
			s.EndHead(NoBody, 0)
			s.Finish(nil)
		}, "HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 \r\nA: b\r\n\r\n", 1},
	}
	for _, test := range tests {
		var conn *ServerConn
		nc := respond(func(s *ServerConn) { conn = s; test.write(s) })
		if got := nc.out.String(); got != test.want || nc.writes != test.writes {
			t.Errorf("%s: %d writes, %q, want %q", test.name, nc.writes, got, test.want)
		}
		if !conn.Finished() || conn.Written() != int64(nc.out.Len()) || conn.out != nil {
			t.Errorf("%s: finished %v, written %d, buffer %v", test.name, conn.Finished(), conn.Written(), conn.out)
		}
	}
}

// A message whose fields and framing disagree must not go out.
func TestContradictions(t *testing.T) {
	for name, write := range map[string]func(w *Writer){
		"other length": func(w *Writer) { w.FieldInt("Content-Length", 4); w.EndHead(Length, 3) },
		"length twice": func(w *Writer) {
			w.FieldInt("Content-Length", 3)
			w.FieldInt("content-length", 3)
			w.EndHead(Length, 3)
		},
		"invalid length":       func(w *Writer) { w.FieldString("Content-Length", "x"); w.EndHead(Length, 0) },
		"negative length":      func(w *Writer) { w.EndHead(Length, -1) },
		"coding with a length": func(w *Writer) { w.FieldString("Transfer-Encoding", "chunked"); w.EndHead(Length, 3) },
		"length with chunks":   func(w *Writer) { w.FieldInt("Content-Length", 3); w.EndHead(Chunked, -1) },
		"other coding":         func(w *Writer) { w.FieldString("Transfer-Encoding", "gzip"); w.EndHead(Chunked, -1) },
		"length until close":   func(w *Writer) { w.FieldInt("Content-Length", 3); w.EndHead(UntilClose, -1) },
		"coding until close":   func(w *Writer) { w.FieldString("Transfer-Encoding", "chunked"); w.EndHead(UntilClose, -1) },
		"body too long":        func(w *Writer) { w.EndHead(Length, 3); w.Body([]byte("abcd")) },
		"body where none is":   func(w *Writer) { w.EndHead(NoBody, 0); w.Body([]byte("a")) },
		"no head end":          func(w *Writer) { w.Body([]byte("a")) },
		"two head ends":        func(w *Writer) { w.EndHead(NoBody, 0); w.EndHead(NoBody, 0) },
	} {
		nc := respond(func(s *ServerConn) {
			s.StatusLine(1, 200, nil)
			write(&s.Writer)
			wantKind(t, s.Finish(nil), Malformed)
			wantKind(t, s.Flush(), Malformed)
			if s.Finished() || s.Reusable() {
				t.Errorf("%s: finished", name)
			}
		})
		if nc.writes > 0 {
			t.Errorf("%s: wrote %q", name, nc.out.String())
		}
	}
}

// A request cannot end with its connection (RFC 9112 section 6.3).
func TestRequestUntilClose(t *testing.T) {
	c := NewClientConn(&script{})
	c.Start()
	c.RequestLineString("POST", "/")
	c.EndHead(UntilClose, -1)
	wantKind(t, c.Finish(nil), Malformed)
}

func TestShortBodyIsBroken(t *testing.T) {
	nc := respond(func(s *ServerConn) {
		s.StatusLine(1, 200, nil)
		s.EndHead(Length, 3)
		s.Body([]byte("ab"))
		wantKind(t, s.Finish(nil), Broken)
	})
	if nc.writes > 0 {
		t.Errorf("wrote %q", nc.out.String())
	}
}

func TestWriteErrors(t *testing.T) {
	request := func(room int) (*ClientConn, error) {
		c := NewClientConn(&script{fail: syscall.EPIPE, room: room})
		c.Start()
		c.RequestLineString("GET", "/")
		c.EndHead(NoBody, 0)
		return c, c.Finish(nil)
	}
	c, err := request(0)
	wantKind(t, err, NothingWritten)
	_, err = c.ReadResponse("GET")
	wantKind(t, err, NothingWritten)
	c, err = request(5)
	wantKind(t, err, ResetBeforeHeader)
	if c.Written() != 5 || !errors.Is(err, syscall.EPIPE) || c.Reusable() {
		t.Error(c.Written(), err)
	}
	_, err = c.ReadResponse("GET")
	wantKind(t, err, ResetBeforeHeader)

	nc := &script{fail: syscall.EPIPE, room: 3}
	s := NewServerConn(nc, Limits{})
	s.StatusLine(1, 200, nil)
	s.EndHead(UntilClose, -1)
	err = s.Body(make([]byte, 100<<10))
	wantKind(t, err, Broken)
	if s.Written() != 3 {
		t.Error(s.Written())
	}
}

// Over TCP all of a message's pieces go out, in order, however little room the
// socket has, and large ones without a copy.
func TestWriteOverTCP(t *testing.T) {
	server, client := loopback(t)
	large := strings.Repeat("0123456789abcdef", 1<<16)
	go func() {
		s := NewServerConn(server, Limits{})
		s.StatusLineText(1, 200)
		s.EndHead(Chunked, -1)
		for _, p := range []string{large, "a", "", large[:5000], large} {
			s.Body([]byte(p))
		}
		s.FinishWith([]byte(large), Header{{Name: []byte("a"), Value: []byte("b")}})
		if !s.Finished() || s.out != nil {
			t.Error("not finished")
		}
	}()
	c := asked(client, "GET")
	if _, err := c.ReadResponse("GET"); err != nil {
		t.Fatal(err)
	}
	got, err := readAll(c, 0)
	if want := large + "a" + large[:5000] + large + large; err != io.EOF || got != want {
		t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
	}
	if describe(c.resp.Trailer) != "a=b;" || !c.BodyDone() {
		t.Error(describe(c.resp.Trailer))
	}
}
