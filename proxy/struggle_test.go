package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
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

// TestBreakerOpensAndCloses: from the first failure over the ratio on nothing more
// is sent; then one probe is, and by its success all is as before.
func TestBreakerOpensAndCloses(t *testing.T) {
	inTrouble(t, struggling(1, withBreaker), func(b *bubble) {
		well := false
		a := b.serve("a:80", func(int, *http.Request) string {
			if well {
				return ok
			}
			return fiveOhThree
		})
		b.want(b.get(), 503, "attempts=4; stop=max_attempts; received-status=503")
		first := b.get()
		b.want(first, 503, "attempts=0; stop=circuit_open; error=destination_unavailable")
		if first.after != "5" && first.after != "6" {
			b.Errorf("Retry-After: %q", first.after)
		}
		if hits, _ := a.seen(); hits != 4 {
			b.Errorf("%d requests reached the upstream", hits)
		}
		b.expect("mulligan_circuit_open", 1, "endpoint=http://a", "upstream=up")
		time.Sleep(6 * time.Second)
		well = true
		b.want(b.get(), 200, "")
		b.want(b.get(), 200, "")
		b.expect("mulligan_circuit_open", 0, "endpoint=http://a", "upstream=up")
	})
}

// TestBreakerStopsRetries: a circuit that opens under a request's hands gives it
// the upstream's last answer.
func TestBreakerStopsRetries(t *testing.T) {
	inTrouble(t, struggling(1, func(u *policy.Upstream) { withBreaker(u); u.Breaker.MinRequests = 2 }), func(b *bubble) {
		b.serve("a:80", always(fiveOhThree))
		got := b.get()
		b.want(got, 503, "attempts=2; stop=circuit_open; received-status=503")
		if got.body != "busy" {
			b.Errorf("body %q", got.body)
		}
	})
}

// TestBreakerProbes: no second probe is let through, nor one more when a probe's
// client leaves; one that hangs does not keep its place for ever.
func TestBreakerProbes(t *testing.T) {
	inTrouble(t, struggling(1, func(u *policy.Upstream) { withBreaker(u); u.Default.Timeout.Attempt = 10 * time.Second }), func(b *bubble) {
		a := b.serve("a:80", script(fiveOhThree, fiveOhThree, fiveOhThree, fiveOhThree, "", "", ok))
		b.get()
		time.Sleep(6 * time.Second)
		c := b.open()
		io.WriteString(c, getUp) // the probe
		time.Sleep(time.Second)
		b.want(b.get(), 503, "attempts=0; stop=circuit_open; error=destination_unavailable")
		c.Close() // its place is free, and it says nothing
		time.Sleep(time.Second)
		hanging := b.later(getUp)
		time.Sleep(time.Second)
		b.want(b.get(), 503, "attempts=0; stop=circuit_open; error=destination_unavailable")
		time.Sleep(5 * time.Second)
		b.want(b.get(), 200, "")
		if hits, _ := a.seen(); hits != 7 {
			b.Errorf("%d requests reached the upstream", hits)
		}
		b.want(<-hanging, 200, "attempts=2; stop=success; received-status=200")
	})
}

// TestBreakerNeutral: 4xx and clients that leave say nothing of the upstream.
func TestBreakerNeutral(t *testing.T) {
	inTrouble(t, struggling(1, withBreaker), func(b *bubble) {
		b.serve("a:80", func(n int, _ *http.Request) string {
			switch {
			case n <= 20:
				return "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
			case n <= 40:
				return ""
			}
			return fiveOhThree
		})
		for range 20 {
			b.get()
		}
		for range 20 {
			c := b.open()
			io.WriteString(c, getUp)
			time.Sleep(100 * time.Millisecond)
			c.Close()
			time.Sleep(100 * time.Millisecond)
		}
		b.want(b.get(), 503, "attempts=4; stop=max_attempts; received-status=503") // 4 of 4, not 4 of 44
		b.want(b.get(), 503, "attempts=0; stop=circuit_open; error=destination_unavailable")
	})
}

