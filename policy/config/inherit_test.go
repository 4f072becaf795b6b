package config_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"mulligan/policy"
	"mulligan/policy/config"
)

// levels builds a configuration from what its levels write under `retry` or
// `timeout`.
func levels(section, defaults, upstream, route string) string {
	level := func(text string) string { return fmt.Sprintf("%s: {%s}\n", section, text) }
	text := "defaults:\n  " + level(defaults) +
		"upstreams:\n  u:\n    hosts: [u.example]\n    " + level(upstream) +
		"    routes:\n      - name: r\n        " + level(route)
	return text
}

// TestPrecedence: built-in, defaults, upstream, route; the nearest wins.
func TestPrecedence(t *testing.T) {
	tests := []struct {
		name                               string
		section, defaults, upstream, route string
		value                              func(*policy.Route) any
		inDefaults, inUpstream, inRoute    any
	}{
		{"nothing", "retry", "", "", "", attempts, 4, 4, 4},
		{"defaults", "retry", "max_attempts: 2", "", "", attempts, 2, 2, 2},
		{"upstream", "retry", "", "max_attempts: 2", "", attempts, 4, 2, 2},
		{"route", "retry", "", "", "max_attempts: 2", attempts, 4, 4, 2},
		{"all", "retry", "max_attempts: 1", "max_attempts: 2", "max_attempts: 3", attempts, 1, 2, 3},
		{"key by key", "retry", "backoff: {multiplier: 2}", "backoff: {jitter: none}", "backoff: {strategy: linear}", backoff,
			"exponential 2 full", "exponential 2 none", "linear 2 none"},
		{"list replaces", "retry", "methods: [GET]", "methods: [PUT]", "", methods, "GET", "PUT", "PUT"},
		{"list inherits", "retry", "methods: [GET]", "methods: [inherit, PUT]", "methods: [inherit, POST]", methods,
			"GET", "GET PUT", "GET PUT POST"},
		{"inherit from built-in", "retry", "methods: [inherit, PROPFIND]", "", "", methods,
			"GET HEAD OPTIONS TRACE PUT DELETE PROPFIND", "GET HEAD OPTIONS TRACE PUT DELETE PROPFIND", "GET HEAD OPTIONS TRACE PUT DELETE PROPFIND"},
		{"inherit what is there", "retry", "methods: [GET]", "methods: [inherit, GET]", "methods: [inherit]", methods, "GET", "GET", "GET"},
		{"empty list", "retry", "methods: [GET]", "methods: []", "methods: [inherit]", methods, "GET", "", ""},
		{"conditions", "retry", "retry_on: [503]", "retry_on: [inherit, timeout]", "retry_on: [429]", retryOn,
			"503", "timeout 503", "429"},
		{"keys", "retry", "idempotency_key: A", "idempotency_key: [inherit, B]", "idempotency_key: []", keys, "A", "A B", ""},
		{"timeout", "timeout", "idle: 1s", "connect: 2s", "idle: 3s", timeouts, "5s 1s", "2s 1s", "2s 3s"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := parse(t, levels(test.section, test.defaults, test.upstream, test.route), lookup(nil))
			u := c.Upstreams[0]
			got := []any{test.value(c.Default.Default), test.value(u.Default), test.value(u.Routes[0])}
			want := []any{test.inDefaults, test.inUpstream, test.inRoute}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("defaults, upstream, route: got %v, want %v", got, want)
			}
		})
	}
}

func attempts(r *policy.Route) any { return r.Retry.MaxAttempts }
func methods(r *policy.Route) any  { return strings.Join(r.Retry.Methods, " ") }
func keys(r *policy.Route) any     { return strings.Join(r.Retry.IdempotencyKeys, " ") }
func retryOn(r *policy.Route) any  { return strings.Join(r.Retry.RetryOn.Words(), " ") }
func timeouts(r *policy.Route) any { return fmt.Sprint(r.Timeout.Connect, r.Timeout.Idle) }
func backoff(r *policy.Route) any {
	b := r.Retry.Backoff
	return fmt.Sprint(b.Strategy, b.Multiplier, b.Jitter)
}

