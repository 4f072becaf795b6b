package config

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"mulligan/policy"
)

// Bounds of what holds when an upstream struggles. Those that the contract does
// not give are where a value can only be a slip.
const (
	mostRequests  = 1_000_000
	mostProbes    = 1_000
	mostChecks    = 1_000
	mostHedges    = 9 // with the first attempt, as many as an attempt may have
	leastInterval = 100 * time.Millisecond
	leastDelay    = time.Millisecond
)

// queueByMax is a queue that nobody wrote: settle makes one that fits the max in
// effect, which may be another than that of where the feature was turned on.
const queueByMax = -1

var breaker = feature[policy.BreakerConfig]{
	keys: object[policy.BreakerConfig]{
		fields: fields(
			key("failure_ratio", positive(1), func(b *policy.BreakerConfig) *float64 { return &b.FailureRatio }),
			key("min_requests", integer(1, mostRequests), func(b *policy.BreakerConfig) *int { return &b.MinRequests }),
			key("window", duration(leastWindow, mostWindow), func(b *policy.BreakerConfig) *time.Duration { return &b.Window }),
			key("open_for", duration(leastWindow, mostWindow), func(b *policy.BreakerConfig) *time.Duration { return &b.OpenFor }),
			key("max_open_for", duration(leastWindow, mostWindow), func(b *policy.BreakerConfig) *time.Duration { return &b.MaxOpenFor }),
			key("probes", integer(1, mostProbes), func(b *policy.BreakerConfig) *int { return &b.Probes }),
		),
		check: checkBreaker,
	},
	builtin: policy.BreakerConfig{FailureRatio: 0.5, MinRequests: 20, Window: 10 * time.Second,
		OpenFor: 5 * time.Second, MaxOpenFor: time.Minute, Probes: 1},
	example: "{}",
}

var concurrency = feature[policy.Concurrency]{
	keys: object[policy.Concurrency]{fields: fields(
		key("max", integer(1, mostRequests), func(c *policy.Concurrency) *int { return &c.Max }).
			mustUnless(func(c *policy.Concurrency) bool { return c.Max > 0 }),
		key("queue", integer(0, mostRequests), func(c *policy.Concurrency) *int { return &c.Queue }),
		key("max_wait", anyDuration, func(c *policy.Concurrency) *time.Duration { return &c.MaxWait }),
	)},
	builtin: policy.Concurrency{Queue: queueByMax, MaxWait: time.Second},
	example: "{max: 64}",
}

// rateLimit has a Burst of 0 until settle where nobody wrote one.
var rateLimit = feature[policy.RateLimit]{
	keys: object[policy.RateLimit]{fields: fields(
		key("per_second", positive(mostPerSecond), func(l *policy.RateLimit) *float64 { return &l.PerSecond }).
			mustUnless(func(l *policy.RateLimit) bool { return l.PerSecond > 0 }),
		key("burst", integer(1, mostBurst), func(l *policy.RateLimit) *int { return &l.Burst }),
		key("max_wait", anyDuration, func(l *policy.RateLimit) *time.Duration { return &l.MaxWait }),
	)},
	builtin: policy.RateLimit{MaxWait: time.Second},
	example: "{per_second: 50}",
}

var hedging = feature[policy.Hedge]{
	keys: object[policy.Hedge]{fields: fields(
		key("delay", hedgeDelay, func(h *policy.Hedge) *time.Duration { return &h.Delay }),
		key("max", integer(1, mostHedges), func(h *policy.Hedge) *int { return &h.Max }),
	)},
	builtin: policy.Hedge{Delay: 300 * time.Millisecond, Max: 1},
	example: "{delay: 300ms}",
}

var healthCheck = feature[policy.HealthCheck]{
	keys: object[policy.HealthCheck]{
		fields: fields(
			key("path", checkedPath, func(h *policy.HealthCheck) *string { return &h.Path }).
				mustUnless(func(h *policy.HealthCheck) bool { return h.Path != "" }),
			key("interval", duration(leastInterval, mostWindow), func(h *policy.HealthCheck) *time.Duration { return &h.Interval }),
			key("timeout", duration(leastWindow, mostWindow), func(h *policy.HealthCheck) *time.Duration { return &h.Timeout }),
			key("unhealthy_after", integer(1, mostChecks), func(h *policy.HealthCheck) *int { return &h.UnhealthyAfter }),
			key("healthy_after", integer(1, mostChecks), func(h *policy.HealthCheck) *int { return &h.HealthyAfter }),
		),
		check: checkHealthCheck,
	},
	builtin: policy.HealthCheck{Interval: 5 * time.Second, Timeout: time.Second, UnhealthyAfter: 3, HealthyAfter: 2},
	example: "{path: /healthz}",
}

