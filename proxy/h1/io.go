package h1

import "io"

// This file and io_fast.go are all that touches the network to move bytes.
// Where there is no fast path (TLS, in-memory connections, other systems) the
// methods below use the net.Conn alone.

// maxPieces is the most slices that one write takes.
const maxPieces = 4

// read reads into p, which is not empty, and waits for at least one byte.
func (c *conn) read(p []byte) (int, error) {
	if c.io.ok() {
		return c.moved(c.io.read(p))
	}
	return c.moved(c.nc.Read(p))
}

// readLazily waits for bytes without holding a buffer, then reads them into one
// of at least size bytes.
func (c *conn) readLazily(size int) (*buffer, int, error) {
	if c.io.ok() {
		buf, n, err := c.io.readLazily(size)
		n, err = c.moved(n, err)
		return buf, n, err
	}
	// One byte wakes us; the next read gets the rest. For TLS that is no second
	// system call, since the first byte cost a whole record.
	n, err := c.moved(c.nc.Read(c.first[:]))
	if err != nil {
		return nil, 0, err
	}
	buf := getBuffer(size)
	copy(buf.b, c.first[:n])
	return buf, n, nil
}

// moved counts progress and gives errors their kind. A read of nothing without
// an error, which io.Reader permits, is no end.
func (c *conn) moved(n int, err error) (int, error) {
	switch {
	case n > 0:
		c.progress.Add(1)
		return n, nil // an error, if any, comes again
	case err == nil:
		return 0, io.ErrNoProgress
	}
	return 0, c.readErr(err)
}

// readErr gives the error of a read its kind, if it has one already.
func (c *conn) readErr(err error) error {
	if err == io.EOF {
		return err
	}
	return ioError(err)
}

// write writes the pieces, in as few system calls as possible, and returns how
// many bytes were handed to the kernel. It may change the pieces.
func (c *conn) write(pieces [][]byte) (n int64, err error) {
	c.writing.Store(true)
	defer c.writing.Store(false)
	if c.io.ok() {
		n, err = c.io.write(pieces)
	} else {
		n, err = c.writeJoined(pieces)
	}
	if n > 0 {
		c.progress.Add(1)
	}
	if err != nil {
		err = c.writeError(err)
	}
	return n, err
}

// writeJoined writes the pieces as one where they fit a pooled buffer: each
// write to a TLS connection makes a record and a packet.
func (c *conn) writeJoined(pieces [][]byte) (written int64, err error) {
	total := 0
	for _, p := range pieces {
		total += len(p)
	}
	if len(pieces) > 1 && total <= largeBuffer {
		buf := getBuffer(total)
		defer putBuffer(buf)
		joined := buf.b[:0]
		for _, p := range pieces {
			joined = append(joined, p...)
		}
		n, err := c.nc.Write(joined)
		return int64(n), err
	}
	for _, p := range pieces {
		n, err := c.nc.Write(p)
		written += int64(n)
		if err != nil {
			return written, err
		}
	}
	return written, nil
}