// TestFeatures: what is off unless it is written. A map turns it on and is read over
// what is inherited, or what is built in; off turns it off, for those below too.
func TestFeatures(t *testing.T) {
	breaker := func(c policy.BreakerConfig) string {
		return fmt.Sprint(c.FailureRatio, c.MinRequests, c.Window, c.OpenFor, c.MaxOpenFor, c.Probes)
	}
	const off, builtin = "0 0 0s 0s 0s 0", "0.5 20 10s 5s 1m0s 1"
	tests := []struct {
		name, defaults, upstream string
		of                       func(*policy.Upstream) string
		inDefaults, inUpstream   string
	}{
		{"breaker off", "", "", func(u *policy.Upstream) string { return breaker(u.Breaker) }, off, off},
		{"breaker on", "", "circuit_breaker: {}", func(u *policy.Upstream) string { return breaker(u.Breaker) }, off, builtin},
		{"breaker without a value", "", "circuit_breaker: ", func(u *policy.Upstream) string { return breaker(u.Breaker) }, off, builtin},
		{"breaker on for all", "circuit_breaker: {}", "", func(u *policy.Upstream) string { return breaker(u.Breaker) }, builtin, builtin},
		{"breaker key by key", "circuit_breaker: {probes: 3}", "circuit_breaker: {failure_ratio: 1, window: 1m}",
			func(u *policy.Upstream) string { return breaker(u.Breaker) }, "0.5 20 10s 5s 1m0s 3", "1 20 1m0s 5s 1m0s 3"},
		{"breaker off again", "circuit_breaker: {probes: 3}", "circuit_breaker: off",
			func(u *policy.Upstream) string { return breaker(u.Breaker) }, "0.5 20 10s 5s 1m0s 3", off},
		{"breaker off in words of the environment", "circuit_breaker: {}", "circuit_breaker: '${NONE:-off}'",
			func(u *policy.Upstream) string { return breaker(u.Breaker) }, builtin, off},
		{"breaker on after off", "circuit_breaker: off", "circuit_breaker: {}", func(u *policy.Upstream) string { return breaker(u.Breaker) }, off, builtin},
		{"open_for over an inherited max", "", "circuit_breaker: {open_for: 2m}", func(u *policy.Upstream) string { return breaker(u.Breaker) },
			off, "0.5 20 10s 1m0s 1m0s 1"},
		{"max_open_for under an inherited open_for", "circuit_breaker: {open_for: 20s}", "circuit_breaker: {max_open_for: 1s}",
			func(u *policy.Upstream) string { return breaker(u.Breaker) }, "0.5 20 10s 20s 1m0s 1", "0.5 20 10s 1s 1s 1"},
		{"concurrency", "", "concurrency: {max: 5}", inPlaces, "0 0 0s", "5 10 1s"},
		{"queue of an inherited max", "concurrency: {max: 64}", "concurrency: {max_wait: 0s}", inPlaces, "64 128 1s", "64 128 0s"},
		{"queue of another max", "concurrency: {max: 64}", "concurrency: {max: 5}", inPlaces, "64 128 1s", "5 10 1s"},
		{"inherited queue", "concurrency: {max: 64, queue: 7}", "concurrency: {max: 5}", inPlaces, "64 7 1s", "5 7 1s"},
		{"no queue", "concurrency: {max: 64}", "concurrency: {queue: 0}", inPlaces, "64 128 1s", "64 0 1s"},
		{"concurrency off", "concurrency: {max: 64}", "concurrency: off", inPlaces, "64 128 1s", "0 0 0s"},
		{"rate", "", "rate_limit: {per_second: 2.5}", spaced, "0 0 0s", "2.5 3 1s"},
		{"a low rate", "", "rate_limit: {per_second: 0.01, max_wait: 1m}", spaced, "0 0 0s", "0.01 1 1m0s"},
		{"burst of another rate", "rate_limit: {per_second: 50}", "rate_limit: {per_second: 10}", spaced, "50 50 1s", "10 10 1s"},
		{"inherited burst", "rate_limit: {per_second: 50, burst: 5}", "rate_limit: {per_second: 10, max_wait: 0s}", spaced, "50 5 1s", "10 5 0s"},
		{"rate off", "rate_limit: {per_second: 50}", "rate_limit: off", spaced, "50 50 1s", "0 0 0s"},
		{"checks", "", "health_check: {path: '/healthz?a=..'}", checked, " 0s 0s 0 0", "/healthz?a=.. 5s 1s 3 2"},
		{"checks for all", "health_check: {path: /a, timeout: 2s}", "health_check: {interval: 500ms, healthy_after: 1}", checked,
			"/a 5s 2s 3 2", "/a 500ms 500ms 3 1"},
		{"checks off", "health_check: {path: /a}", "health_check: off", checked, "/a 5s 1s 3 2", " 0s 0s 0 0"},
		{"hedge", "", "hedge: {}", hedged, "0s 0", "300ms 1"},
		{"hedge by p95", "hedge: {delay: p95}", "hedge: {max: 2}", hedged, "0s 1", "0s 2"},
		{"hedge off", "hedge: {delay: p95}", "hedge: off", hedged, "0s 1", "0s 0"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := parse(t, "defaults:\n  "+test.defaults+"\nupstreams:\n  u:\n    endpoints: [http://u.example]\n    "+test.upstream+"\n", lookup(nil))
			if got := test.of(c.Default); got != test.inDefaults {
				t.Errorf("defaults: got %q, want %q", got, test.inDefaults)
			}
			if got := test.of(c.Upstreams[0]); got != test.inUpstream {
				t.Errorf("upstream: got %q, want %q", got, test.inUpstream)
			}
		})
	}
}

