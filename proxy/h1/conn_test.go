package h1

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
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

func TestInterruptRead(t *testing.T) {
	server, client := loopback(t)
	s := NewServerConn(server, Limits{})
	done := make(chan error)
	go func() { _, err := s.ReadRequest(); done <- err }()
	s.InterruptRead()
	wantKind(t, <-done, Interrupted)
	_, err := s.ReadRequest()
	wantKind(t, err, Interrupted)
	if !s.Interrupted() || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}

	client.Write([]byte("GET /1 HTTP/1.1\r\nHo"))
	s.ClearInterrupt()
	go func() { _, err := s.ReadRequest(); done <- err }()
	eventually(t, "reading head", func() bool { p, _ := s.State(); return p == ReadingHead })
	s.Interrupt()
	wantKind(t, <-done, Interrupted)
	s.ClearInterrupt()
	client.Write([]byte("st: a\r\nContent-Length: 2\r\n\r\na")) // what was read is not lost
	req, err := s.ReadRequest()
	if err != nil || string(req.Target) != "/1" {
		t.Fatal(err)
	}
	if p, since := s.State(); p != InRequest || since > Now() {
		t.Error(p, since)
	}
	p := make([]byte, 9)
	if n, err := s.ReadBody(p); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	go func() { _, err := s.ReadBody(p); done <- err }()
	s.Interrupt()
	wantKind(t, <-done, Interrupted)
	s.ClearInterrupt()
	client.Write([]byte("b"))
	if n, err := s.ReadBody(p); n != 1 || err != nil || !s.BodyDone() {
		t.Fatal(n, err)
	}
}

func TestInterruptWrite(t *testing.T) {
	_, client := loopback(t)
	c := NewClientConn(client)
	c.Start()
	c.RequestLineString("POST", "/")
	c.EndHead(Length, 1<<40)
	done := make(chan error)
	go func() {
		for {
			if err := c.Body(make([]byte, 1<<20)); err != nil {
				done <- err
				return
			}
		}
	}()
	eventually(t, "progress", func() bool { return c.Progress() > 0 })
	c.InterruptWrite()
	wantKind(t, <-done, Interrupted)
	c.ClearInterrupt()
	wantKind(t, c.Body([]byte("a")), Interrupted) // something may be half written
	if c.Written() == 0 || c.Reusable() {
		t.Error(c.Written())
	}
}

// InterruptAt hits only the message it is meant for.
func TestInterruptAt(t *testing.T) {
	c := clientOf("")
	seq := c.Seq()
	c.Start()
	if c.InterruptAt(seq) || c.Interrupted() {
		t.Error("hit another message")
	}
	if !c.InterruptAt(c.Seq()) || !c.Interrupted() {
		t.Error("missed")
	}
	_, err := c.ReadResponse("GET")
	wantKind(t, err, Interrupted)
	if c.Check() {
		t.Error("an interrupted connection is fine")
	}
}

// In a bubble: the phases' clock, and interrupts of other connections than TCP.
func TestPhases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		defer b.Close()
		s := NewServerConn(a, Limits{})
		expect := func(want Phase, ago time.Duration) {
			t.Helper()
			synctest.Wait()
			phase, since := s.State()
			if phase != want || Now()-since != int64(ago) {
				t.Errorf("%v since %v, want %v since %v", phase, time.Duration(Now()-since), want, ago)
			}
		}
		done := make(chan error)
		read := func() { _, err := s.ReadRequest(); done <- err }
		go read()
		time.Sleep(time.Second)
		expect(Idle, time.Second)
		b.Write([]byte("G"))
		time.Sleep(2 * time.Second)
		expect(ReadingHead, 2*time.Second)
		b.Write([]byte("ET / HTTP/1.1\r\nHost: a\r\n"))
		expect(ReadingHead, 2*time.Second)
		s.Interrupt()
		wantKind(t, <-done, Interrupted)
		s.ClearInterrupt()
		go read()
		b.Write([]byte("\r\n"))
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		expect(InRequest, 3*time.Second)
		s.Restart()
		expect(Idle, 0)
	})
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

