//go:build unix && !(linux && (amd64 || arm64))

package h1

import "syscall"

// peek looks at the next byte of a socket without waiting and without taking it.
func peek(fd uintptr) (int, error) {
	var b [1]byte
	for {
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		if err != syscall.EINTR {
			return n, err
		}
	}
}

// hungUp reports whether the peer's FIN or RST is the next thing to read;
// unread bytes hide it here.
func hungUp(fd uintptr) bool {
	n, err := peek(fd)
	return err != syscall.EAGAIN && n <= 0
}

// pending reports whether there are bytes to read.
func pending(fd uintptr) bool {
	n, err := peek(fd)
	return err == nil && n > 0
}

// unsent is not asked for here.
func unsent(uintptr) int32 { return 0 }

// silent reports whether the socket is open and has nothing to read: what an
// idle connection must be.
func silent(fd uintptr) bool {
	_, err := peek(fd)
	return err == syscall.EAGAIN
}
