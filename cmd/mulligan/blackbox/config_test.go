package blackbox

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var located = regexp.MustCompile(`mulligan\.yaml:[1-9][0-9]*:[1-9][0-9]*: `)

// Section 3: a bad file is refused with file:line:column, what is wrong, and the
// nearest valid word; exit status 1, by check and by serve alike.
func TestBadConfigurations(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		yaml string
		says []string
	}{
		"unknown key":               {"defualts: {}", []string{"1:1", "defualts", "defaults"}},
		"unknown nested key":        {"defaults:\n  retry:\n    max_attemps: 2", []string{"3:5", "max_attempts"}},
		"repeated key":              {"via: true\nvia: false", []string{"2:1", "via"}},
		"repeated upstream":         {"upstreams:\n  a: {}\n  a: {}", []string{"3:3"}},
		"unit-less duration":        {"defaults: {timeout: {connect: 5}}", []string{"1:31"}},
		"bad duration":              {"defaults: {timeout: {connect: fast}}", []string{"1:31", "fast"}},
		"negative duration":         {"defaults: {timeout: {connect: -5s}}", []string{"1:31"}},
		"bad size":                  {"buffer_total: 64MX", []string{"1:15"}},
		"max_attempts 0":            {"defaults: {retry: {max_attempts: 0}}", []string{"1:34"}},
		"max_attempts 11":           {"defaults: {retry: {max_attempts: 11}}", []string{"1:34", "10"}},
		"bad mode":                  {"defaults: {retry: {mode: onn}}", []string{"onn", "on"}},
		"bad strategy":              {"defaults: {retry: {backoff: {strategy: exponental}}}", []string{"exponential"}},
		"bad jitter":                {"defaults: {retry: {backoff: {jitter: ful}}}", []string{"full"}},
		"bad condition":             {"defaults: {retry: {retry_on: [timeuot]}}", []string{"timeout"}},
		"bad status":                {"defaults: {retry: {retry_on: [99]}}", []string{"99"}},
		"never classes":             {"defaults: {retry: {retry_on: [tls_failure]}}", []string{"tls_failure"}},
		"max under initial":         {"defaults: {retry: {backoff: {initial_delay: 10s, max_delay: 1s}}}", []string{"max_delay"}},
		"attempt over total":        {"defaults: {timeout: {attempt: 10m, total: 1m}}", []string{"attempt", "total"}},
		"multiplier under 1":        {"defaults: {retry: {backoff: {multiplier: 0.5}}}", []string{"multiplier"}},
		"negative ratio":            {"defaults: {retry: {budget: {ratio: -1}}}", []string{"ratio"}},
		"NaN ratio":                 {"defaults: {retry: {budget: {ratio: .nan}}}", []string{"ratio"}},
		"bad unmatched":             {"unmatched: denny", []string{"deny"}},
		"bad log level":             {"log: {level: wran}", []string{"warn"}},
		"bad log format":            {"log: {format: jsn}", []string{"json"}},
		"bad address":               {"listen: {proxy: \"127.0.0.1\"}", []string{"1:17"}},
		"bad CIDR":                  {"destinations: {deny: [10.0.0.0/33]}", []string{"10.0.0.0/33"}},
		"open proxy":                {"listen: {proxy: \"0.0.0.0:7080\"}", []string{"allow_clients"}},
		"open admin":                {"listen: {admin: \"0.0.0.0:7081\"}", []string{"allow_clients"}},
		"open reverse with auth":    {"listen: {auth: {username: u, password: p}}\nupstreams: {a: {listen: \"0.0.0.0:7090\", endpoints: [\"http://x\"]}}", []string{"allow_clients"}},
		"auth without password":     {"listen: {auth: {username: u}}", []string{"password"}},
		"same host twice":           {"upstreams:\n  a: {hosts: [x.example]}\n  b: {hosts: [X.example.]}", []string{"3:", "upstreams.a"}},
		"bad host":                  {"upstreams: {a: {hosts: [\"http://x\"]}}", []string{"http://x"}},
		"bad wildcard":              {"upstreams: {a: {hosts: [\"a.*.b\"]}}", []string{"a.*.b"}},
		"bad port in host":          {"upstreams: {a: {hosts: [\"x:99999\"]}}", []string{"99999"}},
		"bad endpoint scheme":       {"upstreams: {a: {endpoints: [\"ftp://x\"]}}", []string{"ftp"}},
		"endpoint with query":       {"upstreams: {a: {endpoints: [\"http://x/?q=1\"]}}", []string{"1:"}},
		"mount without endpoints":   {"upstreams: {a: {mount: /a}}", []string{"endpoints"}},
		"listen without endpoints":  {"upstreams: {a: {listen: \"127.0.0.1:7090\"}}", []string{"endpoints"}},
		"mount twice":               {"upstreams:\n  a: {mount: /a, endpoints: [\"http://x\"]}\n  b: {mount: /a/, endpoints: [\"http://y\"]}", []string{"3:", "upstreams.a"}},
		"listen twice":              {"upstreams:\n  a: {listen: \"127.0.0.1:7090\", endpoints: [\"http://x\"]}\n  b: {listen: \"127.0.0.1:7090\", endpoints: [\"http://y\"]}", []string{"3:", "7090"}},
		"mount that is no path":     {"upstreams: {a: {mount: a, endpoints: [\"http://x\"]}}", []string{"mount"}},
		"budget in a route":         {"upstreams: {a: {routes: [{name: r, match: {path: /}, retry: {budget: {ratio: 1}}}]}}", []string{"budget"}},
		"connections in a route":    {"upstreams: {a: {routes: [{name: r, match: {path: /}, connections: {idle: 1s}}]}}", []string{"connections"}},
		"route without a name":      {"upstreams: {a: {routes: [{match: {path: /}}]}}", []string{"name"}},
		"route name twice":          {"upstreams: {a: {routes: [{name: r, match: {path: /}}, {name: r, match: {path: /b}}]}}", []string{"r"}},
		"unset variable":            {"listen: {proxy: \"${NO_SUCH_NAME}\"}", []string{"NO_SUCH_NAME"}},
		"missing CA file":           {"upstreams: {a: {endpoints: [\"https://x\"], tls: {ca_file: /nonexistent/ca.pem}}}", []string{"ca.pem"}},
		"key without certificate":   {"upstreams: {a: {endpoints: [\"https://x\"], tls: {client_key_file: mulligan.yaml}}}", []string{"client_key_file"}},
		"a string for a list":       {"upstreams: {a: {hosts: {x: y}}}", []string{"hosts"}},
		"a list for a mapping":      {"defaults: [1]", []string{"1:"}},
		"not YAML":                  {"a: [1, 2", []string{"mulligan.yaml"}},
		"a tab":                     {"defaults:\n\tretry: {}", []string{"mulligan.yaml:2"}},
		"two documents":             {"via: true\n---\nvia: false", []string{"mulligan.yaml"}},
		"a word for a breaker":      {"defaults: {circuit_breaker: yes}", []string{"circuit_breaker", "write {}"}},
		"a hedge without delay":     {"defaults: {hedge: {delay: 0s}}", []string{"hedge.delay"}},
		"concurrency without max":   {"defaults: {concurrency: {queue: 1}}", []string{"concurrency", "max"}},
		"rate limit in a route":     {"upstreams: {a: {hosts: [a], routes: [{name: r, rate_limit: {per_second: 1}}]}}", []string{"rate_limit"}},
		"check without endpoints":   {"upstreams: {a: {hosts: [a], health_check: {path: /}}}", []string{"health_check needs endpoints"}},
		"header of a connection":    {"defaults: {attempt_header: Connection}", []string{"attempt_header"}},
		"no such preset":            {"upstreams: {a: {hosts: [a], preset: strip}}", []string{"preset", "stripe"}},
		"a rule without a verdict":  {"defaults: {retry: {rules: [{status: 429}]}}", []string{"rules", "retry"}},
		"later: intercept":          {"upstreams: {a: {tls: {intercept: true}}}", []string{"intercept"}},
		"first_event of no kind":    {"defaults: {buffer: {first_event: 1}}", []string{"first_event"}},
		"later: deferred":           {"upstreams: {a: {routes: [{name: r, match: {path: /}, deferred: {when: always}}]}}", []string{"deferred"}},
		"an endpoint twice":         {"upstreams: {a: {endpoints: [\"http://x\", \"http://x:80/\"]}}", []string{"endpoints[1]", "endpoints[0]"}},
		"later: store":              {"store: redis://h", []string{"store"}},
		"later: TLS of a listener":  {"listen: {proxy: {address: \"127.0.0.1:7080\", tls: {}}}", []string{"tls"}},
		"inherit not at first":      {"upstreams: {a: {retry: {retry_on: [429, inherit]}}}", []string{"inherit"}},
		"an alias bomb is no crash": {"a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]", []string{"1:1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := filepath.Join(dir, "mulligan.yaml")
			writeFile(t, file, row.yaml+"\n")
			for _, verb := range []string{"check", "serve"} {
				code, _, stderr := commandIn(t, dir, nil, verb, "--config", file)
				want(t, "exit status of "+verb, code, 1)
				contains(t, "the error of "+verb, stderr, row.says...)
				if !located.MatchString(stderr) && name != "not YAML" {
					t.Errorf("%s: no file:line:column in %q", verb, stderr)
				}
				if strings.Contains(stderr, "panic") || strings.Contains(stderr, "goroutine ") {
					t.Errorf("%s: %s", verb, stderr)
				}
			}
		})
	}
}