func TestPeerGone(t *testing.T) {
	for name, end := range map[string]func(c *net.TCPConn){
		"half close": func(c *net.TCPConn) { c.CloseWrite() },
		"close":      func(c *net.TCPConn) { c.Close() },
		"reset":      func(c *net.TCPConn) { c.SetLinger(0); c.Close() },
	} {
		server, client := loopback(t)
		s := NewServerConn(server, Limits{})
		client.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /pipelined"))
		if _, err := s.ReadRequest(); err != nil {
			t.Fatal(err)
		}
		client.Write([]byte("more, unread"))
		if s.PeerGone() {
			t.Error(name + ": gone before")
		}
		end(client.(*net.TCPConn))
		eventually(t, name, s.PeerGone)
	}
	s := NewServerConn(gone{play("")}, Limits{})
	if !s.PeerGone() || serverOf("").PeerGone() {
		t.Error("connections that are no sockets")
	}
}

type gone struct{ *script }

func (gone) PeerGone() bool { return true }

func TestCheck(t *testing.T) {
	server, client := loopback(t)
	c := NewClientConn(client)
	if !c.Check() {
		t.Fatal("a new connection is not fine")
	}
	server.Write([]byte("x"))
	eventually(t, "stray byte", func() bool { return !c.Check() })

	server, client = loopback(t)
	c = NewClientConn(client)
	server.Close()
	eventually(t, "close", func() bool { return !c.Check() })

	_, client = loopback(t)
	c = NewClientConn(client)
	client.Close()
	if c.Check() {
		t.Error("closed by ourselves, and fine")
	}
}

