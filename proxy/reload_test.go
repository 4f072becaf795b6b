package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mulligan/policy"
)

// echoHead answers each request with its own head as the body.
func echoHead(mark string) func(int, net.Conn, *bufio.Reader) {
	return func(n int, c net.Conn, r *bufio.Reader) {
		for {
			head := readHead(r)
			if !strings.HasSuffix(head, "\r\n\r\n") {
				return
			}
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s%s", len(mark)+len(head), mark, head)
		}
	}
}

// TestParentProxyByReload: connections from before a reload are not used in the
// other way; the parent's credentials never go to an origin.
func TestParentProxyByReload(t *testing.T) {
	origin := rawServe(t, echoHead("origin:"))
	parent := rawServe(t, echoHead("parent:"))
	u, _ := url.Parse("http://user:password@" + parent)
	direct, via := settings(), settings()
	via.ParentProxy = u
	srv := start(t, direct)
	for i, step := range []struct {
		reload bool
		to     bool
		want   string
	}{{false, false, "origin:GET /"}, {true, true, "parent:GET http://"}, {true, false, "origin:GET /"}} {
		if step.reload {
			next := direct
			if step.to {
				next = via
			}
			if err := srv.Reload(next); err != nil {
				t.Fatal(err)
			}
		}
		c, r := call(t, srv)
		fmt.Fprintf(c, "GET http://%s/ HTTP/1.1\r\nHost: x\r\n\r\n", origin)
		body, _ := io.ReadAll(readResponse(t, r).Body)
		if !strings.HasPrefix(string(body), step.want) {
			t.Errorf("step %d: want %s..., got %s", i, step.want, body)
		}
	}
}

// TestDeniedByReload: a destination that a reload denies is not reached over a
// connection from before it.
func TestDeniedByReload(t *testing.T) {
	origin := rawServe(t, echoHead(""))
	srv := start(t, settings())
	get := func() int {
		c, r := call(t, srv)
		fmt.Fprintf(c, "GET http://%s/ HTTP/1.1\r\nHost: x\r\n\r\n", origin)
		resp := readResponse(t, r)
		io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	if status := get(); status != 200 {
		t.Fatal(status)
	}
	next := settings()
	next.DenyDestinations = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	if err := srv.Reload(next); err != nil {
		t.Fatal(err)
	}
	if status := get(); status != 403 {
		t.Error(status)
	}
}

// TestRemovedListenerIsNoForwardProxy: the port of an upstream that a reload
// removed answers 421, to absolute-form too.
func TestRemovedListenerIsNoForwardProxy(t *testing.T) {
	origin := rawServe(t, echoHead(""))
	ln, err := net.Listen("tcp", "127.0.72.1:0") // whose ports nobody else takes once it is closed
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	u := upstream("up")
	u.Listen = addr
	u.Endpoints = []policy.Endpoint{{Scheme: "http", Host: "127.0.0.1", Port: 1}}
	srv := start(t, settings(u))
	if err := srv.Reload(settings()); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET http://%s/ HTTP/1.1\r\nHost: x\r\n\r\n", origin)
	if resp := readResponse(t, bufio.NewReader(c)); resp.StatusCode != 421 {
		t.Error(resp.Status)
	}
}

// TestOptionsStarThroughAParent: RFC 9112 3.2.4: the absolute form of OPTIONS *
// has an empty path.
func TestOptionsStarThroughAParent(t *testing.T) {
	parent := rawServe(t, echoHead(""))
	s := settings()
	s.ParentProxy, _ = url.Parse("http://" + parent)
	c, r := call(t, start(t, s))
	io.WriteString(c, "OPTIONS http://192.0.2.1 HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n")
	body, _ := io.ReadAll(readResponse(t, r).Body)
	line, _, _ := strings.Cut(string(body), "\r\n")
	if line != "OPTIONS http://192.0.2.1:80 HTTP/1.1" && line != "OPTIONS http://192.0.2.1 HTTP/1.1" {
		t.Errorf("%q", line)
	}
}

// TestUnmatchedDenyReachesOpenTunnels: the requests in a tunnel that was open
// before the reload went on to a host that no upstream names.
func TestUnmatchedDenyReachesOpenTunnels(t *testing.T) {
	origin := rawServe(t, echoHead(""))
	srv := start(t, settings())
	c, r := call(t, srv)
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n", origin)
	readHead(r)
	get := func() int {
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		resp := readResponse(t, r)
		io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	if status := get(); status != 200 {
		t.Fatal(status)
	}
	next := settings()
	next.DenyUnmatched = true
	if err := srv.Reload(next); err != nil {
		t.Fatal(err)
	}
	if status := get(); status != 403 {
		t.Error(status)
	}
}

// TestRemovedUpstreamKeepsNoConnection: a retry that was waiting when a reload
// removed its upstream dialled a connection that nobody closed afterwards.
func TestRemovedUpstreamKeepsNoConnection(t *testing.T) {
	u := upstream("up")
	u.Hosts = []policy.HostPattern{{Name: "up"}}
	u.Connections.Idle = 0
	u.Default.Retry.Backoff = *longWait()
	var opened, closed atomic.Int32
	script := answers(unavailable, ok)
	counted := func(c net.Conn) {
		opened.Add(1)
		c.SetDeadline(time.Now().Add(time.Hour)) // a leak is to fail the test, not to block it
		script(c)
		closed.Add(1)
	}
	inBubble(t, settings(u), counted, func(b *bubble) {
		c := b.dial()
		go io.WriteString(c, getUp)
		time.Sleep(time.Second)
		if err := b.srv.Reload(settings()); err != nil {
			b.Fatal(err)
		}
		if resp := readResponse(b.T, bufio.NewReader(c)); resp.StatusCode != 200 {
			b.Fatal(resp.Status)
		}
		c.Close()
		time.Sleep(time.Minute)
		if opened.Load() != 2 || closed.Load() != 2 {
			b.Errorf("%d connections were made, %d closed", opened.Load(), closed.Load())
			time.Sleep(2 * time.Hour)
		}
	})
}
