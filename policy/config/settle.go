package config

import "mulligan/policy"

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
	settleRoute(u.Default)
	for _, r := range u.Routes {
		settleRoute(r)
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