// All errors in one run.
func TestAllErrorsAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "mulligan.yaml"), `
unmatched: maybe
defaults:
  timeout: {connect: 5, idle: soon}
  retry:
    max_attempts: 99
    jitterr: full
upstreams:
  a: {mount: /a}
  b: {hosts: ["x:0"]}
`)
	code, _, stderr := commandIn(t, dir, nil, "check")
	want(t, "exit status", code, 1)
	for _, line := range []string{":2:", ":4:", ":6:", ":7:", ":9:", ":10:"} {
		contains(t, "the errors", stderr, "mulligan.yaml"+line)
	}
	if n := len(located.FindAllString(stderr, -1)); n < 7 {
		t.Errorf("%d errors of 7:\n%s", n, stderr)
	}
}

// Nothing is started by a bad file: no port is taken.
func TestBadConfigurationStartsNothing(t *testing.T) {
	t.Parallel()
	p := prepare(t, "unmatched: maybe")
	code, _, _ := command(t, "serve", "--config", p.file)
	want(t, "exit status", code, 1)
	listen(t, p.proxy).Close()
	listen(t, p.admin).Close()
}

// A port that is taken: refused with status 1 and a word about it.
func TestPortTaken(t *testing.T) {
	t.Parallel()
	p := prepare(t, "")
	defer listen(t, p.proxy).Close()
	code, _, stderr := command(t, "serve", "--config", p.file)
	want(t, "exit status", code, 1)
	contains(t, "the error", stderr, p.proxy)
	listen(t, p.admin).Close()
}

