package blackbox

import (
	"errors"
	"net"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

// Ports for processes and doors lie below the kernel's ephemeral range, so that
// no outgoing connection of a parallel test takes one between its choice and its
// use. They are handed out from blocks; the first port of a block is listened on
// as long as this process lives, which keeps two runs of this suite apart.
const (
	firstPort = 18000
	blockSize = 500
	numBlocks = 28
)

var ports struct {
	sync.Mutex
	locks []net.Listener // of the blocks taken
	next  int            // in the last block
}

// freePort returns a port on which nothing listens and which nobody else got.
func freePort(t *testing.T) int {
	t.Helper()
	ports.Lock()
	defer ports.Unlock()
	for range 5 * blockSize {
		if port := takePort(); port != 0 && unused(port) {
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

// takePort goes on to the next port, into another block where one ends.
func takePort() int {
	if ports.next%blockSize != 0 {
		ports.next++
		return ports.next - 1
	}
	for block := range numBlocks {
		first := firstPort + block*blockSize
		if ln, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(first)); err == nil {
			ports.locks = append(ports.locks, ln)
			ports.next = first + 1
			return 0
		}
	}
	// All are taken: over again through the first of ours.
	if len(ports.locks) > 0 {
		ports.next = ports.locks[0].Addr().(*net.TCPAddr).Port + 1
		ports.locks = append(ports.locks[1:], ports.locks[0])
	}
	return 0
}

// unused tries a port. A process that a parallel test starts meanwhile would get
// a copy of the socket, and keep the port taken until it runs its program, after
// the close here: with the fork lock, none is started.
func unused(port int) bool {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	ln, err := net.Listen("tcp", ":"+strconv.Itoa(port))
	if err == nil {
		ln.Close()
	}
	return err == nil
}

// freeAddr is a free loopback address.
func freeAddr(t *testing.T) string {
	t.Helper()
	return "127.0.0.1:" + strconv.Itoa(freePort(t))
}

// closedAddr is an address that refuses connections: bound, so that nobody else
// takes it, but not listened on.
func closedAddr(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	return "127.0.0.1:" + strconv.Itoa(boundPort(t, fd))
}

func boundPort(t *testing.T, fd int) int {
	t.Helper()
	name, err := syscall.Getsockname(fd)
	var addr *syscall.SockaddrInet4
	if err == nil {
		var ok bool
		if addr, ok = name.(*syscall.SockaddrInet4); !ok {
			err = errors.New("not an IPv4 socket")
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return addr.Port
}