// TestBreakerCountsSlow: what is not cut, since nothing could follow, is as bad
// once timeout.attempt has passed.
func TestBreakerCountsSlow(t *testing.T) {
	inTrouble(t, struggling(1, withBreaker), func(b *bubble) {
		b.serve("a:80", lateBy(6*time.Second, ok))
		var all []<-chan reply
		for range 4 {
			all = append(all, b.later("POST http://up/ HTTP/1.1\r\nHost: up\r\nContent-Length: 0\r\n\r\n"))
		}
		time.Sleep(5500 * time.Millisecond)
		b.want(b.get(), 503, "attempts=0; stop=circuit_open; error=destination_unavailable")
		for _, answer := range all {
			b.want(<-answer, 200, "")
		}
	})
}

// TestRetryGoesElsewhere: with two endpoints a retry goes to the other one.
func TestRetryGoesElsewhere(t *testing.T) {
	inTrouble(t, struggling(2, nil), func(b *bubble) {
		a, c := b.serve("a:80", always(fiveOhThree)), b.serve("b:80", always(ok))
		for range 50 {
			if got := b.get(); got.status != 200 {
				b.Errorf("%+v", got)
			}
		}
		bad, _ := a.seen()
		if good, _ := c.seen(); good != 50 || bad > 25 { // it is avoided, too, since failures weigh
			b.Errorf("%d and %d", bad, good)
		}
	})
}

// TestOpenEndpointIsSkipped: the other one gets everything, and first attempts fail
// no more; when it is well again it gets its share.
func TestOpenEndpointIsSkipped(t *testing.T) {
	inTrouble(t, struggling(2, withBreaker), func(b *bubble) {
		well := false
		a := b.serve("a:80", func(int, *http.Request) string {
			if well {
				return ok
			}
			return fiveOhThree
		})
		c := b.serve("b:80", always(ok))
		for i := range 200 {
			if got := b.get(); got.status != 200 {
				b.Errorf("%d: %+v", i, got)
			}
			time.Sleep(20 * time.Millisecond)
		}
		if bad, _ := a.seen(); bad > 6 {
			b.Errorf("%d requests went to the open endpoint", bad)
		}
		b.expect("mulligan_circuit_open", 1, "endpoint=http://a", "upstream=up")
		b.expect("mulligan_circuit_open", 0, "endpoint=http://b", "upstream=up")
		well = true
		time.Sleep(time.Minute)
		before, _ := a.seen()
		for range 200 {
			b.want(b.get(), 200, "")
		}
		now, _ := a.seen()
		other, _ := c.seen()
		if now-before < 50 {
			b.Errorf("only %d of 200 go to the endpoint that is well again (%d)", now-before, other)
		}
	})
}

// TestAllCircuitsOpen: with every endpoint open it is 503 at once.
func TestAllCircuitsOpen(t *testing.T) {
	inTrouble(t, struggling(2, withBreaker), func(b *bubble) {
		b.serve("a:80", always(fiveOhThree))
		b.serve("b:80", always(fiveOhThree))
		for range 3 {
			b.get()
		}
		began := time.Now()
		b.want(b.get(), 503, "attempts=0; stop=circuit_open; error=destination_unavailable")
		within(b.T, time.Since(began), 0)
	})
}

const hinted503 = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 10\r\nContent-Length: 0\r\n\r\n"
const hinted429 = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 10\r\nContent-Length: 0\r\n\r\n"

