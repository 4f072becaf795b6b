package main

import (
	"context"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"time"
)

// loopback is an HTTP server on loopback, on a port of its own.
type loopback struct {
	listener net.Listener
	server   *http.Server
	done     chan struct{}
	closing  chan struct{}
}

func serveLoopback(handler http.Handler) (*loopback, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &loopback{listener: ln, done: make(chan struct{}), closing: make(chan struct{})}
	l.server = &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(l.done)
		_ = l.server.Serve(ln) // ends with stop
	}()
	return l, nil
}

func (l *loopback) addr() string { return l.listener.Addr().String() }

// stop ends the server and its connections.
func (l *loopback) stop() {
	close(l.closing)
	_ = l.server.Close()
	<-l.done
}

// work takes time. False: nobody waits for the answer any more.
func (l *loopback) work(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-l.closing:
	}
	return false
}

// drawFor returns a source that depends on the arguments only.
func drawFor(seed uint64, path string, which uint64) *rand.Rand {
	h := fnv.New64a()
	_, _ = io.WriteString(h, path)
	return rand.New(rand.NewPCG(seed, h.Sum64()+which*0x9e3779b97f4a7c15))
}
