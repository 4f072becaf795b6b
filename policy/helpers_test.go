package policy_test

import (
	"strings"
	"testing"
	"time"

	"mulligan/policy"
)

// t0 is when tests begin.
var t0 = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// set builds a Set of words, which must all be conditions.
func set(t testing.TB, words ...string) (s policy.Set) {
	t.Helper()
	for _, w := range words {
		if err := s.Add(w); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// builtinRetryOn is the contract's default retry_on.
var builtinRetryOn = []string{
	"connect_failure", "refused_stream", "connection_reset", "timeout", "truncated", "error_event", "502", "503", "504",
}

// builtin is a route with the contract's defaults.
func builtin(t testing.TB) *policy.Route {
	return &policy.Route{
		Name:   "default",
		Prefix: true,
		Retry: policy.Retry{
			MaxAttempts:     4,
			Methods:         []string{"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"},
			IdempotencyKeys: []string{"Idempotency-Key"},
			RetryOn:         set(t, builtinRetryOn...),
			Backoff: policy.Backoff{
				Strategy: policy.Exponential, Initial: 250 * time.Millisecond, Max: 5 * time.Second,
				Multiplier: 3, Jitter: policy.Full,
			},
			RetryAfter: 30 * time.Second,
		},
	}
}

// builtinBudget is the contract's default budget.
var builtinBudget = policy.BudgetConfig{Ratio: 0.2, Burst: 3, Window: 10 * time.Second}

// ready is a State in which nothing stops a retry.
func ready() policy.State {
	return policy.State{Now: t0, Left: 10 * time.Minute, Replayable: true}
}

// fields is a response's header for Outcome.ReadHeader.
func fields(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if strings.EqualFold(pairs[i], name) {
				return pairs[i+1]
			}
		}
		return ""
	}
}

// trimmed is a field's value without the white space around it.
func trimmed(s string) string { return strings.Trim(s, " \t") }
