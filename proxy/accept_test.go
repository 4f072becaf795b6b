package proxy_test

import (
	"context"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// failsFirst is a listener that cannot accept for want of descriptors, at first.
type failsFirst struct {
	net.Listener
	times *atomic.Int32
}

func (l failsFirst) Accept() (net.Conn, error) {
	if l.times.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.Listener.Accept()
}

// TestFailedAcceptEndsNothing: a listener that ran out of descriptors accepts
// again once there are some.
func TestFailedAcceptEndsNothing(t *testing.T) {
	times := &atomic.Int32{}
	times.Store(3)
	listen := func(n *memNet, network, addr string) (net.Listener, error) {
		ln, err := n.Listen(network, addr)
		return failsFirst{ln, times}, err
	}
	inBubbleOn(t, settings(), listen, answers(ok), func(b *bubble) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		c, err := b.net.Dial(ctx, "", "proxy:1")
		if err != nil {
			b.Fatalf("nobody accepts any more: %v", err)
		}
		within(b.T, time.Since(began), (5+10+20)*time.Millisecond) // a pause that grows, and no spinning
		if resp := b.send(c, getUp); resp.StatusCode != 200 {
			b.Error(resp.Status)
		}
	})
}
