package h1

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

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

func TestInterruptedBeforeUse(t *testing.T) {
	c := clientOf("")
	c.Start()
	c.Interrupt()
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
