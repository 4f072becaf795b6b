package proxy_test

import (
	"strings"
	"testing"
)

// TestArrivedChunkedBodyPastBufferTotal: a chunked body that came with its head
// counts for buffer_total as any other, and past it is sent once.
func TestArrivedChunkedBodyPastBufferTotal(t *testing.T) {
	body := "7d0\r\n" + strings.Repeat("x", 2000) + "\r\n0\r\n\r\n"
	for name, row := range map[string]struct {
		total    int64
		says     string
		attempts float64
		past     float64
	}{
		"within": {2000, "mulligan; attempts=2; stop=success; received-status=200", 2, 0},
		"past":   {1999, "mulligan; attempts=1; stop=body_not_replayable; received-status=503", 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := settings()
			s.BufferTotal = row.total
			inBubble(t, s, answers(unavailable, ok), func(b *bubble) {
				resp := b.send(b.dial(), "PUT http://up/ HTTP/1.1\r\nHost: up\r\nTransfer-Encoding: chunked\r\n\r\n"+body)
				if says := resp.Header.Get("Proxy-Status"); says != row.says {
					b.Errorf("%s %q, want %q", resp.Status, says, row.says)
				}
				if n := counter(b.T, b.reg, "mulligan_attempts_total"); n != row.attempts {
					b.Errorf("%v attempts", n)
				}
				if n := counter(b.T, b.reg, "mulligan_bodies_not_replayable_total", "reason=total"); n != row.past {
					b.Errorf("%v bodies were past buffer_total", n)
				}
			})
		})
	}
}
