package proxy_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mulligan/policy"
)

// oneConnection are settings under which all requests share one connection to the
// upstream, and what stands still is given up after a second.
func oneConnection() *policy.Upstream {
	u := upstream("up")
	u.Hosts = []policy.HostPattern{{Name: "up"}}
	u.Connections.MaxPerEndpoint = 1
	u.Default.Timeout.Idle = time.Second
	return u
}

// TestWaitIsNotAnothersStall: a request that waited for its retry got 408 when an
// upload stood still on the connection that it had given back.
func TestWaitIsNotAnothersStall(t *testing.T) {
	u := oneConnection()
	u.Default.Retry.MaxAttempts = 2
	var heads atomic.Int32
	up := func(c net.Conn) {
		for r := bufio.NewReaderSize(c, 16); ; {
			switch head := readHead(r); {
			case head == "":
				return
			case strings.HasPrefix(head, "PUT"):
				time.Sleep(3 * time.Second) // and reads nothing of the body
				return
			case heads.Add(1) == 1:
				io.WriteString(c, "HTTP/1.1 503 Busy\r\nRetry-After: 2\r\nContent-Length: 0\r\n\r\n")
			default:
				io.WriteString(c, ok)
			}
		}
	}
	inBubble(t, settings(u), up, func(b *bubble) {
		waits, uploads := b.dial(), b.dial()
		go func() {
			time.Sleep(time.Second / 2)
			io.WriteString(uploads, "PUT http://up/ HTTP/1.1\r\nHost: up\r\nContent-Length: 5000000\r\n\r\n")
			uploads.Write(make([]byte, 5000000))
		}()
		if resp := b.send(waits, getUp); resp.StatusCode != 200 {
			b.Error(resp.Status, resp.Header)
		}
		waits.Close()
		uploads.Close()
		time.Sleep(time.Minute) // the upstream ends too
	})
}

// TestUnreadAnswerBesideABusyConnection: a client that read nothing was never
// given up while another used the connection that its answer had come on.
func TestUnreadAnswerBesideABusyConnection(t *testing.T) {
	inBubble(t, settings(oneConnection()), answers(repeat(ok, 100)...), func(b *bubble) {
		busy, stuck := b.dial(), b.dial()
		io.WriteString(stuck, getUp)
		for range 50 {
			b.send(busy, getUp)
			time.Sleep(100 * time.Millisecond)
		}
		stuck.SetWriteDeadline(time.Now().Add(time.Millisecond))
		if _, err := io.WriteString(stuck, "x"); !errors.Is(err, io.ErrClosedPipe) {
			b.Errorf("the connection is still held: %v", err)
		}
		busy.Close()
		stuck.Close()
	})
}

func repeat(s string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = s
	}
	return all
}

// TestHeldResponseEndsAsIdlePasses: the rest of a held response came in the very
// moment in which timeout.idle passed, and the client got nothing at all.
func TestHeldResponseEndsAsIdlePasses(t *testing.T) {
	for _, status := range []string{"200 OK", "503 Busy"} {
		u := oneConnection()
		u.Default.Timeout.Attempt = 0
		u.Default.Retry.MaxAttempts = 2
		u.Budget.Burst = 1e6
		var late atomic.Int64
		up := func(c net.Conn) {
			for r := bufio.NewReaderSize(c, 16); readHead(r) != ""; {
				fmt.Fprintf(c, "HTTP/1.1 %s\r\nContent-Length: 4\r\n\r\nha", status)
				time.Sleep(time.Second + time.Duration(late.Load()))
				io.WriteString(c, "lf")
			}
		}
		inBubble(t, settings(u), up, func(b *bubble) {
			c := b.dial()
			for ms := range 20 {
				late.Store(int64(time.Duration(ms) * time.Millisecond))
				for range 20 {
					resp := b.send(c, getUp)
					if resp.StatusCode == 408 {
						b.Fatal(resp.Status, resp.Header)
					}
					if resp.Header.Get("Connection") == "close" {
						c.Close()
						c = b.dial()
					}
				}
			}
			c.Close()
			time.Sleep(time.Minute)
		})
	}
}

