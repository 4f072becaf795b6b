package h1

import (
	"errors"
	"net"
	"os"
	"syscall"
	"time"
)

// PeerGone reports whether the peer has closed its writing side or reset the
// connection, without waiting. Bytes that wait to be read do not hide
// it on linux. A connection that is no socket is asked for a PeerGone of its
// own, and without one is never gone.
func (c *conn) PeerGone() bool {
	if asked, ok := c.nc.(interface{ PeerGone() bool }); ok {
		return asked.PeerGone()
	}
	gone := false
	control(tcp(c.nc), func(fd uintptr) { gone = hungUp(fd) })
	return gone
}

// Socket looks at the socket below nc, without reading or waiting: whether its peer
// has closed its writing side or reset it, and whether there are bytes to read.
func Socket(nc net.Conn) (gone, unread bool) {
	control(tcp(nc), func(fd uintptr) { gone, unread = hungUp(fd), pending(fd) })
	return gone, unread
}

// control runs f on the descriptor of a socket; nil and a closed one are fine.
func control(s syscall.Conn, f func(fd uintptr)) {
	if s == nil {
		return
	}
	if raw, err := s.SyscallConn(); err == nil {
		raw.Control(f)
	}
}

// quiet is what Check asks of the network, for connections of any kind. Only a
// plain socket's is free of allocations.
type quiet struct {
	raw    syscall.RawConn
	probe  func(fd uintptr)
	silent bool
}

func (q *quiet) init(nc net.Conn) {
	if s := tcp(nc); s != nil {
		q.raw, _ = s.SyscallConn()
	}
	q.probe = func(fd uintptr) { q.silent = silent(fd) }
}

// check reports whether nothing has arrived on nc, not even its end.
func (q *quiet) check(nc net.Conn) bool {
	if q.raw != nil {
		q.silent = false
		if err := q.raw.Control(q.probe); err != nil || !q.silent {
			return false
		}
		if _, plain := nc.(syscall.Conn); plain {
			return true
		}
	}
	// A layer above may hold bytes that it has read already, as TLS does with
	// the rest of a record: a read that may not wait gets those.
	var b [1]byte
	if nc.SetReadDeadline(past) != nil {
		return false
	}
	n, err := nc.Read(b[:])
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && nc.SetReadDeadline(time.Time{}) == nil
}
