package h2

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"mulligan/proxy/h1"
)

// tlsPair is tcpPair with TLS on both ends.
func tlsPair(t testing.TB) (client, server *tls.Conn) {
	t.Helper()
	borrowed := httptest.NewUnstartedServer(nil)
	borrowed.StartTLS()
	defer borrowed.Close()
	roots := x509.NewCertPool()
	roots.AddCert(borrowed.Certificate())
	a, b := tcpPair(t)
	client = tls.Client(a, &tls.Config{RootCAs: roots, ServerName: "example.com", NextProtos: []string{"h2"}})
	server = tls.Server(b, &tls.Config{Certificates: borrowed.TLS.Certificates, NextProtos: []string{"h2"}})
	done := make(chan error, 1)
	go func() { done <- server.Handshake() }()
	if err := errors.Join(client.Handshake(), <-done); err != nil {
		t.Fatal(err)
	}
	return client, server
}

func TestOverTLS(t *testing.T) {
	a, b := tlsPair(t)
	sc := serve(t, b, ServerConfig{}, echo)
	c := dial(t, a, ClientConfig{})
	for _, size := range []int{0, 10, 1 << 20} {
		s := open(t, c)
		s.RequestLine("POST", []byte("/"))
		s.FieldString("Host", "up.test")
		s.EndHead(h1.Length, int64(size))
		body := string(pattern(size))
		if _, err := s.FinishAndReadResponse([]byte(body), nil, "POST"); err != nil {
			t.Fatal(err)
		}
		if got, err := readAll(s); got != "POST / "+body || err != nil {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
	if c.NetConn() != a {
		t.Error("another connection")
	}
	sc.Drain()
	eventually(t, "the connection ends", func() bool { return !usable(c) })
}

// TestAlert: the peer's TLS alert is found in the error.
func TestAlert(t *testing.T) {
	a, b := tcpPair(t)
	server := tls.Server(b, &tls.Config{Certificates: nil, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, errors.New("no") }})
	go server.Handshake()
	c := dial(t, tls.Client(a, &tls.Config{InsecureSkipVerify: true}), ClientConfig{})
	s := c.Open()
	if s == nil {
		return // it has failed already
	}
	get(s, "/")
	_, err := s.FinishAndReadResponse(nil, nil, "GET")
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" {
		t.Errorf("%v", err)
	}
	if h1.KindOf(err) != h1.NothingWritten {
		t.Errorf("%v", err)
	}
}

// TestCloseReset: the peer sees a reset, also below TLS, and never a goodbye.
func TestCloseReset(t *testing.T) {
	a, b := tlsPair(t)
	c := NewClientConn(a, ClientConfig{})
	s := open(t, c)
	got := make(chan error, 1)
	go func() { _, err := s.ReadResponse("GET"); got <- err }()
	read := make(chan error, 1)
	go func() { _, err := io.Copy(io.Discard, b); read <- err }()
	eventually(t, "the server has read the preface", func() bool { c.mu.Lock(); defer c.unlock(); return c.moved > 0 })
	c.CloseReset()
	if err := <-read; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the peer got %v", err)
	}
	wantError(t, <-got, h1.NothingWritten, 0)
}

// TestCloseWhileBlocked: closing waits for no write, and all goroutines end.
func TestCloseWhileBlocked(t *testing.T) {
	a, b := tlsPair(t)
	closed := make(chan struct{})
	c := NewClientConn(a, ClientConfig{OnClose: func() { close(closed) }})
	_ = b // reads nothing
	c.mu.Lock()
	c.sendWindow, c.peerInitial = maxWindow, maxWindow
	c.unlock()
	s := c.Open()
	s.RequestLine("POST", []byte("/"))
	s.FieldString("Host", "up.test")
	s.EndHead(h1.Chunked, 0)
	got := make(chan error, 1)
	go func() { got <- s.Body(make([]byte, 64<<20)) }()
	last := int64(-1)
	eventually(t, "the socket is full", func() bool {
		time.Sleep(20 * time.Millisecond)
		n := s.Written()
		full := n > 0 && n == last
		last = n
		return full
	})
	c.Close()
	if err := <-got; h1.KindOf(err) != h1.ResetBeforeHeader {
		t.Errorf("%v", err)
	}
	wait(t, closed, "the end")
}
