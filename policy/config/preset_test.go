package config_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mulligan/policy"
	"mulligan/policy/config"
)

// underPreset is the policy of an upstream that has a preset and nothing else.
func underPreset(t testing.TB, name string) *policy.Retry {
	t.Helper()
	c := parse(t, "upstreams: {u: {hosts: [u.example], preset: "+name+"}}", lookup(nil))
	if u := c.Upstreams[0]; u.Preset != name || len(c.Warnings) > 0 {
		t.Errorf("preset %q, warnings %q", u.Preset, c.Warnings)
	}
	return &c.Upstreams[0].Default.Retry
}

// TestPresetFiles: each begins with a line that says what it is, names its sources
// and their date, and is read under the schema.
func TestPresetFiles(t *testing.T) {
	want := []string{"anthropic", "aws", "azure", "github", "google", "openai", "shopify", "slack", "stripe", "twilio"}
	if got := config.Presets(); !slices.Equal(got, want) {
		t.Fatalf("presets %q", got)
	}
	for _, name := range want {
		text, ok := config.Preset(name)
		lines := strings.Split(text, "\n")
		if !ok || len(lines) < 10 || !strings.HasPrefix(lines[0], "# ") || !strings.HasSuffix(lines[0], ".") {
			t.Errorf("%s: its first line is no sentence", name)
		}
		if !strings.HasPrefix(lines[1], "# Facts as of 20") {
			t.Errorf("%s: no date of its facts", name)
		}
		underPreset(t, name)
	}
	if _, ok := config.Preset("../presets/aws"); ok {
		t.Error("a path is a preset")
	}
}

// presetCase is a response as a vendor sends it, and what is to follow for a GET.
type presetCase struct {
	Name   string
	Status int
	Header map[string]string
	Body   string
	Keyed  bool // the request carries an idempotency key
	Retry  bool
	By     string    // "rule 1" and so on, "word" (the upstream's own) or "list"; "" any
	HintMS *float64  `json:"hint_ms"`
	Full   bool      // the hint is of a whole allowance
	Now    time.Time // what dates are compared with
}

// TestPresetCases holds each preset to the responses that its vendor sends.
func TestPresetCases(t *testing.T) {
	total := 0
	for _, name := range config.Presets() {
		r := underPreset(t, name)
		used := map[string]bool{}
		for _, c := range readCases(t, name) {
			total++
			used[c.check(t, name, r)] = true
		}
		for i := range r.Rules {
			if rule := fmt.Sprintf("rule %d", i+1); !used[rule] {
				t.Errorf("%s: no case for %s", name, rule)
			}
		}
	}
	if total < 195 {
		t.Errorf("only %d cases", total)
	}
}

