package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// hookConn tells when the proxy stops writing to the upstream, and when it wrote.
type hookConn struct {
	net.Conn
	once     sync.Once
	stopping func()
	wrote    func(p []byte)
}

func (c *hookConn) SetWriteDeadline(t time.Time) error {
	if !t.IsZero() {
		c.once.Do(c.stopping)
	}
	return c.Conn.SetWriteDeadline(t)
}

func (c *hookConn) Write(p []byte) (int, error) {
	c.wrote(p)
	return c.Conn.Write(p)
}

// TestRetryNeverSendsTheRestOfABodyAsTheWhole: an early 503 is retried although
// the upload outgrows buffer.request between the decision and the pump's stop.
// The second attempt must carry the whole body, or not be made.
func TestRetryNeverSendsTheRestOfABodyAsTheWhole(t *testing.T) {
	bodies := make(chan string, 4)
	addr := rawServe(t, func(n int, c net.Conn, r *bufio.Reader) {
		if n == 1 {
			readHead(r)
			io.ReadFull(r, make([]byte, 5+800)) // "320\r\n" and the first piece
			io.WriteString(c, "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
			io.Copy(io.Discard, r)
			return
		}
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		b, err := io.ReadAll(req.Body)
		bodies <- fmt.Sprintf("%d bytes, whole: %v", len(b), err == nil)
		io.WriteString(c, ok)
	})
	more, sent := make(chan struct{}), make(chan struct{})
	var dials atomic.Int32
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		nc, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil || dials.Add(1) > 1 {
			return nc, err
		}
		var once sync.Once
		return &hookConn{Conn: nc, stopping: func() {
			close(more) // the client's next piece comes just before the pump is stopped
			<-sent
		}, wrote: func(p []byte) {
			if bytes.Contains(p, []byte("bbbb")) {
				once.Do(func() { close(sent) })
			}
		}}, nil
	}
	s := settings()
	s.Default.Default.Buffer.Request = 1000
	srv, _ := startWith(t, s, dial, nil)
	c, r := call(t, srv)
	fmt.Fprintf(c, "PUT http://%s/ HTTP/1.1\r\nHost: %s\r\nTransfer-Encoding: chunked\r\n\r\n320\r\n%s\r\n", addr, addr, strings.Repeat("a", 800))
	go func() {
		<-more
		fmt.Fprintf(c, "320\r\n%s\r\n0\r\n\r\n", strings.Repeat("b", 800))
	}()
	resp := readResponse(t, r)
	select {
	case b := <-bodies:
		if b != "1600 bytes, whole: true" {
			t.Errorf("the second attempt's body: %s (the client sent 1600 bytes)", b)
		}
	default:
		if resp.StatusCode != 503 || !strings.Contains(resp.Header.Get("Proxy-Status"), "stop=body_not_replayable") {
			t.Errorf("%s %q", resp.Status, resp.Header.Get("Proxy-Status"))
		}
	}
}

// TestAttemptClockStartsWithTheLastByteSent: a request that the upstream takes
// late is not cut half-way through being written.
func TestAttemptClockStartsWithTheLastByteSent(t *testing.T) {
	s := settings()
	s.Default.Budget.Burst = 0
	late := func(c net.Conn) {
		time.Sleep(8 * time.Second)
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			io.WriteString(c, ok)
		}
	}
	inBubble(t, s, late, func(b *bubble) {
		began := time.Now()
		if resp := b.send(b.dial(), getUp); resp.StatusCode != 200 {
			b.Errorf("%s %q", resp.Status, resp.Header.Get("Proxy-Status"))
		}
		within(b.T, time.Since(began), 8*time.Second)
	})
}

// TestSilentUpstreamIsNotTheClientsFault: a client that waits for its 100 got a
// 408 after timeout.idle, where the upstream had said nothing.
func TestSilentUpstreamIsNotTheClientsFault(t *testing.T) {
	s := settings()
	s.Default.Default.Timeout.Idle = 5 * time.Second
	inBubble(t, s, func(c net.Conn) { io.Copy(io.Discard, c) }, func(b *bubble) {
		began := time.Now()
		resp := b.send(b.dial(), expectUp)
		if ps := resp.Header.Get("Proxy-Status"); resp.StatusCode != 504 || ps != "mulligan; attempts=1; stop=window; error=http_response_timeout" {
			b.Errorf("%s %q", resp.Status, ps)
		}
		within(b.T, time.Since(began), 20*time.Second)
	})
}

// TestStuckUpstreamAndAShortBody: timeout.idle did not hold for a body that came
// with its head: an upstream that read nothing of it was waited for for ever.
func TestStuckUpstreamAndAShortBody(t *testing.T) {
	s := settings()
	s.Default.Default.Timeout.Idle = 2 * time.Second
	s.Default.Default.Timeout.Total = 0
	stuck := func(c net.Conn) {
		c.Read(make([]byte, 10))
		time.Sleep(time.Hour)
	}
	inBubble(t, s, stuck, func(b *bubble) {
		c := b.dial()
		defer time.Sleep(2 * time.Hour)
		defer c.Close()
		began := time.Now()
		c.SetReadDeadline(began.Add(30 * time.Minute))
		resp := b.send(c, "POST http://up/ HTTP/1.1\r\nHost: up\r\nContent-Length: 500\r\n\r\n"+strings.Repeat("x", 500))
		if ps := resp.Header.Get("Proxy-Status"); resp.StatusCode != 504 || ps != "mulligan; attempts=1; stop=not_idempotent; error=connection_write_timeout" {
			b.Errorf("%s %q", resp.Status, ps)
		}
		within(b.T, time.Since(began), 2*time.Second)
	})
}
