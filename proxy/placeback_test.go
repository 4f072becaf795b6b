package proxy_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// TestSlowClientKeepsNoPlace: an attempt is over when all of its answer is here, however
// slowly the client reads that.
func TestSlowClientKeepsNoPlace(t *testing.T) {
	body := strings.Repeat("x", 60_000)
	for name, answer := range map[string]string{
		"with a length": fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body),
		"looked at":     chunkedJSON(200, "", strings.Repeat(" ", 2000)+harmless),
		"a failure":     fmt.Sprintf("HTTP/1.1 503 Busy\r\nContent-Length: %d\r\n\r\n%s", len(body), body),
	} {
		t.Run(name, func(t *testing.T) {
			inPair(t, paired(1, withRules, atMost(1), atOnce(1, 0, 0)), func(b *bubble) {
				a := b.serve("a:80", script(answer, ok))
				slow := b.open()
				defer slow.Close()
				io.WriteString(slow, getUp)
				slow.Read(make([]byte, 1))
				time.Sleep(time.Second)
				b.want(b.get(), 200, "")
				b.tally(2, 0, a)
				slow.Close()
			})
		})
	}
}
