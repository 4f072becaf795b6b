//go:build !(linux && (amd64 || arm64))

package h1

import "net"

// fastIO is off on this system: net.Conn's own methods are used.
type fastIO struct{}

func (*fastIO) init(net.Conn) {}
func (*fastIO) ok() bool      { return false }

func (*fastIO) read([]byte) (int, error)             { panic("h1: no fast path") }
func (*fastIO) readLazily(int) (*buffer, int, error) { panic("h1: no fast path") }
func (*fastIO) write([][]byte) (int64, error)        { panic("h1: no fast path") }

type askResult struct {
	heard             bool
	rest              [][]byte
	written           int64
	buf               *buffer
	n                 int
	writeErr, readErr error
}

func (*fastIO) ask([][]byte) askResult { panic("h1: no fast path") }
