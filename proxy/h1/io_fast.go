//go:build linux && (amd64 || arm64)

package h1

import (
	"io"
	"net"
	"syscall"
	"unsafe"
)

// fastIO reads and writes a socket without net.Conn's methods, for two reasons:
// a read can wait without holding a buffer, and the system calls, none of which
// can block, need not be announced to the scheduler (about 1 µs each).
//
// The waiting stays with Go's poller, through syscall.RawConn. That poller is
// edge-triggered and RawConn.Read forgets an edge that came before it, so the
// closures always try first and wait only after EAGAIN.
type fastIO struct {
	raw       syscall.RawConn
	readFunc  func(fd uintptr) bool // made once, so that a read allocates nothing
	writeFunc func(fd uintptr) bool
	askFunc   func(fd uintptr) bool
	asking    asking  // how far askFunc is
	in        []byte  // what readFunc reads into; nil: a buffer of size taken when there is something
	size      int     // see in
	buf       *buffer // the one taken
	n         int     // bytes read
	readErr   syscall.Errno
	out       [][]byte // what writeFunc still has to write
	iov       [maxPieces]syscall.Iovec
	written   int64
	writeErr  syscall.Errno
}

// init turns the fast path on where nc is a plain socket.
func (f *fastIO) init(nc net.Conn) {
	switch nc.(type) {
	case *net.TCPConn, *net.UnixConn:
	default:
		return
	}
	raw, err := nc.(syscall.Conn).SyscallConn()
	if err != nil {
		return
	}
	f.raw = raw
	f.readFunc, f.writeFunc, f.askFunc = f.tryRead, f.tryWrite, f.tryAsk
}

func (f *fastIO) ok() bool { return f.raw != nil }

func (f *fastIO) read(p []byte) (int, error) {
	f.in = p
	n, err := f.wait()
	f.in = nil
	return n, err
}

func (f *fastIO) readLazily(size int) (*buffer, int, error) {
	f.size = size
	n, err := f.wait()
	buf := f.buf
	f.buf = nil
	if n == 0 {
		putBuffer(buf)
		buf = nil
	}
	return buf, n, err
}

func (f *fastIO) wait() (int, error) {
	f.n, f.readErr = 0, 0
	if err := f.raw.Read(f.readFunc); err != nil {
		return 0, err
	}
	switch {
	case f.readErr != 0:
		return 0, f.readErr
	case f.n == 0:
		return 0, io.EOF
	}
	return f.n, nil
}

// tryRead is called by the poller's owner whenever there may be something; it
// returns false to wait.
func (f *fastIO) tryRead(fd uintptr) bool {
	p := f.in
	if p == nil {
		if f.buf == nil {
			f.buf = getBuffer(f.size)
		}
		p = f.buf.b
	}
	for {
		n, _, errno := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
		switch errno {
		case 0:
			f.n = int(n)
			return true
		case syscall.EINTR:
		case syscall.EAGAIN:
			putBuffer(f.buf)
			f.buf = nil
			return false
		default:
			f.readErr = errno
			return true
		}
	}
}

func (f *fastIO) write(pieces [][]byte) (int64, error) {
	f.out, f.written, f.writeErr = pieces, 0, 0
	err := f.raw.Write(f.writeFunc)
	f.out = nil
	f.forget()
	if err == nil && f.writeErr != 0 {
		err = f.writeErr
	}
	return f.written, err
}

// forget drops the pointers to what was written.
func (f *fastIO) forget() { f.iov = [maxPieces]syscall.Iovec{} }

// rawLimit is the most bytes that are written without telling the scheduler:
// copying more takes too long.
const rawLimit = 64 << 10

// tryWrite writes what it can; it returns false to wait for room.
func (f *fastIO) tryWrite(fd uintptr) bool {
	for len(f.out) > 0 {
		n, errno := f.writeOnce(fd)
		switch errno {
		case 0:
			f.written += int64(n)
			f.advance(n)
		case syscall.EINTR:
		case syscall.EAGAIN:
			return false
		default:
			f.writeErr = errno
			return true
		}
	}
	return true
}

// writeOnce is one system call for all pieces.
func (f *fastIO) writeOnce(fd uintptr) (int, syscall.Errno) {
	total, count := 0, 0
	for _, p := range f.out {
		if len(p) == 0 {
			continue
		}
		f.iov[count].Base = &p[0]
		f.iov[count].SetLen(len(p))
		count++
		total += len(p)
	}
	if count == 0 {
		f.out = nil
		return 0, 0
	}
	call, first, length := uintptr(syscall.SYS_WRITEV), unsafe.Pointer(&f.iov[0]), uintptr(count)
	if count == 1 {
		call, first, length = syscall.SYS_WRITE, unsafe.Pointer(f.iov[0].Base), uintptr(total)
	}
	if total > rawLimit {
		n, _, errno := syscall.Syscall(call, fd, uintptr(first), length)
		return int(n), errno
	}
	n, _, errno := syscall.RawSyscall(call, fd, uintptr(first), length)
	return int(n), errno
}

// advance drops n written bytes from the pieces.
func (f *fastIO) advance(n int) {
	for len(f.out) > 0 && n >= len(f.out[0]) {
		n -= len(f.out[0])
		f.out = f.out[1:]
	}
	if n > 0 {
		f.out[0] = f.out[0][n:]
	}
}
