package h1

import (
	"bytes"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// script is a connection in memory whose peer has already said everything: in,
// in pieces whose sizes are cut, and then end. What is written to it is kept.
type script struct {
	mu     sync.Mutex
	in     []byte
	cut    []byte // sizes of pieces less one, used in turn; none: as much as fits
	turn   int
	end    error // after in; nil: io.EOF
	out    bytes.Buffer
	writes int
	fail   error // of writes, once room is used up
	room   int
	closed bool
	late   bool // the deadline has passed
}

func play(in string) *script { return &script{in: []byte(in)} }

func (s *script) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.late {
		return 0, os.ErrDeadlineExceeded
	}
	if len(s.in) == 0 {
		if s.end != nil {
			return 0, s.end
		}
		return 0, io.EOF
	}
	n := len(p)
	if len(s.cut) > 0 {
		n = min(n, int(s.cut[s.turn%len(s.cut)])+1)
		s.turn++
	}
	n = copy(p[:n], s.in)
	s.in = s.in[n:]
	return n, nil
}

func (s *script) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.late {
		return 0, os.ErrDeadlineExceeded
	}
	s.writes++
	if s.fail != nil && len(p) > s.room {
		n := s.room
		s.room = 0
		s.out.Write(p[:n])
		return n, s.fail
	}
	if s.fail != nil {
		s.room -= len(p)
	}
	return s.out.Write(p)
}

func (s *script) Close() error                       { s.closed = true; return nil }
func (s *script) LocalAddr() net.Addr                { return nil }
func (s *script) RemoteAddr() net.Addr               { return nil }
func (s *script) SetReadDeadline(t time.Time) error  { return s.SetDeadline(t) }
func (s *script) SetWriteDeadline(t time.Time) error { return s.SetDeadline(t) }
func (s *script) SetDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = !t.IsZero()
	return nil
}

// serverOf is a client's connection on which in arrives at once.
func serverOf(in string) *ServerConn { return NewServerConn(play(in), Limits{}) }

// clientOf is an upstream's connection on which in arrives at once; a request
// was written already.
func clientOf(in string) *ClientConn { return asked(play(in), "GET") }

func asked(nc net.Conn, method string) *ClientConn {
	c := NewClientConn(nc)
	c.Start()
	c.RequestLine(method, []byte("/"))
	c.FieldString("Host", "example")
	c.EndHead(NoBody, 0)
	c.Finish(nil)
	return c
}

// loopback returns both ends of a TCP connection.
func loopback(t testing.TB) (server, client net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return server, client
}

// wantKind fails unless err has the kind.
func wantKind(t *testing.T, err error, kind Kind) {
	t.Helper()
	if KindOf(err) != kind || err == nil {
		t.Fatalf("got %v, want %v", err, kind)
	}
}

// eventually waits until f is true: for what the kernel does in its own time.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !f(); {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
		time.Sleep(time.Millisecond)
	}
}

// describe writes a header as name=value pairs, to compare.
func describe(h Header) string {
	var b strings.Builder
	for _, f := range h {
		b.WriteString(string(f.Name) + "=" + string(f.Value) + ";")
	}
	return b.String()
}
