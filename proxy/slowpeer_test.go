package proxy

import (
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"mulligan/proxy/h1"
)

// TestSlowPeerDoesNotStandStill: a body that a peer takes byte by byte is no body
// that moves nothing, though no write ends for longer than timeout.idle. The clock
// is the test's own.
func TestSlowPeerDoesNotStandStill(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("this system is not asked what a socket still holds")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	peer, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	nc, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	sc := h1.NewServerConn(nc, h1.Limits{})
	w := &watch{sc: sc, wire: sc, wake: make(chan struct{}, 1)}
	defer nc.Close()
	var wg sync.WaitGroup
	wg.Go(func() { sc.WriteThrough(make([]byte, 64<<20)) }) // more than any socket's buffers hold
	defer wg.Wait()
	defer peer.Close()
	still := func() (n uint64) { // waits until the write moves nothing any more
		for same := 0; same < 20; time.Sleep(5 * time.Millisecond) {
			now := w.sc.Unsent()
			if same++; now != n || !w.sc.Writing() {
				n, same = now, 0
			}
		}
		return n
	}
	const limit = int64(10 * time.Second)
	now := int64(1)
	w.begin(now)
	w.idleLimit.Store(limit)
	w.moving(nil)
	for range 4 {
		before := still()
		w.look(now)
		for taken := 0; w.sc.Unsent() == before; taken++ {
			if taken == 64<<10 {
				t.Fatal("the peer takes what it gets, and nothing is missing")
			}
			io.ReadFull(peer, make([]byte, 1<<10))
		}
		still()
		now += limit - 1
		w.look(now)
		if w.seen() != 0 {
			t.Fatal("a peer that reads is taken for one that stands still")
		}
	}
	w.look(now + limit)
	w.look(now + 2*limit)
	if w.seen()&causeIdle == 0 {
		t.Error("a peer that takes nothing is not noticed")
	}
	w.sc.ClearInterrupt()
}
