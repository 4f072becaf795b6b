package proxy_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

const (
	earlyHints    = "HTTP/1.1 103 Early Hints\r\n\r\n"
	continueFirst = "HTTP/1.1 100 Continue\r\n\r\n"
	expectUp      = "POST http://up/ HTTP/1.1\r\nHost: up\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"
)

// saysAndStands writes an interim response and nothing more; left is how
// long its connection lived on.
func saysAndStands(interim string, left *atomic.Int64) func(net.Conn) {
	return func(c net.Conn) {
		readHead(bufio.NewReaderSize(c, 16))
		began := time.Now()
		io.WriteString(c, interim)
		io.Copy(io.Discard, c)
		left.Store(int64(time.Since(began)))
	}
}

// TestUnreadAnswerIsGivenUp: timeout.idle held for ordinary answers only: a
// client that read no interim one, no 200 of a CONNECT and no answer to
// Max-Forwards kept its connection, and the upstream's, for ever.
func TestUnreadAnswerIsGivenUp(t *testing.T) {
	for name, row := range map[string]struct{ request, interim string }{
		"103":          {postUp, earlyHints},
		"100":          {expectUp, continueFirst},
		"CONNECT":      {"CONNECT up:80 HTTP/1.1\r\nHost: up\r\n\r\n", ""},
		"Max-Forwards": {"TRACE http://up/ HTTP/1.1\r\nHost: up\r\nMax-Forwards: 0\r\n\r\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := settings()
			s.Default.Default.Timeout.Total = 0
			var left atomic.Int64
			inBubble(t, s, saysAndStands(row.interim, &left), func(b *bubble) {
				c := b.dial()
				io.WriteString(c, row.request)
				time.Sleep(time.Minute + 2*time.Second) // timeout.idle; and nothing is read
				c.SetWriteDeadline(time.Now().Add(time.Second))
				if _, err := io.WriteString(c, "x"); !errors.Is(err, io.ErrClosedPipe) {
					b.Errorf("the connection is still held: %v", err)
				}
				if row.interim != "" {
					within(b.T, time.Duration(left.Load()), time.Minute)
				}
				c.Close()
			})
		})
	}
}

// TestWindowEndsWithAnUnreadInterim: the window did not end an attempt whose
// interim response the client did not read.
func TestWindowEndsWithAnUnreadInterim(t *testing.T) {
	for name, row := range map[string]struct{ request, interim string }{
		"103": {postUp, earlyHints}, "100": {expectUp, continueFirst},
	} {
		t.Run(name, func(t *testing.T) {
			s := settings()
			s.Default.Default.Timeout.Idle = time.Hour
			var left atomic.Int64
			inBubble(t, s, saysAndStands(row.interim, &left), func(b *bubble) {
				c := b.dial()
				io.WriteString(c, row.request)
				time.Sleep(10 * time.Minute)
				within(b.T, time.Duration(left.Load()), 20*time.Second) // 0: it goes on
				c.Close()
			})
		})
	}
}
