package blackbox

import (
	"testing"
	"time"
)

// A request head is whole within 10 s of its first byte: else 408 and close.
func TestSlowHead(t *testing.T) {
	t.Parallel()
	p := start(t, "")
	for name, first := range map[string]string{"one byte": "G", "all but the end": "GET http://127.0.0.1:1/ HTTP/1.1\r\nHost: 127.0.0.1:1\r\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := dial(t, p.proxy)
			begun := time.Now() // before the first byte can arrive
			c.send(first)
			r := c.next("GET")
			r.expectProblem(t, 408, "attempts=0; stop=permanent")
			if waited := time.Since(begun); waited < 9*time.Second {
				t.Errorf("408 after %v", waited)
			}
			c.expectEnd()
		})
	}
}

// A trickle does not help: the clock starts with the first byte and no other.
func TestTricklingHead(t *testing.T) {
	t.Parallel()
	p := start(t, "")
	c := dial(t, p.proxy)
	go func() {
		for _, b := range "GET http://127.0.0.1:1/ HTTP/1.1" {
			c.send(string(b))
			linger(time.Second)
		}
	}()
	want(t, "status", c.next("GET").Status, 408)
}

// An idle client connection is closed after 2 minutes: not before, and not
// long after.
func TestIdleClientConnection(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes two minutes")
	}
	u := answers(t, text(200, ""))
	p := start(t, "")
	c := dial(t, p.proxy)
	_ = c.SetDeadline(time.Now().Add(3 * time.Minute))
	c.send(head("GET", u.url("/")))
	c.next("GET").expect(t, 200, "")
	begun := time.Now()
	_, err := c.r.ReadByte()
	waited := time.Since(begun)
	if err == nil || waited < 115*time.Second || waited > 150*time.Second {
		t.Errorf("the idle connection ended after %v (%v), want 2 minutes", waited, err)
	}
}
