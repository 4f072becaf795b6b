package proxy

import (
	"crypto/tls"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"mulligan/proxy/h1"
)

// clientTLS is a client's TLS connection that is read on to its end while an answer
// is waited for: a client may close its writing side within TLS alone, and the
// socket below does not show that.
type clientTLS struct {
	*tls.Conn

	reading sync.Mutex // held by who reads
	ahead   []byte     // what was read while the end was looked for
	ended   error
	left    atomic.Bool // there was an end

	deadlines sync.Mutex // never held while anything is waited for
	deadline  time.Time  // for reads, as set from outside
}

// Read implements net.Conn.
func (c *clientTLS) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	switch {
	case len(c.ahead) > 0:
		n := copy(p, c.ahead)
		c.ahead = c.ahead[n:]
		return n, nil
	case c.ended != nil:
		return 0, c.ended
	}
	return c.Conn.Read(p)
}

// SetReadDeadline implements net.Conn.
func (c *clientTLS) SetReadDeadline(t time.Time) error {
	c.deadlines.Lock()
	defer c.deadlines.Unlock()
	c.deadline = t
	return c.Conn.SetReadDeadline(t)
}

// SetDeadline implements net.Conn.
func (c *clientTLS) SetDeadline(t time.Time) error {
	err := c.SetReadDeadline(t)
	return errors.Join(err, c.SetWriteDeadline(t))
}

// Limits of a look ahead: bytes that are kept, and the wait for the rest of a record
// that has begun.
const (
	lookAhead = 4 << 10
	lookFor   = time.Millisecond
)

// PeerGone reports whether the client has closed its writing side, in TLS or below
// it. While somebody reads, that one will see it. What the client sends ahead of its
// turn hides it, and so does an end that came in one piece with the request.
//
// It never waits, so TLS is read in a goroutine of its own: a KeyUpdate of the
// client's wants to be answered, and may wait for a write that the client does not
// read. What is found shows the next time.
func (c *clientTLS) PeerGone() bool {
	gone, unread := h1.Socket(c.Conn)
	if gone || c.left.Load() {
		return true
	}
	if unread && c.reading.TryLock() {
		if len(c.ahead) > 0 || c.ended != nil {
			c.reading.Unlock()
		} else {
			go c.look()
		}
	}
	return false
}

// look reads what has come, and lets others read then. A deadline that is set
// meanwhile holds for it too.
func (c *clientTLS) look() {
	defer c.reading.Unlock()
	c.deadlines.Lock()
	if c.deadline.IsZero() { // else the reading is interrupted already
		c.Conn.SetReadDeadline(time.Now().Add(lookFor))
	}
	c.deadlines.Unlock()
	b := make([]byte, lookAhead)
	n, err := c.Conn.Read(b)
	c.deadlines.Lock()
	c.Conn.SetReadDeadline(c.deadline)
	c.deadlines.Unlock()
	c.ahead = b[:n]
	if n == 0 && err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.ended = err
		c.left.Store(true)
	}
}
