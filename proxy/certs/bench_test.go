package certs

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"testing"
	"time"
)

// BenchmarkHandshake measures handshakes, dial included, with a name's first
// leaf and with a kept one, beside those of a bare crypto/tls server with one
// fixed certificate, in turns: first/bare has to stay below 2, later/bare below
// 1.1.
func BenchmarkHandshake(b *testing.B) {
	a := newTestAuthority(b)
	fixed, err := a.Leaf("fixed.test")
	if err != nil {
		b.Fatal(err)
	}
	bare := newBenchServer(b, a, &tls.Config{Certificates: []tls.Certificate{*fixed}})
	leaves := newBenchServer(b, a, &tls.Config{GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		return a.Leaf(h.ServerName)
	}})
	leaves.handshake(b, "later.test")
	var spent [3]time.Duration
	n := 0
	for b.Loop() {
		n++
		spent[0] += bare.handshake(b, "fixed.test")
		spent[1] += leaves.handshake(b, fmt.Sprintf("n%d.test", n))
		spent[2] += leaves.handshake(b, "later.test")
	}
	for i, name := range []string{"bare", "first", "later"} {
		b.ReportMetric(float64(spent[i].Microseconds())/float64(n), name+"-µs")
	}
	b.ReportMetric(float64(spent[1])/float64(spent[0]), "first/bare")
	b.ReportMetric(float64(spent[2])/float64(spent[0]), "later/bare")
}

// BenchmarkLeaf measures a leaf from the LRU, and one that has to be signed.
func BenchmarkLeaf(b *testing.B) {
	a := newTestAuthority(b)
	for _, bench := range []struct {
		name string
		host func(i int) string
	}{
		{"kept", func(int) string { return "kept.test" }},
		{"signed", func(i int) string { return fmt.Sprintf("n%d.test", i) }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := a.Leaf(bench.host(i)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// benchServer accepts connections, and does one handshake on each.
type benchServer struct {
	addr  string
	roots *x509.CertPool
}

func newBenchServer(b *testing.B, a *Authority, cfg *tls.Config) *benchServer {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { ln.Close() })
	cfg.SessionTicketsDisabled = true
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				s := tls.Server(c, cfg)
				s.Handshake()
				s.Read(make([]byte, 1)) // until the client closes
			}()
		}
	}()
	return &benchServer{ln.Addr().String(), pool(a)}
}

func (s *benchServer) handshake(b *testing.B, name string) time.Duration {
	start := time.Now()
	c, err := tls.Dial("tcp", s.addr, &tls.Config{RootCAs: s.roots, ServerName: name})
	if err != nil {
		b.Fatal(err)
	}
	spent := time.Since(start)
	c.Close()
	return spent
}
