package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"mulligan/proxy"
)

// TestContentLengthZeroIsNoBody: a CONNECT, or an OPTIONS that ends here, was
// refused for a body of no bytes; WinINet announces one.
func TestContentLengthZeroIsNoBody(t *testing.T) {
	addr := rawServe(t, func(n int, c net.Conn, r *bufio.Reader) { io.Copy(c, r) })
	srv := start(t, settings())
	for _, head := range []string{
		"CONNECT " + addr + " HTTP/1.1\r\n",
		"OPTIONS http://" + addr + "/ HTTP/1.1\r\nMax-Forwards: 0\r\n",
	} {
		c, r := call(t, srv)
		io.WriteString(c, head+"Host: x\r\nContent-Length: 0\r\n\r\n")
		if resp := readResponse(t, r); resp.StatusCode != 200 {
			t.Errorf("%q: %s", head, resp.Status)
		}
	}
}

// TestCredentialsComeFirst: a client without credentials was answered what its
// request's other faults, or Max-Forwards, ask for.
func TestCredentialsComeFirst(t *testing.T) {
	s := settings()
	s.Auth = &proxy.Credentials{Username: "u", Password: "p"}
	srv := start(t, s)
	for _, head := range []string{
		"OPTIONS http://x.invalid/ HTTP/1.1\r\nMax-Forwards: 0\r\n",
		"TRACE http://x.invalid/ HTTP/1.1\r\nMax-Forwards: 0\r\n",
		"GET http://x.invalid/ HTTP/1.1\r\nMulligan-Policy: nonsense\r\n",
		"GET ftp://x.invalid/ HTTP/1.1\r\n",
		"GET http://x.invalid:99999/ HTTP/1.1\r\n",
		"CONNECT x.invalid HTTP/1.1\r\n",
	} {
		c, r := call(t, srv)
		io.WriteString(c, head+"Host: x\r\n\r\n")
		if resp := readResponse(t, r); resp.StatusCode != 407 {
			t.Errorf("%q: %s", head, resp.Status)
		}
	}
}

// TestMaxForwardsKeepsItsCase: the field that is counted down was written with a
// spelling of our own.
func TestMaxForwardsKeepsItsCase(t *testing.T) {
	addr := rawServe(t, echoHead(""))
	c, r := call(t, start(t, settings()))
	fmt.Fprintf(c, "OPTIONS http://%s/ HTTP/1.1\r\nHost: x\r\nmax-FORWARDS: 5\r\n\r\n", addr)
	if sent, _ := io.ReadAll(readResponse(t, r).Body); !strings.Contains(string(sent), "\r\nmax-FORWARDS: 4\r\n") {
		t.Errorf("%q", sent)
	}
}

// TestTunnelResults: tunnels were counted with the result `other`, which is none
// of the contract's: a client that left during the dial is not counted, a loop
// is a protocol_error.
func TestTunnelResults(t *testing.T) {
	addr := rawServe(t, echoHead(""))
	dialling := make(chan struct{})
	srv, reg := startWith(t, settings(), func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == addr {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}
		close(dialling)
		<-ctx.Done()
		return nil, ctx.Err()
	}, nil)
	c, r := call(t, srv)
	fmt.Fprintf(c, "GET http://%s/ HTTP/1.1\r\nHost: x\r\n\r\n", addr)
	resp := readResponse(t, r)
	io.Copy(io.Discard, resp.Body)
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: x\r\nVia: %s\r\n\r\n", addr, resp.Header.Get("Via"))
	if resp := readResponse(t, r); resp.StatusCode != 502 {
		t.Errorf("a loop: %s", resp.Status)
	}
	if !eventually(func() bool { return counter(t, reg, "mulligan_tunnels_total", "result=protocol_error") == 1 }) {
		t.Error("a loop was not counted as a protocol_error")
	}
	c, _ = call(t, srv)
	io.WriteString(c, "CONNECT x.invalid:80 HTTP/1.1\r\nHost: x\r\n\r\n")
	<-dialling
	c.Close()
	if !eventually(func() bool { return gauge(t, reg, "mulligan_requests_in_flight", "default") == 0 }) {
		t.Fatal("still in flight")
	}
	if n := counter(t, reg, "mulligan_tunnels_total"); n != 1 {
		t.Errorf("%v tunnels are counted, want the loop alone", n)
	}
}
