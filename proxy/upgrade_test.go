package proxy_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: foo\r\n\r\n"

// TestUpgradeIsLoggedWithItsOwnPath: the access log line is written after the
// tunnel; what it says must not lie in a buffer that others use by then.
func TestUpgradeIsLoggedWithItsOwnPath(t *testing.T) {
	addr := rawServe(t, func(n int, c net.Conn, r *bufio.Reader) {
		head := readHead(r)
		if !strings.Contains(head, "Upgrade: foo") {
			io.WriteString(c, ok)
			return
		}
		io.WriteString(c, switching)
		io.Copy(c, r)
	})
	s := settings()
	s.AccessLog = true
	var log syncBuffer
	srv, _ := startWith(t, s, nil, &log)
	c, r := call(t, srv)
	fmt.Fprintf(c, "GET http://%s/the-upgrade HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: foo\r\n\r\n", addr)
	if resp := readResponse(t, r); resp.StatusCode != 101 {
		t.Fatal(resp.Status)
	}
	io.WriteString(c, "echo")
	io.ReadFull(r, make([]byte, 4))
	for range 20 { // others use the pooled buffers meanwhile
		o, or := call(t, srv)
		fmt.Fprintf(o, "GET http://%s/SECRET-OF-ANOTHER-CLIENT-SECRET HTTP/1.1\r\nHost: x\r\nAuthorization: SECRET-OF-ANOTHER\r\n\r\n", addr)
		readResponse(t, or)
	}
	c.Close()
	if !eventually(func() bool { return strings.Contains(log.String(), "status=101") }) {
		t.Fatal(log.String())
	}
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "status=101") && !strings.Contains(line, "path=/the-upgrade ") {
			t.Errorf("logged: %s", line)
		}
	}
}

// TestUpgradeWhileTheBodyIsSent: a 101 that comes before the request's body is
// whole must not leave two goroutines at one connection: every byte arrives once
// and in order, or the upgrade is refused.
func TestUpgradeWhileTheBodyIsSent(t *testing.T) {
	body := make([]byte, 400_000)
	for i := range body {
		body[i] = byte(i / 1000)
	}
	got := make(chan []byte, 1)
	addr := rawServe(t, func(n int, c net.Conn, r *bufio.Reader) {
		readHead(r)
		io.WriteString(c, switching)
		b, _ := io.ReadAll(r)
		got <- b
	})
	s := settings()
	s.AccessLog = true
	srv := start(t, s)
	c, r := call(t, srv)
	fmt.Fprintf(c, "PUT http://%s/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: foo\r\nContent-Length: %d\r\n\r\n", addr, len(body))
	c.Write(body[:1000])
	resp := readResponse(t, r)
	if resp.StatusCode != 101 {
		return // refused: that is fine
	}
	for i := 1000; i < len(body); i += 1000 {
		c.Write(body[i : i+1000])
	}
	c.(*net.TCPConn).CloseWrite()
	if b := <-got; !bytes.Equal(b, body) {
		t.Errorf("%d of %d bytes, or not in order", len(b), len(body))
	}
}

// TestUnaskedUpgradeIsRefused: h2c is not forwarded, so a 101 answers nothing.
func TestUnaskedUpgradeIsRefused(t *testing.T) {
	addr := rawServe(t, func(n int, c net.Conn, r *bufio.Reader) {
		readHead(r)
		io.WriteString(c, switching)
		io.Copy(io.Discard, r)
	})
	c, r := call(t, start(t, settings()))
	fmt.Fprintf(c, "GET http://%s/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n", addr)
	if resp := readResponse(t, r); resp.StatusCode != 502 {
		t.Error(resp.Status)
	}
}

// TestTunnelsConnectionIsTheFirstThatIsUsed: CONNECT and a plain request inside
// it make one connection to the upstream, not two.
func TestTunnelsConnectionIsTheFirstThatIsUsed(t *testing.T) {
	var conns atomic.Int32
	addr := rawServe(t, func(n int, c net.Conn, r *bufio.Reader) {
		conns.Add(1)
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			io.Copy(io.Discard, req.Body)
			io.WriteString(c, ok)
		}
	})
	c, r := call(t, start(t, settings()))
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", addr, addr)
	readResponse(t, r)
	for range 3 {
		fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", addr)
		resp := readResponse(t, r)
		io.Copy(io.Discard, resp.Body)
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}