// TestPause: a 503's hint holds back the retries of every request to the authority,
// a 429's those with the same credentials.
func TestPause(t *testing.T) {
	for name, test := range map[string]struct {
		hint       string
		credential string
		held       bool
	}{
		"503, anybody":             {hinted503, "Authorization: Bearer other\r\n", true},
		"429, the same":            {hinted429, "Authorization: Bearer one\r\n", true},
		"429, another":             {hinted429, "Authorization: Bearer other\r\n", false},
		"429, none":                {hinted429, "", false},
		"429, the same by its key": {hinted429, "X-API-Key: one\r\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			inTrouble(t, struggling(1, func(u *policy.Upstream) {
				u.Default.Timeout.Total = 0
				u.Default.Retry.RetryOn.Add("429")
			}), func(b *bubble) {
				b.serve("a:80", func(n int, req *http.Request) string {
					switch {
					case req.URL.Path == "/first" && n == 1:
						return test.hint
					case req.URL.Path == "/second" && n == 2:
						return fiveOhThree
					}
					return ok
				})
				first := b.later("GET http://up/first HTTP/1.1\r\nHost: up\r\nAuthorization: Bearer one\r\n\r\n")
				time.Sleep(2 * time.Second)
				began := time.Now()
				b.want(b.request("GET http://up/second HTTP/1.1\r\nHost: up\r\n"+test.credential+"\r\n"), 200, "attempts=2; stop=success; received-status=200")
				took := time.Since(began)
				if held := took >= 8*time.Second && took <= 10*time.Second+50*time.Millisecond; held != test.held {
					b.Errorf("waited %v", took)
				}
				b.want(<-first, 200, "attempts=2; stop=success; received-status=200")
			})
		})
	}
}

// TestPauseComesLate: a hint that comes while a retry waits holds that back, too.
func TestPauseComesLate(t *testing.T) {
	inTrouble(t, struggling(1, func(u *policy.Upstream) {
		u.Default.Timeout.Total = 0
		u.Default.Retry.Backoff = policy.Backoff{Initial: 4 * time.Second, Max: 4 * time.Second, Multiplier: 1, Strategy: policy.Constant, Jitter: policy.NoJitter}
	}), func(b *bubble) {
		b.serve("a:80", func(n int, req *http.Request) string { return []string{fiveOhThree, hinted503, ok, ok}[n-1] })
		began := time.Now()
		first := b.later(getUp)
		time.Sleep(2 * time.Second)
		second := b.later(getUp)
		b.want(<-first, 200, "attempts=2; stop=success; received-status=200")
		if took := time.Since(began); took < 12*time.Second || took > 15*time.Second {
			b.Errorf("retried after %v", took)
		}
		b.want(<-second, 200, "attempts=2; stop=success; received-status=200")
	})
}

// TestPauseTooLong: a hint that is not obeyed holds back nobody.
func TestPauseTooLong(t *testing.T) {
	inTrouble(t, struggling(1, func(u *policy.Upstream) { u.Default.Retry.RetryAfter = 5 * time.Second }), func(b *bubble) {
		b.serve("a:80", script(hinted503, fiveOhThree, ok))
		b.want(b.get(), 503, "attempts=1; stop=retry_after; received-status=503")
		began := time.Now()
		b.want(b.get(), 200, "attempts=2; stop=success; received-status=200")
		within(b.T, time.Since(began), 0)
	})
}

// TestConcurrency: so many attempts at once and no more; who finds no place in time
// gets 503 with Retry-After.
func TestConcurrency(t *testing.T) {
	inTrouble(t, struggling(1, func(u *policy.Upstream) {
		u.Concurrency = policy.Concurrency{Max: 2, Queue: 2, MaxWait: 3 * time.Second}
	}), func(b *bubble) {
		a := b.serve("a:80", lateBy(2*time.Second, ok))
		var all []<-chan reply
		for range 4 {
			all = append(all, b.later(getUp))
			time.Sleep(10 * time.Millisecond)
		}
		full := b.get()
		b.want(full, 503, "attempts=0; stop=overloaded; error=connection_limit_reached")
		if full.after == "" {
			b.Error("no Retry-After")
		}
		if hits, _ := a.seen(); hits != 2 {
			b.Errorf("%d at once", hits)
		}
		for _, answer := range all {
			b.want(<-answer, 200, "")
		}
		slow := b.later(getUp)
		again := b.later(getUp)
		time.Sleep(10 * time.Millisecond)
		c := b.open()
		io.WriteString(c, getUp)
		time.Sleep(50 * time.Millisecond)
		c.Close() // one that leaves the queue takes nobody's place
		b.want(<-slow, 200, "")
		b.want(<-again, 200, "")
		b.want(b.get(), 200, "")
		if hits, _ := a.seen(); hits != 7 {
			b.Errorf("%d requests reached the upstream", hits)
		}
	})
}

