package proxy_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mulligan/metrics"
	"mulligan/policy"
	"mulligan/proxy"
)

// TestWaitHoldsNoConnection: requests that only wait for their retry leave the
// endpoint's connections to others.
func TestWaitHoldsNoConnection(t *testing.T) {
	for name, first := range map[string]string{
		"whole":     unavailable,
		"unlimited": "HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", // and no end
	} {
		t.Run(name, func(t *testing.T) {
			s := settings()
			s.Default.Connections.MaxPerEndpoint = 1
			s.Default.Default.Retry.Backoff = policy.Backoff{Initial: 10 * time.Second, Max: 10 * time.Second, Multiplier: 1, Jitter: policy.NoJitter}
			inBubble(t, s, answers(first, ok, ok), func(b *bubble) {
				waits := b.dial()
				go io.WriteString(waits, getUp)
				time.Sleep(time.Second)
				began := time.Now()
				if resp := b.send(b.dial(), getUp); resp.StatusCode != 200 {
					b.Error(resp.Status)
				}
				within(b.T, time.Since(began), 0)
			})
		})
	}
}

// TestClientThatDoesNotReadIsGivenUp: timeout.idle holds for an answer that was
// held, and for mulligan's own, as it does for one that is streamed.
func TestClientThatDoesNotReadIsGivenUp(t *testing.T) {
	for name, answer := range map[string]string{"held": ok, "own": "nonsense\r\n\r\n"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, settings(), answers(answer), func(b *bubble) {
				c := b.dial()
				io.WriteString(c, getUp)
				time.Sleep(10 * time.Minute) // and nothing is read
				c.SetWriteDeadline(time.Now().Add(time.Second))
				if _, err := io.WriteString(c, "x"); !errors.Is(err, io.ErrClosedPipe) {
					b.Errorf("after ten minutes the connection is still held: %v", err)
				}
			})
		})
	}
}

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

// TestSlowHeadsAnswerCanBeRead: after a 408 what the client still sends is read
// for a while, so that no reset destroys the answer; the watcher must not end that.
func TestSlowHeadsAnswerCanBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{t, newMemNet(), nil}
		listen := func(network, addr string) (net.Listener, error) {
			ln, err := b.net.Listen(network, addr)
			return lingeringListener{ln}, err
		}
		srv, err := proxy.New(proxy.Options{
			Proxy: "proxy:1", Metrics: metrics.New(prometheus.NewRegistry()),
			Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Listen: listen, Dial: b.net.Dial,
		}, settings())
		if err != nil {
			t.Fatal(err)
		}
		b.srv = srv
		srv.Start()
		defer srv.Close()
		c := b.dial()
		defer c.Close()
		if resp := b.send(c, "GET http://up/ HTTP/1.1\r\nHos"); resp.StatusCode != 408 {
			t.Fatal(resp.Status)
		}
		for i := range 15 {
			time.Sleep(100 * time.Millisecond)
			c.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
			if _, err := io.WriteString(c, "x"); err != nil {
				t.Fatalf("%d ms after the answer: %v", 100*(i+1), err)
			}
		}
	})
}

// TestTokenOfARetryThatWasNotSentGoesBack: the client leaves while the retry is
// still being dialled; the upstream got nothing, the budget gets its token.
func TestTokenOfARetryThatWasNotSentGoesBack(t *testing.T) {
	addr := rawServe(t, func(n int, c net.Conn, r *bufio.Reader) {
		readHead(r)
		io.WriteString(c, "HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	})
	var dials atomic.Int32
	dialling := make(chan struct{})
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if dials.Add(1) == 1 {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}
		close(dialling)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	u := upstream("up")
	u.Hosts = []policy.HostPattern{{Name: "127.0.0.1"}}
	u.Budget = policy.BudgetConfig{Burst: 3, Window: time.Minute}
	srv, reg := startWith(t, settings(u), dial, nil)
	c, _ := call(t, srv)
	fmt.Fprintf(c, "GET http://%s/ HTTP/1.1\r\nHost: x\r\n\r\n", addr)
	<-dialling
	c.Close()
	if !eventually(func() bool { return gauge(t, reg, "mulligan_retry_budget_remaining", "up") == 3 }) {
		t.Errorf("%v tokens of 3 are left, and no retry was sent", gauge(t, reg, "mulligan_retry_budget_remaining", "up"))
	}
}
