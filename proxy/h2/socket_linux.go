//go:build linux && (amd64 || arm64)

package h2

import (
	"net"
	"syscall"
	"unsafe"
)

// unsent returns how many bytes wait in the socket for the peer to take them; 0
// where there is no socket. It is a system call.
func unsent(nc net.Conn) (n uint64) {
	s := socket(nc)
	if s == nil {
		return 0
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return 0
	}
	raw.Control(func(fd uintptr) {
		const siocOutQ = 0x5411
		var waiting int32
		syscall.RawSyscall(syscall.SYS_IOCTL, fd, siocOutQ, uintptr(unsafe.Pointer(&waiting)))
		n = uint64(waiting)
	})
	return n
}

// socket returns the socket below TLS and other layers, or nil.
func socket(nc net.Conn) syscall.Conn {
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
