package proxy_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mulligan/metrics"
	"mulligan/proxy"
)

// racingConn is a client connection on which a request arrives just as the
// proxy, having found it idle, interrupts it.
type racingConn struct {
	net.Conn
	once sync.Once
	race func()
}

func (c *racingConn) SetReadDeadline(t time.Time) error {
	if !t.IsZero() && t.Before(time.Now()) {
		c.once.Do(c.race)
	}
	return c.Conn.SetReadDeadline(t)
}

// pipeListener accepts one connection of the test's own.
type pipeListener struct {
	net.Listener
	first  chan net.Conn
	served chan struct{} // closed when the next one is waited for: the first is served then
	once   sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.first:
		return c, nil
	default:
		l.once.Do(func() { close(l.served) })
		return l.Listener.Accept()
	}
}

// TestRequestThatMeetsTheDrainIsFinished: the drain found its connection idle
// and interrupts it, but a request has arrived in between and is under way.
func TestRequestThatMeetsTheDrainIsFinished(t *testing.T) {
	up := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Write(b)
	})
	ours, theirs := net.Pipe()
	defer ours.Close()
	begun, served := make(chan struct{}), make(chan struct{})
	race := func() {
		io.WriteString(ours, "PUT "+up.URL+"/ HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n")
		close(begun)
	}
	listen := func(network, addr string) (net.Listener, error) {
		ln, err := net.Listen(network, addr)
		l := &pipeListener{Listener: ln, first: make(chan net.Conn, 1), served: served}
		l.first <- &racingConn{Conn: theirs, race: race}
		return l, err
	}
	srv, err := proxy.New(proxy.Options{
		Proxy: "127.0.0.1:0", Metrics: metrics.New(prometheus.NewRegistry()),
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Listen: listen,
	}, unhurried(settings()))
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	defer srv.Close()
	<-served
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	go srv.Shutdown(ctx)
	ours.SetDeadline(time.Now().Add(20 * time.Second))
	<-begun
	go io.WriteString(ours, "hello")
	resp, err := http.ReadResponse(bufio.NewReader(ours), nil)
	if err != nil {
		t.Fatalf("the request that was begun got no answer: %v", err)
	}
	if b, err := io.ReadAll(resp.Body); resp.StatusCode != 200 || string(b) != "hello" {
		t.Errorf("%s %q %v", resp.Status, b, err)
	}
}
