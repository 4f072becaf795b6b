package blackbox

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// atOnce runs so many clients at the same moment, each on its own connection,
// and reports what any of them complains about.
func atOnce(t *testing.T, p *mulligan, n int, one func(c *client, i int) string) {
	t.Helper()
	conns := make([]*client, n)
	for i := range conns {
		conns[i] = dial(t, p.proxy)
	}
	var wg sync.WaitGroup
	for i, c := range conns {
		wg.Go(func() {
			if complaint := one(c, i); complaint != "" {
				t.Errorf("client %d: %s", i, complaint)
			}
		})
	}
	wg.Wait()
}

// verdict compares a response with a status and a part of its Proxy-Status.
func (r response) verdict(status int, account string) string {
	if r.Status != status || !strings.Contains(r.get("Proxy-Status"), account) {
		return fmt.Sprintf("status %d, %q, %v; want %d, %q", r.Status, r.get("Proxy-Status"), r.Broken, status, account)
	}
	return ""
}

const crowdSize = 60

// What holds for one request holds for sixty at the same moment: each of these
// is decided by clocks, and by several goroutines that see the same thing.
func TestCrowdIsCutAndRetried(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	tries := map[string]int{}
	u := answers(t, func(p *peer, r *request) bool {
		mu.Lock()
		tries[r.Target]++
		first := tries[r.Target] == 1
		mu.Unlock()
		if first {
			return hang(p, r)
		}
		return text(200, r.Target)(p, r)
	})
	p := start(t, "log: {access: false}\ndefaults: {timeout: {attempt: 5s}, retry: {max_attempts: 2, "+quick+"}}")
	atOnce(t, p, crowdSize, func(c *client, i int) string {
		target := fmt.Sprintf("/%d", i)
		r := c.do("GET", u.url(target), "")
		if r.Body != target {
			return "the body is another's: " + r.Body
		}
		return r.verdict(200, "attempts=2; stop=success")
	})
	p.wantAttempts(u, 2*crowdSize)
	p.wantMetric(crowdSize, "mulligan_attempts_total", "result=timeout")
}

func TestCrowdAtTheEndOfItsWindow(t *testing.T) {
	t.Parallel()
	u := answers(t, hang)
	p := start(t, "log: {access: false}\ndefaults: {timeout: {attempt: 0s, total: 700ms}, retry: {"+quick+"}}")
	atOnce(t, p, crowdSize, func(c *client, i int) string {
		method := []string{"GET", "POST", "PUT"}[i%3]
		return c.do(method, u.url("/"), strings.Repeat("x", i%3)).verdict(504, "attempts=1; stop=window")
	})
	p.wantMetric(crowdSize, "mulligan_requests_total", "outcome=failed")
	p.wantMetric(0, "mulligan_requests_in_flight")
}

func TestCrowdWaitsPastItsWindow(t *testing.T) {
	t.Parallel()
	u := answers(t, text(503, "now"))
	p := start(t, "log: {access: false}\ndefaults: {timeout: {attempt: 10s, total: 30s}, retry: {backoff: {strategy: constant, initial_delay: 60s, max_delay: 60s, jitter: none}}}")
	begun := time.Now()
	atOnce(t, p, crowdSize, func(c *client, _ int) string {
		return c.do("GET", u.url("/"), "").verdict(503, "attempts=1; stop=window")
	})
	if spent := time.Since(begun); spent > patience {
		t.Errorf("it took %v", spent)
	}
}

func TestCrowdWithEarlyAnswers(t *testing.T) {
	t.Parallel()
	u := serve(t, func(p *peer) {
		if r := p.head(); r != nil {
			text(413, "early", "Connection: close")(p, r)
			_ = p.Conn.(interface{ CloseWrite() error }).CloseWrite()
			p.ended()
		}
	})
	p := start(t, "log: {access: false}\ndefaults: {buffer: {request: 1KiB}, retry: {"+quick+"}}")
	atOnce(t, p, crowdSize/2, func(c *client, i int) string {
		sent := make(chan bool)
		go func() {
			c.send(head([]string{"PUT", "POST"}[i%2], u.url("/"), "Content-Length: 1000000") + strings.Repeat("u", 1_000_000))
			close(sent)
		}()
		r := c.final("PUT")
		c.Close()
		<-sent
		if r.Body != "early" {
			return fmt.Sprintf("body %q, status %d, %v", r.Body, r.Status, r.Broken)
		}
		return r.verdict(413, "attempts=1; stop=permanent")
	})
	p.wantMetric(0, "mulligan_requests_in_flight")
	p.wantMetric(0, "mulligan_buffered_bytes")
	p.wantAttempts(u, crowdSize/2)
}

