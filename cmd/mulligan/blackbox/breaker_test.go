package blackbox

import (
	"fmt"
	"strconv"
	"testing"
)

// to is an upstream "u" of the host u.internal, with the endpoints and the rest of
// its mapping.
func to(rest string, endpoints ...*upstream) string {
	list := ""
	for _, u := range endpoints {
		list += fmt.Sprintf("%q, ", "http://"+u.addr)
	}
	return "upstreams: {u: {hosts: [u.internal], endpoints: [" + list + "], " + rest + "}}\n"
}

// at is a URL there.
const at = "http://u.internal/"

// badWhere answers 503 to what is asked for under /bad.
func badWhere(p *peer, r *request) bool {
	if r.Target == "/bad" {
		return text(503, "mine")(p, r)
	}
	return text(200, "")(p, r)
}

// A circuit opens where too much failed, answers by itself at once with Retry-After,
// whatever the method, and what reloads leave alone stays as it was.
func TestBreakerOpens(t *testing.T) {
	t.Parallel()
	u := answers(t, badWhere)
	breaker := `circuit_breaker: {min_requests: 4, open_for: 1h, max_open_for: 1h}, retry: {max_attempts: 1}`
	p := start(t, to(breaker, u))
	circuit := "endpoint=http://" + u.addr
	if _, found := p.metric("mulligan_circuit_open", "upstream=u", circuit); !found {
		t.Errorf("no mulligan_circuit_open at the start: %v", p.allOf("mulligan_circuit_open"))
	}
	for range 4 {
		p.do("POST", at+"bad", "hi").expect(t, 503, "attempts=1; stop=not_idempotent; received-status=503")
	}
	for _, method := range []string{"GET", "POST", "HEAD"} {
		r := p.do(method, at, "")
		r.expect(t, 503, "attempts=0; stop=circuit_open; error=destination_unavailable")
		if after, err := strconv.Atoi(r.get("Retry-After")); err != nil || after < 60 {
			t.Errorf("Retry-After %q", r.get("Retry-After"))
		}
	}
	want(t, "attempts seen", u.count(), 4)
	p.wantMetric(1, "mulligan_circuit_open", "upstream=u", circuit)
	p.wantMetric(3, "mulligan_retries_denied_total", "upstream=u", "stop=circuit_open")
	p.says("circuit opened")

	p.replace(to(breaker, u) + "via: false\n")
	p.awaitReloads(1)
	p.get(at).expectProblem(t, 503, "attempts=0; stop=circuit_open")
	p.replace(to(`circuit_breaker: off`, u))
	p.awaitReloads(2)
	p.get(at).expect(t, 200, "")
}

// Answers that policy would not retry do not count as failures, whatever they are.
func TestBreakerIsNeutral(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 404, 429, 500, 501} {
		u := answers(t, text(status, ""))
		p := start(t, to(`circuit_breaker: {min_requests: 1}`, u))
		for range 5 {
			p.get(at).expect(t, status, "attempts=1; stop=permanent")
		}
	}
}

// After open_for a probe finds out, and a good one closes the circuit.
func TestBreakerCloses(t *testing.T) {
	t.Parallel()
	u := answers(t, badWhere)
	p := start(t, to(`circuit_breaker: {min_requests: 2, open_for: 20ms, max_open_for: 20ms}, retry: {max_attempts: 1}`, u))
	for range 2 {
		p.get(at + "bad")
	}
	eventually(t, "a probe", func() bool { return p.get(at).Status == 200 })
	p.wantMetric(0, "mulligan_circuit_open", "upstream=u")
	p.says("circuit opened", "circuit closed")
}

// Of several endpoints one whose circuit is open is passed by; where all are, the
// answer is mulligan's own.
func TestOpenEndpointIsPassedBy(t *testing.T) {
	t.Parallel()
	sick := answers(t, text(503, ""))
	well := answers(t, badWhere)
	p := start(t, to(`circuit_breaker: {min_requests: 3, open_for: 1h, max_open_for: 1h}, retry: {`+quick+`}`, sick, well))
	eventually(t, "the sick one's circuit to open", func() bool {
		if r := p.get(at); r.Status != 200 {
			t.Fatalf("status %d, %q", r.Status, r.Head)
		}
		open, _ := p.metric("mulligan_circuit_open", "endpoint=http://"+sick.addr)
		return open == 1
	})
	want(t, "attempts that the sick one saw", sick.count(), 3)
	for range 20 {
		p.get(at).expect(t, 200, "")
	}
	want(t, "attempts that it saw while its circuit was open", sick.count(), 3)
	p.wantMetric(0, "mulligan_circuit_open", "endpoint=http://"+well.addr)

	eventually(t, "both circuits to open", func() bool {
		p.get(at + "bad")
		open, _ := p.metric("mulligan_circuit_open", "upstream=u")
		return open == 2
	})
	p.get(at).expectProblem(t, 503, "attempts=0; stop=circuit_open")
}

// A circuit that opens between two attempts ends the retries: the client gets the
// upstream's answer, and the token is given back.
func TestBreakerEndsRetries(t *testing.T) {
	t.Parallel()
	u := answers(t, text(503, "mine"))
	p := start(t, to(`circuit_breaker: {min_requests: 2, open_for: 1h, max_open_for: 1h}, retry: {`+quick+`}`, u))
	r := p.get(at)
	r.expect(t, 503, "attempts=2; stop=circuit_open; received-status=503")
	want(t, "body", r.Body, "mine")
	p.wantMetric(999, "mulligan_retry_budget_remaining", "upstream=u")
}