// TestConcurrencyUntilTheBodyEnds: the place is kept until the body has ended, and
// never while a retry waits.
func TestConcurrencyUntilTheBodyEnds(t *testing.T) {
	inTrouble(t, struggling(1, func(u *policy.Upstream) {
		u.Concurrency = policy.Concurrency{Max: 1, Queue: 4, MaxWait: 30 * time.Second}
		u.Default.Retry.Backoff = policy.Backoff{Initial: 4 * time.Second, Max: 4 * time.Second, Multiplier: 1, Jitter: policy.NoJitter}
	}), func(b *bubble) {
		b.serve("a:80", func(n int, req *http.Request) string {
			if n == 1 {
				return fiveOhThree
			}
			return ok
		})
		began := time.Now()
		first := b.later(getUp)
		time.Sleep(time.Second)
		b.want(b.get(), 200, "") // while the first waits
		within(b.T, time.Since(began), time.Second)
		b.want(<-first, 200, "attempts=2; stop=success; received-status=200")
		within(b.T, time.Since(began), 4*time.Second)
	})
}

// TestRateLimit: attempts are spaced, and what would wait for too long is refused.
func TestRateLimit(t *testing.T) {
	inTrouble(t, struggling(1, func(u *policy.Upstream) {
		u.RateLimit = policy.RateLimit{PerSecond: 2, Burst: 2, MaxWait: time.Second}
	}), func(b *bubble) {
		a := b.serve("a:80", always(ok))
		began := time.Now()
		var all []<-chan reply
		for range 8 {
			all = append(all, b.later(getUp))
		}
		good, refused := 0, 0
		for _, answer := range all {
			switch got := <-answer; {
			case got.status == 200:
				good++
			case got.status == 503 && got.stop == "attempts=0; stop=overloaded; error=connection_limit_reached" && got.after != "":
				refused++
			default:
				b.Errorf("%+v", got)
			}
		}
		if hits, _ := a.seen(); good != 4 || refused != 4 || hits != 4 {
			b.Errorf("%d and %d, %d reached the upstream", good, refused, hits)
		}
		within(b.T, time.Since(began), time.Second)
	})
}

// TestRateLimitHoldsFirstAttemptsBack: with rate_limit a hint holds back first
// attempts, too, as far as max_wait allows.
func TestRateLimitHoldsFirstAttemptsBack(t *testing.T) {
	inTrouble(t, struggling(1, func(u *policy.Upstream) {
		u.Default.Timeout.Total = 0
		u.RateLimit = policy.RateLimit{PerSecond: 100, Burst: 100, MaxWait: 9 * time.Second}
	}), func(b *bubble) {
		b.serve("a:80", script(hinted503, ok))
		first := b.later(getUp)
		time.Sleep(500 * time.Millisecond)
		refused := b.get()
		b.want(refused, 503, "attempts=0; stop=overloaded; error=connection_limit_reached")
		if refused.after != "10" {
			b.Errorf("Retry-After: %s", refused.after)
		}
		time.Sleep(3500 * time.Millisecond)
		began := time.Now()
		b.want(b.get(), 200, "")
		if took := time.Since(began); took < 6*time.Second || took > 8*time.Second {
			b.Errorf("held back for %v", took)
		}
		b.want(<-first, 200, "attempts=2; stop=success; received-status=200")
	})
}

func hedged(u *policy.Upstream) {
	u.Default.Hedge = policy.Hedge{Delay: 300 * time.Millisecond, Max: 1}
}

