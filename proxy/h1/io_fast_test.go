//go:build linux && (amd64 || arm64)

package h1

import (
	"io"
	"testing"
)

// A connection that waits holds no buffer.
func TestIdleHoldsNoBuffer(t *testing.T) {
	server, client := loopback(t)
	s := NewServerConn(server, Limits{})
	request := []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	client.Write(request)
	if _, err := s.ReadRequest(); err != nil {
		t.Fatal(err)
	}
	s.StatusLineText(1, 204)
	s.EndHead(NoBody, 0)
	s.Finish(nil)
	done := make(chan error)
	go func() { _, err := s.ReadRequest(); done <- err }()
	eventually(t, "idle", func() bool { p, _ := s.State(); return p == Idle })
	s.InterruptRead()
	wantKind(t, <-done, Interrupted)
	if s.in != nil || s.reader.head != nil || s.out != nil || s.io.buf != nil {
		t.Error("a buffer is held")
	}
}

// A long body that pauses holds no more than its head's buffer.
func TestPausedBodyHoldsOnlyItsHead(t *testing.T) {
	server, client := loopback(t)
	c := asked(client, "GET")
	server.Read(make([]byte, 1000)) // unread bytes would make its close a reset
	io.WriteString(server, "HTTP/1.1 200 OK\r\n\r\n")
	if _, err := c.ReadResponse("GET"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		server.Write(make([]byte, 100<<10))
		for n := 0; n < 100<<10; {
			p, err := c.NextBody()
			if err != nil {
				t.Fatal(err)
			}
			n += len(p)
		}
		done := make(chan error)
		go func() { _, err := c.NextBody(); done <- err }()
		c.InterruptRead()
		wantKind(t, <-done, Interrupted)
		c.ClearInterrupt()
		if c.in != nil && c.in != c.reader.head || c.io.buf != nil {
			t.Error("a buffer is held")
		}
	}
	server.Close()
	if _, err := c.NextBody(); err != io.EOF || !c.BodyDone() {
		t.Error(err)
	}
}
