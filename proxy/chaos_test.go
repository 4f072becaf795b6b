package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"mulligan/policy"
)

// TestNothingLeaksUnderChaos: clients and upstreams that break off anywhere
// leave no goroutine, no gauge and no booked byte behind.
func TestNothingLeaksUnderChaos(t *testing.T) {
	addr := rawServe(t, func(n int, c net.Conn, r *bufio.Reader) {
		for {
			head := readHead(r)
			if head == "" {
				return
			}
			early := rand.IntN(3) == 0
			if !early {
				if strings.Contains(head, "chunked") {
					for {
						line, err := r.ReadString('\n')
						if err != nil {
							return
						}
						if line == "0\r\n" {
							r.ReadString('\n')
							break
						}
					}
				} else if i := strings.Index(head, "Content-Length: "); i >= 0 {
					var n int64
					fmt.Sscanf(head[i:], "Content-Length: %d", &n)
					if _, err := io.CopyN(io.Discard, r, n); err != nil {
						return
					}
				}
			}
			switch rand.IntN(12) {
			case 0:
				return
			case 1:
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
				return
			case 2:
				io.WriteString(c, "HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
				time.Sleep(20 * time.Millisecond)
				return
			case 3:
				io.WriteString(c, unavailable)
			case 4:
				io.WriteString(c, "rubbish\r\n\r\n")
				return
			case 5:
				time.Sleep(30 * time.Millisecond)
				return
			case 6:
				c.(*net.TCPConn).SetLinger(0)
				return
			case 7:
				io.WriteString(c, switching)
				io.Copy(c, r)
				return
			case 8:
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n"+strings.Repeat("y", 300000))
			case 9:
				io.WriteString(c, "HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: t\r\n\r\n2\r\nok\r\n0\r\nt: 1\r\n\r\n")
			default:
				io.WriteString(c, ok)
			}
			if early {
				return
			}
		}
	})
	u := upstream("up")
	u.Hosts = []policy.HostPattern{{Name: "127.0.0.1"}}
	u.Connections.MaxPerEndpoint = 8
	u.Default.Timeout.Attempt = 15 * time.Millisecond
	u.Default.Timeout.Total = 200 * time.Millisecond
	u.Default.Timeout.Idle = 100 * time.Millisecond
	u.Default.Timeout.TunnelIdle = 100 * time.Millisecond
	u.Default.Buffer.Request = 40_000
	u.Budget.Burst = 1000
	srv, reg := startWith(t, settings(u), nil, nil)
	before := runtime.NumGoroutine()
	var all sync.WaitGroup
	for range 24 {
		all.Go(func() {
			for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
				c, err := net.Dial("tcp", srv.Addr().String())
				if err != nil {
					t.Error(err)
					return
				}
				for range 1 + rand.IntN(4) {
					chaoticRequest(c, addr)
				}
				if rand.IntN(3) == 0 {
					c.(*net.TCPConn).SetLinger(0)
				}
				c.Close()
			}
		})
	}
	all.Wait()
	for _, name := range []string{"mulligan_requests_in_flight", "mulligan_retries_waiting", "mulligan_tunnels_open", "mulligan_buffered_bytes"} {
		if !eventually(func() bool { return gauge(t, reg, name, "up") == 0 }) {
			t.Errorf("%s stays at %v", name, gauge(t, reg, name, "up"))
		}
	}
	if !eventually(func() bool { return runtime.NumGoroutine() <= before+20 }) {
		b := make([]byte, 1<<20)
		t.Errorf("%d goroutines, %d before\n%s", runtime.NumGoroutine(), before, b[:runtime.Stack(b, true)])
	}
}

func chaoticRequest(c net.Conn, addr string) {
	c.SetDeadline(time.Now().Add(time.Duration(20+rand.IntN(400)) * time.Millisecond))
	method := []string{"GET", "PUT", "POST"}[rand.IntN(3)]
	extra, body := "", ""
	if method != "GET" {
		switch rand.IntN(4) {
		case 0:
			body = strings.Repeat("x", rand.IntN(100_000))
			extra = fmt.Sprintf("Content-Length: %d\r\n", len(body))
		case 1:
			extra, body = "Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n"
		case 2:
			piece := strings.Repeat("z", 30_000)
			extra, body = "Transfer-Encoding: chunked\r\n", fmt.Sprintf("%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n", len(piece), piece, len(piece), piece)
		case 3:
			extra, body = "Transfer-Encoding: chunked\r\n", "5\r\nhello\r\nbad\r\n"
		}
		if rand.IntN(4) == 0 {
			extra += "Expect: 100-continue\r\n"
		}
	} else if rand.IntN(3) == 0 {
		extra = "Connection: Upgrade\r\nUpgrade: foo\r\n"
	}
	head := fmt.Sprintf("%s http://%s/ HTTP/1.1\r\nHost: x\r\n%s\r\n", method, addr, extra)
	if rand.IntN(5) == 0 {
		head = fmt.Sprintf("CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n", addr)
		body = []string{"\x16\x03\x01", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"}[rand.IntN(2)]
	}
	io.WriteString(c, head)
	if rand.IntN(2) == 0 {
		time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
	}
	if rand.IntN(6) == 0 && len(body) > 0 {
		body = body[:rand.IntN(len(body))]
	}
	io.WriteString(c, body)
	if rand.IntN(3) > 0 {
		c.Read(make([]byte, 1+rand.IntN(400_000)))
	}
}
