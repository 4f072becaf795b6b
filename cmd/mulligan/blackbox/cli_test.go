package blackbox

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Section 11: exit status 0 done, 1 refused or failed, 2 wrong usage.
func TestExitStatuses(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		args []string
		code int
		says string // on standard error where the status is not 0, else on standard output
	}{
		"version":                {[]string{"version"}, 0, "mulligan"},
		"check":                  {[]string{"check"}, 0, ""},
		"help":                   {[]string{"help"}, 0, "serve"},
		"--help":                 {[]string{"--help"}, 0, "serve"},
		"nothing":                {nil, 2, "serve"},
		"unknown verb":           {[]string{"srve"}, 2, "serve"},
		"unknown flag":           {[]string{"serve", "--confg", "x"}, 2, "confg"},
		"flag without value":     {[]string{"check", "--config"}, 2, "config"},
		"stray argument":         {[]string{"serve", "stray"}, 2, "stray"},
		"version with argument":  {[]string{"version", "stray"}, 2, "stray"},
		"explain without URL":    {[]string{"explain"}, 2, "URL"},
		"explain two URLs":       {[]string{"explain", "http://a/", "http://b/"}, 2, ""},
		"explain both":           {[]string{"explain", "--status", "503", "--failure", "timeout", "http://a/"}, 2, ""},
		"explain bad status":     {[]string{"explain", "--status", "x", "http://a/"}, 2, ""},
		"explain bad class":      {[]string{"explain", "--failure", "timeuot", "http://a/"}, 2, "timeout"},
		"explain bad header":     {[]string{"explain", "-H", "no colon", "http://a/"}, 2, ""},
		"missing file":           {[]string{"check", "--config", "/nonexistent/m.yaml"}, 1, "/nonexistent/m.yaml"},
		"explain, missing file":  {[]string{"explain", "--config", "/nonexistent/m.yaml", "http://a/"}, 1, "/nonexistent/m.yaml"},
		"exec":                   {[]string{"exec", "--quiet", "--", "true"}, 0, ""},
		"later: simulate":        {[]string{"simulate"}, 2, "simulate"},
		"a directory for a file": {[]string{"check", "--config", "/"}, 1, "/"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := command(t, row.args...)
			want(t, "exit status", code, row.code)
			said := stdout
			if row.code != 0 {
				said = stderr
			}
			contains(t, "what it says", said, row.says)
			if row.code != 0 && stderr == "" {
				t.Errorf("no word on standard error; on standard output %q", stdout)
			}
			if strings.Contains(stderr, "panic") || strings.Contains(stderr, "goroutine ") {
				t.Errorf("a panic: %s", stderr)
			}
		})
	}
}

const shop = `
upstreams:
  payments:
    hosts: [api.payments.example]
    endpoints: [https://api.payments.example]
    mount: /payments
    routes:
      - name: charge
        match: {methods: [POST], path: /v1/charges}
        retry: {methods: [POST], backoff: {initial_delay: 500ms, max_delay: 30s}}
`

// explain says which route, what class, retried or not and why, and the
// schedule with each wait's range.
func TestExplain(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mulligan.yaml")
	writeFile(t, file, shop)
	for name, row := range map[string]struct {
		args []string
		says []string
		not  string
	}{
		"retried by default":  {[]string{"--status", "503", "http://api.payments.example/x"}, []string{"payments", "default", "503", "250ms", "750ms", "2.25s"}, "not_idempotent"},
		"not idempotent":      {[]string{"-X", "POST", "--status", "503", "http://api.payments.example/x"}, []string{"payments", "default", "not_idempotent"}, "750ms"},
		"route":               {[]string{"-X", "POST", "--status", "503", "http://api.payments.example/v1/charges?x=1"}, []string{"payments", "charge", "500ms", "1.5s", "4.5s"}, "not_idempotent"},
		"key":                 {[]string{"-X", "POST", "-H", "Idempotency-Key: k", "--status", "503", "http://api.payments.example/x"}, []string{"250ms"}, "not_idempotent"},
		"permanent":           {[]string{"--status", "404", "http://api.payments.example/x"}, []string{"404", "permanent"}, "750ms"},
		"success":             {[]string{"--status", "200", "http://api.payments.example/x"}, []string{"200", "success"}, "750ms"},
		"class":               {[]string{"--failure", "timeout", "http://api.payments.example/x"}, []string{"timeout", "250ms"}, "not_idempotent"},
		"nothing sent":        {[]string{"-X", "POST", "--failure", "connect_failure", "http://api.payments.example/x"}, []string{"connect_failure", "250ms"}, "not_idempotent"},
		"never":               {[]string{"--failure", "tls_failure", "http://api.payments.example/x"}, []string{"tls_failure", "permanent"}, "750ms"},
		"nobody's host":       {[]string{"--status", "503", "http://elsewhere.example/"}, []string{"default", "250ms"}, "payments"},
		"nested":              {[]string{"-H", "Via: 1.1 mulligan-0badcafe", "--status", "503", "http://api.payments.example/x"}, []string{"nested"}, "750ms"},
		"client's tightening": {[]string{"-H", "Mulligan-Policy: max-attempts=2", "--status", "503", "http://api.payments.example/x"}, []string{"250ms"}, "750ms"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := command(t, append([]string{"explain", "--config", file}, row.args...)...)
			want(t, "exit status", code, 0)
			contains(t, "explain", stdout, row.says...)
			if row.not != "" && strings.Contains(stdout, row.not) {
				t.Errorf("explain says %q:\n%s", row.not, stdout)
			}
			if code != 0 {
				t.Log(stderr)
			}
		})
	}
}

// explain agrees with what the proxy does.
func TestExplainAgreesWithServe(t *testing.T) {
	t.Parallel()
	p := start(t, `defaults: {retry: {`+quick+`}}`)
	for _, row := range []struct {
		method string
		status int
		stop   string
	}{{"GET", 503, "max_attempts"}, {"POST", 503, "not_idempotent"}, {"GET", 404, "permanent"}, {"GET", 500, "permanent"}} {
		u := answers(t, text(row.status, ""))
		want(t, "stop", p.do(row.method, u.url("/"), "").proxyStatus(t)["stop"], row.stop)
		code, stdout, _ := command(t, "explain", "--config", p.file, "-X", row.method, "--status", strconv.Itoa(row.status), u.url("/"))
		want(t, "exit status", code, 0)
		contains(t, "explain", stdout, row.stop)
	}
}

// version names the version, and the Go it was built with.
func TestVersion(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := command(t, "version")
	want(t, "exit status", code, 0)
	if !regexp.MustCompile(`(?m)^mulligan \S+.*go1\.\d+`).MatchString(stdout) {
		t.Errorf("version says %q (%q)", stdout, stderr)
	}
}

// check names what it checked, and warns without refusing.
func TestCheckSaysSo(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mulligan.yaml")
	writeFile(t, file, shop)
	code, stdout, stderr := command(t, "check", "--config", file)
	want(t, "exit status", code, 0)
	contains(t, "what check says", stdout+stderr, file)
}