// hedgeDelay reads how long an attempt is waited for; p95, the upstream's own
// measure, is 0.
var hedgeDelay = parsed(func(text string) (time.Duration, string, string) {
	if text == "p95" {
		return 0, "", ""
	}
	if _, err := time.ParseDuration(text); err != nil {
		return 0, "is neither a duration with a unit nor p95", "write p95, or a duration such as 300ms"
	}
	return parseDuration(text, leastDelay, mostWindow)
})

// checkedPath reads what a health check asks for: the origin-form of RFC 9112
// 3.2.1, as it goes onto the wire.
var checkedPath = parsed(func(text string) (string, string, string) {
	const example = "write a path such as /healthz"
	path, _, _ := strings.Cut(text, "?")
	switch {
	case !strings.HasPrefix(text, "/"):
		return "", "does not begin with /", example
	case strings.Contains(text, "#"):
		return "", "has a fragment", "leave out what begins with #"
	case hasBlank(text):
		return "", "has a blank or control character, which no path has", "write %20 for a blank"
	case strings.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }):
		return "", "has characters that no path has", "write them as %, with the bytes in hexadecimal"
	case hasDots(path):
		return "", "has a . or .. part", example
	}
	return text, "", ""
})

// checkBreaker refuses a first time over the longest where both are written here.
// An inherited one gives way, see settle.
func checkBreaker(d *decoder, b *policy.BreakerConfig, w written) {
	first, longest := w.right("open_for"), w.right("max_open_for")
	switch {
	case first == nil, b.OpenFor <= b.MaxOpenFor:
	case longest != nil:
		d.complain(longest, "lengthen it, or shorten open_for", "max_open_for is under open_for")
	default:
		d.warn(first, "open_for is over the max_open_for that is inherited, and is cut to it; write max_open_for here too")
	}
}

// checkHealthCheck refuses checks that would overtake each other where that is
// written here. An inherited timeout gives way, see settle.
func checkHealthCheck(d *decoder, h *policy.HealthCheck, w written) {
	written := w.right("timeout")
	switch {
	case written == nil, h.Timeout <= h.Interval:
	case w.right("interval") != nil:
		d.complain(written, "shorten it, or lengthen interval", "timeout is longer than interval, after which the next check begins")
	default:
		d.warn(written, "timeout is longer than the interval that is inherited, and is cut to it; write interval here too")
	}
}

// checkHedge warns of hedging that nothing will come of. It looks where no level
// below can have more attempts.
func checkHedge(d *decoder, r *policy.Route, w written) {
	n := w.right("hedge")
	if n == nil || r.Hedge.Max == 0 || w.doubtful("retry", "retry.max_attempts", "retry.mode") {
		return
	}
	why, timeout := "", r.Timeout
	switch {
	case r.Retry.Mode == policy.ModeOff:
		why = "retry.mode is off"
	case r.Retry.MaxAttempts == 1:
		why = "retry.max_attempts is 1, hedges included"
	case w.doubtful("timeout", "timeout.attempt", "timeout.total"):
		return
	case timeout.Attempt > 0 && r.Hedge.Delay >= timeout.Attempt:
		why = "timeout.attempt ends attempts before delay is over"
	case timeout.Total > 0 && r.Hedge.Delay >= timeout.Total:
		why = "timeout.total ends the request before delay is over"
	default:
		return
	}
	d.warn(n, "hedge does nothing: %s", why)
}

// positive reads a number over 0, up to most.
func positive(most float64) reader[float64] {
	return parsed(func(text string) (float64, string, string) {
		value, wrong, _ := parseNumber(text, 0, most)
		if wrong != "" || value == 0 {
			return 0, fmt.Sprintf("is not a number over 0, up to %.0f", most), ""
		}
		return value, "", ""
	})
}
