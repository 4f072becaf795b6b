package blackbox

import (
	"testing"
	"time"
)

// late is longer than any hedge's delay here: what is answered after it would have
// been hedged.
const late = 300 * time.Millisecond

// lateText is text, after such a time.
func lateText(status int, body string) answer {
	return func(p *peer, r *request) bool {
		linger(late)
		return text(status, body)(p, r)
	}
}

// A hedge is sent where the answer is late; the first good one wins, the other
// attempt is cancelled, and its upstream sees that.
func TestHedge(t *testing.T) {
	t.Parallel()
	cancelled := make(chan bool, 1)
	u := answers(t, func(p *peer, _ *request) bool { cancelled <- p.ended(); return false }, text(200, "hedge"))
	p := start(t, to(`hedge: {delay: 20ms}, attempt_header: X-Attempt, retry: {budget: {burst: 5, ratio: 0}}`, u))
	r := p.get(at)
	r.expect(t, 200, "attempts=2; stop=success; received-status=200")
	want(t, "body", r.Body, "hedge")
	want(t, "the other attempt was cancelled", <-cancelled, true)
	for n, number := range []string{"1", "2"} {
		want(t, "X-Attempt", u.request(n+1).get("X-Attempt"), number)
	}
	p.wantMetric(4, "mulligan_retry_budget_remaining", "upstream=u")
	p.wantMetric(1, "mulligan_retries_total", "upstream=u", "reason=hedge")
	p.wantMetric(1, "mulligan_attempts_total", "upstream=u", "result=cancelled")
	p.wantMetric(1, "mulligan_requests_total", "upstream=u", "outcome=success_after_retry")
	p.wantAttempts(u, 2)
}

// A failure waits for the attempt beside it, whichever of the two fails.
func TestHedgeFailureWaits(t *testing.T) {
	t.Parallel()
	const policy = `hedge: {delay: 20ms}, retry: {max_attempts: 2, ` + quick + `}`
	hedged := make(chan bool)
	first := answers(t, func(p *peer, r *request) bool {
		<-hedged
		return lateText(200, "first")(p, r)
	}, func(p *peer, r *request) bool {
		defer close(hedged)
		return text(503, "hedge")(p, r)
	})
	want(t, "body, the first attempt's", start(t, to(policy, first)).get(at).Body, "first")
	want(t, "attempts seen", first.count(), 2)

	// The hedge is under way before the first attempt fails, and ends after it.
	arrived, failed := make(chan bool), make(chan bool)
	second := answers(t, func(p *peer, r *request) bool {
		<-arrived
		defer close(failed)
		return text(503, "first")(p, r)
	}, func(p *peer, r *request) bool {
		close(arrived)
		<-failed
		return lateText(200, "hedge")(p, r)
	})
	r := start(t, to(policy, second)).get(at)
	r.expect(t, 200, "attempts=2; stop=success; received-status=200")
	want(t, "body, the hedge's", r.Body, "hedge")
}

// What may not be sent twice is not hedged, nor what nothing is left for.
func TestNoHedge(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ policy, method, body, field string }{
		"POST":                     {`hedge: {delay: 20ms}`, "POST", "hi", "X-A: b"},
		"one attempt in all":       {`hedge: {delay: 20ms}, retry: {max_attempts: 1}`, "GET", "", "X-A: b"},
		"the client wants one":     {`hedge: {delay: 20ms}`, "GET", "", "Mulligan-Policy: max-attempts=1"},
		"no budget":                {`hedge: {delay: 20ms}, retry: {budget: {burst: 0, ratio: 0}}`, "GET", "", "X-A: b"},
		"mode off":                 {`hedge: {delay: 20ms}, retry: {mode: off}`, "GET", "", "X-A: b"},
		"mode observe":             {`hedge: {delay: 20ms}, retry: {mode: observe}`, "GET", "", "X-A: b"},
		"through another mulligan": {`hedge: {delay: 20ms}`, "GET", "", "Via: 1.1 mulligan-0123abcd"},
		"a body that is not kept":  {`hedge: {delay: 20ms}, buffer: {request: 1B}`, "PUT", "hi", "X-A: b"},
		"no place":                 {`hedge: {delay: 20ms}, concurrency: {max: 1}`, "GET", "", "X-A: b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := answers(t, lateText(200, ""))
			p := start(t, to(row.policy, u))
			p.do(row.method, at, row.body, row.field).expect(t, 200, "")
			p.wantAttempts(u, 1)
		})
	}
}

// Attempts and hedges together stay within max_attempts.
func TestHedgesAreAttempts(t *testing.T) {
	t.Parallel()
	u := answers(t, lateText(503, ""))
	p := start(t, to(`hedge: {delay: 5ms, max: 9}, retry: {max_attempts: 3, `+quick+`}`, u))
	p.get(at).expect(t, 503, "attempts=3; stop=max_attempts; received-status=503")
	p.wantAttempts(u, 3)
}
