package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mulligan/policy"
)

// dyingConn is an upstream connection that takes one write and is dead then.
type dyingConn struct {
	net.Conn
	writes atomic.Int32
}

func (c *dyingConn) Write(p []byte) (int, error) {
	if c.writes.Add(1) > 1 {
		return 0, syscall.EPIPE
	}
	return c.Conn.Write(p)
}

// TestTokenOfARetryThatWasNotSentGoesBack: the client leaves before a byte of the
// retry was written; the upstream got nothing, the budget gets its token, and
// neither an attempt nor a retry is counted.
func TestTokenOfARetryThatWasNotSentGoesBack(t *testing.T) {
	type dialFunc = func(context.Context, string, string) (net.Conn, error)
	const closing, kept = "Connection: close\r\n", ""
	dial := (&net.Dialer{}).DialContext
	dying := func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		return &dyingConn{Conn: c}, err
	}
	cut := func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	late := func(ctx context.Context, network, address string) (net.Conn, error) {
		<-ctx.Done()
		return dial(context.WithoutCancel(ctx), network, address)
	}
	for name, row := range map[string]struct {
		fields        string
		first, second dialFunc
	}{
		"while it is dialled":                 {closing, dial, cut},
		"just as the connection is made":      {closing, dial, late},
		"while a dead connection is replaced": {kept, dying, cut},
	} {
		t.Run(name, func(t *testing.T) {
			addr := rawServe(t, func(n int, c net.Conn, r *bufio.Reader) {
				if readHead(r) != "" {
					io.WriteString(c, "HTTP/1.1 503 Busy\r\n"+row.fields+"Content-Length: 0\r\n\r\n")
					io.Copy(io.Discard, r)
				}
			})
			var dials atomic.Int32
			dialling := make(chan struct{})
			u := upstream("up")
			u.Hosts = []policy.HostPattern{{Name: "127.0.0.1"}}
			u.Budget = policy.BudgetConfig{Burst: 3, Window: time.Minute}
			srv, reg := startWith(t, settings(u), func(ctx context.Context, network, address string) (net.Conn, error) {
				if dials.Add(1) == 1 {
					return row.first(ctx, network, address)
				}
				close(dialling)
				return row.second(ctx, network, address)
			}, nil)
			c, _ := call(t, srv)
			fmt.Fprintf(c, "GET http://%s/ HTTP/1.1\r\nHost: x\r\n\r\n", addr)
			<-dialling
			c.Close()
			if !eventually(func() bool { return gauge(t, reg, "mulligan_requests_in_flight", "up") == 0 }) {
				t.Fatal("still in flight")
			}
			if n := gauge(t, reg, "mulligan_retry_budget_remaining", "up"); n != 3 {
				t.Errorf("%v tokens of 3 are left, and no retry was sent", n)
			}
			if n := counter(t, reg, "mulligan_attempts_total", "upstream=up"); n != 1 {
				t.Errorf("%v attempts are counted, the upstream got one", n)
			}
			if n := counter(t, reg, "mulligan_retries_total", "upstream=up"); n != 0 {
				t.Errorf("%v retries are counted, none was sent", n)
			}
		})
	}
}

// TestAttemptClockWaitsForTheNewConnection: timeout.attempt ran on while a dead
// pooled connection was replaced, and ended a request of which nothing was sent.
func TestAttemptClockWaitsForTheNewConnection(t *testing.T) {
	for _, burst := range []float64{10, 0} { // with a token for a retry, and without one
		t.Run(fmt.Sprint("burst ", burst), func(t *testing.T) {
			s := settings()
			s.Default.Budget = policy.BudgetConfig{Burst: burst, Window: time.Minute}
			s.Default.Default.Timeout.Connect = time.Minute
			inBubble(t, s, nil, func(b *bubble) {
				ln, _ := b.net.Listen("", "slow:80")
				go func() {
					for _, wait := range []time.Duration{0, 8 * time.Second} {
						time.Sleep(wait)
						c, _ := ln.Accept()
						readHead(bufio.NewReader(c))
						io.WriteString(c, ok)
						c.Close()
					}
				}()
				c := b.dial()
				b.send(c, "GET http://slow/ HTTP/1.1\r\nHost: slow\r\n\r\n")
				began := time.Now()
				resp := b.send(c, "GET http://slow/ HTTP/1.1\r\nHost: slow\r\n\r\n")
				if resp.StatusCode != 200 || resp.Header.Get("Proxy-Status") != "" {
					b.Errorf("%s %q", resp.Status, resp.Header.Get("Proxy-Status"))
				}
				within(b.T, time.Since(began), 8*time.Second)
			})
		})
	}
}

// deadConn is a new connection that takes nothing.
type deadConn struct{ net.Conn }

func (c deadConn) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// TestBodyThatWasNotSentCanBe: a body that is not kept, since nothing of its request
// is sent again, is still all there where a new connection died before the first byte.
func TestBodyThatWasNotSentCanBe(t *testing.T) {
	got := make(chan string, 2)
	addr := rawServe(t, func(n int, c net.Conn, r *bufio.Reader) {
		if readHead(r) != "" {
			line, _ := r.ReadString('0') // of the chunked body
			got <- line
			io.WriteString(c, ok)
		}
	})
	var dials atomic.Int32
	srv, _ := startWith(t, settings(), func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if dials.Add(1) == 1 && err == nil {
			return deadConn{c}, nil
		}
		return c, err
	}, nil)
	c, r := call(t, srv)
	fmt.Fprintf(c, "POST http://%s/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", addr)
	if line, _ := r.ReadString('\n'); line != "HTTP/1.1 200 OK\r\n" {
		rest, _ := r.Peek(r.Buffered())
		t.Fatalf("%s%s", line, rest)
	}
	if body := <-got; body != "3\r\nabc\r\n0" {
		t.Errorf("body %q", body)
	}
}
