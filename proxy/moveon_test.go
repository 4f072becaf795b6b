package proxy_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mulligan/metrics"
	"mulligan/proxy"
)

// startMem runs a proxy at "proxy:1" of n, inside a bubble, with a listen and a
// dial of the test's own.
func startMem(t *testing.T, n *memNet, s *proxy.Settings, listen func(network, addr string) (net.Listener, error), dial func(context.Context, string, string) (net.Conn, error)) *bubble {
	t.Helper()
	b := &bubble{T: t, net: n, reg: prometheus.NewRegistry()}
	srv, err := proxy.New(proxy.Options{
		Proxy: "proxy:1", Metrics: metrics.New(b.reg), Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Listen: listen, Dial: dial,
	}, s)
	if err != nil {
		t.Fatal(err)
	}
	b.srv = srv
	srv.Start()
	return b
}

// lateConn has the rest of its answer come in the very moment in which a read is
// broken into.
type lateConn struct {
	net.Conn
	rest io.Reader
}

func (c *lateConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if n, err := c.rest.Read(p); err == nil {
			return n, nil
		}
	}
	return n, err
}

// TestHeldBodyThatMovesAfterAll: it stood still for timeout.idle, but the rest
// came before that could end anything: the answer is whole, and is given.
func TestHeldBodyThatMovesAfterAll(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		t.Run(method, func(t *testing.T) {
			s := settings()
			s.Default.Default.Timeout.Attempt = time.Minute
			s.Default.Default.Timeout.Idle = 2 * time.Second
			synctest.Test(t, func(t *testing.T) {
				n := newMemNet()
				dial := func(context.Context, string, string) (net.Conn, error) {
					ours, theirs := net.Pipe()
					go func() {
						defer ours.Close()
						answers(heldHalf, ok)(ours)
					}()
					return &lateConn{Conn: theirs, rest: strings.NewReader("23456789")}, nil
				}
				b := startMem(t, n, s, n.Listen, dial)
				defer b.srv.Close()
				began := time.Now()
				c := b.dial()
				defer c.Close()
				c.SetDeadline(began.Add(time.Minute))
				resp := b.send(c, method+" http://up/ HTTP/1.1\r\nHost: up\r\nContent-Length: 0\r\n\r\n")
				body, err := io.ReadAll(resp.Body)
				if resp.StatusCode != 200 || string(body) != "0123456789" || err != nil || resp.Header.Get("Proxy-Status") != "" {
					t.Errorf("%s %q %q %v", resp.Status, resp.Header.Get("Proxy-Status"), body, err)
				}
				within(t, time.Since(began), 2*time.Second)
				if resp := b.send(c, getUp); resp.StatusCode != 200 { // and the connection is as good as before
					t.Errorf("the next request: %s", resp.Status)
				}
			})
		})
	}
}
