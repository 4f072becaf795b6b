package blackbox

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// resolverFailsForNow reports whether this machine's resolver cannot tell that
// a name does not exist.
func resolverFailsForNow(name string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := net.DefaultResolver.LookupHost(ctx, name)
	var dns *net.DNSError
	return !errors.As(err, &dns) || !dns.IsNotFound
}

// deafAddr is an address whose SYNs are dropped: a socket that listens with a
// full backlog.
func deafAddr(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	addr := &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	if err := errors.Join(syscall.Bind(fd, addr), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(boundPort(t, fd)))
	for range 8 { // until one gets no answer
		conn, err := net.DialTimeout("tcp", address, 300*time.Millisecond)
		if errors.Is(err, os.ErrDeadlineExceeded) || os.IsTimeout(err) {
			return address
		}
		if err == nil {
			t.Cleanup(func() { conn.Close() })
		}
	}
	t.Skip("this kernel does not drop SYNs for a full backlog")
	return ""
}

// timeout.connect: a dial that gets no answer is a connect_failure, retried for
// any method, and 504 in the end (any timeout).
func TestDialTimesOut(t *testing.T) {
	t.Parallel()
	deaf := deafAddr(t)
	p := start(t, `defaults: {timeout: {connect: 200ms}, retry: {max_attempts: 2, `+quick+`}}`)
	begun := time.Now()
	p.do("POST", "http://"+deaf+"/", "x").expectProblem(t, 504, "attempts=2; stop=max_attempts; error=connection_timeout")
	if spent := time.Since(begun); spent < 380*time.Millisecond {
		t.Errorf("two dials of 200 ms took %v", spent)
	}
	p.wantMetric(2, "mulligan_attempts_total", "result=connect_failure")
	c := dial(t, p.proxy)
	c.send(lines("CONNECT "+deaf+" HTTP/1.1", "Host: "+deaf))
	c.next("CONNECT").expectProblem(t, 504, "attempts=2; stop=max_attempts; error=connection_timeout")
}

// A dial ends with the window, too.
func TestDialEndsWithTheWindow(t *testing.T) {
	t.Parallel()
	deaf := deafAddr(t)
	p := start(t, `defaults: {timeout: {connect: 0s, total: 400ms}, retry: {`+quick+`}}`)
	r := p.get("http://" + deaf + "/")
	r.expectProblem(t, 504, "attempts=1; stop=window")
	if e := r.proxyStatus(t)["error"]; e != "connection_timeout" && e != "http_response_timeout" {
		t.Errorf("error=%s", e)
	}
}
