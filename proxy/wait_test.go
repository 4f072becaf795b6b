package proxy_test

import (
	"errors"
	"io"
	"testing"
	"time"

	"mulligan/policy"
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

// TestSlowHeadsAnswerCanBeRead: after a 408 what the client still sends is read
// for a while, so that no reset destroys the answer; the watcher must not end that.
func TestSlowHeadsAnswerCanBeRead(t *testing.T) {
	inBubbleOn(t, settings(), (*memNet).ListenLingering, answers(), func(b *bubble) {
		c := b.dial()
		defer c.Close()
		if resp := b.send(c, "GET http://up/ HTTP/1.1\r\nHos"); resp.StatusCode != 408 {
			b.Fatal(resp.Status)
		}
		for i := range 15 {
			time.Sleep(100 * time.Millisecond)
			c.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
			if _, err := io.WriteString(c, "x"); err != nil {
				b.Fatalf("%d ms after the answer: %v", 100*(i+1), err)
			}
		}
	})
}
