package blackbox

import (
	"strconv"
	"testing"
	"time"
)

// Section 5, seen from the upstream: no retry comes before its wait is over.
// (That no wait is longer than its interval is for the property tests of the
// formulas; here the histogram bounds the waits that were decided.)
func TestBackoffStrategies(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, row := range map[string]struct {
		backoff string
		waits   []time.Duration
	}{
		"constant":           {"strategy: constant, initial_delay: 200ms, jitter: none", []time.Duration{200 * ms, 200 * ms, 200 * ms}},
		"linear":             {"strategy: linear, initial_delay: 100ms, jitter: none", []time.Duration{100 * ms, 200 * ms, 300 * ms}},
		"exponential":        {"initial_delay: 50ms, multiplier: 2, jitter: none", []time.Duration{50 * ms, 100 * ms, 200 * ms}},
		"exponential capped": {"initial_delay: 100ms, max_delay: 150ms, multiplier: 10, jitter: none", []time.Duration{100 * ms, 150 * ms, 150 * ms}},
		"linear capped":      {"strategy: linear, initial_delay: 100ms, max_delay: 150ms, jitter: none", []time.Duration{100 * ms, 150 * ms, 150 * ms}},
		"equal":              {"strategy: constant, initial_delay: 200ms, jitter: equal", []time.Duration{100 * ms, 100 * ms, 100 * ms}},
		"proportional":       {"strategy: constant, initial_delay: 200ms, jitter: proportional", []time.Duration{100 * ms, 100 * ms, 100 * ms}},
		"decorrelated":       {"initial_delay: 100ms, jitter: decorrelated", []time.Duration{100 * ms, 100 * ms, 100 * ms}},
		"full":               {"initial_delay: 10ms, max_delay: 20ms, jitter: full", []time.Duration{0, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := answers(t, text(503, ""))
			p := start(t, `defaults: {retry: {max_attempts: 4, backoff: {`+row.backoff+`}, budget: {burst: 100}}}`)
			p.get(u.url("/")).expect(t, 503, "attempts=4; stop=max_attempts; received-status=503")
			var least time.Duration
			for i, wait := range row.waits {
				least += wait
				if got := u.gap(i + 1); got < wait-2*ms {
					t.Errorf("retry %d came after %v, want at least %v", i+1, got, wait)
				}
			}
			p.wantMetric(3, "mulligan_backoff_seconds_count", "upstream=default")
			if sum, _ := p.metric("mulligan_backoff_seconds_sum"); sum < (least - 5*ms).Seconds() {
				t.Errorf("mulligan_backoff_seconds_sum %v, want at least %v", sum, least)
			}
		})
	}
}

// No computed wait is ever longer than max_delay.
func TestMaxDelay(t *testing.T) {
	t.Parallel()
	for _, jitter := range []string{"full", "equal", "proportional", "decorrelated", "none"} {
		t.Run(jitter, func(t *testing.T) {
			t.Parallel()
			u := answers(t, text(503, ""))
			p := start(t, `defaults: {retry: {max_attempts: 10, backoff: {initial_delay: 1ms, max_delay: 2ms, multiplier: 1000, jitter: `+jitter+`}, budget: {burst: 100}}}`)
			p.get(u.url("/")).expect(t, 503, "attempts=10; stop=max_attempts; received-status=503")
			p.wantMetric(9, "mulligan_backoff_seconds_count")
			if sum, _ := p.metric("mulligan_backoff_seconds_sum"); sum > 9 {
				t.Errorf("nine waits of at most 2 ms were %v s in all", sum)
			}
		})
	}
}

// max_attempts: the first included; 1 = never retry.
func TestMaxAttempts(t *testing.T) {
	t.Parallel()
	for n, line := range map[int]string{
		1:  "attempts=1; stop=max_attempts; received-status=503",
		2:  "attempts=2; stop=max_attempts; received-status=503",
		10: "attempts=10; stop=max_attempts; received-status=503",
	} {
		u := answers(t, text(503, "last"))
		p := start(t, `defaults: {retry: {max_attempts: `+strconv.Itoa(n)+`, `+quick+`}}`)
		p.get(u.url("/")).expect(t, 503, line)
		p.wantAttempts(u, n)
		p.wantMetric(1, "mulligan_retries_denied_total", "stop=max_attempts")
	}
}

// While a request waits it shows in the gauge, and holds no connection back.
func TestWaitingGauge(t *testing.T) {
	t.Parallel()
	u := answers(t, text(503, ""), text(200, ""))
	p := start(t, `defaults: {retry: {backoff: {strategy: constant, initial_delay: 4s, jitter: none}}}`)
	c := dial(t, p.proxy)
	c.send(head("GET", u.url("/")))
	p.wantMetric(1, "mulligan_retries_waiting", "upstream=default")
	p.wantMetric(1, "mulligan_requests_in_flight", "upstream=default")
	c.next("GET").expect(t, 200, "attempts=2; stop=success; received-status=200")
	p.wantMetric(0, "mulligan_retries_waiting", "upstream=default")
	p.wantMetric(0, "mulligan_requests_in_flight", "upstream=default")
}
