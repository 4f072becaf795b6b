package h2

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mulligan/proxy/h1"
)

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// serve runs a server on one end of a connection; it is closed, and waited for, at
// the end of the test.
func serve(t testing.TB, nc net.Conn, cfg ServerConfig, handle func(*ServerStream)) *ServerConn {
	t.Helper()
	s := NewServerConn(nc, cfg)
	done := make(chan struct{})
	go func() { defer close(done); s.Serve(handle) }()
	t.Cleanup(func() {
		s.Close()
		wait(t, done, "Serve")
	})
	return s
}

// dial makes a client of the other end.
func dial(t testing.TB, nc net.Conn, cfg ClientConfig) *ClientConn {
	t.Helper()
	done := make(chan struct{})
	closed := cfg.OnClose
	cfg.OnClose = func() {
		if closed != nil {
			closed()
		}
		close(done)
	}
	c := NewClientConn(nc, cfg)
	t.Cleanup(func() {
		c.Close()
		wait(t, done, "the client's end")
	})
	return c
}

func wait(t testing.TB, done <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s is waited for in vain", what)
	}
}

// eventually polls until ok.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// tcpPair is a connection over loopback.
func tcpPair(t testing.TB) (a, b net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var wg sync.WaitGroup
	wg.Add(1)
	go func() { defer wg.Done(); b, _ = ln.Accept() }()
	a, err = net.Dial("tcp", ln.Addr().String())
	wg.Wait()
	if err != nil || b == nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// pair is a client and a server with a handler.
func pair(t testing.TB, handle func(*ServerStream)) (*ClientConn, *ServerConn) {
	t.Helper()
	a, b := tcpPair(t)
	s := serve(t, b, ServerConfig{}, handle)
	return dial(t, a, ClientConfig{}), s
}

// open opens a stream, which there must be room for, and closes it at the end.
func open(t testing.TB, c *ClientConn) *ClientStream {
	t.Helper()
	s := c.Open()
	if s == nil {
		t.Fatal("no stream can be opened")
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// get begins a request without a body.
func get(s *ClientStream, path string) {
	s.RequestLine("GET", []byte(path))
	s.FieldString("Host", "up.test")
	s.EndHead(h1.NoBody, 0)
}

// answer sends a whole response.
func answer(s *ServerStream, status int, body string) error {
	s.StatusLine(1, status, nil)
	s.EndHead(h1.Length, int64(len(body)))
	return s.FinishWith([]byte(body), nil)
}

// reader is what both streams can do.
type reader interface {
	NextBody() ([]byte, error)
}

func readAll(r reader) (string, error) {
	var all bytes.Buffer
	for {
		p, err := r.NextBody()
		if err == io.EOF {
			return all.String(), nil
		}
		if err != nil {
			return all.String(), err
		}
		all.Write(p)
	}
}

// echo answers with what it was asked.
func echo(s *ServerStream) {
	req, err := s.ReadRequest()
	if err != nil {
		answer(s, 431, err.Error())
		return
	}
	body, err := readAll(s)
	if err != nil {
		s.CloseReset()
		return
	}
	answer(s, 200, fmt.Sprintf("%s %s %s", req.Method, req.Target, body))
}

// text shows a head for comparison.
func text(h h1.Header) string {
	var b bytes.Buffer
	for i := range h {
		fmt.Fprintf(&b, "%s=%s;", h[i].Name, h[i].Value)
	}
	return b.String()
}

// pattern is n bytes that show what was lost or twice.
func pattern(n int) []byte {
	b := make([]byte, 0, n+8)
	for i := 0; len(b) < n; i++ {
		b = append(strconv.AppendInt(b, int64(i), 36), ' ')
	}
	return b[:n]
}

// countingConn counts writes.
type countingConn struct {
	net.Conn
	writes atomic.Int32
}

func (c *countingConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// usable asks a client's connection whether it takes streams, now or later.
func usable(c *ClientConn) bool {
	c.mu.Lock()
	defer c.unlock()
	return c.usable()
}
