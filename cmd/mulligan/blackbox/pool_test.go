package blackbox

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Section 4: a pooled connection is used again, for a GET even after a while.
func TestPoolReuse(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, "")
	c := dial(t, p.proxy)
	for range 5 {
		c.do("GET", u.url("/"), "").expect(t, 200, "")
	}
	linger(1300 * time.Millisecond)
	p.get(u.url("/")).expect(t, 200, "") // another client's
	want(t, "connections", u.connections(), 1)
	p.wantAttempts(u, 6)
}

// A request that may not be repeated goes only onto a new connection, or one
// idle for under a second.
func TestPOSTAvoidsIdleConnections(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, "")
	c := dial(t, p.proxy)
	begun := time.Now()
	c.do("GET", u.url("/"), "").expect(t, 200, "")
	c.do("POST", u.url("/"), "x").expect(t, 200, "")
	before := u.connections()
	if time.Since(begun) < 900*time.Millisecond { // else the machine stood still
		want(t, "connections for a GET and a POST", before, 1)
	}
	linger(1300 * time.Millisecond)
	c.do("POST", u.url("/"), "x").expect(t, 200, "")
	if got := u.request(3).Conn; got == u.request(1).Conn || got == u.request(2).Conn {
		t.Errorf("a POST went onto a connection idle for 1.3 s")
	}
	c.do("POST", u.url("/"), "x", "Idempotency-Key: k").expect(t, 200, "") // may be repeated: any connection
	want(t, "connections", u.connections(), before+1)
}

// A server's `Keep-Alive: timeout=n` is kept.
func TestPoolKeepsTheServersTimeout(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, "", "Connection: keep-alive", "Keep-Alive: timeout=1, max=100"))
	p := start(t, "")
	p.get(u.url("/")).expect(t, 200, "")
	linger(1200 * time.Millisecond)
	p.get(u.url("/")).expect(t, 200, "")
	want(t, "connections", u.connections(), 2)
}

// connections.idle closes what is idle for longer.
func TestPoolIdle(t *testing.T) {
	t.Parallel()
	gone := make(chan bool, 1)
	u := serve(t, func(p *peer) {
		if r := p.request(); r != nil {
			text(200, "")(p, r)
			gone <- p.ended()
		}
	})
	p := start(t, `defaults: {connections: {idle: 300ms}}`)
	p.get(u.url("/")).expect(t, 200, "")
	select {
	case <-gone:
	case <-time.After(patience):
		t.Error("an idle upstream connection is kept past connections.idle")
	}
}

// A pooled connection that died before a byte was written costs no attempt:
// the request is neither lost nor sent twice.
func TestStalePooledConnection(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]answer{"closed": fin, "reset": reset} {
		for _, method := range []string{"GET", "POST"} {
			t.Run(name+" "+method, func(t *testing.T) {
				t.Parallel()
				closed := make(chan bool, 100)
				u := serve(t, func(p *peer) {
					r := p.request()
					if r == nil {
						return
					}
					text(200, "ok")(p, r) // promises to stay,
					p.up.settled()
					leave(p, r) // and leaves
					p.Close()
					closed <- true
				})
				p := start(t, "")
				for n := 1; n <= 5; n++ {
					r := p.do(method, u.url("/"), "x")
					r.expect(t, 200, "")
					if want(t, "requests seen", u.count(), n); t.Failed() {
						return
					}
					<-closed
					u.settled() // the close is there
				}
				p.wantAttempts(u, 5)
				p.wantMetric(5, "mulligan_attempts_total", "result=2xx")
			})
		}
	}
}

// settled gives what was just done on a connection time to arrive: an answer to
// be taken as whole and its connection to be pooled, a close to be noticed.
func (u *upstream) settled() { linger(200 * time.Millisecond) }

// One that dies once the request is on it is an attempt: a GET is retried and
// counted, a POST is not sent twice.
func TestReusedConnectionDiesUnderTheRequest(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "POST"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			u := answers(t, text(200, "first"), fin, text(200, "third"))
			p := start(t, `defaults: {retry: {`+quick+`}}`)
			c := dial(t, p.proxy)
			begun := time.Now()
			c.do("GET", u.url("/"), "").expect(t, 200, "")
			r := c.do(method, u.url("/"), "")
			if method == "POST" && time.Since(begun) > 900*time.Millisecond {
				t.Skip("the machine stood still, and a POST goes onto no connection that was idle for a second")
			}
			if method == "GET" {
				r.expect(t, 200, "attempts=2; stop=success; received-status=200")
				p.wantAttempts(u, 3)
			} else {
				r.expectProblem(t, 502, "attempts=1; stop=not_idempotent; error=connection_terminated")
				p.wantAttempts(u, 2)
			}
			want(t, "connection of the second request", u.request(2).Conn, 1)
		})
	}
}

