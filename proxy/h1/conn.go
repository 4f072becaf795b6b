package h1

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// conn is what both sides share below HTTP: a network connection that counts
// its progress and can be interrupted.
type conn struct {
	nc       net.Conn
	io       fastIO // see io_fast.go
	progress atomic.Uint64
	wasReset atomic.Bool // a write met ECONNRESET: no FIN had come before
	writing  atomic.Bool // see Writing
	first    [1]byte     // see readLazily

	state atomic.Int64 // see State

	interrupts sync.Mutex // guards the deadlines, not the reads and writes
	stopped    atomic.Uint32
}

// What Interrupt stopped, as bits of conn.stopped.
const (
	stoppedRead = 1 << iota
	stoppedWrite
)

// past is a deadline that has always passed.
var past = time.Unix(1, 0)

// began is the zero of Now.
var began = time.Now()

// Now returns the monotonic clock, in nanoseconds, that State and IdleSince use.
func Now() int64 { return int64(time.Since(began)) }

// NetConn returns the connection below.
func (c *conn) NetConn() net.Conn { return c.nc }

// Close closes the connection. Blocked reads and writes return.
func (c *conn) Close() error { return c.nc.Close() }

// CloseReset closes the connection with a reset where it can, and for TLS
// without saying goodbye, so that the peer does not mistake a body that only
// ends with the connection for a whole one.
func (c *conn) CloseReset() error {
	if s, ok := tcp(c.nc).(*net.TCPConn); ok {
		s.SetLinger(0)
		return s.Close()
	}
	return c.nc.Close()
}

// Progress returns a number that changes with every read or write that moved a
// byte.
func (c *conn) Progress() uint64 { return c.progress.Load() }

// Unsent returns how many bytes wait for the peer to take them, while a write is
// under way: a full socket is not writable again before about a third of its
// buffer is free, which a slow peer may need minutes for. It is a system call.
func (c *conn) Unsent() uint64 {
	if c.writing.Load() {
		return c.Queued()
	}
	return 0
}

// Queued returns how many of the bytes that were written the peer has not taken
// yet, as far as the system tells. It is a system call.
func (c *conn) Queued() (n uint64) {
	control(tcp(c.nc), func(fd uintptr) { n = uint64(unsent(fd)) })
	return n
}

// WriteThrough writes bytes that belong to no message: those of a tunnel.
func (c *conn) WriteThrough(p []byte) error {
	_, err := c.write([][]byte{p})
	return err
}

// Writing reports whether a write is under way that may be waiting for the peer
// to read.
func (c *conn) Writing() bool { return c.writing.Load() }

// Interrupt makes reads and writes, the blocked ones too, fail with Interrupted
// until ClearInterrupt.
func (c *conn) Interrupt() { c.interrupt(stoppedRead | stoppedWrite) }

// InterruptRead is Interrupt for reads only.
func (c *conn) InterruptRead() { c.interrupt(stoppedRead) }

// InterruptWrite is Interrupt for writes only.
func (c *conn) InterruptWrite() { c.interrupt(stoppedWrite) }

func (c *conn) interrupt(what uint32) {
	c.interrupts.Lock()
	defer c.interrupts.Unlock()
	c.stopped.Or(what)
	if what&stoppedRead != 0 {
		c.nc.SetReadDeadline(past)
	}
	if what&stoppedWrite != 0 {
		c.nc.SetWriteDeadline(past)
	}
}

// ClearInterrupt lets reads and writes go on.
func (c *conn) ClearInterrupt() {
	if c.stopped.Load() == 0 {
		return
	}
	c.interrupts.Lock()
	defer c.interrupts.Unlock()
	c.stopped.Store(0)
	c.nc.SetDeadline(time.Time{})
}

// Interrupted reports whether reads or writes are interrupted.
func (c *conn) Interrupted() bool { return c.stopped.Load() != 0 }

// ioError makes an interruption out of the error of a read or write, where it
// is one: nobody else sets deadlines here. The interruption may have been
// cleared by the time its error is looked at.
func ioError(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &Error{Kind: Interrupted, Err: err}
	}
	return err
}

// writeError is ioError for writes; it also remembers a reset. Whether the
// first error is EPIPE or ECONNRESET tells whether a FIN had come before the
// RST, which a later read cannot tell any more.
func (c *conn) writeError(err error) error {
	if errors.Is(err, syscall.ECONNRESET) {
		c.wasReset.Store(true)
	}
	return ioError(err)
}

// tcp returns the socket below, through TLS and other layers, or nil.
func tcp(nc net.Conn) syscall.Conn {
	for {
		if s, ok := nc.(syscall.Conn); ok {
			return s
		}
		inner, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		nc = inner.NetConn()
	}
}