// TestHedge: the first acceptable response wins, and the loser is closed.
func TestHedge(t *testing.T) {
	inTrouble(t, struggling(2, hedged), func(b *bubble) {
		a, c := b.serve("a:80", always("")), b.serve("b:80", always(ok))
		sent := 0
		for range 20 {
			before, _ := a.seen()
			began := time.Now()
			got := b.get()
			if after, _ := a.seen(); after > before { // that went to the one that hangs first
				sent++
				b.want(got, 200, "attempts=2; stop=success; received-status=200")
				within(b.T, time.Since(began), 300*time.Millisecond)
			}
		}
		time.Sleep(time.Second)
		hung, ended := a.seen()
		if sent == 0 || hung != sent || ended != sent {
			b.Errorf("%d hedged, %d hung, of which %d were closed", sent, hung, ended)
		}
		if good, _ := c.seen(); good != 20 {
			b.Errorf("%d", good)
		}
		b.expect("mulligan_retries_total", float64(sent), "reason=hedge", "route=default", "upstream=up")
		b.expect("mulligan_requests_total", float64(sent), "outcome=success_after_retry", "route=default", "upstream=up")
		b.expect("mulligan_attempts_total", float64(sent), "result=cancelled", "route=default", "upstream=up")
	})
}

// TestHedgeLoses: the attempt itself may still win.
func TestHedgeLoses(t *testing.T) {
	inTrouble(t, struggling(1, hedged), func(b *bubble) {
		a := b.serve("a:80", func(n int, _ *http.Request) string {
			if n == 1 {
				time.Sleep(500 * time.Millisecond)
				return ok
			}
			return ""
		})
		b.want(b.get(), 200, "")
		time.Sleep(time.Second)
		if hits, ended := a.seen(); hits != 2 || ended != 1 {
			b.Errorf("%d, %d closed", hits, ended)
		}
		b.expect("mulligan_requests_total", 1, "outcome=success", "route=default", "upstream=up")
		b.expect("mulligan_attempts_total", 1, "result=cancelled", "route=default", "upstream=up")
	})
}

// TestHedgeFastFailureWaits: whichever fails first waits for its sibling.
func TestHedgeFastFailureWaits(t *testing.T) {
	for name, test := range map[string]struct {
		first, second func(int, *http.Request) string
		took          time.Duration
		stop          string
	}{
		"the attempt fails":       {lateBy(400*time.Millisecond, fiveOhThree), lateBy(400*time.Millisecond, ok), 700 * time.Millisecond, "attempts=2; stop=success; received-status=200"},
		"the hedge fails":         {lateBy(time.Second, ok), always(fiveOhThree), time.Second, ""},
		"both, the attempt first": {lateBy(400*time.Millisecond, fiveOhThree), lateBy(400*time.Millisecond, fiveOhThree), 700 * time.Millisecond, "attempts=2; stop=max_attempts; received-status=503"},
		"both, the hedge first":   {lateBy(time.Second, fiveOhThree), always(fiveOhThree), time.Second, "attempts=2; stop=max_attempts; received-status=503"},
		"both hang":               {always(""), always(""), 20 * time.Second, "attempts=2; stop=window; error=http_response_timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			inTrouble(t, struggling(1, func(u *policy.Upstream) { hedged(u); u.Default.Retry.MaxAttempts = 2 }), func(b *bubble) {
				a := b.serve("a:80", func(n int, req *http.Request) string {
					if n == 1 {
						return test.first(n, req)
					}
					return test.second(n, req)
				})
				began := time.Now()
				got := b.get()
				if got.stop != test.stop {
					b.Errorf("%d %q, want %q", got.status, got.stop, test.stop)
				}
				within(b.T, time.Since(began), test.took)
				if hits, _ := a.seen(); hits != 2 {
					b.Errorf("%d attempts", hits)
				}
				b.balanced()
			})
		})
	}
}

// TestHedgeThenRetry: attempts and hedges together stay within max_attempts, and a
// hung pair is cut by timeout.attempt where a retry follows.
func TestHedgeThenRetry(t *testing.T) {
	for _, most := range []int{3, 4} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			inTrouble(t, struggling(1, func(u *policy.Upstream) { hedged(u); u.Default.Retry.MaxAttempts = most }), func(b *bubble) {
				a := b.serve("a:80", script("", "", ok))
				began := time.Now()
				b.want(b.get(), 200, "attempts=3; stop=success; received-status=200")
				took := time.Since(began)
				if took < 5*time.Second || took > 5*time.Second+500*time.Millisecond {
					b.Errorf("took %v", took)
				}
				if hits, ended := a.seen(); hits != 3 || ended != 2 {
					b.Errorf("%d attempts, %d closed", hits, ended)
				}
				b.balanced()
			})
		})
	}
}

