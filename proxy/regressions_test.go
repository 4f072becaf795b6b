package proxy_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mulligan/policy"
)

// TestWindowStandsStillForAContinuedBody: the window's clock stands still while
// the body arrives, for a retry of a request with Expect: 100-continue too.
func TestWindowStandsStillForAContinuedBody(t *testing.T) {
	var n atomic.Int32
	up := func(c net.Conn) {
		for {
			r := bufio.NewReaderSize(c, 16)
			head := readHead(r)
			if head == "" {
				return
			}
			if n.Add(1) == 1 {
				io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n")
				r.ReadByte()
				io.WriteString(c, unavailable)
				io.Copy(io.Discard, r)
				return
			}
			io.ReadFull(r, make([]byte, 6))
			io.WriteString(c, ok)
		}
	}
	inBubble(t, settings(), up, func(b *bubble) {
		c := b.dial()
		r := bufio.NewReader(c)
		io.WriteString(c, "PUT http://up/ HTTP/1.1\r\nHost: up\r\nExpect: 100-continue\r\nContent-Length: 6\r\n\r\n")
		if resp := readResponse(b.T, r); resp.StatusCode != 100 {
			b.Fatal(resp.Status)
		}
		go func() {
			for range 6 {
				io.WriteString(c, "x")
				time.Sleep(10 * time.Second)
			}
		}()
		if resp := readResponse(b.T, r); resp.StatusCode != 200 {
			b.Errorf("%s %q", resp.Status, resp.Header.Get("Proxy-Status"))
		}
		c.Close()
		time.Sleep(time.Minute)
	})
}

// TestWindowRunsOnceTheBodyIsHere: an upstream that takes nothing of a body that
// has arrived is up against the window.
func TestWindowRunsOnceTheBodyIsHere(t *testing.T) {
	stuck := func(c net.Conn) {
		readHead(bufio.NewReaderSize(c, 16))
		time.Sleep(10 * time.Minute)
	}
	inBubble(t, settings(), stuck, func(b *bubble) {
		c := b.dial()
		began := time.Now()
		io.WriteString(c, "POST http://up/ HTTP/1.1\r\nHost: up\r\nContent-Length: 5\r\n\r\n")
		io.WriteString(c, "hello") // after the head: not in its buffer
		resp := readResponse(b.T, bufio.NewReader(c))
		if resp.StatusCode != 504 {
			b.Error(resp.Status)
		}
		within(b.T, time.Since(began), 20*time.Second)
		c.Close()
		time.Sleep(11 * time.Minute)
	})
}

// TestPostIsSentAfterADeadConnection: nothing was sent of it yet, so a refused
// connection is retried whatever the method, and whatever is kept of the body.
func TestPostIsSentAfterADeadConnection(t *testing.T) {
	const chunked, length = "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "Content-Length: 5\r\n\r\nhello"
	for name, c := range map[string]struct {
		body  string
		limit int64
	}{
		"chunked": {chunked, 100}, "chunked, past buffer.request": {chunked, 2},
		"length": {length, 100}, "length, past buffer.request": {length, 2},
	} {
		t.Run(name, func(t *testing.T) { postAfterADeadConnection(t, c.body, c.limit) })
	}
}

func postAfterADeadConnection(t *testing.T, body string, limit int64) {
	addr := rawServe(t, func(n int, c net.Conn, r *bufio.Reader) {
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			io.Copy(io.Discard, req.Body)
			io.WriteString(c, ok)
		}
	})
	var pooled atomic.Pointer[net.TCPConn]
	var dials atomic.Int32
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if dials.Add(1) == 2 {
			return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
		}
		nc, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err == nil {
			pooled.Store(nc.(*net.TCPConn))
		}
		return nc, err
	}
	s := settings()
	s.Default.Default.Buffer.Request = limit
	srv, _ := startWith(t, s, dial, nil)
	c, r := call(t, srv)
	post := fmt.Sprintf("POST http://%s/ HTTP/1.1\r\nHost: x\r\n%s", addr, body)
	io.WriteString(c, post)
	io.Copy(io.Discard, readResponse(t, r).Body)
	// The pooled connection dies: nothing can be written to it any more.
	if err := pooled.Load().CloseWrite(); err != nil {
		t.Fatal(err)
	}
	io.WriteString(c, post)
	if resp := readResponse(t, r); resp.StatusCode != 200 || dials.Load() != 3 {
		t.Errorf("%s %q after %d dials", resp.Status, resp.Header.Get("Proxy-Status"), dials.Load())
	}
}

// TestConnectOutlivesItsUpstream: a CONNECT in flight keeps the policy it began
// with, although a reload has removed the upstream.
func TestConnectOutlivesItsUpstream(t *testing.T) {
	addr := rawServe(t, func(n int, c net.Conn, r *bufio.Reader) { io.Copy(io.Discard, r) })
	u := upstream("up")
	u.Hosts = []policy.HostPattern{{Name: "127.0.0.1"}}
	u.Default.Retry.Backoff = policy.Backoff{Initial: 100 * time.Millisecond, Max: 100 * time.Millisecond, Multiplier: 1, Jitter: policy.NoJitter}
	var dials atomic.Int32
	refused := make(chan struct{})
	srv, _ := startWith(t, settings(u), func(ctx context.Context, network, address string) (net.Conn, error) {
		if dials.Add(1) == 1 {
			defer close(refused)
			return nil, errors.New("not yet")
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}, nil)
	c, r := call(t, srv)
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n", addr)
	<-refused
	if err := srv.Reload(settings()); err != nil {
		t.Fatal(err)
	}
	if resp := readResponse(t, r); resp.StatusCode != 200 {
		t.Errorf("%s %q", resp.Status, resp.Header.Get("Proxy-Status"))
	}
}

// TestRefusedIsLoggedOnAUsedConnection: a malformed request is logged whatever
// came on its connection before.
func TestRefusedIsLoggedOnAUsedConnection(t *testing.T) {
	up := serve(t, func(w http.ResponseWriter, r *http.Request) {})
	s := settings()
	s.AccessLog = true
	var log syncBuffer
	srv, _ := startWith(t, s, nil, &log)
	c, r := call(t, srv)
	fmt.Fprintf(c, "GET %s/ HTTP/1.1\r\nHost: x\r\n\r\n", up.URL)
	readResponse(t, r)
	io.WriteString(c, "GET / HTTP/1.1\r\nHost : x\r\n\r\n")
	if resp := readResponse(t, r); resp.StatusCode != 400 {
		t.Fatal(resp.Status)
	}
	if !eventually(func() bool { return strings.Contains(log.String(), "msg=refused") }) {
		t.Error("not logged")
	}
}
