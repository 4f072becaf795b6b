package blackbox

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// upstream is a scripted server: what it answers is written byte by byte by the
// test, and what it got is kept byte by byte for it.
type upstream struct {
	t    *testing.T
	ln   net.Listener
	addr string // 127.0.0.1:port

	mu    sync.Mutex
	seen  []*request
	conns []net.Conn
	open  int // connections whose script still runs
	peak  int // the most of them at once
}

// peer is one connection that the upstream accepted.
type peer struct {
	net.Conn
	r      *bufio.Reader
	up     *upstream
	number int // of the connection, from 1
}

// request is what an upstream received. Head has the exact bytes up to and with
// the empty line; the rest is read from it.
type request struct {
	message
	Method, Target string
	Conn           int       // number of the connection it came over
	At             time.Time // when its head was there
}

// upstreamOn serves every connection of a listener with the script.
func upstreamOn(t *testing.T, ln net.Listener, script func(p *peer)) *upstream {
	t.Helper()
	u := &upstream{t: t, ln: ln, addr: ln.Addr().String()}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_ = conn.SetDeadline(time.Now().Add(lifetime))
			u.mu.Lock()
			u.conns = append(u.conns, conn)
			p := &peer{Conn: conn, r: bufio.NewReader(conn), up: u, number: len(u.conns)}
			u.open++
			u.peak = max(u.peak, u.open)
			u.mu.Unlock()
			wg.Go(func() {
				script(p)
				conn.Close()
				u.mu.Lock()
				u.open--
				u.mu.Unlock()
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		u.closeAll()
		wg.Wait()
	})
	return u
}

// serve starts an upstream whose connections the script drives alone.
func serve(t *testing.T, script func(p *peer)) *upstream {
	t.Helper()
	return upstreamOn(t, listen(t, "127.0.0.1:0"), script)
}

func listen(t *testing.T, addr string) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// answer writes what one request gets, and says whether the connection lives on.
type answer func(p *peer, r *request) bool

// answers starts an upstream that gives its nth request the nth answer, and the
// last one to all that follow. Bodies are read whole first.
func answers(t *testing.T, list ...answer) *upstream {
	t.Helper()
	return serve(t, answering(list...))
}

// answering is the script of answers, for listeners of another kind.
func answering(list ...answer) func(p *peer) {
	var mu sync.Mutex
	n := 0
	return func(p *peer) {
		for {
			r := p.request()
			if r == nil {
				return
			}
			mu.Lock()
			next := list[min(n, len(list)-1)]
			n++
			mu.Unlock()
			if !next(p, r) {
				return
			}
		}
	}
}

// request reads one request with its body; nil at the end of the connection.
func (p *peer) request() *request {
	r := p.head()
	if r != nil {
		p.body(r)
	}
	return r
}

// head reads and records the head of one request; nil at the end of the connection.
func (p *peer) head() *request {
	head, err := readHead(p.r)
	if err != nil {
		return nil
	}
	r := &request{message: parseMessage(head), Conn: p.number, At: time.Now()}
	words := strings.SplitN(r.Line, " ", 3)
	r.Method = words[0]
	if len(words) > 1 {
		r.Target = words[1]
	}
	p.up.mu.Lock()
	defer p.up.mu.Unlock()
	p.up.seen = append(p.up.seen, r)
	return r
}

// body reads the body of the request; where it breaks off r.Broken says so.
func (p *peer) body(r *request) {
	body, trailer, err := readBody(p.r, r.message, false)
	p.up.mu.Lock()
	defer p.up.mu.Unlock()
	r.Body, r.Trailer, r.Broken, r.Whole = body, trailer, err, err == nil
}

// ended waits until the other side closes or resets the connection.
func (p *peer) ended() bool {
	_ = p.SetReadDeadline(time.Now().Add(patience))
	_, err := io.Copy(io.Discard, p.r)
	if e, ok := err.(net.Error); ok && e.Timeout() {
		return false
	}
	return true
}

// write sends text as it is.
func (p *peer) write(text string) { _, _ = io.WriteString(p.Conn, text) }

// count is the number of requests whose head arrived: the attempts seen.
func (u *upstream) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.seen)
}

// connections is the number of connections accepted.
func (u *upstream) connections() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.conns)
}

// most is the greatest number of connections that were open at once.
func (u *upstream) most() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.peak
}

// request is a copy of the nth request, from 1; the test fails without it.
func (u *upstream) request(n int) request {
	u.t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	if n > len(u.seen) {
		u.t.Fatalf("the upstream saw %d requests, not %d", len(u.seen), n)
	}
	return *u.seen[n-1]
}

// gap is the time between the arrival of requests n and n+1.
func (u *upstream) gap(n int) time.Duration {
	u.t.Helper()
	return u.request(n + 1).At.Sub(u.request(n).At)
}

// closeAll closes every connection.
func (u *upstream) closeAll() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, conn := range u.conns {
		conn.Close()
	}
}

// url is the absolute form of a path here.
func (u *upstream) url(path string) string { return "http://" + u.addr + path }

// port is the port the upstream listens on.
func (u *upstream) port() int { return u.ln.Addr().(*net.TCPAddr).Port }

// text answers with a status, fields ("Name: value") and a body with its length.
func text(status int, body string, fields ...string) answer {
	return func(p *peer, r *request) bool {
		var b strings.Builder
		fmt.Fprintf(&b, "HTTP/1.1 %d Scripted\r\nContent-Length: %d\r\n", status, len(body))
		for _, f := range fields {
			b.WriteString(f + "\r\n")
		}
		b.WriteString("\r\n")
		if r.Method != "HEAD" {
			b.WriteString(body)
		}
		p.write(b.String())
		return true
	}
}

// raw answers with bytes and keeps the connection open.
func raw(bytes string) answer {
	return func(p *peer, _ *request) bool { p.write(bytes); return true }
}

// rawClose answers with bytes and closes.
func rawClose(bytes string) answer {
	return func(p *peer, _ *request) bool { p.write(bytes); return false }
}

// hang answers nothing until the other side leaves.
func hang(p *peer, _ *request) bool { p.ended(); return false }

// fin closes in good order without a byte of answer.
func fin(_ *peer, _ *request) bool { return false }

// reset closes with a RST.
func reset(p *peer, _ *request) bool { abort(p.Conn); return false }

// abort closes a connection with a RST instead of a FIN.
func abort(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	conn.Close()
}
