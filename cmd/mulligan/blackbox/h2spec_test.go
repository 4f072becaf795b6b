package blackbox

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// h2spec finds the conformance tester of that name.
func h2spec(t *testing.T) string {
	t.Helper()
	if out, err := exec.Command("go", "env", "GOPATH").Output(); err == nil {
		path := filepath.Join(strings.TrimSpace(string(out)), "bin", "h2spec")
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return need(t, "h2spec")
}

// conforms runs all cases of h2spec against a port with TLS.
func conforms(t *testing.T, addr string) {
	t.Helper()
	program := h2spec(t)
	_, port, _ := net.SplitHostPort(addr)
	ctx, cancel := context.WithTimeout(t.Context(), 20*patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, "-t", "-k", "-h", "127.0.0.1", "-p", port, "-o", "20").CombinedOutput()
	if err != nil || !regexp.MustCompile(`\d{3} tests, \d{3} passed, 0 skipped, 0 failed`).Match(out) {
		t.Errorf("%v\n%s", err, tail(string(out), 8000))
	}
}

// h2spec passes against the intercepted side, whatever the upstream speaks.
func TestH2specIntercepted(t *testing.T) {
	t.Parallel()
	for _, version := range []int{1, 2} {
		t.Run(map[int]string{1: "upstream HTTP 1", 2: "upstream HTTP 2"}[version], func(t *testing.T) {
			t.Parallel()
			ca := newAuthority(t)
			u := newSite(t, ca, version, func(w http.ResponseWriter, r *http.Request, n int) {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(w, "hello")
			})
			// h2spec asks for the authority that it dials, which therefore has to be the
			// tunnel's; that it is another server's than ours is behind a parent proxy.
			door := listen(t, "127.0.0.1:0")
			parent := forwarder(t, listen(t, "127.0.0.1:0"), u.addr, func(nc, _ *net.TCPConn) bool {
				head := connectHead(nc)
				_, err := io.WriteString(nc, "HTTP/1.1 200 OK\r\n\r\n")
				return strings.HasPrefix(head, "CONNECT ") && err == nil
			})
			p := startInside(t, "parent_proxy: http://"+parent+"\nupstreams:\n"+ca.intercepting("api", "127.0.0.1", ""))
			forwarder(t, door, p.proxy, func(_, proxy *net.TCPConn) bool {
				_, err := io.WriteString(proxy, lines("CONNECT "+door.Addr().String()+" HTTP/1.1", "Host: "+door.Addr().String()))
				return err == nil && strings.HasPrefix(connectHead(proxy), "HTTP/1.1 200")
			})
			conforms(t, door.Addr().String())
			if u.seen("/") < 30 {
				t.Errorf("the upstream saw %d requests", u.seen("/"))
			}
			p.wantMetric(0, "mulligan_requests_in_flight")
		})
	}
}

// forwarder leads each connection to a listener on to an address, once greet has
// made an agreement with either side.
func forwarder(t *testing.T, ln net.Listener, addr string, greet func(from, to *net.TCPConn) bool) string {
	t.Helper()
	var all sync.WaitGroup
	all.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() { forward(nc.(*net.TCPConn), addr, greet) })
		}
	})
	t.Cleanup(func() { ln.Close(); all.Wait() })
	return ln.Addr().String()
}

func forward(from *net.TCPConn, addr string, greet func(from, to *net.TCPConn) bool) {
	defer from.Close()
	up, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer up.Close()
	to := up.(*net.TCPConn)
	if !greet(from, to) {
		return
	}
	done := make(chan bool, 2)
	pipe := func(to, from *net.TCPConn) {
		if _, err := io.Copy(to, from); err != nil {
			abort(to)
			abort(from)
		} else {
			_ = to.CloseWrite()
		}
		done <- true
	}
	go pipe(to, from)
	go pipe(from, to)
	<-done
	<-done
}

// connectHead reads a head, and not a byte of what is behind it.
func connectHead(r io.Reader) string {
	one, head := make([]byte, 1), ""
	for !strings.HasSuffix(head, "\r\n\r\n") {
		if _, err := io.ReadFull(r, one); err != nil {
			return ""
		}
		head += string(one)
	}
	return head
}

// h2spec passes against a reverse listener with TLS.
func TestH2specAtAReverseListener(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, "hello"))
	door := freeAddr(t)
	p := start(t, "upstreams:\n  api:\n    endpoints: [\""+u.url("")+"\"]\n    listen: {address: \""+door+"\", tls: {internal: true}}\n")
	conforms(t, door)
	p.wantMetric(0, "mulligan_requests_in_flight")
}