// max_per_endpoint bounds the connections; the wait for one is inside the window.
func TestPoolIsBounded(t *testing.T) {
	t.Parallel()
	release := make(chan bool)
	u := answers(t, func(p *peer, r *request) bool {
		if r.Target == "/slow" {
			<-release
		}
		return text(200, r.Target)(p, r)
	})
	p := start(t, fmt.Sprintf(`
defaults: {connections: {max_per_endpoint: 1}, retry: {%s}}
upstreams: {one: {hosts: ["%s"]}}
`, quick, u.addr))
	holder := dial(t, p.proxy)
	holder.send(head("GET", u.url("/slow")))
	eventually(t, "the first request", func() bool { return u.count() == 1 })
	r := p.get(u.url("/late"), "Mulligan-Policy: total=0.5")
	want(t, "status of who waits past the window", r.Status, 504)
	want(t, "stop", r.proxyStatus(t)["stop"], "window")
	waiter := dial(t, p.proxy)
	waiter.send(head("GET", u.url("/waits")))
	linger(200 * time.Millisecond)
	want(t, "requests while the one connection is taken", u.count(), 1)
	close(release)
	want(t, "answer of the holder", holder.next("GET").Body, "/slow")
	want(t, "answer of who waited", waiter.next("GET").Body, "/waits")
	want(t, "connections", u.connections(), 1)
}

// Many clients at once: every one gets its own answer, none is lost.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	u := answers(t, func(p *peer, r *request) bool { return text(200, r.Target+r.Body)(p, r) })
	p := start(t, `defaults: {connections: {max_per_endpoint: 8}, retry: {`+quick+`}}`)
	const clients, each = 32, 25
	conns := make([]*client, clients)
	for i := range conns {
		conns[i] = dial(t, p.proxy)
	}
	results := make(chan string, clients)
	for i, c := range conns {
		go func() {
			for n := range each {
				body := fmt.Sprintf("%d-%d", i, n)
				c.send(head("POST", u.url("/x"), fmt.Sprintf("Content-Length: %d", len(body))) + body)
				if r := c.next("POST"); r.Body != "/x"+body {
					results <- fmt.Sprintf("client %d, request %d: status %d, body %q", i, n, r.Status, r.Body)
					return
				}
			}
			results <- ""
		}()
	}
	for range clients {
		if complaint := <-results; complaint != "" {
			t.Error(complaint)
		}
	}
	if n := u.most(); n > 8 {
		t.Errorf("%d connections at once, more than max_per_endpoint", n)
	}
	p.wantAttempts(u, clients*each)
}

// A request with a body leaves its connection as usable as one without.
func TestBodiesDoNotCostConnections(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ field, body string }{
		"length 0":   {"Content-Length: 0", ""},
		"small":      {"Content-Length: 5", "hello"},
		"chunked":    {"Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n"},
		"two reads":  {"Content-Length: 100000", pattern(100_000)},
		"unbuffered": {"Content-Length: 1500000", pattern(1_500_000)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := answers(t, text(200, "ok"))
			p := start(t, `log: {access: false}`)
			c := dial(t, p.proxy)
			rounds := 100
			if len(row.body) > 10_000 {
				rounds = 15
			}
			paused := 0 // a POST goes onto no connection that was idle for a second
			for range rounds {
				begun := time.Now()
				c.send(head("POST", u.url("/"), row.field) + row.body)
				c.next("POST").expect(t, 200, "")
				if time.Since(begun) > 900*time.Millisecond {
					paused++ // the machine stood still, or the connection did
				}
			}
			want(t, "requests", u.count(), rounds)
			if n := u.connections(); n > 1+paused {
				t.Errorf("%d connections, and %d pauses", n, paused)
			}
		})
	}
}

// A request whose body cannot be replayed may not be repeated either: a PUT of
// such a body went onto a connection that had been idle for long.
func TestUnreplayableBodyAvoidsIdleConnections(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		limit string
		size  int
		idle  bool // it may go onto an idle connection
	}{
		"replayable":          {"1MiB", 20, true},
		"past the default":    {"1MiB", 2_000_000, false},
		"past buffer.request": {"10B", 20, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := answers(t, text(200, ""))
			c := dial(t, start(t, `defaults: {buffer: {request: `+row.limit+`}}`).proxy)
			c.do("GET", u.url("/"), "").expect(t, 200, "")
			linger(1300 * time.Millisecond)
			c.do("PUT", u.url("/"), pattern(row.size)).expect(t, 200, "")
			want(t, "the idle connection was used", u.request(2).Conn == u.request(1).Conn, row.idle)
		})
	}
}

// Keep-Alive was read from its first line only, and not where its value is quoted.
func TestPoolReadsTheServersTimeoutInAnyForm(t *testing.T) {
	t.Parallel()
	for _, fields := range [][]string{
		{"Keep-Alive: max=9", "keep-alive: timeout=2"},
		{`Keep-Alive: timeout="2"`},
		{`Keep-Alive: max=9, Timeout="2"`},
	} {
		t.Run(strings.Join(fields, " | "), func(t *testing.T) {
			t.Parallel()
			u := answers(t, text(200, "", fields...))
			c := dial(t, start(t, "").proxy)
			c.do("GET", u.url("/"), "").expect(t, 200, "")
			linger(1300 * time.Millisecond) // less than a second before the server's own end
			c.do("GET", u.url("/"), "").expect(t, 200, "")
			want(t, "connections", u.connections(), 2)
		})
	}
}
