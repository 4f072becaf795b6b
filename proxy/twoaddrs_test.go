package proxy

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strconv"
	"testing"
	"time"
)

// TestDenialIsNotHiddenByAnotherAddress: a name with two addresses, of which one
// is denied and the other refuses, was a refused connection, which is retried.
func TestDenialIsNotHiddenByAnotherAddress(t *testing.T) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	addr := ln.Addr().(*net.TCPAddr)
	if conn, err := net.DialTimeout("tcp6", net.JoinHostPort("::1", strconv.Itoa(addr.Port)), time.Second); err == nil {
		conn.Close()
		t.Skip("somebody listens on the same port of ::1")
	}
	before := net.DefaultResolver
	defer func() { net.DefaultResolver = before }()
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go bothFamilies(theirs)
		return ours, nil
	}}
	g := &guard{own: newOwnListeners([]net.Addr{addr})}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	conn, err := new(Server).dialJudged(ctx, g, net.JoinHostPort("two.invalid.", strconv.Itoa(addr.Port)), false, nil)
	if err == nil {
		conn.Close()
	}
	var denied *deniedError
	if !errors.As(err, &denied) {
		t.Error(err)
	}
}

// bothFamilies is a DNS server that gives every name the addresses 127.0.0.1 and
// ::1 (RFC 1035 4; over a stream, messages come with their length).
func bothFamilies(c net.Conn) {
	defer c.Close()
	for {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		m := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, m); err != nil {
			return
		}
		end := 12
		for m[end] != 0 {
			end += int(m[end]) + 1
		}
		end += 5 // the root, type, class
		ip := net.IPv4(127, 0, 0, 1).To4()
		if binary.BigEndian.Uint16(m[end-4:]) == 28 { // AAAA
			ip = net.IPv6loopback
		}
		answer := append([]byte{}, m[:end]...)
		copy(answer[2:], []byte{0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0}) // a response, one question, one answer
		answer = append(answer, 0xc0, 12)                            // the name: that of the question
		answer = append(answer, m[end-4:end]...)
		answer = append(answer, 0, 0, 0, 60, 0, byte(len(ip)))
		answer = append(answer, ip...)
		binary.BigEndian.PutUint16(size[:], uint16(len(answer)))
		if _, err := c.Write(append(size[:], answer...)); err != nil {
			return
		}
	}
}
