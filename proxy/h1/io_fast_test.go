//go:build linux && (amd64 || arm64)

package h1

import "testing"

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
