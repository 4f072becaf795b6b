package config_test

import (
	"reflect"
	"testing"
)

func TestWarnings(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string
	}{
		{"POST for all", "defaults: {retry: {methods: [inherit, POST]}}", []string{
			"mulligan.yaml:1:29: defaults.retry: POST is repeated wherever no route says otherwise, with whatever it does twice; list it in the routes that can bear it, or send an idempotency key"}},
		{"PATCH in an upstream", "upstreams: {a: {hosts: [a.example], retry: {methods: [PATCH]}}}", []string{
			"mulligan.yaml:1:54: upstreams.a.retry: PATCH is repeated wherever no route says otherwise, with whatever it does twice; list it in the routes that can bear it, or send an idempotency key"}},
		{"POST in a route", "upstreams: {a: {hosts: [a.example], routes: [{name: r, retry: {methods: [POST]}}]}}", nil},
		{"small letters", "defaults: {retry: {methods: [get]}}", []string{
			"mulligan.yaml:1:30: defaults.retry.methods[0]: methods are case-sensitive, and this one is not in capitals"}},
		{"a floor for all", "defaults: {retry: {budget: {min_per_second: 1}}}", []string{
			"mulligan.yaml:1:45: defaults.retry.budget: min_per_second for every upstream adds up over all sidecars; write it where callers are few"}},
		{"a floor for one", "upstreams: {a: {hosts: [a.example], retry: {budget: {min_per_second: 1}}}}", nil},
		{"more retries than answers", "defaults: {retry: {budget: {ratio: 1.5}}}", []string{
			"mulligan.yaml:1:36: defaults.retry.budget: a ratio over 1 allows more retries than answers, and more than doubles the load of a failing upstream"}},
		{"success", "defaults: {retry: {retry_on: [200, 3xx, 404], do_not_retry_on: [200]}}", []string{
			`mulligan.yaml:1:31: defaults.retry.retry_on[0]: "200" retries answers that are no failures`,
			`mulligan.yaml:1:36: defaults.retry.retry_on[1]: "3xx" retries answers that are no failures`}},
		{"a preset's POST", "upstreams: {a: {hosts: [a.example], preset: openai, retry: {methods: [inherit, LOCK]}}}", nil},
		{"POST beside a preset", "upstreams: {a: {hosts: [a.example], preset: openai, retry: {methods: [inherit, PATCH]}}}", []string{
			"mulligan.yaml:1:70: upstreams.a.retry: PATCH is repeated wherever no route says otherwise, with whatever it does twice; list it in the routes that can bear it, or send an idempotency key"}},
		{"a rule about success", "defaults: {retry: {rules: [{status: [503, 2xx], retry: true}]}}", []string{
			"mulligan.yaml:1:37: defaults.retry.rules[0]: this rule retries answers that are no failures"}},
		{"a rule about some successes", "defaults: {retry: {rules: [{status: 200, json: {ok: false}, retry: true}, {status: 200, retry: false}]}}", nil},
		{"no way in", "upstreams: {a: {endpoints: [http://a.example]}}", []string{
			"mulligan.yaml:1:13: upstreams.a: nothing leads to this upstream: it has no hosts, listen or mount"}},
		{"routes behind all", "upstreams: {a: {hosts: [a.example], routes: [{name: r, match: {path: /*}}, {name: s}, {name: t}]}}", []string{
			"mulligan.yaml:1:76: upstreams.a.routes[1]: never reached: the route before it matches everything",
			"mulligan.yaml:1:87: upstreams.a.routes[2]: never reached: the route before it matches everything"}},
		{"admin port of others", "listen: {admin: ':1', allow_clients: [10.0.0.0/8]}", []string{
			"mulligan.yaml:1:17: listen.admin: without listen.auth this port serves other machines only metrics and health"}},
		{"acme on loopback", "listen: {proxy: {address: 'localhost:1', tls: {acme: {}, names: [a.example]}}}", []string{
			"mulligan.yaml:1:27: listen.proxy: acme: an authority that is not on this machine cannot reach this address to check the names"}},
		{"acme on an own port", "upstreams: {a: {endpoints: [http://a.example], listen: {address: '127.0.0.1:1', tls: {names: [a.example], acme: {}}}}}", []string{
			"mulligan.yaml:1:66: upstreams.a.listen: acme: an authority that is not on this machine cannot reach this address to check the names"}},
		{"acme for others", "listen: {allow_clients: [10.0.0.0/8], proxy: {address: ':1', tls: {acme: {}, names: [a.example]}}}", nil},
		{"internal on loopback", "listen: {proxy: {address: 'localhost:1', tls: {internal: true}}}", nil},
		{"gRPC", "defaults: {retry: {retry_on: [grpc_unavailable]}}", nil},
		{"admin port with auth", "listen: {admin: ':1', auth: {username: a, password: b}}", nil},
		{"attempt over an inherited total", "defaults: {timeout: {attempt: 20m}}", []string{
			"mulligan.yaml:1:31: defaults.timeout: attempt is longer than the total that is inherited, and is cut to it; write total here too"}},
		{"initial over an inherited maximum", "defaults: {retry: {backoff: {initial_delay: 6s}}}", []string{
			"mulligan.yaml:1:45: defaults.retry.backoff: initial_delay is over the max_delay that is inherited, and is cut to it; write max_delay here too"}},
		{"open_for over an inherited maximum", "defaults: {circuit_breaker: {open_for: 2m}}", []string{
			"mulligan.yaml:1:40: defaults.circuit_breaker: open_for is over the max_open_for that is inherited, and is cut to it; write max_open_for here too"}},
		{"an inherited open_for", "defaults: {circuit_breaker: {max_open_for: 1s}}", nil},
		{"timeout over an inherited interval", "defaults: {health_check: {path: /, timeout: 6s}}", []string{
			"mulligan.yaml:1:45: defaults.health_check: timeout is longer than the interval that is inherited, and is cut to it; write interval here too"}},
		{"an inherited timeout", "defaults: {health_check: {path: /, interval: 500ms}}", nil},
		{"hedge without retries", "upstreams: {a: {hosts: [a.example], retry: {max_attempts: 1}, hedge: {}}}", []string{
			"mulligan.yaml:1:70: upstreams.a: hedge does nothing: retry.max_attempts is 1, hedges included"}},
		{"hedge with mode off", "upstreams: {a: {hosts: [a.example], retry: {mode: off}, routes: [{name: r, hedge: {}}]}}", []string{
			"mulligan.yaml:1:83: upstreams.a.routes[0]: hedge does nothing: retry.mode is off"}},
		{"hedge after the attempt", "upstreams: {a: {hosts: [a.example], timeout: {attempt: 200ms}, hedge: {delay: 200ms}}}", []string{
			"mulligan.yaml:1:71: upstreams.a: hedge does nothing: timeout.attempt ends attempts before delay is over"}},
		{"hedge after the window", "upstreams: {a: {hosts: [a.example], timeout: {attempt: 0s, total: 1s}, hedge: {delay: 2s}}}", []string{
			"mulligan.yaml:1:79: upstreams.a: hedge does nothing: timeout.total ends the request before delay is over"}},
		{"hedge without limits", "upstreams: {a: {hosts: [a.example], timeout: {attempt: 0s, total: 0s}, hedge: {delay: 2s}}}", nil},
		{"hedge by p95 with a short attempt", "upstreams: {a: {hosts: [a.example], timeout: {attempt: 10ms}, hedge: {delay: p95}}}", nil},
		{"hedge in time", "upstreams: {a: {hosts: [a.example], timeout: {attempt: 201ms}, hedge: {delay: 200ms}}}", nil},
		{"hedge for routes", "upstreams: {a: {hosts: [a.example], hedge: {}, retry: {mode: off}, routes: [{name: r, retry: {mode: on}}]}}", nil},
		{"hedge for upstreams", "defaults: {hedge: {}, retry: {mode: off}}", nil},
		{"hedge off", "upstreams: {a: {hosts: [a.example], hedge: off, retry: {mode: off}}}", nil},
		{"no room for a first event", "defaults: {buffer: {response: 0, first_event: true}}", []string{
			"mulligan.yaml:1:47: defaults.buffer: first_event does nothing: response, the most that is held of a stream, is 0"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := parse(t, test.text, lookup(nil)).Warnings; !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %q\nwant %q", got, test.want)
			}
		})
	}
}
