package h1

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
)

func TestEndsOfClientConnections(t *testing.T) {
	tests := []struct {
		in   string
		end  error
		kind Kind // 0: io.EOF
	}{
		{"", nil, 0},
		{"", syscall.ECONNRESET, 0},
		{"\r\n", nil, 0},
		{"G", nil, Broken},
		{"GET / HTTP/1.1\r\nHost: a\r\n", nil, Broken},
		{"GET / HTTP/1.1\r\n", syscall.ECONNRESET, Broken},
	}
	for _, test := range tests {
		nc := play(test.in)
		nc.end = test.end
		_, err := NewServerConn(nc, Limits{}).ReadRequest()
		if KindOf(err) != test.kind || test.kind == 0 && err != io.EOF {
			t.Errorf("%q %v: %v", test.in, test.end, err)
		}
		var e *Error
		if errors.As(err, &e) && e.Status != 400 {
			t.Error(e)
		}
	}
}

func TestEndsOfUpstreamConnections(t *testing.T) {
	for _, in := range []string{"", "HTTP/1.", "HTTP/1.1 200 OK\r\nA: b\r\n"} {
		for _, end := range []error{nil, syscall.ECONNRESET} {
			nc := play(in)
			nc.end = end
			_, err := asked(nc, "GET").ReadResponse("GET")
			wantKind(t, err, ResetBeforeHeader)
			nc = play(in)
			nc.end = end
			c := NewClientConn(nc)
			c.Start()
			_, err = c.ReadResponse("GET")
			wantKind(t, err, NothingWritten)
		}
	}
	// A server that gives up an idle connection may say so: no answer to anything.
	c := NewClientConn(play("HTTP/1.1 408 Request Timeout\r\n\r\n"))
	c.Start()
	_, err := c.ReadResponse("GET")
	wantKind(t, err, NothingWritten)
}

// An upstream may answer, and close, before it has read the whole request.
func TestEarlyAnswer(t *testing.T) {
	server, client := loopback(t)
	c := NewClientConn(client)
	c.Start()
	c.RequestLineString("POST", "/")
	c.FieldString("Host", "a")
	c.EndHead(Length, 1<<30)
	c.Flush()
	server.Write([]byte("HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno"))
	server.Close() // with the request unread: a reset
	piece := make([]byte, 1<<20)
	var err error
	for err == nil {
		err = c.Body(piece)
	}
	wantKind(t, err, ResetBeforeHeader)
	resp, err := c.ReadResponse("POST")
	if err != nil || resp.Status != 413 {
		t.Fatal(err)
	}
	if b, ok := c.BufferedBody(); !ok || string(b) != "no" || c.Reusable() {
		t.Errorf("%q %v %v", b, ok, c.Reusable())
	}
}

// One goroutine writes the request while another reads the response.
func TestBothWaysAtOnce(t *testing.T) {
	server, client := loopback(t)
	const size = 32 << 20
	go func() { // an echo
		s := NewServerConn(server, Limits{})
		req, err := s.ReadRequest()
		if err != nil {
			t.Error(err)
			return
		}
		s.StatusLineText(1, 200)
		s.EndHead(Length, req.ContentLength)
		for {
			p, err := s.NextBody()
			if err != nil {
				break
			}
			s.Body(p)
		}
		s.Finish(nil)
		if !s.Reusable() {
			t.Error("not reusable")
		}
	}()
	c := NewClientConn(client)
	c.Start()
	c.RequestLineString("POST", "/")
	c.FieldString("Host", "a")
	c.EndHead(Length, size)
	var wg sync.WaitGroup
	wg.Go(func() {
		for range size / (1 << 15) {
			c.Body(make([]byte, 1<<15))
		}
		c.Finish(nil)
	})
	if _, err := c.ReadResponse("POST"); err != nil {
		t.Fatal(err)
	}
	got, err := readAll(c, 1<<16)
	wg.Wait()
	if len(got) != size || err != io.EOF || !c.Reusable() || c.Progress() == 0 {
		t.Error(len(got), err, c.Reusable())
	}
}

