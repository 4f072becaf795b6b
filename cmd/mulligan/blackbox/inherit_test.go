package blackbox

import (
	"fmt"
	"testing"
)

// Section 3: exact beats wildcard, a longer wildcard a shorter one, a port beats
// none, none means any port; without case or trailing dot.
func TestHostPrecedence(t *testing.T) {
	t.Parallel()
	echo := func(name string) *upstream { return answers(t, text(200, name)) }
	exact, exactPort, long, short, shortPort, any := echo("exact"), echo("exact port"), echo("long"), echo("short"), echo("short port"), echo("any")
	p := start(t, fmt.Sprintf(`
upstreams:
  any: {hosts: ["*"], endpoints: ["http://%s"]}
  short: {hosts: ["*.example.test"], endpoints: ["http://%s"]}
  short-port: {hosts: ["*.example.test:8443"], endpoints: ["http://%s"]}
  long: {hosts: ["*.api.example.test"], endpoints: ["http://%s"]}
  exact: {hosts: [one.api.example.test, other.test], endpoints: ["http://%s"]}
  exact-port: {hosts: ["one.api.example.test:8443"], endpoints: ["http://%s"]}
`, any.addr, short.addr, shortPort.addr, long.addr, exact.addr, exactPort.addr))
	for host, body := range map[string]string{
		"one.api.example.test":       "exact",
		"ONE.api.Example.TEST.":      "exact",
		"one.api.example.test:80":    "exact",
		"one.api.example.test:8443":  "exact port",
		"two.api.example.test":       "long",
		"two.api.example.test:8443":  "long",
		"a.b.api.example.test":       "long",
		"api.example.test":           "short",
		"api.example.test:8443":      "short port",
		"x.example.test:9":           "short",
		"example.test":               "any",
		"other.test:123":             "exact",
		"xother.test":                "any",
		"api.example.test.evil.test": "any",
	} {
		want(t, "upstream of "+host, p.get("http://"+host+"/").Body, body)
		want(t, "upstream by Host "+host, p.raw(lines("GET / HTTP/1.1", "Host: "+host)).Body, body)
	}
}

// Precedence: built-in, defaults, upstream, route; maps merge key by key,
// scalars replace, a list replaces unless it begins with `inherit`.
func TestInheritance(t *testing.T) {
	t.Parallel()
	busy, down := answers(t, text(429, "")), answers(t, text(503, ""))
	p := start(t, fmt.Sprintf(`
defaults: {retry: {max_attempts: 2, %[1]s}}
upstreams:
  plain: {hosts: [plain.test, "%[2]s"], endpoints: ["http://%[2]s"]}
  adds: {hosts: [adds.test], endpoints: ["http://%[2]s"], retry: {retry_on: [inherit, 429]}, mount: /adds}
  replaces: {hosts: [replaces.test], endpoints: ["http://%[3]s"], retry: {retry_on: [429]}}
  scalar: {hosts: [scalar.test], endpoints: ["http://%[3]s"], retry: {max_attempts: 5}}
  routed:
    hosts: [routed.test]
    endpoints: ["http://%[3]s"]
    retry: {max_attempts: 3}
    routes:
      - {name: r, match: {path: /r}, retry: {methods: [inherit, POST]}}
      - {name: s, match: {path: /s}, retry: {max_attempts: 4}}
  excludes: {hosts: [excludes.test], endpoints: ["http://%[3]s"], retry: {do_not_retry_on: [503]}}
  classes: {hosts: [classes.test], endpoints: ["http://%[2]s"], retry: {retry_on: [dependency_overloaded]}}
  hundred: {hosts: [hundred.test], endpoints: ["http://%[2]s"], retry: {retry_on: [4xx]}}
`, quick, busy.addr, down.addr))
	for _, row := range []struct {
		method, url string
		status      int
		line        string
	}{
		{"GET", "http://plain.test/", 429, "attempts=1; stop=permanent"},
		{"GET", "http://adds.test/", 429, "attempts=2; stop=max_attempts"},
		{"GET", "http://replaces.test/", 503, "attempts=1; stop=permanent"},
		{"GET", "http://scalar.test/", 503, "attempts=5; stop=max_attempts"},
		{"GET", "http://routed.test/", 503, "attempts=3; stop=max_attempts"},
		{"POST", "http://routed.test/r", 503, "attempts=3; stop=max_attempts"},
		{"GET", "http://routed.test/r", 503, "attempts=3; stop=max_attempts"},
		{"POST", "http://routed.test/s", 503, "attempts=1; stop=not_idempotent"},
		{"GET", "http://routed.test/s", 503, "attempts=4; stop=max_attempts"},
		{"GET", "http://excludes.test/", 503, "attempts=1; stop=permanent"},
		{"GET", "http://classes.test/", 429, "attempts=2; stop=max_attempts"},
		{"GET", "http://hundred.test/", 429, "attempts=2; stop=max_attempts"},
	} {
		p.do(row.method, row.url, "").expect(t, row.status, row.line)
	}
}

// An inherited value that contradicts is capped, not an error.
func TestInheritedIsCapped(t *testing.T) {
	t.Parallel()
	u := answers(t, text(503, ""))
	p := start(t, fmt.Sprintf(`
defaults: {timeout: {attempt: 30s}, retry: {budget: {burst: 100}, backoff: {initial_delay: 250ms, jitter: none}}}
upstreams:
  capped: {hosts: [capped.test], endpoints: ["http://%s"], timeout: {total: 20s}, retry: {max_attempts: 3, backoff: {max_delay: 1ms}}}
`, u.addr))
	p.get("http://capped.test/").expect(t, 503, "attempts=3; stop=max_attempts; received-status=503")
}

// Every 4xx is permanent unless listed; so are 500, 501 and 505; 502, 503 and
// 504 are retried.
func TestStatusesThatAreRetried(t *testing.T) {
	t.Parallel()
	p := start(t, `defaults: {retry: {max_attempts: 2, `+quick+`}}`)
	for _, status := range []int{400, 401, 403, 404, 405, 406, 408, 409, 410, 412, 413, 415, 416, 418, 421, 422, 423, 425, 426, 429, 431, 451, 499, 500, 501, 505, 507, 508, 511, 520, 529, 599} {
		u := answers(t, text(status, ""))
		p.get(u.url("/")).expect(t, status, fmt.Sprintf("attempts=1; stop=permanent; received-status=%d", status))
	}
	for _, status := range []int{502, 503, 504} {
		u := answers(t, text(status, ""))
		p.get(u.url("/")).expect(t, status, fmt.Sprintf("attempts=2; stop=max_attempts; received-status=%d", status))
	}
}
