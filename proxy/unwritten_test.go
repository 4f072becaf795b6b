package proxy_test

import (
	"net/http"
	"testing"
	"time"
)

// TestNothingWrittenIsNoAttempt: a request whose window ends before a byte of it is
// written was seen by nobody, and says nothing of the upstream; a retry gives its
// client the answer before.
func TestNothingWrittenIsNoAttempt(t *testing.T) {
	t.Run("first", func(t *testing.T) {
		inPair(t, paired(1, breaking, windowOf(2*time.Second)), func(b *bubble) {
			b.deaf("a:80")
			for range 3 {
				b.want(b.get(), 504, "attempts=0; stop=window; error=http_response_timeout")
			}
			b.tally(0, 0)
		})
	})
	t.Run("retry", func(t *testing.T) {
		inPair(t, paired(1, windowOf(2*time.Second)), func(b *bubble) {
			a := b.serve("a:80", func(int, *http.Request) string {
				b.deaf("a:80") // whoever comes next
				return "HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbusy" + andBreaks
			})
			got := b.get()
			b.want(got, 503, stopped(1, "window", 503))
			if got.body != "busy" {
				b.Errorf("%q", got.body)
			}
			b.tally(1, 0, a)
		})
	})
}

// deaf accepts connections, and reads nothing.
func (b *bubble) deaf(addr string) {
	ln, _ := b.net.Listen("", addr)
	b.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			b.Cleanup(func() { c.Close() })
		}
	}()
}
