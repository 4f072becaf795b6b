package proxy_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"

	"mulligan/metrics"
	"mulligan/proxy"
)

// memNet is a network in memory: sockets would block a synctest bubble.
type memNet struct {
	mu        sync.Mutex
	listeners map[string]*memListener
}

type memListener struct {
	addr  string
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

type memAddr string

func (a memAddr) Network() string { return "mem" }
func (a memAddr) String() string  { return string(a) }

func newMemNet() *memNet { return &memNet{listeners: map[string]*memListener{}} }

func (n *memNet) Listen(_, addr string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := &memListener{addr: addr, conns: make(chan net.Conn), done: make(chan struct{})}
	n.listeners[addr] = l
	return l, nil
}

func (n *memNet) Dial(ctx context.Context, _, addr string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[addr]
	n.mu.Unlock()
	if l == nil {
		return nil, errors.New("nobody listens")
	}
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *memListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *memListener) Addr() net.Addr { return memAddr(l.addr) }

// lingering is a pipe's end that can be closed for writing.
type lingering struct{ net.Conn }

func (lingering) CloseWrite() error { return nil }

type lingeringListener struct{ net.Listener }

func (l lingeringListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return lingering{c}, nil
}

// ListenLingering is Listen, for connections that can be closed for writing.
func (n *memNet) ListenLingering(network, addr string) (net.Listener, error) {
	ln, err := n.Listen(network, addr)
	return lingeringListener{ln}, err
}

// bubble is a proxy and one upstream, "up:80", in virtual time.
type bubble struct {
	*testing.T
	net *memNet
	srv *proxy.Server
	reg *prometheus.Registry
}

// inBubble runs f with a proxy whose upstream gives each connection to serve.
func inBubble(t *testing.T, s *proxy.Settings, serve func(net.Conn), f func(b *bubble)) {
	t.Helper()
	inBubbleOn(t, s, (*memNet).Listen, serve, f)
}

// inBubbleOn is inBubble with a say in how the proxy listens.
func inBubbleOn(t *testing.T, s *proxy.Settings, listen func(n *memNet, network, addr string) (net.Listener, error), serve func(net.Conn), f func(b *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{T: t, net: newMemNet(), reg: prometheus.NewRegistry()}
		ln, _ := b.net.Listen("", "up:80")
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					serve(c)
				}()
			}
		}()
		srv, err := proxy.New(proxy.Options{
			Proxy: "proxy:1", Metrics: metrics.New(b.reg), Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
			Listen: func(network, addr string) (net.Listener, error) { return listen(b.net, network, addr) }, Dial: b.net.Dial,
		}, s)
		if err != nil {
			t.Fatal(err)
		}
		b.srv = srv
		srv.Start()
		defer ln.Close()
		defer srv.Close()
		f(b)
	})
}

// dial connects a client to the proxy.
func (b *bubble) dial() net.Conn {
	b.Helper()
	c, err := b.net.Dial(context.Background(), "", "proxy:1")
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// send writes a request and reads the response's head.
func (b *bubble) send(c net.Conn, request string) *http.Response {
	b.Helper()
	if _, err := io.WriteString(c, request); err != nil {
		b.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		b.Fatal(err)
	}
	return resp
}

// answers serves each request on a connection with the next of the answers, and
// hangs on "" until the connection closes.
func answers(all ...string) func(net.Conn) {
	var mu sync.Mutex
	return func(c net.Conn) {
		r := bufio.NewReader(c)
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			io.Copy(io.Discard, req.Body)
			mu.Lock()
			answer := ""
			if len(all) > 0 {
				answer, all = all[0], all[1:]
			}
			mu.Unlock()
			if answer == "" {
				io.Copy(io.Discard, r)
				return
			}
			if _, err := io.WriteString(c, answer); err != nil {
				return
			}
		}
	}
}
