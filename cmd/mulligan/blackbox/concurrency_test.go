package blackbox

import (
	"strconv"
	"testing"
)

// held answers requests for /hold only when it is told to, and says when they come.
func held(t *testing.T) (u *upstream, arrived, release chan bool) {
	arrived, release = make(chan bool, 100), make(chan bool)
	u = answers(t, func(p *peer, r *request) bool {
		if r.Target == "/hold" {
			arrived <- true
			select {
			case <-release:
			case <-t.Context().Done():
			}
		}
		return text(200, "")(p, r)
	})
	return u, arrived, release
}

// askLater sends a request and leaves its answer for later.
func (p *mulligan) askLater(path string) *client {
	p.t.Helper()
	c := dial(p.t, p.proxy)
	c.send(head("GET", at+path))
	return c
}

func expectOverloaded(t *testing.T, r response) {
	t.Helper()
	r.expectProblem(t, 503, "attempts=0; stop=overloaded; error=connection_limit_reached")
	if after, err := strconv.Atoi(r.get("Retry-After")); err != nil || after < 1 {
		t.Errorf("Retry-After %q", r.get("Retry-After"))
	}
}

// So many attempts at once and no more; what is beyond is refused.
func TestConcurrencyRefuses(t *testing.T) {
	t.Parallel()
	u, arrived, release := held(t)
	p := start(t, to(`concurrency: {max: 2, max_wait: 0s}`, u))
	first, second := p.askLater("hold"), p.askLater("hold")
	<-arrived
	<-arrived
	expectOverloaded(t, p.get(at))
	p.wantMetric(1, "mulligan_retries_denied_total", "upstream=u", "stop=overloaded")
	close(release)
	first.final("GET").expect(t, 200, "")
	second.final("GET").expect(t, 200, "")
	eventually(t, "a place", func() bool { return p.get(at).Status == 200 })
	want(t, "attempts at once", u.most(), 2)
}

// A client that leaves the queue makes room in it, and is never sent.
func TestConcurrencyClientGone(t *testing.T) {
	t.Parallel()
	u, arrived, release := held(t)
	p := start(t, to(`concurrency: {max: 1, queue: 1, max_wait: 10m}`, u))
	first := p.askLater("hold")
	<-arrived
	gone := p.askLater("gone")
	p.wantMetric(2, "mulligan_requests_in_flight", "upstream=u")
	expectOverloaded(t, p.get(at))
	gone.Close()
	p.wantMetric(1, "mulligan_requests_in_flight", "upstream=u")
	last := p.askLater("last")
	p.wantMetric(2, "mulligan_requests_in_flight", "upstream=u")
	close(release)
	first.final("GET").expect(t, 200, "")
	last.final("GET").expect(t, 200, "")
	want(t, "attempts seen", u.count(), 2)
	want(t, "the second", u.request(2).Target, "/last")
	p.wantMetric(1, "mulligan_requests_total", "upstream=u", "outcome=client_gone")
}

// A place is taken until the response's body has ended, and given back by a client
// that leaves amid it.
func TestConcurrencyUntilTheBodyEnds(t *testing.T) {
	t.Parallel()
	u := answers(t, func(p *peer, r *request) bool {
		p.write("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nabc")
		p.ended()
		return false
	}, text(200, ""))
	p := start(t, to(`concurrency: {max: 1, max_wait: 0s}`, u))
	c := p.askLater("")
	want(t, "status", c.head().Status, 200)
	expectOverloaded(t, p.get(at))
	c.Close()
	eventually(t, "a place", func() bool { return p.get(at).Status == 200 })
}

// No place is taken while a retry waits.
func TestConcurrencyNotWhileWaiting(t *testing.T) {
	t.Parallel()
	u := answers(t, text(503, "", "Retry-After: 20"), text(200, ""))
	p := start(t, to(`concurrency: {max: 1, max_wait: 0s}`, u))
	p.askLater("")
	p.wantMetric(1, "mulligan_retries_waiting", "upstream=u")
	p.get(at).expect(t, 200, "")
}

// rate_limit: what is more than burst is refused where it may not wait.
func TestRateLimitRefuses(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, to(`rate_limit: {per_second: 0.001, burst: 2, max_wait: 1s}`, u))
	for range 2 {
		p.get(at).expect(t, 200, "")
	}
	expectOverloaded(t, p.get(at))
	want(t, "attempts seen", u.count(), 2)
}
