package blackbox

import (
	"fmt"
	"testing"
	"time"
)

// burst3 is the default budget with short waits.
const burst3 = `defaults: {retry: {backoff: {initial_delay: 1ms, max_delay: 2ms}}}`

// Section 6: an upstream that answers nothing soon gets nothing but first
// attempts, and running out never replaces its answer.
func TestBudgetOfADeadUpstream(t *testing.T) {
	t.Parallel()
	u := answers(t, text(503, "mine"))
	p := start(t, burst3)
	p.wantMetric(3, "mulligan_retry_budget_remaining", "upstream=default")
	p.get(u.url("/")).expect(t, 503, "attempts=4; stop=max_attempts; received-status=503")
	for range 20 {
		r := p.get(u.url("/"))
		r.expect(t, 503, "attempts=1; stop=budget; received-status=503")
		want(t, "body, the upstream's", r.Body, "mine")
	}
	p.wantAttempts(u, 21+3)
	p.wantMetric(0, "mulligan_retry_budget_remaining", "upstream=default")
	p.wantMetric(20, "mulligan_retries_denied_total", "stop=budget")
}

// The class of the failure does not matter.
func TestBudgetOfFailureClasses(t *testing.T) {
	t.Parallel()
	p := start(t, burst3)
	for name, how := range map[string]answer{"fin": fin, "reset": reset, "truncated": rawClose("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx")} {
		u := answers(t, how)
		for range 5 {
			p.get(u.url("/"))
		}
		want(t, "attempts with "+name, u.count(), 5+3)
	}
	dead := "http://" + closedAddr(t) + "/"
	p.get(dead).expectProblem(t, 502, "attempts=4; stop=max_attempts; error=connection_refused")
	p.get(dead).expectProblem(t, 502, "attempts=1; stop=budget; error=connection_refused")
	p.do("POST", dead, "").expectProblem(t, 502, "attempts=1; stop=budget; error=connection_refused")
}

// Every attempt answered with a status that policy would not retry puts in
// `ratio`, whatever its method; the others put in nothing.
func TestBudgetIsFedByAnswers(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		method string
		status int
		feeds  bool
	}{
		"200":         {"GET", 200, true},
		"404":         {"GET", 404, true},
		"500":         {"GET", 500, true},
		"POST 200":    {"POST", 200, true},
		"POST 503":    {"POST", 503, false},
		"nothing":     {"POST", 0, false},
		"unknown 200": {"BREW", 200, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := fin
			if row.status != 0 {
				first = text(row.status, "")
			}
			u := answers(t, first, first, first, first, text(503, ""))
			p := start(t, fmt.Sprintf(`
defaults: {retry: {backoff: {initial_delay: 1ms, max_delay: 2ms}, budget: {ratio: 0.5, burst: 0, window: 1h}}}
upstreams: {named: {hosts: ["%s"]}}
`, u.addr))
			for range 4 {
				p.do(row.method, u.url("/"), "")
			}
			retries := 0
			if row.feeds {
				retries = 2
			}
			p.wantMetric(float64(retries), "mulligan_retry_budget_remaining", "upstream=named")
			p.get(u.url("/")).expect(t, 503, fmt.Sprintf("attempts=%d; stop=budget; received-status=503", 1+retries))
			want(t, "attempts", u.count(), 5+retries)
		})
	}
}

// Retries are at most burst + ratio * answers, over a long mixture.
func TestBudgetBound(t *testing.T) {
	t.Parallel()
	u := answers(t, every(3, text(200, ""), text(503, "")))
	p := start(t, `defaults: {retry: {backoff: {initial_delay: 1ms, max_delay: 2ms}, budget: {ratio: 0.1, burst: 2, window: 1h}}}`)
	const requests = 150
	for range requests {
		p.get(u.url("/"))
	}
	good := u.count() / 3
	if retries := u.count() - requests; float64(retries) > 2+0.1*float64(good) {
		t.Errorf("%d retries for %d answers, more than 2 + 0.1 * answers", retries, good)
	} else if retries < 2 {
		t.Errorf("%d retries: the budget gave nothing", retries)
	}
	p.wantMetric(float64(u.count()), "mulligan_attempts_total")
}

// every answers each nth request with one answer, the others with another.
func every(n int, this, other answer) answer {
	return func(p *peer, r *request) bool {
		if p.up.count()%n == 0 {
			return this(p, r)
		}
		return other(p, r)
	}
}

// It never holds more than burst + ratio * (such answers in the last window).
func TestBudgetForgetsOldAnswers(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, fmt.Sprintf(`upstreams: {named: {hosts: ["%s"], retry: {budget: {ratio: 1, burst: 1, window: 5s}}}}`, u.addr))
	for range 5 {
		p.get(u.url("/"))
	}
	if n, _ := p.metric("mulligan_retry_budget_remaining", "upstream=named"); n <= 1 {
		t.Errorf("after five answers the budget allows %v retries", n)
	}
	eventually(t, "the answers to be forgotten, without a further one", func() bool {
		n, _ := p.metric("mulligan_retry_budget_remaining", "upstream=named")
		return n == 1
	})
}

// min_per_second adds tokens with time.
func TestBudgetMinPerSecond(t *testing.T) {
	t.Parallel()
	u := answers(t, text(503, ""))
	p := start(t, `defaults: {retry: {backoff: {initial_delay: 1ms, max_delay: 2ms}, budget: {ratio: 0, burst: 1, min_per_second: 10}}}`)
	eventually(t, "tokens to come with time", func() bool {
		p.get(u.url("/"))
		retried, _ := p.metric("mulligan_retries_total")
		return retried >= 3
	})
}