// TestHedgeOnlyWhatIsSafe: a POST is not, nor what the budget does not pay for.
func TestHedgeOnlyWhatIsSafe(t *testing.T) {
	for name, test := range map[string]struct {
		request string
		burst   float64
		hits    int
	}{
		"GET":          {getUp, 1, 2},
		"no budget":    {getUp, 0, 1},
		"POST":         {postUp, 1, 1},
		"keyed POST":   {strings.Replace(postUp, "\r\n\r\n", "\r\nIdempotency-Key: k\r\n\r\n", 1), 1, 2},
		"PUT":          {strings.Replace(postUp, "POST", "PUT", 1), 1, 2},
		"one attempt":  {strings.Replace(getUp, "\r\n\r\n", "\r\nMulligan-Policy: max-attempts=1\r\n\r\n", 1), 1, 1},
		"long PUT":     {"PUT http://up/ HTTP/1.1\r\nHost: up\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 100000), 1, 2},
		"too long PUT": {"PUT http://up/ HTTP/1.1\r\nHost: up\r\nContent-Length: 2000000\r\n\r\n" + strings.Repeat("x", 2000000), 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inTrouble(t, struggling(1, func(u *policy.Upstream) { hedged(u); u.Budget.Burst = test.burst; u.Budget.Ratio = 0 }), func(b *bubble) {
				a := b.serve("a:80", lateBy(2*time.Second, ok))
				if got := b.request(test.request); got.status != 200 {
					b.Errorf("%+v", got)
				}
				if hits, _ := a.seen(); hits != test.hits {
					b.Errorf("%d attempts, want %d", hits, test.hits)
				}
				b.balanced()
			})
		})
	}
}

// TestHedgeClientGone: the client's leaving ends both.
func TestHedgeClientGone(t *testing.T) {
	inTrouble(t, struggling(2, hedged), func(b *bubble) {
		a, c := b.serve("a:80", always("")), b.serve("b:80", always(""))
		conn := b.open()
		io.WriteString(conn, getUp)
		time.Sleep(time.Second)
		conn.Close()
		time.Sleep(time.Second)
		h1, e1 := a.seen()
		h2, e2 := c.seen()
		if h1 != 1 || h2 != 1 || e1 != 1 || e2 != 1 {
			b.Errorf("%d %d, %d %d closed", h1, h2, e1, e2)
		}
		b.balanced()
	})
}

// TestHedgeP95: the delay is what most answers took of late.
func TestHedgeP95(t *testing.T) {
	inTrouble(t, struggling(1, func(u *policy.Upstream) { u.Default.Hedge = policy.Hedge{Max: 1} }), func(b *bubble) {
		b.serve("a:80", func(n int, _ *http.Request) string {
			if n > 40 && n%2 == 1 {
				return ""
			}
			time.Sleep(100*time.Millisecond + time.Duration(n%10/9)*50*time.Millisecond)
			return ok
		})
		for range 40 {
			if got := b.get(); got.status != 200 {
				b.Errorf("%+v", got)
			}
		}
		began := time.Now()
		b.want(b.get(), 200, "attempts=2; stop=success; received-status=200")
		within(b.T, time.Since(began), 250*time.Millisecond)
	})
}

// value is the sum of the series that have the labels, name=value each.
func (b *bubble) value(name string, labels ...string) float64 {
	b.Helper()
	synctest.Wait()
	families, err := b.reg.Gather()
	if err != nil {
		b.Fatal(err)
	}
	sum, found := 0.0, false
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			has := 0
			for _, l := range m.GetLabel() {
				if slices.Contains(labels, l.GetName()+"="+l.GetValue()) {
					has++
				}
			}
			if has == len(labels) {
				found = true
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
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
