package proxy

import (
	"crypto/tls"
	"errors"
	"os"
	"sync"
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

	deadlines sync.Mutex
	deadline  time.Time // for reads, as set from outside
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
// turn hides it.
func (c *clientTLS) PeerGone() bool {
	gone, unread := h1.Socket(c.Conn)
	if gone || !c.reading.TryLock() {
		return gone
	}
	defer c.reading.Unlock()
	if unread && len(c.ahead) == 0 && c.ended == nil {
		c.look()
	}
	return c.ended != nil
}

// look reads what has come.
func (c *clientTLS) look() {
	c.deadlines.Lock()
	defer c.deadlines.Unlock()
	c.Conn.SetReadDeadline(time.Now().Add(lookFor))
	defer func() { c.Conn.SetReadDeadline(c.deadline) }()
	b := make([]byte, lookAhead)
	n, err := c.Conn.Read(b)
	c.ahead = b[:n]
	if n == 0 && err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.ended = err
	}
}
