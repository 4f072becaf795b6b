package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/policy"
)

const connectUp = "CONNECT up:80 HTTP/1.1\r\nHost: up:80\r\n\r\n"

// TestOpaqueTunnelFeedsTheBudget: the dial of an opaque tunnel counts as an
// answer, so that tunnels alone keep a budget alive.
func TestOpaqueTunnelFeedsTheBudget(t *testing.T) {
	u := upstream("up")
	u.Hosts = []policy.HostPattern{{Name: "up"}}
	u.Budget.Ratio, u.Budget.Burst = 0.5, 0
	inBubble(t, settings(u), func(c net.Conn) { io.Copy(c, c) }, func(b *bubble) {
		for n := range 4 {
			if left := gauge(b.T, b.reg, "mulligan_retry_budget_remaining", "up"); left != float64(n/2) {
				b.Errorf("%v retries are allowed after %d tunnels", left, n)
			}
			c := b.dial()
			defer c.Close()
			b.send(c, connectUp)
			io.WriteString(c, "\x16")
			if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
				b.Fatal(err)
			}
		}
		if left := gauge(b.T, b.reg, "mulligan_retry_budget_remaining", "up"); left != 2 {
			b.Errorf("%v retries are allowed after 4 tunnels", left)
		}
	})
}

// meeting makes both sides of a tunnel speak at the same time: neither's first
// bytes can be read before the other's are waited for.
type meeting struct{ client, server chan struct{} }

// speaker is a connection whose bytes at the meeting come whatever its deadline is.
type speaker struct {
	net.Conn
	open        atomic.Bool // the meeting has begun
	here, other chan struct{}
	once        sync.Once
	say         io.Reader
}

func (s *speaker) Read(p []byte) (int, error) {
	if !s.open.Load() {
		return s.Conn.Read(p)
	}
	s.once.Do(func() { close(s.here) })
	<-s.other
	if n, err := s.say.Read(p); err == nil {
		return n, nil
	}
	return s.Conn.Read(p)
}

// Write begins the meeting, once it is through: for a client it is the 200.
func (s *speaker) Write(p []byte) (int, error) {
	n, err := s.Conn.Write(p)
	s.open.Store(true)
	return n, err
}

// TestServerThatSpeaksFirst makes a tunnel opaque even where the client's bytes,
// which look like HTTP, come at the same time.
func TestServerThatSpeaksFirst(t *testing.T) {
	const greeting, request = "220 welcome\r\n", "GET / HTTP/1.1\r\nHost: up\r\n\r\n"
	synctest.Test(t, func(t *testing.T) {
		m := meeting{make(chan struct{}), make(chan struct{})}
		n := newMemNet()
		listen := func(network, addr string) (net.Listener, error) {
			ln, err := n.Listen(network, addr)
			return speakingListener{ln, m, request}, err
		}
		ours, theirs := net.Pipe()
		dial := func(context.Context, string, string) (net.Conn, error) {
			s := &speaker{Conn: theirs, here: m.server, other: m.client, say: strings.NewReader(greeting)}
			s.open.Store(true)
			return s, nil
		}
		b := startMem(t, n, settings(), listen, dial)
		defer b.srv.Close()
		var got bytes.Buffer
		read := make(chan struct{})
		go func() { defer close(read); io.Copy(&got, ours) }()
		c := b.dial()
		defer ours.Close()
		defer c.Close()
		c.SetDeadline(time.Now().Add(time.Minute))
		go io.WriteString(c, connectUp)
		r := bufio.NewReader(c)
		if resp := readResponse(t, r); resp.StatusCode != 200 {
			t.Fatal(resp.Status)
		}
		said := make([]byte, len(greeting))
		if n, err := io.ReadFull(r, said); string(said) != greeting {
			t.Errorf("the client got %q %v", said[:n], err)
		}
		synctest.Wait() // until the request is through
		c.Close()
		ours.Close()
		<-read
		if got.String() != request {
			t.Errorf("the server got %q", got.String())
		}
	})
}

type speakingListener struct {
	net.Listener
	m   meeting
	say string
}

func (l speakingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &speaker{Conn: c, here: l.m.client, other: l.m.server, say: strings.NewReader(l.say)}, nil
}
