//go:build linux && (amd64 || arm64)

package h1

import (
	"syscall"
	"unsafe"
)

// pollRDHUP is POLLRDHUP: the peer closed its writing side. The syscall package
// has no name for it.
const pollRDHUP, pollERR, pollHUP = 0x2000, 0x8, 0x10

// pollFD is struct pollfd.
type pollFD struct {
	fd      int32
	events  int16
	revents int16
}

// hungUp asks the kernel whether the peer's FIN or RST has arrived; unread
// bytes do not hide it.
func hungUp(fd uintptr) bool {
	poll := pollFD{fd: int32(fd), events: pollRDHUP}
	var timeout syscall.Timespec
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&poll)), 1, uintptr(unsafe.Pointer(&timeout)), 0, 0, 0)
	return errno == 0 && poll.revents&(pollRDHUP|pollERR|pollHUP) != 0
}

// unsent returns how many bytes wait in the socket for the peer to take them.
func unsent(fd uintptr) (n int32) {
	const siocOutQ = 0x5411
	syscall.RawSyscall(syscall.SYS_IOCTL, fd, siocOutQ, uintptr(unsafe.Pointer(&n)))
	return n
}

// silent reports whether the socket is open and has nothing to read: what an
// idle connection must be.
func silent(fd uintptr) bool {
	_, errno := peek(fd)
	return errno == syscall.EAGAIN
}

// pending reports whether there are bytes to read.
func pending(fd uintptr) bool {
	n, errno := peek(fd)
	return errno == 0 && n > 0
}

// peek looks at the next byte of a socket without waiting and without taking it.
func peek(fd uintptr) (n int, errno syscall.Errno) {
	var b [1]byte
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&b[0])), 1, syscall.MSG_PEEK|syscall.MSG_DONTWAIT, 0, 0)
		if errno != syscall.EINTR {
			return int(n), errno
		}
	}
}