// ${NAME} and ${NAME:-default} come from the environment.
func TestEnvironmentInValues(t *testing.T) {
	t.Parallel()
	u := answers(t, text(503, ""))
	p := start(t, `
listen: {proxy: "${HOST}:${PORT_X:-@NONE@}", admin: "@ADMIN@"}
defaults: {retry: {max_attempts: "${TRIES:-2}", `+quick+`}}
`, launch{env: []string{"HOST=127.0.0.1", "PORT_X=" + portOfNothing(t)}})
	proxy := "127.0.0.1:" + lastPort(p)
	c := dial(t, proxy)
	c.send(head("GET", u.url("/")))
	c.next("GET").expect(t, 503, "attempts=2; stop=max_attempts; received-status=503")
}

// portOfNothing is the port of a free address.
func portOfNothing(t *testing.T) string {
	t.Helper()
	return fmt.Sprint(freePort(t))
}

// lastPort is PORT_X of the process's environment.
func lastPort(p *mulligan) string {
	for _, entry := range p.cmd.Env {
		if port, ok := strings.CutPrefix(entry, "PORT_X="); ok {
			return port
		}
	}
	return ""
}

// No file at all is a valid configuration; the default file is $MULLIGAN_CONFIG,
// else mulligan.yaml where there is one.
func TestDefaultFile(t *testing.T) {
	t.Parallel()
	code, _, stderr := command(t, "check")
	want(t, "exit status without a file", code, 0)
	if strings.Contains(stderr, "error") {
		t.Errorf("without a file: %s", stderr)
	}
	dir := t.TempDir()
	bad, good := filepath.Join(dir, "mulligan.yaml"), filepath.Join(dir, "good.yaml")
	writeFile(t, bad, "nonsense: true\n")
	writeFile(t, good, "via: false\n")
	code, _, _ = commandIn(t, dir, nil, "check")
	want(t, "exit status with a bad mulligan.yaml", code, 1)
	code, _, _ = commandIn(t, dir, []string{"MULLIGAN_CONFIG=" + good}, "check")
	want(t, "exit status with MULLIGAN_CONFIG", code, 0)
	code, _, _ = commandIn(t, dir, []string{"MULLIGAN_CONFIG=" + good}, "check", "--config", bad)
	want(t, "exit status with --config over it", code, 1)
	code, _, stderr = commandIn(t, dir, []string{"MULLIGAN_CONFIG=" + filepath.Join(dir, "none.yaml")}, "check")
	want(t, "exit status with a missing file", code, 1)
	contains(t, "the error", stderr, "none.yaml")
	writeFile(t, bad, "")
	code, _, _ = commandIn(t, dir, nil, "check")
	want(t, "exit status with an empty file", code, 0)
}

// The example of the repository is valid.
func TestExampleIsValid(t *testing.T) {
	t.Parallel()
	const example = "../../../config.example.yaml"
	path, _ := filepath.Abs(example)
	code, stdout, stderr := commandIn(t, t.TempDir(), []string{"PROXY_PASSWORD=x"}, "check", "--config", path)
	want(t, "exit status", code, 0)
	if code != 0 {
		t.Logf("%s%s", stdout, stderr)
	}
}
