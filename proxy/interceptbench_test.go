package proxy_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mulligan/policy"
)

// benchAnswer is 1 KiB, as most answers of an API are.
var benchAnswer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1024\r\n\r\n" + strings.Repeat("x", 1024)

// benchServe answers requests without a body until the client ends.
func benchServe(b *testing.B, config *tls.Config) net.Addr {
	b.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { ln.Close() })
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				if config != nil {
					nc = tls.Server(nc, config)
				}
				r := bufio.NewReader(nc)
				for {
					if readHead(r) == "" {
						return
					}
					if _, err := io.WriteString(nc, benchAnswer); err != nil {
						return
					}
				}
			}()
		}
	}()
	return ln.Addr()
}

// cpu returns the CPU time that the process has used.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// ask sends a request n times and reads the answers, each benchAnswer; it returns the
// CPU time that this took.
func ask(b *testing.B, nc net.Conn, r *bufio.Reader, req []byte, n int) time.Duration {
	b.Helper()
	before := cpu(b)
	for range n {
		if _, err := nc.Write(req); err != nil {
			b.Fatal(err)
		}
		if head := readHead(r); !strings.HasPrefix(head, "HTTP/1.1 200") {
			b.Fatal(head)
		}
		if _, err := r.Discard(1024); err != nil {
			b.Fatal(err)
		}
	}
	return cpu(b) - before
}

// BenchmarkInterceptedKeepAlive compares requests on one connection through an
// intercepted tunnel with plain ones, in interleaved rounds. The time is CPU time
// of all there is: client, proxy and upstream. Without a proxy, the same is measured
// for the client and the upstream alone, and what is left is the proxy's.
func BenchmarkInterceptedKeepAlive(b *testing.B) {
	theirs := newTestCA(b)
	leaf, err := theirs.Leaf("api.localhost")
	if err != nil {
		b.Fatal(err)
	}
	serverTLS := &tls.Config{Certificates: []tls.Certificate{*leaf}}
	plainUp, secureUp := benchServe(b, nil), benchServe(b, serverTLS)
	i := interceptAt(b, secureUp, theirs.file(b), nil, func(u *policy.Upstream) {
		u.Hosts = append(u.Hosts, policy.HostPattern{Name: "127.0.0.1"})
		u.TLS.ServerName = "api.localhost"
	})
	port := strconv.Itoa(secureUp.(*net.TCPAddr).Port)

	dial := func(addr string) net.Conn {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { nc.Close() })
		return nc
	}
	secure := func(nc net.Conn, roots *testCA) net.Conn {
		t := tls.Client(nc, &tls.Config{ServerName: "api.localhost", RootCAs: roots.pool()})
		if err := t.Handshake(); err != nil {
			b.Fatal(err)
		}
		return t
	}
	through := func(connect string) net.Conn {
		nc := dial(i.srv.Addr().String())
		if connect != "" {
			fmt.Fprintf(nc, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", connect, connect)
			readHead(bufio.NewReaderSize(oneByteReader{nc}, 16))
		}
		return nc
	}
	ways := []struct {
		name, target string
		nc           net.Conn
		r            *bufio.Reader
		cpu          time.Duration
	}{
		{name: "plain", target: "http://" + plainUp.String() + "/", nc: through("")},
		{name: "intercepted", target: "/", nc: secure(through("api.localhost:"+port), i.ca)},
		{name: "plain, no proxy", target: "/", nc: dial(plainUp.String())},
		{name: "TLS, no proxy", target: "/", nc: secure(dial(secureUp.String()), theirs)},
	}
	round := func(n int) {
		for w := range ways {
			way := &ways[w]
			if way.r == nil {
				way.r = bufio.NewReader(way.nc)
			}
			host := "api.localhost:" + port
			if strings.HasPrefix(way.target, "http") {
				host = plainUp.String()
			}
			req := []byte("GET " + way.target + " HTTP/1.1\r\nHost: " + host + "\r\nAccept: */*\r\nUser-Agent: bench\r\n\r\n")
			way.cpu += ask(b, way.nc, way.r, req, n)
		}
	}
	round(100)
	for w := range ways {
		ways[w].cpu = 0
	}
	b.ResetTimer()
	for left := b.N; left > 0; left -= 200 {
		round(min(left, 200))
	}
	for _, w := range ways {
		b.ReportMetric(float64(w.cpu.Microseconds())/float64(b.N), strings.ReplaceAll(w.name, " ", "-")+"-µs/op")
	}
	b.ReportMetric(float64(ways[1].cpu)/float64(ways[0].cpu), "intercepted/plain")
	b.ReportMetric(float64(ways[1].cpu-ways[3].cpu)/float64(ways[0].cpu-ways[2].cpu), "proxy-only-ratio")
}

type oneByteReader struct{ r io.Reader }

func (o oneByteReader) Read(p []byte) (int, error) { return o.r.Read(p[:1]) }
