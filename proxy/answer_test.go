package proxy_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"mulligan/policy"
)

// standsStill answers 503, begins a body, and closes after ten minutes.
func standsStill(c net.Conn) {
	readHead(bufio.NewReader(c))
	io.WriteString(c, "HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
	time.Sleep(10 * time.Minute)
}

func longWait() *policy.Backoff {
	return &policy.Backoff{Initial: 10 * time.Second, Max: 10 * time.Second, Multiplier: 1, Jitter: policy.NoJitter}
}

// TestShutdownCutsAnAnswerThatAWaitKept: the answer that a wait kept is passed on
// when the wait is cut short; while it goes on, it can be broken into like any.
func TestShutdownCutsAnAnswerThatAWaitKept(t *testing.T) {
	s := settings()
	s.Default.Default.Retry.Backoff = *longWait()
	inBubble(t, s, standsStill, func(b *bubble) {
		c := b.dial()
		go func() {
			io.WriteString(c, getUp)
			io.Copy(io.Discard, c)
		}()
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		began := time.Now()
		b.srv.Shutdown(ctx)
		within(b.T, time.Since(began), 5*time.Second)
		c.Close()
		time.Sleep(11 * time.Minute)
	})
}

// TestAnswerThatAWaitKeptCanStandStill: timeout.idle holds for it as well.
func TestAnswerThatAWaitKeptCanStandStill(t *testing.T) {
	s := settings()
	s.Default.Default.Retry.Backoff = *longWait()
	inBubble(t, s, standsStill, func(b *bubble) {
		c := b.dial()
		io.WriteString(c, getUp)
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		began := time.Now()
		go b.srv.Shutdown(ctx) // ends the wait; the kept answer is passed on
		resp := readResponse(b.T, bufio.NewReader(c))
		if _, err := io.ReadAll(resp.Body); resp.StatusCode != 503 || err == nil {
			b.Errorf("%s, whole: %v", resp.Status, err == nil)
		}
		within(b.T, time.Since(began), time.Minute)
		c.Close()
		time.Sleep(11 * time.Minute)
	})
}

// TestClientThatNeitherSendsNorReads is given up although the one cause that
// ended its request has been used up.
func TestClientThatNeitherSendsNorReads(t *testing.T) {
	for name, request := range map[string]string{
		"stalled":   "PUT http://up/ HTTP/1.1\r\nHost: up\r\nContent-Length: 5\r\n\r\n",
		"malformed": "PUT http://up/ HTTP/1.1\r\nHost: up\r\nTransfer-Encoding: chunked\r\n\r\n",
		"denied":    "GET / HTTP/1.1\r\nHost: up\r\n\r\n",
		"unread":    "GET nonsense HTTP/1.1\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, settings(), func(c net.Conn) { io.Copy(io.Discard, c) }, func(b *bubble) {
				c := b.dial()
				io.WriteString(c, request)
				if strings.Contains(request, "chunked") {
					time.Sleep(time.Second)
					io.WriteString(c, "zz\r\n")
				}
				time.Sleep(10 * time.Minute)
				c.SetWriteDeadline(time.Now().Add(time.Second))
				if _, err := io.WriteString(c, "x"); !errors.Is(err, io.ErrClosedPipe) {
					b.Errorf("after ten minutes the connection is still held: %v", err)
				}
			})
		})
	}
}