func readCases(t *testing.T, name string) (cases []presetCase) {
	file, err := os.Open(filepath.Join("testdata/presets", name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		d := json.NewDecoder(strings.NewReader(lines.Text()))
		d.DisallowUnknownFields()
		c := presetCase{Now: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)}
		if err := d.Decode(&c); err != nil {
			t.Fatalf("%s: %v in %s", name, err, lines.Text())
		}
		cases = append(cases, c)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return cases
}

// check returns what decided.
func (c *presetCase) check(t *testing.T, preset string, r *policy.Retry) string {
	t.Helper()
	field := func(name string) string {
		for key, value := range c.Header {
			if strings.EqualFold(key, name) {
				return value
			}
		}
		return ""
	}
	seen := &policy.Seen{Status: c.Status, Field: field, Body: []byte(c.Body)}
	o := policy.Outcome{Status: c.Status, Ruled: r.Rule(seen)}
	if r.Heeds(c.Status) {
		o.ReadHeader(r, field, c.Keyed, c.Now)
	}
	by := "list"
	switch rule := r.Match(seen); {
	case rule != nil:
		by = strings.TrimSuffix(rule.Name, " of the preset "+preset)
		if len(rule.JSON) > 0 && !r.LooksInto(c.Status, field) {
			t.Errorf("%s, %s: its body is not looked into", preset, c.Name)
		}
	case o.Word != policy.NoWord:
		by = "word"
	}
	if got := r.Classify(o) == policy.Retryable; got != c.Retry || c.By != "" && by != c.By {
		t.Errorf("%s, %s: retry %v by %s, want %v by %s", preset, c.Name, got, by, c.Retry, c.By)
	}
	if c.HintMS == nil {
		return by
	}
	want := time.Duration(*c.HintMS * float64(time.Millisecond))
	if !o.HasHint || o.Hint != want || c.Full != (o.Source == policy.HintFull) {
		t.Errorf("%s, %s: hint %v, %d, want %v", preset, c.Name, o.Hint, o.Source, want)
	}
	return by
}

// TestPresetPrecedence: built-in, defaults, preset, upstream, route. Rules come the
// other way round, and none is lost.
func TestPresetPrecedence(t *testing.T) {
	c := parse(t, `
defaults:
  retry:
    retry_on: [429, 599]
    max_attempts: 2
    rules: [{status: 418, retry: true}]
upstreams:
  plain: {hosts: [p.example]}
  u:
    retry: {retry_on: [inherit, 425], rules: [{status: 429, retry: true}], idempotency_key: X-Key}
    hosts: [u.example]
    routes: [{name: r, retry: {methods: [inherit, POST], rules: [{status: 400, retry: false}], idempotency_key: [inherit, Y-Key]}}, {name: s}]
    preset: twilio
  stripe: {hosts: [s.example], preset: stripe}
`, lookup(nil))
	plain, u, stripe := c.Upstreams[0].Default, c.Upstreams[1], c.Upstreams[2].Default
	for _, tt := range []struct {
		name           string
		r              *policy.Route
		rules, on, key string
	}{
		{"plain", plain, "rule 1 of defaults", "429 599", "Idempotency-Key"},
		{"upstream", u.Default, "rule 1 of the upstream, rule 1 of the preset twilio, rule 1 of defaults", "425 429 500 599", "X-Key"},
		{"route", u.Routes[0], "rule 1 of the route, rule 1 of the upstream, rule 1 of the preset twilio, rule 1 of defaults",
			"425 429 500 599", "X-Key Y-Key"},
		{"route without", u.Routes[1], "rule 1 of the upstream, rule 1 of the preset twilio, rule 1 of defaults", "425 429 500 599", "X-Key"},
		{"a list of its own", stripe, "rule 1 of defaults",
			"connect_failure refused_stream connection_reset timeout truncated error_event 409 500 502 503 504", "Idempotency-Key"},
	} {
		var rules []string
		for _, rule := range tt.r.Retry.Rules {
			rules = append(rules, rule.Name)
		}
		if got := strings.Join(rules, ", "); got != tt.rules || retryOn(tt.r) != tt.on || keys(tt.r) != tt.key || attempts(tt.r) != 2 {
			t.Errorf("%s: %q, %v, %v, %v", tt.name, got, retryOn(tt.r), keys(tt.r), attempts(tt.r))
		}
	}
	if plain.Retry.ResetHeaders != nil || len(u.Default.Retry.ResetHeaders) != 1 {
		t.Error("reset headers")
	}
	if key := underPreset(t, "github").IdempotencyKeys; len(key) != 0 {
		t.Errorf("a preset's empty list of keys became %q", key)
	}
	none := parse(t, "upstreams: {u: {hosts: [u.example], preset: twilio, retry: {reset_headers: []}}}", lookup(nil))
	if left := none.Upstreams[0].Default.Retry.ResetHeaders; left != nil {
		t.Errorf("an empty list of reset headers became %v", left)
	}
}

// TestRulesAreRead: every spelling of a rule and a reset header.
func TestRulesAreRead(t *testing.T) {
	c := parse(t, `
defaults:
  retry:
    rules:
      - {status: dependency_overloaded, retry: false}
      - status: [400, "2xx"]
        header: {X-Left: 0, Retry-After: "*"}
        json: {ok: [false, "no"], code: [60203, 1.50], error.details.*.id: "*PerDay*", 0.x: "${WORD}"}
        retry: true
    reset_headers:
      - {name: X-Reset, format: clock, remaining: X-Left, full: true}
      - {name: Retry-After, format: seconds}
`, lookup(map[string]string{"WORD": "yes"}))
	want := []policy.Rule{
		{Name: "rule 1 of defaults", Status: conditions("429", "503", "529")},
		{Name: "rule 2 of defaults", Status: conditions("400", "2xx"), Retry: true,
			Header: []policy.FieldRule{{Name: "X-Left", Values: []string{"0"}}, {Name: "Retry-After", Values: []string{"*"}}},
			JSON: []policy.PathRule{
				{Path: []string{"ok"}, Values: []string{"false", "no"}},
				{Path: []string{"code"}, Values: []string{"60203", "1.50"}},
				{Path: []string{"error", "details", "*", "id"}, Values: []string{"*PerDay*"}},
				{Path: []string{"0", "x"}, Values: []string{"yes"}},
			}},
	}
	r := c.Default.Default.Retry
	if spell(r.Rules) != spell(want) {
		t.Errorf("got %s\nwant %s", spell(r.Rules), spell(want))
	}
	resets := []policy.ResetHeader{
		{Name: "X-Reset", Format: policy.ResetClock, Remaining: "X-Left", Full: true}, {Name: "Retry-After", Format: policy.ResetSeconds},
	}
	if !slices.Equal(r.ResetHeaders, resets) {
		t.Errorf("got %+v", r.ResetHeaders)
	}
}