// The token comes back where the retry is not sent: the client went away while
// it waited, and the upstream sees nothing more.
func TestBudgetIsReturned(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(c *client){
		"closed":      func(c *client) { c.Close() },
		"reset":       func(c *client) { abort(c.TCPConn) },
		"half-closed": func(c *client) { _ = c.CloseWrite() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := answers(t, text(503, ""))
			p := start(t, `defaults: {retry: {backoff: {strategy: constant, initial_delay: 100s, max_delay: 100s, jitter: none}}}`)
			c := dial(t, p.proxy)
			c.send(head("GET", u.url("/")))
			p.wantMetric(2, "mulligan_retry_budget_remaining", "upstream=default")
			leave(c)
			p.wantMetric(3, "mulligan_retry_budget_remaining", "upstream=default")
			p.wantMetric(0, "mulligan_retries_waiting", "upstream=default")
			p.wantMetric(1, "mulligan_requests_total", "upstream=default", "outcome=client_gone")
			p.wantAttempts(u, 1)
		})
	}
}

// State is kept per upstream: one's outage never spends another's budget.
func TestBudgetPerUpstream(t *testing.T) {
	t.Parallel()
	sick, well := answers(t, text(503, "")), answers(t, text(503, ""))
	p := start(t, fmt.Sprintf(`
defaults: {retry: {backoff: {initial_delay: 1ms, max_delay: 2ms}}}
upstreams:
  sick: {hosts: ["%s"]}
  well: {hosts: ["%s"]}
`, sick.addr, well.addr))
	for range 5 {
		p.get(sick.url("/"))
	}
	p.wantMetric(0, "mulligan_retry_budget_remaining", "upstream=sick")
	p.wantMetric(3, "mulligan_retry_budget_remaining", "upstream=well")
	p.get(well.url("/")).expect(t, 503, "attempts=4; stop=max_attempts; received-status=503")
}

// For hosts that no upstream names, and for a wildcard, it is kept per
// authority; the gauge shows the least.
func TestBudgetPerAuthority(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{"default": "", "any": "\nupstreams: {any: {hosts: [\"*\"]}}"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one, two := answers(t, text(503, "")), answers(t, text(503, ""))
			p := start(t, burst3+config)
			for range 3 {
				p.get(one.url("/"))
			}
			want(t, "attempts at the first", one.count(), 3+3)
			p.wantMetric(0, "mulligan_retry_budget_remaining", "upstream="+name)
			p.get(two.url("/")).expect(t, 503, "attempts=4; stop=max_attempts; received-status=503")
			p.wantMetric(float64(3+3+4), "mulligan_attempts_total", "upstream="+name)
		})
	}
}

// Two hosts that one upstream names share its budget.
func TestBudgetSharedByNamedHosts(t *testing.T) {
	t.Parallel()
	one, two := answers(t, text(503, "")), answers(t, text(503, ""))
	p := start(t, burst3+fmt.Sprintf("\nupstreams: {both: {hosts: [\"%s\", \"%s\"]}}", one.addr, two.addr))
	p.get(one.url("/")).expect(t, 503, "attempts=4; stop=max_attempts; received-status=503")
	p.get(two.url("/")).expect(t, 503, "attempts=1; stop=budget; received-status=503")
}

// Requests inside a tunnel spend the same budget as others to that authority.
func TestBudgetSharedByTunnels(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{"default": "", "named": "\nupstreams: {named: {hosts: [\"127.0.0.1\"]}}"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := answers(t, text(503, ""))
			p := start(t, burst3+config)
			p.get(u.url("/")).expect(t, 503, "attempts=4; stop=max_attempts; received-status=503")
			c := p.connect(u.addr)
			c.send(lines("GET / HTTP/1.1", "Host: "+u.addr))
			c.next("GET").expect(t, 503, "attempts=1; stop=budget; received-status=503")
		})
	}
}

// A tunnel that is established is no answer to the requests in it: an upstream
// that takes every connection and answers nothing good still gets nothing but
// first attempts.
func TestBudgetIsNotFedByTunnels(t *testing.T) {
	t.Parallel()
	u := answers(t, text(503, ""))
	p := start(t, `defaults: {retry: {backoff: {initial_delay: 1ms, max_delay: 2ms}, budget: {ratio: 1, burst: 2, window: 1h}}}`)
	const tunnels = 6
	for range tunnels {
		c := p.connect(u.addr)
		c.send(lines("GET / HTTP/1.1", "Host: "+u.addr))
		want(t, "status", c.next("GET").Status, 503)
		c.Close()
	}
	want(t, "attempts seen", u.count(), tunnels+2)
}

// timeout.attempt cuts only where a retry follows: its token is taken first, so
// that with an empty budget a slow answer is waited for.
func TestAttemptIsNotCutWithoutBudget(t *testing.T) {
	t.Parallel()
	u := answers(t, func(p *peer, r *request) bool { linger(800 * time.Millisecond); return text(200, "slow")(p, r) })
	p := start(t, `defaults: {timeout: {attempt: 150ms}, retry: {budget: {burst: 0}}}`)
	p.get(u.url("/")).expect(t, 200, "")
	p.wantAttempts(u, 1)
}
