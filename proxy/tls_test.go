package proxy_test

import (
	"bufio"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"mulligan/policy"
)

// TestStuckTLSUpstreamIsLeftAtOnce: giving up a TLS upstream that reads nothing
// does not wait for its close_notify to be taken.
func TestStuckTLSUpstreamIsLeftAtOnce(t *testing.T) {
	cs := httptest.NewUnstartedServer(nil)
	cs.StartTLS()
	defer cs.Close()
	cert := cs.TLS.Certificates[0]
	stop := make(chan struct{})
	defer close(stop)
	raw := rawServe(t, func(n int, c net.Conn, _ *bufio.Reader) {
		s := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{cert}})
		s.Handshake()
		<-stop
	})
	file := t.TempDir() + "/ca.pem"
	os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cs.Certificate().Raw}), 0o600)
	u := upstream("up")
	_, ps, _ := net.SplitHostPort(raw)
	pn, _ := strconv.Atoi(ps)
	u.TLS.CAFile = file
	u.Default.Timeout.Idle = 300 * time.Millisecond
	u.Default.Retry.MaxAttempts = 1
	u.Hosts = []policy.HostPattern{{Name: "secure"}}
	u.Endpoints = []policy.Endpoint{{Scheme: "https", Host: "127.0.0.1", Port: pn}}
	srv, reg := startWith(t, settings(u), nil, nil)
	c, _ := call(t, srv)
	fmt.Fprintf(c, "PUT http://secure/ HTTP/1.1\r\nHost: secure\r\nContent-Length: 100000000\r\n\r\n")
	c.SetWriteDeadline(time.Now().Add(time.Second))
	io.WriteString(c, strings.Repeat("x", 30_000_000)) // until all buffers are full
	began := time.Now()
	if !eventually(func() bool { return gauge(t, reg, "mulligan_requests_in_flight", "up") == 0 }) {
		t.Errorf("still in flight after %v", time.Since(began))
	}
}