func TestPeek(t *testing.T) {
	nc := play("GET abc")
	nc.cut = []byte{0, 3}
	s := NewServerConn(nc, Limits{})
	if b, err := s.Peek(3); err != nil || string(b) != "GET " && string(b) != "GET" && string(b) != "GET a" {
		t.Fatalf("%q %v", b, err)
	}
	if b, err := s.Peek(20); err != io.EOF || string(b) != "GET abc" {
		t.Fatalf("%q %v", b, err)
	}
	s.Discard(4)
	s.Release()
	if string(s.Buffered()) != "abc" {
		t.Error(string(s.Buffered()))
	}
	if n, err := s.Read(nil); n != 0 || err != nil {
		t.Error(n, err)
	}
	p := make([]byte, 9)
	if n, err := s.Read(p); n != 3 || err != nil {
		t.Error(n, err)
	}
	nc.end = syscall.ECONNRESET
	_, err := s.Read(p)
	wantKind(t, err, Broken)
	_, err = s.Peek(1)
	wantKind(t, err, Broken)
}

func TestCloseReset(t *testing.T) {
	server, client := loopback(t)
	s := NewServerConn(server, Limits{})
	s.StatusLineText(1, 200)
	s.EndHead(UntilClose, -1)
	s.Body([]byte("part"))
	s.Flush()
	c := asked(client, "GET")
	if _, err := c.ReadResponse("GET"); err != nil {
		t.Fatal(err)
	}
	s.CloseReset()
	_, err := readAll(c, 0)
	wantKind(t, err, Broken)
	nc := play("")
	NewServerConn(nc, Limits{}).CloseReset()
	if !nc.closed || NewServerConn(nc, Limits{}).NetConn() != nc {
		t.Error("not closed")
	}
}

func TestServerReusable(t *testing.T) {
	answer := func(s *ServerConn, f Framing) {
		s.StatusLineText(1, 200)
		s.EndHead(f, 0)
		s.Finish(nil)
	}
	tests := []struct {
		name string
		in   string
		do   func(s *ServerConn)
		want bool
	}{
		{"answered", head(""), func(s *ServerConn) { answer(s, Length) }, true},
		{"not answered", head(""), func(s *ServerConn) {}, false},
		{"only a 1xx", head(""), func(s *ServerConn) { s.StatusLineText(1, 102); s.EndHead(NoBody, 0); s.Finish(nil) }, false},
		{"upgraded", head(""), func(s *ServerConn) { s.StatusLineText(1, 101); s.EndHead(NoBody, 0); s.Finish(nil) }, false},
		{"client closes", head("Connection: close\r\n"), func(s *ServerConn) { answer(s, Length) }, false},
		{"until close", head(""), func(s *ServerConn) { answer(s, UntilClose) }, false},
		{"body unread", head("Content-Length: 1\r\n") + "a", func(s *ServerConn) { answer(s, Length) }, false},
		{"interrupted", head(""), func(s *ServerConn) { answer(s, Length); s.Interrupt() }, false},
	}
	for _, test := range tests {
		s := serverOf(test.in)
		if _, err := s.ReadRequest(); err != nil {
			t.Fatal(err)
		}
		if test.do(s); s.Reusable() != test.want {
			t.Errorf("%s: %v", test.name, s.Reusable())
		}
	}
}

// TestArrivedBody: what has arrived is there without waiting, and what is wrong
// with it too.
func TestArrivedBody(t *testing.T) {
	const head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
	for in, want := range map[string]string{
		head:                              "",
		head + "3\r\nabc":                 "abc",
		head + "3\r\nabc\r\n2\r\nde\r\n":  "abcde",
		head + "3\r\nabc\r\n0\r\n\r\n":    "abc EOF",
		head + "3\r\nabc\r\nzz\r\nde\r\n": "abc h1: malformed: invalid chunk size",
	} {
		ours, theirs := net.Pipe()
		s := NewServerConn(ours, Limits{})
		go theirs.Write([]byte(in))
		if _, err := s.ReadRequest(); err != nil {
			t.Fatal(err)
		}
		s.Peek(len(in) - len(head))
		got := ""
		for {
			p, err := s.ArrivedBody()
			got += string(p)
			if err != nil {
				got += " " + err.Error()
			}
			if err != nil || len(p) == 0 {
				break
			}
		}
		if got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
		ours.Close()
		theirs.Close()
	}
}
