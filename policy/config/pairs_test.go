package config_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"mulligan/policy/config"
)

// fault is one error that a file can have: what it writes, by place, and what is
// said about it. It is said whatever else is wrong, but for what is in excuse: a
// key in doubt on which it would be built.
type fault struct {
	name   string
	writes map[string]string
	excuse string
}

var faults = []fault{
	{"unknown key", map[string]string{"top": "nonsense: 1"}, ""},
	{"misplaced key", map[string]string{"top2": "max_attempts: 1"}, ""},
	{"data directory", map[string]string{"top3": "data_dir: ''"}, ""},
	{"key of later", map[string]string{"top3": "store: embedded"}, ""},
	{"word", map[string]string{"log": "level: loud"}, ""},
	{"wrong map", map[string]string{"destinations": "text"}, ""},
	{"proxy address", map[string]string{"proxy": "proxy: nowhere"}, ""},
	{"proxy without address", map[string]string{"proxy": "proxy: {}"}, ""},
	{"open proxy", map[string]string{"proxy": `proxy: ":7080"`}, "clients"},
	{"proxy on the admin port", map[string]string{"proxy": "proxy: 127.0.0.1:7081"}, "admin"},
	{"proxy's tls of no kind", map[string]string{"proxy": "proxy: {address: 127.0.0.1:7080, tls: {names: ['*']}}"}, ""},
	{"proxy's tls of two kinds", map[string]string{"proxy": "proxy: {address: 127.0.0.1:7080, tls: {internal: true, acme: {email: x}}}"}, ""},
	{"admin address", map[string]string{"admin": `admin: ":x"`}, ""},
	{"admin without address", map[string]string{"admin": "admin: {addres: ':7081'}"}, ""},
	{"clients", map[string]string{"clients": "allow_clients: [10.0.0.0/99]"}, ""},
	{"clients misspelt", map[string]string{"clients": "allow_client: [10.0.0.0/8]"}, ""},
	{"auth", map[string]string{"auth": "admin_hosts: ['*']"}, ""},
	{"timeout", map[string]string{"timeout": "connect: 5"}, ""},
	{"attempt over total", map[string]string{"timeout": "attempt: 2m, total: 1m"}, ""},
	{"two contradictions", map[string]string{"timeout": "attempt: 2m, connect: 2m, total: 1m, idle: x"}, ""},
	{"delays", map[string]string{"backoff": "initial_delay: 2s, max_delay: 1s"}, ""},
	{"delays and jitter", map[string]string{"backoff": "initial_delay: 2s, max_delay: 1s, jitter: x, jitter: y"}, ""},
	{"conditions", map[string]string{"retry": "retry_on: [denied, nothing, inherit, 503]"}, ""},
	{"rules", map[string]string{"retry": "rules: [{retry: true}, {status: timeout}, {json: {a..b: }}], reset_headers: [{name: x}]"}, ""},
	{"route with a preset", map[string]string{"route": "name: r, preset: aws, retry: {rules: [{status: 4}]}"}, ""},
	{"preset", map[string]string{"check": "preset: stirpe"}, ""},
	{"repeated", map[string]string{"retry": "mode: on, mode: x"}, ""},
	{"host", map[string]string{"hosts": `["bad host"]`}, ""},
	{"host of another", map[string]string{"hosts": "[a.example, b.example]"}, ""},
	{"hosts of no kind", map[string]string{"hosts": "text"}, ""},
	{"endpoint", map[string]string{"endpoints": "endpoints: [a.example]"}, ""},
	{"endpoints misspelt", map[string]string{"endpoints": "end_points: ['https://a.example']"}, ""},
	{"endpoints repeated", map[string]string{"endpoints": "endpoints: [], endpoints: ['https://a.example']"}, ""},
	{"mount without endpoints", map[string]string{"mount": "mount: /a"}, "endpoints"},
	{"breaker", map[string]string{"features": "circuit_breaker: yes"}, ""},
	{"breaker's times", map[string]string{"features": "circuit_breaker: {open_for: 2s, max_open_for: 1s, probes: 0}"}, ""},
	{"concurrency without max", map[string]string{"features": "concurrency: {queue: 1}"}, ""},
	{"rate misspelt", map[string]string{"rate": "rate_limit: {per_secnd: 1, burst: x}"}, ""},
	{"hedge", map[string]string{"hedge": "hedge: {delay: p50}"}, ""},
	{"check without endpoints", map[string]string{"check": "health_check: {path: /}"}, "endpoints"},
	{"wrong check without endpoints", map[string]string{"check": "health_check: {}"}, "endpoints"},
	{"wrong word for a check", map[string]string{"check": "health_check: no"}, ""},
	{"two headers", map[string]string{"headers": "attempt_header: X-A, remaining_header: x-a"}, ""},
	{"header", map[string]string{"headers": "attempt_header: Host, remaining_header: Host"}, ""},
	{"route with a breaker", map[string]string{"route": "name: r, circuit_breaker: off, hedge: on"}, ""},
	{"endpoint twice", map[string]string{"endpoints": "endpoints: ['http://a.example', 'http://a.example:80']"}, ""},
	{"wrong mount without endpoints", map[string]string{"mount": "mount: a"}, "endpoints"},
	{"listen without endpoints", map[string]string{"listen": "listen: 127.0.0.1:7090"}, "endpoints"},
	{"listen with acme without names", map[string]string{"listen": "listen: {address: 127.0.0.1:7090, tls: {acme: {}}}"}, "endpoints"},
	{"listen without address", map[string]string{"listen": "listen: {tls: {cert_file: missing.pem}}"}, "endpoints"},
	{"rewrite without endpoints", map[string]string{"tls": "intercept: true, rewrite: true"}, "endpoints"},
	{"intercept of no kind", map[string]string{"tls": "intercept: 1, min_version: 1"}, ""},
	{"tls without endpoints", map[string]string{"tls": "rewrite: true"}, "endpoints"},
	{"wrong tls without endpoints", map[string]string{"tls": "rewrite: 1"}, "endpoints"},
	{"certificate without key", map[string]string{"tls": "client_cert_file: missing.pem"}, "endpoints"},
	{"route without name", map[string]string{"route": "match: {path: /a}"}, ""},
	{"same route", map[string]string{"route": "name: second"}, ""},
	{"route path", map[string]string{"route": "name: r, match: {path: a, methods: ['?']}"}, ""},
	{"route with a budget", map[string]string{"route": "name: r, retry: {budget: {}, mode: x}"}, ""},
	{"route timeouts", map[string]string{"route": "name: r, timeout: {attempt: 2m, total: 1m}"}, ""},
	{"upstream's name", map[string]string{"name": "'a b'"}, ""},
	{"repeated upstream", map[string]string{"last": "  b: {hosts: [b.example], via: true}"}, ""},
	{"upstream without a way", map[string]string{"last": "  c: {}"}, ""},
	{"upstream of no kind", map[string]string{"last": "  c: text"}, ""},
	{"mount of another", map[string]string{"last": "  c: {endpoints: ['http://c.example'], mount: /b}"}, ""},
}