// Uploads whose first attempt fails while they arrive, all at once: each second
// attempt has the whole of its own body.
func TestCrowdRetriesItsUploads(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	tries := map[string]int{}
	u := serve(t, func(p *peer) {
		for {
			r := p.head()
			if r == nil {
				return
			}
			mu.Lock()
			tries[r.Target]++
			first := tries[r.Target] == 1
			mu.Unlock()
			if first {
				text(503, "", "Connection: close")(p, r)
				_ = p.Conn.(interface{ CloseWrite() error }).CloseWrite()
				p.ended()
				return
			}
			p.body(r)
			text(200, r.Body)(p, r)
		}
	})
	p := start(t, "log: {access: false}\ndefaults: {retry: {max_attempts: 2, "+quick+"}}")
	atOnce(t, p, crowdSize, func(c *client, i int) string {
		body := strings.Repeat(fmt.Sprintf("%d;", i), 5000)
		go func() {
			c.send(head("PUT", u.url(fmt.Sprintf("/%d", i)), fmt.Sprintf("Content-Length: %d", len(body))) + body[:len(body)/2])
			linger(time.Duration(i) * time.Millisecond)
			c.send(body[len(body)/2:])
		}()
		r := c.final("PUT")
		if r.Status == 200 && r.Body != body {
			return fmt.Sprintf("the body differs: %d bytes instead of %d", len(r.Body), len(body))
		}
		return r.verdict(200, "attempts=2; stop=success")
	})
	p.wantAttempts(u, 2*crowdSize)
	p.wantMetric(0, "mulligan_buffered_bytes")
}

func TestCrowdOfRefusedTunnels(t *testing.T) {
	t.Parallel()
	p := start(t, "log: {access: false}\ndefaults: {retry: {"+quick+"}}")
	dead := closedAddr(t)
	atOnce(t, p, crowdSize, func(c *client, _ int) string {
		c.send(lines("CONNECT "+dead+" HTTP/1.1", "Host: "+dead))
		return c.next("CONNECT").verdict(502, "attempts=4; stop=max_attempts; error=connection_refused")
	})
	p.wantMetric(crowdSize, "mulligan_tunnels_total", "result=connect_failure")
	p.wantMetric(0, "mulligan_tunnels_open")
}

// Tunnels of every kind at once: each carries its own bytes, and all end.
func TestCrowdOfTunnels(t *testing.T) {
	t.Parallel()
	u := serve(t, func(p *peer) {
		for {
			line, err := p.r.ReadString('\n')
			if err != nil {
				p.write("bye")
				return
			}
			p.write("echo " + line)
		}
	})
	p := start(t, "log: {access: false}")
	atOnce(t, p, crowdSize, func(c *client, i int) string {
		early := fmt.Sprintf("%cmine %d\n", []byte{0x16, 'x', 'G'}[i%3], i)
		c.send(lines("CONNECT "+u.addr+" HTTP/1.1", "Host: "+u.addr) + early)
		if r := c.next("CONNECT"); r.Status != 200 {
			return fmt.Sprintf("status %d", r.Status)
		}
		if line, err := c.r.ReadString('\n'); line != "echo "+early {
			return fmt.Sprintf("%q came back (%v), want %q", line, err, "echo "+early)
		}
		if i%4 == 0 {
			c.Close()
			return ""
		}
		_ = c.CloseWrite()
		if rest, err := c.r.ReadString(0); rest != "bye" {
			return fmt.Sprintf("at the end came %q (%v)", rest, err)
		}
		return ""
	})
	p.wantMetric(crowdSize, "mulligan_tunnels_total", "result=established")
	p.wantMetric(0, "mulligan_tunnels_open")
}
