package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"mulligan/policy"
)

// TestListedContentLength: a response with `Content-Length: 2, 2` is either a
// protocol error or reaches the client with one length (RFC 9110 8.6).
func TestListedContentLength(t *testing.T) {
	for _, method := range []string{"GET", "HEAD"} {
		addr := rawServe(t, func(n int, c net.Conn, r *bufio.Reader) {
			readHead(r)
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\n")
			if method == "GET" {
				io.WriteString(c, "ok")
			}
		})
		c, r := call(t, start(t, settings()))
		fmt.Fprintf(c, "%s http://%s/ HTTP/1.1\r\nHost: x\r\n\r\n", method, addr)
		line, err := r.ReadString('\n')
		if err != nil {
			t.Errorf("%s: no answer at all: %q %v", method, line, err)
			continue
		}
		for {
			field, err := r.ReadString('\n')
			if err != nil || field == "\r\n" {
				break
			}
			if field == "Content-Length: 2, 2\r\n" {
				t.Errorf("%s: the client gets %q", method, field)
			}
		}
	}
}

// TestFragmentInATarget: what begins with # is no path (RFC 9112 3.2.2 has none).
func TestFragmentInATarget(t *testing.T) {
	addr := rawServe(t, echoHead(""))
	c, r := call(t, start(t, settings()))
	fmt.Fprintf(c, "GET http://%s#fragment HTTP/1.1\r\nHost: x\r\n\r\n", addr)
	resp := readResponse(t, r)
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != 400 {
		t.Errorf("%s, sent upstream: %q", resp.Status, body)
	}
}

// TestBusyAuthorityOutlivesStrangers: an authority in use is not the one that is
// forgotten when many others come; its spent budget is not new afterwards.
func TestBusyAuthorityOutlivesStrangers(t *testing.T) {
	addr := rawServe(t, func(n int, c net.Conn, r *bufio.Reader) {
		for readHead(r) != "" {
			io.WriteString(c, unavailable)
		}
	})
	s := settings()
	s.Default.Budget = policy.BudgetConfig{Burst: 3, Window: time.Minute}
	srv, _ := startWith(t, s, func(ctx context.Context, network, address string) (net.Conn, error) {
		if address != addr { // nothing is asked of what may listen on this machine
			return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}, nil)
	busy, busyR := call(t, srv)
	get := func() string {
		fmt.Fprintf(busy, "GET http://%s/ HTTP/1.1\r\nHost: x\r\n\r\n", addr)
		return readResponse(t, busyR).Header.Get("Proxy-Status")
	}
	get() // spends all three
	strange, strangeR := call(t, srv)
	for i := range 1100 {
		fmt.Fprintf(strange, "GET http://127.0.0.1:%d/ HTTP/1.1\r\nHost: x\r\nMulligan-Policy: max-attempts=1\r\n\r\n", 1+i%1023+i/1023*20000)
		resp := readResponse(t, strangeR)
		io.Copy(io.Discard, resp.Body)
		if i%50 == 0 {
			if ps := get(); ps != "mulligan; attempts=1; stop=budget; received-status=503" {
				t.Fatalf("after %d strangers: %s", i, ps)
			}
		}
	}
	if ps := get(); ps != "mulligan; attempts=1; stop=budget; received-status=503" {
		t.Error(ps)
	}
}
