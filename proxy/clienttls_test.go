package proxy_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"mulligan/policy"
)

// tlsInTunnel makes the TLS connection of a client that speaks HTTP/1.1.
func (i *intercepted) tlsInTunnel(t testing.TB) *tls.Conn {
	t.Helper()
	conn, r := call(t, i.srv)
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", i.host, i.host)
	readHead(r)
	c := tls.Client(conn, &tls.Config{ServerName: "api.localhost", RootCAs: i.ca.pool()})
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCloseNotifyIsGone: a client that ends its side of TLS, and nothing below it,
// has left.
func TestCloseNotifyIsGone(t *testing.T) {
	began, ended := make(chan bool, 1), make(chan bool, 1)
	i := intercept(t, false, func(w http.ResponseWriter, r *http.Request) {
		began <- true
		<-r.Context().Done()
		ended <- true
	}, nil)
	c := i.tlsInTunnel(t)
	fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", i.host)
	<-began
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatal("the upstream works on")
	}
	if !eventually(func() bool { return counter(t, i.reg, "mulligan_requests_total", "outcome=client_gone") == 1 }) {
		t.Error("not counted as gone")
	}
}

// TestAheadOfItsTurn: requests that come while one is answered are no end, and none of
// their bytes are lost: in one piece, in many, and longer than what is looked at.
func TestAheadOfItsTurn(t *testing.T) {
	release := make(chan bool)
	i := intercept(t, false, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/0" {
			<-release
		}
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "%s %d", r.URL.Path, n)
	}, func(u *policy.Upstream) { u.Default.Retry.MaxAttempts = 1 })
	c := i.tlsInTunnel(t)
	c.SetDeadline(time.Now().Add(30 * time.Second))
	fmt.Fprintf(c, "GET /0 HTTP/1.1\r\nHost: %s\r\n\r\n", i.host)
	lengths := []int{0, 10_000, 100_000}
	for n, length := range lengths {
		fmt.Fprintf(c, "POST /%d HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n", n+1, i.host, length)
		for range length / 1000 {
			io.WriteString(c, strings.Repeat("x", 1000))
		}
		time.Sleep(20 * time.Millisecond) // the watcher looks at what is there
	}
	close(release)
	r := bufio.NewReader(c)
	for n := range len(lengths) + 1 {
		want := fmt.Sprintf("/%d 0", n)
		if n > 0 {
			want = fmt.Sprintf("/%d %d", n, lengths[n-1])
		}
		resp := readResponse(t, r)
		if body, _ := io.ReadAll(resp.Body); string(body) != want {
			t.Errorf("%q, want %q", body, want)
		}
	}
}
