package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// patience bounds all waiting: only what is broken takes so long.
const patience = 30 * time.Second

// newTestAuthority makes an authority that may sign any name.
func newTestAuthority(t testing.TB) *Authority {
	t.Helper()
	root, key, err := newRoot(nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := newAuthority(root, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func pool(a *Authority) *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AddCert(a.Root())
	return roots
}

// mustLeaf returns the leaf of a name.
func mustLeaf(t *testing.T, a *Authority, name string) *tls.Certificate {
	t.Helper()
	c, err := a.Leaf(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// logBuffer is a log that a test can read while it is written.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// count returns how many lines hold the text.
func (l *logBuffer) count(text string) int {
	n := 0
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func (l *logBuffer) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// start is Listener for a test, with a log that the test shows where it fails.
func start(t *testing.T, cfg Config) (*Managed, *logBuffer) {
	t.Helper()
	log := new(logBuffer)
	if cfg.Log == nil {
		cfg.Log = log.logger()
	}
	m, err := Listener(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return m, log
}

var ownNumber atomic.Int64

// ownName is a name that no other listener of this process has a certificate
// for. Certmagic holds a name's next renewal back, in the whole process, where a
// closed listener's was cancelled.
func ownName() string { return fmt.Sprintf("proxy%d.test", ownNumber.Add(1)) }

// listen opens a socket until the test ends.
func listen(t *testing.T, addr string) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

// serve accepts TLS connections, and holds them open until the client closes
// them. It returns the listener's address.
func serve(ln net.Listener, cfg *tls.Config) string {
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				c.SetDeadline(time.Now().Add(patience))
				s := tls.Server(c, cfg)
				if s.Handshake() == nil {
					s.Read(make([]byte, 1))
				}
			}()
		}
	}()
	return ln.Addr().String()
}

// dial does one handshake and returns what the server showed.
func dial(addr string, cfg *tls.Config) (tls.ConnectionState, error) {
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", addr, cfg)
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer c.Close()
	return c.ConnectionState(), nil
}

// until polls until the condition holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatal("never: ", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
