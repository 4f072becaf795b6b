package proxy_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mulligan/metrics"
	"mulligan/policy"
	"mulligan/proxy"
	"mulligan/proxy/certs"
)

// BenchmarkInterceptedHandshake compares the handshake with a client of an
// intercepted tunnel, for a name that is new and for one that is not, with that of
// a bare crypto/tls server, in interleaved rounds.
func BenchmarkInterceptedHandshake(b *testing.B) {
	ca, err := certs.New([]string{"*.bench.test"})
	if err != nil {
		b.Fatal(err)
	}
	u := upstream("bench")
	u.Hosts = []policy.HostPattern{{Name: "bench.test", Wildcard: true}}
	u.TLS.Intercept = true
	srv, err := proxy.New(proxy.Options{
		Proxy: "127.0.0.1:0", Metrics: metrics.New(prometheus.NewRegistry()),
		Log:    slog.New(slog.DiscardHandler), // clients that ask for nothing look as if they did not trust the CA
		Signer: func() (proxy.Signer, error) { return ca, nil },
	}, settings(u))
	if err != nil {
		b.Fatal(err)
	}
	srv.Start()
	b.Cleanup(srv.Close)
	leaf, err := ca.Leaf("bare.bench.test")
	if err != nil {
		b.Fatal(err)
	}
	bare, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{*leaf}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { bare.Close() })
	go func() {
		for {
			nc, err := bare.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				if nc.(*tls.Conn).Handshake() == nil {
					nc.Read(make([]byte, 1))
				}
			}()
		}
	}()
	roots := x509.NewCertPool()
	roots.AddCert(ca.Root())
	// The connection is there before the clock starts: what is compared is TLS.
	handshake := func(addr, name string, tunnel bool) time.Duration {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		defer nc.Close()
		if tunnel {
			fmt.Fprintf(nc, "CONNECT %s:443 HTTP/1.1\r\nHost: %s:443\r\n\r\n", name, name)
			readHead(bufio.NewReaderSize(oneByteReader{nc}, 16))
		}
		t := tls.Client(nc, &tls.Config{RootCAs: roots, ServerName: name})
		began := time.Now()
		if err := t.Handshake(); err != nil {
			b.Fatal(err)
		}
		return time.Since(began)
	}
	var first, later, plain time.Duration
	for n := 0; b.Loop(); n++ {
		name := fmt.Sprintf("n%d.bench.test", n)
		plain += handshake(bare.Addr().String(), "bare.bench.test", false)
		first += handshake(srv.Addr().String(), name, true)
		later += handshake(srv.Addr().String(), name, true)
	}
	b.ReportMetric(float64(first)/float64(plain), "first/bare")
	b.ReportMetric(float64(later)/float64(plain), "later/bare")
	b.ReportMetric(float64(plain.Microseconds())/float64(b.N), "bare-µs")
}