// file has one line for each place, so that errors keep theirs.
func file(all map[string]string) string {
	at := func(place, otherwise string) string {
		if text, ok := all[place]; ok {
			return text
		}
		return otherwise
	}
	list := func(keys ...string) string {
		text := ""
		for _, key := range keys {
			text += "    " + at(key, "") + ",\n"
		}
		return strings.ReplaceAll(text, "    ,\n", "\n")
	}
	return at("top", "") + "\n" + at("top2", "") + "\n" + at("top3", "") + "\n" +
		"log: {" + at("log", "") + "}\n" +
		"destinations: " + at("destinations", "{}") + "\n" +
		"listen: {\n" + list("proxy", "admin", "clients", "auth") + "  }\n" +
		"defaults: {\n  timeout: {" + at("timeout", "") + "},\n  retry: {\n    backoff: {" + at("backoff", "") + "},\n" + list("retry") + "  }}\n" +
		"upstreams:\n" +
		"  " + at("name", "a") + ": {\n" +
		"    hosts: " + at("hosts", "[a.example]") + ",\n" + list("endpoints", "mount", "listen", "features", "rate", "hedge", "check", "headers") +
		"    tls: {" + at("tls", "") + "},\n" +
		"    routes: [{name: second},\n     {" + at("route", "name: first") + "}]}\n" +
		"  b: {hosts: [b.example], endpoints: ['http://b.example'], mount: /b}\n" +
		at("last", "") + "\n"
}

// TestTwoFaults: of any two errors both are reported in one run, and nothing that
// neither of them is. What is built on a key in doubt is the exception: it comes
// to light, or not, when that is mended.
func TestTwoFaults(t *testing.T) {
	if got := said(file(nil)); len(got) > 0 {
		t.Fatalf("nothing is wrong, but %q", got)
	}
	for i, one := range faults {
		alone := said(file(one.writes))
		if len(alone) == 0 {
			t.Errorf("%s: accepted", one.name)
		}
		for _, other := range faults[:i] {
			both := maps.Clone(one.writes)
			if maps.Copy(both, other.writes); len(both) == 1 {
				continue // in the same place
			}
			want := append(slices.Clone(alone), said(file(other.writes))...)
			want = excuse(excuse(want, one, other), other, one)
			slices.Sort(want)
			if got := said(file(both)); !slices.Equal(got, slices.Compact(want)) {
				t.Errorf("%s, %s: got\n%s\nwant\n%s", other.name, one.name, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	}
}

// excuse drops from what is said about a fault what is built on the other.
func excuse(all []string, f, other fault) []string {
	if _, doubt := other.writes[f.excuse]; !doubt {
		return all
	}
	return slices.DeleteFunc(all, func(text string) bool {
		return strings.Contains(text, "needs endpoints") || strings.Contains(text, "https endpoints") ||
			strings.Contains(text, "nothing says who") || strings.Contains(text, "by default")
	})
}

// said returns what is wrong with a configuration, sorted. Keys of an upstream
// are the same whatever its name.
func said(text string) []string {
	_, err := config.Parse("f", []byte(text), lookup(nil))
	var all *config.Errors
	if !errors.As(err, &all) {
		return nil
	}
	var said []string
	for _, e := range all.All {
		said = append(said, strings.ReplaceAll(e.Error(), `upstreams."a b"`, "upstreams.a"))
	}
	slices.Sort(said)
	return said
}