// TestEmptyBodyNeedsNoRoom: a PUT of nothing could not be sent again while others
// had taken more than buffer_total.
func TestEmptyBodyNeedsNoRoom(t *testing.T) {
	u := oneConnection()
	u.Connections.MaxPerEndpoint = 0
	u.Default.Retry.MaxAttempts = 2
	s := settings(u)
	s.BufferTotal = 1000
	up := func(c net.Conn) {
		for r := bufio.NewReaderSize(c, 4096); ; {
			switch head := readHead(r); {
			case head == "":
				return
			case strings.Contains(head, "/wait"):
				io.WriteString(c, "HTTP/1.1 503 Busy\r\nRetry-After: 3\r\nContent-Length: 2000\r\n\r\n"+strings.Repeat("w", 2000))
			case strings.Contains(head, "chunked"):
				readHead(r)
				fallthrough
			default:
				io.WriteString(c, unavailable)
			}
		}
	}
	inBubble(t, s, up, func(b *bubble) {
		waits := b.dial()
		io.WriteString(waits, "GET http://up/wait HTTP/1.1\r\nHost: up\r\n\r\n")
		time.Sleep(time.Second)
		for _, body := range []string{"Content-Length: 0\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"} {
			c := b.dial()
			resp := b.send(c, "PUT http://up/ HTTP/1.1\r\nHost: up\r\n"+body)
			if ps := resp.Header.Get("Proxy-Status"); !strings.Contains(ps, "attempts=2; stop=max_attempts") {
				b.Errorf("%q: %s", body, ps)
			}
			c.Close()
		}
		waits.Close()
	})
}

// TestWindowEndsBehindAnInterim: where the window ended between the writing of a
// 103 and the note that it was written, the 504 was lost.
func TestWindowEndsBehindAnInterim(t *testing.T) {
	u := oneConnection()
	u.Default.Timeout.Total, u.Default.Timeout.Idle = 2*time.Second, time.Hour
	u.Default.Retry.MaxAttempts = 1
	up := func(c net.Conn) {
		readHead(bufio.NewReaderSize(c, 16))
		time.Sleep(time.Second)
		io.WriteString(c, "HTTP/1.1 103 Early Hints\r\n\r\n")
		io.Copy(io.Discard, c)
	}
	listen := func(n *memNet, network, addr string) (net.Listener, error) {
		ln, err := n.Listen(network, addr)
		return slowListener{ln}, err
	}
	inBubbleOn(t, settings(u), listen, up, func(b *bubble) {
		c := b.dial()
		r := bufio.NewReader(c)
		io.WriteString(c, getUp)
		readHead(r)
		if head := readHead(r); !strings.HasPrefix(head, "HTTP/1.1 504 ") {
			b.Errorf("%q", head)
		}
		c.Close()
		time.Sleep(time.Minute)
	})
}

// slowConn is a connection whose writer loses its turn behind a 103.
type slowConn struct{ net.Conn }

func (c slowConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if bytes.Contains(p, []byte(" 103 ")) {
		time.Sleep(1500 * time.Millisecond)
	}
	return n, err
}

type slowListener struct{ net.Listener }

func (l slowListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return slowConn{c}, nil
}

// TestWindowEndsInTheQueue: a request that never got a connection counted as an
// attempt, which no upstream had seen.
func TestWindowEndsInTheQueue(t *testing.T) {
	up := func(c net.Conn) {
		for r := bufio.NewReaderSize(c, 16); readHead(r) != ""; {
			time.Sleep(5 * time.Second)
			io.WriteString(c, ok)
		}
	}
	u := oneConnection()
	u.Default.Timeout.Idle = 0
	inBubble(t, settings(u), up, func(b *bubble) {
		first, second := b.dial(), b.dial()
		io.WriteString(first, getUp)
		time.Sleep(time.Second)
		resp := b.send(second, "GET http://up/ HTTP/1.1\r\nHost: up\r\nMulligan-Policy: total=1\r\n\r\n")
		if ps := resp.Header.Get("Proxy-Status"); resp.StatusCode != 504 || ps != "mulligan; attempts=0; stop=window; error=http_response_timeout" {
			b.Error(resp.Status, ps)
		}
		if n := counter(b.T, b.reg, "mulligan_attempts_total"); n != 0 {
			b.Errorf("%v attempts", n)
		}
		if n := counter(b.T, b.reg, "mulligan_requests_total", "outcome=failed"); n != 1 {
			b.Errorf("%v failed", n)
		}
		first.Close()
		second.Close()
		time.Sleep(time.Minute)
	})
}

// TestMalformedUploadBehindAnAnswer: an answer in hand was lost where the rest of
// the upload proved malformed in that moment.
func TestMalformedUploadBehindAnAnswer(t *testing.T) {
	up := func(c net.Conn) {
		readHead(bufio.NewReaderSize(c, 16))
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		io.Copy(io.Discard, c)
	}
	inBubble(t, settings(), up, func(b *bubble) {
		for range 300 {
			c := b.dial()
			go func() {
				io.WriteString(c, "POST http://up/ HTTP/1.1\r\nHost: up\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
				io.WriteString(c, "xyz\r\n")
			}()
			if head := readHead(bufio.NewReader(c)); !strings.HasPrefix(head, "HTTP/1.1 200 ") && !strings.HasPrefix(head, "HTTP/1.1 400 ") {
				b.Fatalf("%q", head)
			}
			c.Close()
		}
	})
}