// Check of TLS connections also sees plaintext that was decrypted with the
// record before.
func TestCheckTLS(t *testing.T) {
	https := httptest.NewTLSServer(nil)
	defer https.Close()
	dial := func() (server *tls.Conn, c *ClientConn) {
		a, b := loopback(t)
		server = tls.Server(a, https.TLS)
		client := tls.Client(b, &tls.Config{InsecureSkipVerify: true})
		shaken := make(chan error)
		go func() { shaken <- server.Handshake() }()
		if err := client.Handshake(); err != nil {
			t.Fatal(err)
		}
		if err := <-shaken; err != nil {
			t.Fatal(err)
		}
		c = asked(client, "GET")
		server.Write([]byte("HTTP/1.1 204 No\r\n\r\n")) // with it come the session tickets
		if _, err := c.ReadResponse("GET"); err != nil {
			t.Fatal(err)
		}
		c.Start()
		return server, c
	}
	_, c := dial()
	for range 2 { // looking changes nothing
		if !c.Check() || c.PeerGone() {
			t.Fatal("not fine")
		}
	}
	server, c := dial()
	server.Write([]byte("HTTP/1.1 204 No\r\n\r\nx"))
	c.RequestLineString("GET", "/")
	c.EndHead(NoBody, 0)
	c.Finish(nil)
	p := make([]byte, 10)
	if n, err := c.NetConn().Read(p); n != 10 || err != nil {
		t.Fatal(n, err) // the rest of the record is in the TLS layer
	}
	if c.Check() {
		t.Error("decrypted bytes were not seen")
	}
	server, c = dial()
	server.Close()
	eventually(t, "close", func() bool { return !c.Check() })
	eventually(t, "gone", c.PeerGone)
	c.CloseReset()
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

func TestFinishAndReadResponse(t *testing.T) {
	begin := func(in string) *ClientConn {
		c := NewClientConn(play(in))
		c.Start()
		c.RequestLineString("POST", "/")
		c.EndHead(Length, 3)
		return c
	}
	c := begin("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	if resp, err := c.FinishAndReadResponse([]byte("abc"), nil, "POST"); err != nil || resp.Status != 200 || !c.Reusable() {
		t.Error(err)
	}
	c = begin("")
	_, err := c.FinishAndReadResponse([]byte("abcd"), nil, "POST")
	wantKind(t, err, Malformed)
	c = begin("")
	_, err = c.FinishAndReadResponse([]byte("ab"), nil, "POST")
	wantKind(t, err, Broken)
	c = begin("")
	c.Interrupt()
	_, err = c.FinishAndReadResponse([]byte("abc"), nil, "POST")
	wantKind(t, err, Interrupted)
}

// The same over TCP, where writing and waiting are one step.
func TestAsk(t *testing.T) {
	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	begin := func(length int) (net.Conn, *ClientConn) {
		server, client := loopback(t)
		c := NewClientConn(client)
		c.Start()
		c.RequestLineString("POST", "/")
		c.FieldString("Host", "a")
		c.EndHead(Length, int64(length))
		return server, c
	}
	expect := func(c *ClientConn, body []byte) {
		t.Helper()
		resp, err := c.FinishAndReadResponse(body, nil, "POST")
		if err != nil || resp.Status != 200 || c.Written() < int64(len(body)) || !c.Finished() {
			t.Fatal(err)
		}
		if b, ok := c.BufferedBody(); string(b) != "ok" || !ok || !c.Reusable() {
			t.Errorf("%q", b)
		}
	}
	for _, size := range []int{3, 6 << 10, 64 << 20} { // the last does not fit the socket
		server, c := begin(size)
		go func() {
			s := NewServerConn(server, Limits{})
			s.ReadRequest()
			s.Drain(int64(size))
			io.WriteString(server, answer)
		}()
		expect(c, make([]byte, size))
	}

	server, c := begin(3) // a server that speaks first
	io.WriteString(server, answer)
	eventually(t, "answer", func() bool { return !c.Check() })
	expect(c, []byte("abc"))

	for name, end := range map[string]func(net.Conn){
		"close": func(nc net.Conn) { nc.(*net.TCPConn).CloseWrite() },
		"reset": func(nc net.Conn) { nc.Close() }, // with the request unread
	} {
		server, c := begin(3)
		go func() { eventually(t, "request", func() bool { return hears(server) }); end(server) }()
		if _, err := c.FinishAndReadResponse([]byte("abc"), nil, "POST"); KindOf(err) != ResetBeforeHeader {
			t.Errorf("%s: %v", name, err)
		}
	}

	peer, waits := begin(3) // interrupted while it waits: the answer can still be read
	go func() { eventually(t, "request", func() bool { return hears(peer) }); waits.Interrupt() }()
	_, err := waits.FinishAndReadResponse([]byte("abc"), nil, "POST")
	wantKind(t, err, Interrupted)
	waits.ClearInterrupt()
	io.WriteString(peer, answer)
	if _, err := waits.ReadResponse("POST"); err != nil {
		t.Fatal(err)
	}

	_, c = begin(3) // interrupted before
	c.Interrupt()
	_, err = c.FinishAndReadResponse([]byte("abc"), nil, "POST")
	wantKind(t, err, Interrupted)
	if c.Written() != 0 {
		t.Error(c.Written())
	}

	_, c = begin(3) // closed under it
	c.Close()
	_, err = c.FinishAndReadResponse([]byte("abc"), nil, "POST")
	wantKind(t, err, NothingWritten)
}

// hears reports whether something can be read from nc.
func hears(nc net.Conn) bool {
	var q quiet
	q.init(nc)
	return !q.check(nc)
}

func TestKeepAliveTimeout(t *testing.T) {
	for in, want := range map[string]int64{
		"timeout=5": 5, "max=100, Timeout=7": 7, "timeout=": -1, "timeout=x": -1, "": -1, "max=1": -1, "timeout=0": 0, "timeout=99999999999999999999": -1,
	} {
		if got := keepAliveTimeout([]byte(in)); got != want {
			t.Errorf("%q: %d", in, got)
		}
	}
}

func TestErrorText(t *testing.T) {
	err := &Error{Kind: Broken, Reason: "body", Err: io.ErrUnexpectedEOF}
	if got := err.Error(); got != "h1: broken off: body: unexpected EOF" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(got)
	}
	if KindOf(nil) != 0 || KindOf(io.EOF) != 0 {
		t.Error("kinds of other errors")
	}
}

func TestNames(t *testing.T) {
	for k := NameConnection; k < numKnown; k++ {
		for _, name := range []string{k.String(), strings.ToUpper(k.String())} {
			if LookupName([]byte(name)) != k || (Field{Name: []byte(name)}).Known() != k {
				t.Error(name)
			}
		}
	}
	for _, name := range []string{"", "x", "hosts", "hos\x54x", "H\x4fSU", strings.Repeat("x", 40)} {
		if LookupName([]byte(name)) != NameOther {
			t.Error(name)
		}
	}
	h := Header{{Name: []byte("A"), Value: []byte("b, C ,d")}, {Name: []byte("a"), Value: []byte("E")}}
	if !h.HasToken("a", "c") || !h.HasToken("A", "e") || h.HasToken("a", "b, C") || h.Has("b") || h.Count("a") != 2 || h.Get("b") != nil || h.GetKnown(NameHost) != nil {
		t.Error("header")
	}
}
