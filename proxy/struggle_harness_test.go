package proxy_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/policy"
	"mulligan/proxy"
)

// peer is an upstream's endpoint in virtual time.
type peer struct {
	b      *bubble
	answer func(n int, req *http.Request) string // to the n-th request, from 1; "" hangs

	mu    sync.Mutex
	hits  int
	conns int
	ended int // connections that the proxy closed while they were without an answer
}

// serve runs a peer under the address.
func (b *bubble) serve(addr string, answer func(n int, req *http.Request) string) *peer {
	p := &peer{b: b, answer: answer}
	ln, _ := b.net.Listen("", addr)
	b.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go p.conn(c)
		}
	}()
	return p
}

func (p *peer) conn(c net.Conn) {
	defer c.Close()
	p.mu.Lock()
	p.conns++
	p.mu.Unlock()
	r := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		io.Copy(io.Discard, req.Body)
		p.mu.Lock()
		p.hits++
		n := p.hits
		p.mu.Unlock()
		answer := p.answer(n, req)
		if answer == "" {
			io.Copy(io.Discard, r)
			p.mu.Lock()
			p.ended++
			p.mu.Unlock()
			return
		}
		answer, half := strings.CutSuffix(answer, andBreaks)
		for i, part := range strings.Split(answer, aSecond) {
			if i > 0 {
				time.Sleep(time.Second)
			}
			if part == "" { // which a pipe would make a read of nothing
				continue
			}
			if _, err := io.WriteString(c, part); err != nil {
				p.mu.Lock()
				p.ended++
				p.mu.Unlock()
				return
			}
		}
		if half {
			return
		}
	}
}

// What an answer has in it that is not sent.
const (
	aSecond   = "\x00" // time passes
	andBreaks = "\x01" // at its end: the connection is closed
)

func (p *peer) seen() (hits, ended int) {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hits, p.ended
}

// always answers every request alike.
func always(answer string) func(int, *http.Request) string {
	return func(int, *http.Request) string { return answer }
}

// script answers with one after the other, and then on with the last.
func script(all ...string) func(int, *http.Request) string {
	return func(n int, _ *http.Request) string { return all[min(n, len(all))-1] }
}

// lateBy answers after a time.
func lateBy(d time.Duration, answer string) func(int, *http.Request) string {
	return func(int, *http.Request) string {
		time.Sleep(d)
		return answer
	}
}

// struggling is an upstream "up" whose endpoints are a:80, b:80 and so on.
func struggling(endpoints int, change func(u *policy.Upstream)) *proxy.Settings {
	u := upstream("up")
	u.Hosts = []policy.HostPattern{{Name: "up"}}
	for i := range endpoints {
		u.Endpoints = append(u.Endpoints, policy.Endpoint{Scheme: "http", Host: string(rune('a' + i)), Port: 80})
	}
	if change != nil {
		change(u)
	}
	return settings(u)
}

// inTrouble runs f with a proxy for s; f makes the peers.
func inTrouble(t *testing.T, s *proxy.Settings, f func(b *bubble)) {
	t.Helper()
	inBubble(t, s, answers(), func(b *bubble) {
		f(b)
		time.Sleep(time.Minute) // for peers that are still at their answer
	})
}

// client is a client's end of a connection whose other end sees that it is closed,
// as that of a socket does.
type client struct {
	net.Conn
	gone *atomic.Bool
}

func (c client) Close() error {
	c.gone.Store(true)
	return c.Conn.Close()
}

type clientsEnd struct {
	net.Conn
	gone *atomic.Bool
}

func (c clientsEnd) PeerGone() bool { return c.gone.Load() }

// open connects a client whose leaving is seen.
func (b *bubble) open() net.Conn {
	ours, theirs := net.Pipe()
	gone := new(atomic.Bool)
	b.net.mu.Lock()
	l := b.net.listeners["proxy:1"]
	b.net.mu.Unlock()
	l.conns <- clientsEnd{theirs, gone}
	return client{ours, gone}
}

// get sends one request on a connection of its own and returns the whole answer.
func (b *bubble) get() reply { return b.request(getUp) }

type reply struct {
	status int
	stop   string // Proxy-Status, without the name in front
	after  string // Retry-After
	body   string
}

func (b *bubble) request(text string) reply {
	c := b.open()
	defer c.Close()
	resp := b.send(c, text)
	body, _ := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, strings.TrimPrefix(resp.Header.Get("Proxy-Status"), "mulligan; "), resp.Header.Get("Retry-After"), string(body)}
}

// later sends a request, and the answer comes when it does.
func (b *bubble) later(text string) <-chan reply {
	answer := make(chan reply, 1)
	go func() { answer <- b.request(text) }()
	return answer
}

func (b *bubble) want(got reply, status int, stop string) {
	b.Helper()
	if got.status != status || got.stop != stop {
		b.Errorf("%d %q, want %d %q", got.status, got.stop, status, stop)
	}
}

func withBreaker(u *policy.Upstream) {
	u.Breaker = policy.BreakerConfig{FailureRatio: 0.5, MinRequests: 4, Window: 10 * time.Second, OpenFor: 5 * time.Second, MaxOpenFor: time.Minute, Probes: 1}
}

const fiveOhThree = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy"

const hinted503 = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 10\r\nContent-Length: 0\r\n\r\n"
const hinted429 = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 10\r\nContent-Length: 0\r\n\r\n"

// value is the sum of the series that have the labels, name=value each.
func (b *bubble) value(name string, labels ...string) float64 {
	b.Helper()
	synctest.Wait()
	sum, found := seriesSum(b, b.reg, name, labels...)
	if !found {
		b.Errorf("there is no %s%v", name, labels)
	}
	return sum
}

// expect looks at a value.
func (b *bubble) expect(name string, want float64, labels ...string) {
	b.Helper()
	if got := b.value(name, labels...); got != want {
		b.Errorf("%s%v is %v, want %v", name, labels, got, want)
	}
}

// balanced looks for what a request should have given back.
func (b *bubble) balanced() {
	b.Helper()
	b.expect("mulligan_requests_in_flight", 0, "upstream=up")
	b.expect("mulligan_retries_waiting", 0, "upstream=up")
	b.expect("mulligan_buffered_bytes", 0)
}