func inPlaces(u *policy.Upstream) string {
	return fmt.Sprint(u.Concurrency.Max, u.Concurrency.Queue, u.Concurrency.MaxWait)
}
func spaced(u *policy.Upstream) string {
	return fmt.Sprint(u.RateLimit.PerSecond, u.RateLimit.Burst, u.RateLimit.MaxWait)
}
func hedged(u *policy.Upstream) string {
	return fmt.Sprint(u.Default.Hedge.Delay, u.Default.Hedge.Max)
}
func checked(u *policy.Upstream) string {
	h := u.HealthCheck
	return fmt.Sprintf("%s %v %v %d %d", h.Path, h.Interval, h.Timeout, h.UnhealthyAfter, h.HealthyAfter)
}

// TestRoutesInherit: what a route may have, it has from its upstream.
func TestRoutesInherit(t *testing.T) {
	c := parse(t, `
defaults:
  attempt_header: X-Attempt
  retry: {count_client_retries: true}
upstreams:
  u:
    hosts: [u.example]
    remaining_header: X-Remaining-Ms
    hedge: {delay: 1s}
    buffer: {first_event: true}
    routes:
      - {name: same}
      - {name: other, attempt_header: "", remaining_header: Grpc-Timeout, hedge: {max: 3}, retry: {count_client_retries: false}, buffer: {first_event: false}}
      - {name: none, hedge: off, remaining_header: ""}
`, lookup(nil))
	u := c.Upstreams[0]
	var got []string
	for _, r := range append(u.Routes, u.Default, c.Default.Default) {
		got = append(got, fmt.Sprint(r.Name, " ", r.AttemptHeader, ",", r.RemainingHeader, " ", r.Hedge, r.Retry.CountClientRetries, r.Buffer.FirstEvent))
	}
	want := []string{
		"same X-Attempt,X-Remaining-Ms {1s 1} true true", "other ,Grpc-Timeout {1s 3} false false", "none X-Attempt, {0s 0} true true",
		"default X-Attempt,X-Remaining-Ms {1s 1} true true", "default X-Attempt, {0s 0} true false"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// TestCapped: values that were written apart give way to each other. No wait is
// longer than max_delay and nothing outlasts total, whoever wrote them.
func TestCapped(t *testing.T) {
	delays := func(r *policy.Route) any { return fmt.Sprint(r.Retry.Backoff.Initial, r.Retry.Backoff.Max) }
	limits := func(r *policy.Route) any {
		return fmt.Sprint(r.Timeout.Connect, r.Timeout.Attempt, r.Timeout.Total)
	}
	tests := []struct {
		name, section, defaults, upstream, route string
		value                                    func(*policy.Route) any
		inUpstream, inRoute                      string
		warnings                                 int
	}{
		{"inherited initial_delay", "retry", "", "backoff: {max_delay: 100ms}", "", delays, "100ms 100ms", "100ms 100ms", 0},
		{"written initial_delay", "retry", "", "backoff: {initial_delay: 10s}", "", delays, "5s 5s", "5s 5s", 1},
		{"what was capped is not inherited", "retry", "", "backoff: {max_delay: 100ms}", "backoff: {max_delay: 10s}", delays,
			"100ms 100ms", "250ms 10s", 0},
		{"two levels", "retry", "backoff: {initial_delay: 2s}", "backoff: {max_delay: 1s}", "", delays, "1s 1s", "1s 1s", 0},
		{"inherited attempt", "timeout", "", "total: 2s", "", limits, "2s 2s 2s", "2s 2s 2s", 0},
		{"written attempt", "timeout", "", "attempt: 20m", "", limits, "5s 10m0s 10m0s", "5s 10m0s 10m0s", 1},
		{"no limit stays none", "timeout", "attempt: 0s, connect: 0s", "total: 2s", "", limits, "0s 0s 2s", "0s 0s 2s", 0},
		{"total without limit", "timeout", "total: 0s", "attempt: 20m", "", limits, "5s 20m0s 0s", "5s 20m0s 0s", 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := parse(t, levels(test.section, test.defaults, test.upstream, test.route), lookup(nil))
			u := c.Upstreams[0]
			if got := test.value(u.Default); got != test.inUpstream {
				t.Errorf("upstream: got %v, want %v", got, test.inUpstream)
			}
			if got := test.value(u.Routes[0]); got != test.inRoute {
				t.Errorf("route: got %v, want %v", got, test.inRoute)
			}
			if len(c.Warnings) != test.warnings {
				t.Errorf("warnings %q", c.Warnings)
			}
		})
	}
}

// TestInheritanceCopies: nothing that one upstream adds shows in another.
func TestInheritanceCopies(t *testing.T) {
	c := parse(t, `
upstreams:
  a: {hosts: [a.example], retry: {methods: [inherit, LOCK], budget: {burst: 9}}, timeout: {idle: 1s}}
  b: {hosts: [b.example], retry: {methods: [inherit, MOVE]}, connections: {idle: 1s}}
  c: {hosts: [c.example]}
`, lookup(nil))
	for i, last := range []string{"LOCK", "MOVE", "DELETE"} {
		list := c.Upstreams[i].Default.Retry.Methods
		if list[len(list)-1] != last {
			t.Errorf("%s has %q", c.Upstreams[i].Name, list)
		}
	}
	third := *c.Upstreams[2]
	third.Name, third.Hosts = c.Default.Name, nil
	if !reflect.DeepEqual(&third, config.Default().Default) || !reflect.DeepEqual(c.Default, config.Default().Default) {
		t.Error("an upstream changed what another inherits")
	}
	if c.Upstreams[0].Budget.Burst != 9 || c.Upstreams[1].Connections.Idle != time.Second {
		t.Error("what is kept per upstream was not read")
	}
}

// TestOrderDoesNotMatter: defaults hold for upstreams that stand before them.
func TestOrderDoesNotMatter(t *testing.T) {
	c := parse(t, `
upstreams:
  a: {routes: [{name: r}], retry: {mode: off}, hosts: [a.example]}
defaults: {retry: {max_attempts: 2}}
`, lookup(nil))
	r := c.Upstreams[0].Routes[0].Retry
	if r.MaxAttempts != 2 || r.Mode != policy.ModeOff {
		t.Errorf("got %+v", r)
	}
}

// TestAliases: an anchor may be used again, and a map merged.
func TestAliases(t *testing.T) {
	c := parse(t, `
upstreams:
  a: &a
    hosts: [a.example]
    retry: &retry {max_attempts: 2, mode: observe}
    timeout: {idle: 1s}
  b: {<<: *a, hosts: [b.example], retry: {<<: *retry, mode: off}}
  c:
    <<: [{preserve_host: true}, {preserve_host: false, retry: {max_attempts: 3}}]
    hosts: [c.example]
  d: {hosts: [d.example], retry: *retry}
`, lookup(nil))
	var got []string
	for _, u := range c.Upstreams {
		r := u.Default
		got = append(got, fmt.Sprint(u.Hosts[0], u.PreserveHost, r.Retry.MaxAttempts, r.Retry.Mode, r.Timeout.Idle))
	}
	want := []string{"a.example false 2 1 1s", "b.example false 2 2 1s", "c.example true 3 0 5m0s", "d.example false 2 1 5m0s"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
