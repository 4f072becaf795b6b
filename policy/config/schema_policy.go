package config

import (
	"math"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"mulligan/policy"
)

// Bounds of what a configuration may ask for. Those that the contract does not
// give are where a value can only be a slip.
const (
	leastWindow    = 10 * time.Millisecond
	mostWindow     = 24 * time.Hour
	mostRatio      = 10
	mostBurst      = 1_000_000
	mostPerSecond  = 1_000_000
	mostPoolSize   = 65_535
	mostAttempts   = 10
	mostMultiplier = 1_000
)

var timeoutKeys = object[policy.TimeoutConfig]{
	fields: fields(
		key("connect", anyDuration, func(t *policy.TimeoutConfig) *time.Duration { return &t.Connect }),
		key("attempt", anyDuration, func(t *policy.TimeoutConfig) *time.Duration { return &t.Attempt }),
		key("total", anyDuration, func(t *policy.TimeoutConfig) *time.Duration { return &t.Total }),
		key("idle", anyDuration, func(t *policy.TimeoutConfig) *time.Duration { return &t.Idle }),
		key("tunnel_idle", anyDuration, func(t *policy.TimeoutConfig) *time.Duration { return &t.TunnelIdle }),
	),
	check: checkTimeouts,
}

// retryFields are the keys of `retry` that a route may have too.
var retryFields = concat(
	fields(
		key("mode", oneOf(choice[policy.Mode]{"on", policy.ModeOn}, choice[policy.Mode]{"observe", policy.ModeObserve},
			choice[policy.Mode]{"off", policy.ModeOff}), func(r *policy.Retry) *policy.Mode { return &r.Mode }),
		key("max_attempts", integer(1, mostAttempts), func(r *policy.Retry) *int { return &r.MaxAttempts }),
		key("methods", inheritingList(method), func(r *policy.Retry) *[]string { return &r.Methods }),
		key("idempotency_key", nameOrList(headerName), func(r *policy.Retry) *[]string { return &r.IdempotencyKeys }),
		key("retry_on", conditions(true), func(r *policy.Retry) *policy.Set { return &r.RetryOn }),
		key("do_not_retry_on", conditions(false), func(r *policy.Retry) *policy.Set { return &r.DoNotRetryOn }),
		section("backoff", &backoffKeys, func(r *policy.Retry) *policy.Backoff { return &r.Backoff }),
		key("retry_after", anyDuration, func(r *policy.Retry) *time.Duration { return &r.RetryAfter }),
		key("nested", boolean, func(r *policy.Retry) *bool { return &r.Nested }),
		key("count_client_retries", boolean, func(r *policy.Retry) *bool { return &r.CountClientRetries }),
	),
	ruleFields,
)

var backoffKeys = object[policy.Backoff]{
	fields: fields(
		key("strategy", oneOf(named(policy.Exponential, policy.Linear, policy.Constant)...),
			func(b *policy.Backoff) *policy.Strategy { return &b.Strategy }),
		key("initial_delay", anyDuration, func(b *policy.Backoff) *time.Duration { return &b.Initial }),
		key("max_delay", anyDuration, func(b *policy.Backoff) *time.Duration { return &b.Max }),
		key("multiplier", number(1, mostMultiplier), func(b *policy.Backoff) *float64 { return &b.Multiplier }),
		key("jitter", oneOf(named(policy.Full, policy.Equal, policy.Proportional, policy.Decorrelated, policy.NoJitter)...),
			func(b *policy.Backoff) *policy.Jitter { return &b.Jitter }),
	),
	check: checkBackoff,
}

var budgetKeys = object[policy.BudgetConfig]{
	fields: fields(
		key("ratio", number(0, mostRatio), func(b *policy.BudgetConfig) *float64 { return &b.Ratio }),
		key("burst", whole(0, mostBurst), func(b *policy.BudgetConfig) *float64 { return &b.Burst }),
		key("window", duration(leastWindow, mostWindow), func(b *policy.BudgetConfig) *time.Duration { return &b.Window }),
		key("min_per_second", number(0, mostPerSecond), func(b *policy.BudgetConfig) *float64 { return &b.MinPerSecond }),
	),
	check: checkBudget,
}

var bufferKeys = object[policy.Buffer]{
	fields: fields(
		key("request", size, func(b *policy.Buffer) *int64 { return &b.Request }),
		key("response", size, func(b *policy.Buffer) *int64 { return &b.Response }),
		key("first_event", boolean, func(b *policy.Buffer) *bool { return &b.FirstEvent }),
	),
	check: checkBuffer,
}

var connectionKeys = object[policy.Connections]{fields: fields(
	key("idle", anyDuration, func(c *policy.Connections) *time.Duration { return &c.Idle }),
	key("max_per_endpoint", integer(1, mostPoolSize), func(c *policy.Connections) *int { return &c.MaxPerEndpoint }),
)}

// checkTimeouts refuses a part that is longer than the whole where both are
// written here. An inherited one gives way, see settle.
func checkTimeouts(d *decoder, t *policy.TimeoutConfig, w written) {
	parts := []struct {
		name   string
		length time.Duration
	}{{"connect", t.Connect}, {"attempt", t.Attempt}}
	for _, part := range parts {
		written := w.right(part.name)
		if written == nil || t.Total == 0 || part.length <= t.Total {
			continue
		}
		if w.right("total") != nil {
			d.complain(written, "shorten it, or lengthen total", "%s is longer than total, which ends everything", part.name)
		} else {
			d.warn(written, "%s is longer than the total that is inherited, and is cut to it; write total here too", part.name)
		}
	}
}

// checkBackoff refuses a first delay over the longest where both are written
// here. An inherited one gives way, see settle.
func checkBackoff(d *decoder, b *policy.Backoff, w written) {
	first, longest := w.right("initial_delay"), w.right("max_delay")
	switch {
	case first == nil, b.Initial <= b.Max:
	case longest != nil:
		d.complain(longest, "lengthen it, or shorten initial_delay", "max_delay is under initial_delay")
	default:
		d.warn(first, "initial_delay is over the max_delay that is inherited, and is cut to it; write max_delay here too")
	}
}

// checkBudget warns of budgets that can let an outage grow.
func checkBudget(d *decoder, b *policy.BudgetConfig, w written) {
	if ratio := w.right("ratio"); ratio != nil && b.Ratio > 1 {
		d.warn(ratio, "a ratio over 1 allows more retries than answers, and more than doubles the load of a failing upstream")
	}
	if floor := w.right("min_per_second"); floor != nil && b.MinPerSecond > 0 && strings.HasPrefix(d.path, "defaults.") {
		d.warn(floor, "min_per_second for every upstream adds up over all sidecars; write it where callers are few")
	}
}

// checkBuffer warns of a first event that there is no room for.
func checkBuffer(d *decoder, b *policy.Buffer, w written) {
	if first := w.right("first_event"); first != nil && b.FirstEvent && b.Response == 0 && !w.doubtful("response") {
		d.warn(first, "first_event does nothing: response, the most that is held of a stream, is 0")
	}
}

// whole is integer for what policy counts in fractions.
func whole(least, most int) reader[float64] {
	count := integer(least, most)
	return func(d *decoder, n *yaml.Node, v *float64) {
		read := math.MinInt
		count(d, n, &read)
		if read != math.MinInt {
			*v = float64(read)
		}
	}
}
