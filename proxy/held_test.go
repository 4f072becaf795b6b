package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"testing"
	"time"
)

// heldHalf is a response that is held, as far as the upstream has it.
const heldHalf = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01"

// TestHeldResponseCanStandStill: timeout.idle did not hold for a response that
// is held: it stood for timeout.attempt, or for ever.
func TestHeldResponseCanStandStill(t *testing.T) {
	for _, attempt := range []time.Duration{time.Minute, 0} {
		for _, row := range []struct {
			method string
			status int
			says   string
		}{
			{"GET", 200, "mulligan; attempts=2; stop=success; received-status=200"},
			{"POST", 504, "mulligan; attempts=1; stop=not_idempotent; received-status=200; error=http_response_timeout"},
		} {
			t.Run(fmt.Sprint(row.method, " attempt ", attempt), func(t *testing.T) {
				s := settings()
				s.Default.Default.Timeout.Attempt = attempt
				s.Default.Default.Timeout.Idle = 2 * time.Second
				s.Default.Default.Timeout.Total = 10 * time.Minute
				inBubble(t, s, answers(heldHalf, ok), func(b *bubble) {
					began := time.Now()
					resp := b.send(b.dial(), row.method+" http://up/ HTTP/1.1\r\nHost: up\r\nContent-Length: 0\r\n\r\n")
					if ps := resp.Header.Get("Proxy-Status"); resp.StatusCode != row.status || ps != row.says {
						b.Errorf("%s %q", resp.Status, ps)
					}
					within(b.T, time.Since(began), 2*time.Second)
					if n := counter(b.T, b.reg, "mulligan_attempts_total", "result=timeout"); n != 1 {
						b.Errorf("%v attempts ended as timeout", n)
					}
				})
			})
		}
	}
}

// TestClocksOfAHeldResponseLeaveTheUpload: the upstream sends its head early and
// reads the body late; a clock that passed while the answer was held cut the
// upload, and so the answer.
func TestClocksOfAHeldResponseLeaveTheUpload(t *testing.T) {
	const size = 10_000
	late := func(c net.Conn) {
		readHead(bufio.NewReaderSize(c, 16))
		io.WriteString(c, heldHalf)
		time.Sleep(5 * time.Second)
		if n, err := io.CopyN(io.Discard, c, size); err == nil {
			io.WriteString(c, "23456789")
		} else {
			io.WriteString(c, fmt.Sprint(n))
		}
	}
	for name, row := range map[string]struct{ attempt, total time.Duration }{
		"attempt": {2 * time.Second, 20 * time.Second},
		"window":  {2 * time.Second, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			s := settings()
			s.Default.Default.Timeout.Attempt, s.Default.Default.Timeout.Total = row.attempt, row.total
			inBubble(t, s, late, func(b *bubble) {
				c := b.dial()
				go func() {
					fmt.Fprintf(c, "POST http://up/ HTTP/1.1\r\nHost: up\r\nContent-Length: %d\r\n\r\n", size)
					c.Write(make([]byte, size))
				}()
				resp := readResponse(b.T, bufio.NewReader(c))
				if body, err := io.ReadAll(resp.Body); string(body) != "0123456789" {
					b.Errorf("%s %q %q %v", resp.Status, resp.Header.Get("Proxy-Status"), body, err)
				}
				c.Close()
			})
		})
	}
}

// TestHeldBodyThatDripsIsPassedOn: where no retry could follow, a body that is
// still coming after timeout.attempt is not held any longer.
func TestHeldBodyThatDripsIsPassedOn(t *testing.T) {
	drip := func(c net.Conn) {
		readHead(bufio.NewReaderSize(c, 16))
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
		io.WriteString(c, "0")
		for i := range 9 {
			time.Sleep(2 * time.Second)
			io.WriteString(c, fmt.Sprint(i+1))
		}
	}
	inBubble(t, settings(), drip, func(b *bubble) {
		c := b.dial()
		began := time.Now()
		io.WriteString(c, "POST http://up/ HTTP/1.1\r\nHost: up\r\nContent-Length: 0\r\n\r\n")
		resp := readResponse(b.T, bufio.NewReader(c))
		within(b.T, time.Since(began), 5*time.Second) // timeout.attempt
		body, err := io.ReadAll(resp.Body)
		if resp.StatusCode != 200 || string(body) != "0123456789" || err != nil {
			b.Errorf("%s %q %v", resp.Status, body, err)
		}
		within(b.T, time.Since(began), 18*time.Second) // the last byte
	})
}
