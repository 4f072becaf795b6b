package config

import (
	"math"

	"mulligan/policy"
)

// settle makes values agree that were written apart: inherited ones that
// contradict a written one are capped. It comes last, so that a route inherits
// what was written above it and not what that was capped to there.
func settle(c *Config) {
	settleUpstream(c.Default)
	for _, u := range c.Upstreams {
		settleUpstream(u)
	}
}

func settleUpstream(u *policy.Upstream) {
	u.Breaker.OpenFor = min(u.Breaker.OpenFor, u.Breaker.MaxOpenFor)
	u.HealthCheck.Timeout = min(u.HealthCheck.Timeout, u.HealthCheck.Interval)
	settleLimits(u)
	settleRoute(u.Default)
	for _, r := range u.Routes {
		settleRoute(r)
	}
}

// settleLimits fills in what follows from another value where nobody wrote it: a
// queue of twice the max, and a burst of what a second brings.
func settleLimits(u *policy.Upstream) {
	if c := &u.Concurrency; c.Queue == queueByMax {
		c.Queue = 2 * c.Max
	}
	if l := &u.RateLimit; l.PerSecond > 0 && l.Burst == 0 {
		l.Burst = int(math.Ceil(l.PerSecond))
	}
}

// settleRoute caps the parts by the whole: no wait is ever longer than
// max_delay, and total ends everything, whichever of them was written.
func settleRoute(r *policy.Route) {
	b := &r.Retry.Backoff
	b.Initial = min(b.Initial, b.Max)
	if t := &r.Timeout; t.Total > 0 {
		t.Connect = min(t.Connect, t.Total) // 0, no limit, stays so: total ends it
		t.Attempt = min(t.Attempt, t.Total)
	}
}
