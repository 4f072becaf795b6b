package h1

import (
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"
)

// TestSlowPeerIsProgress: a peer that reads slower than a full socket becomes
// writable again is no peer that stands still. One that was, by the count of
// finished writes alone, was cut off by timeout.idle.
func TestSlowPeerIsProgress(t *testing.T) {
	nc, peer := tcpPair(t)
	if runtime.GOOS != "linux" {
		t.Skip("this system is not asked what a socket still holds")
	}
	c := NewServerConn(nc, Limits{})
	var wg sync.WaitGroup
	wg.Go(func() { c.WriteThrough(make([]byte, 64<<20)) }) // more than any socket buffer holds
	still := awaitStill(t, c)
	finished := c.Progress()
	p := make([]byte, 1<<10)
	for end := time.Now().Add(20 * time.Second); ; {
		io.ReadFull(peer, p)
		if c.Unsent() != still {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the peer reads, and nothing has moved")
		}
	}
	if c.Progress() != finished || !c.Writing() {
		t.Error("the write has ended: nothing was shown")
	}
	peer.Close()
	wg.Wait()
}

// awaitStill waits until a write is under way and moves nothing any more.
func awaitStill(t *testing.T, c *ServerConn) (unsent uint64) {
	t.Helper()
	same := 0
	for range 4000 {
		now := c.Unsent()
		if same++; now != unsent || !c.Writing() {
			unsent, same = now, 0
		}
		if same > 20 {
			return unsent
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("the write does not block")
	return 0
}

// tcpPair is two ends of a connection over loopback.
func tcpPair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return a, b
}

// lateError is a connection whose read fails by a deadline that is gone again by
// the time its error is looked at.
type lateError struct{ net.Conn }

func (lateError) Read([]byte) (int, error)        { return 0, os.ErrDeadlineExceeded }
func (lateError) SetReadDeadline(time.Time) error { return nil }

// TestInterruptionThatWasCleared: it is an interruption still, not a broken body.
func TestInterruptionThatWasCleared(t *testing.T) {
	c := &conn{nc: lateError{}}
	if _, err := c.read(make([]byte, 1)); KindOf(err) != Interrupted {
		t.Errorf("%v", err)
	}
}

// TestEmptyLineBeginsNoHead: the line end that some clients send behind a body is
// ignored (RFC 9112 2.2). It once started the clock of the next head, so that a
// 408 came which the client could take for its next answer.
func TestEmptyLineBeginsNoHead(t *testing.T) {
	for _, behind := range []string{"\r\n", "\r", "\r\n\r\n", "\r\n\r"} {
		for _, cut := range [][]byte{nil, {0}} {
			nc := play("GET / HTTP/1.1\r\nHost: x\r\n\r\n" + behind)
			nc.cut = cut
			c := NewServerConn(nc, Limits{})
			if _, err := c.ReadRequest(); err != nil {
				t.Fatal(err)
			}
			c.StatusLine(1, 204, nil)
			c.EndHead(NoBody, 0)
			if err := c.Finish(nil); err != nil {
				t.Fatal(err)
			}
			c.ReadRequest()
			if phase, _ := c.State(); phase != Idle {
				t.Errorf("%q: phase %v", behind, phase)
			}
		}
	}
}
