package config_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"mulligan/policy/config"
)

// TestAliasesAreBounded: a small file cannot mean a huge configuration.
func TestAliasesAreBounded(t *testing.T) {
	var text strings.Builder
	text.WriteString("upstreams:\n  u0:\n    hosts: [u0.example]\n    routes: &r\n")
	for i := range 400 {
		fmt.Fprintf(&text, "      - {name: r%d, match: {methods: [GET, PUT]}}\n", i)
	}
	for i := range 400 {
		fmt.Fprintf(&text, "  v%d: {hosts: [v%d.example], routes: *r}\n", i, i)
	}
	wantOne(t, text.String(), "the aliases of this file repeat too much")
}

// TestRepetitionIsBounded: whatever a file repeats, be it text, itself, or what
// its lists inherit.
func TestRepetitionIsBounded(t *testing.T) {
	const tooMuch = "the aliases of this file repeat too much"
	long := strings.Repeat("M", 10_000)
	wantOne(t, "defaults: {retry: {methods: [&m "+long+strings.Repeat(", *m", 1000)+"]}}", tooMuch)
	wantOne(t, "upstreams: {a: &a {hosts: ["+long+"], routes: ["+strings.Repeat("*a, ", 1000)+"]}}", tooMuch)
	wantOne(t, "upstreams: {a: &a {hosts: [a.example]}, b: {<<: ["+strings.Repeat("*a, ", 100_000)+"]}}", tooMuch)
	wantOne(t, "x: &a ["+strings.Repeat("x, ", 100)+"]\ny: &b ["+strings.Repeat("*a, ", 100)+"]\nz: &c ["+strings.Repeat("*b, ", 100)+"]\n", tooMuch)

	var text strings.Builder
	text.WriteString("defaults: {retry: {methods: [" + numbered("M%d", 1000) + "]}}\nupstreams:\n  a:\n    hosts: [a.example]\n    routes:\n")
	for i := range 1000 {
		fmt.Fprintf(&text, "      - {name: r%d, retry: {methods: [inherit, M]}}\n", i)
	}
	wantOne(t, text.String(), "what the lists of this file inherit is too much")
}

// TestLongIsNotWrong: what is long, but repeats nothing, is read.
func TestLongIsNotWrong(t *testing.T) {
	c := parse(t, "defaults: {retry: {methods: ["+numbered("M%d", 110_000)+"]}}", lookup(nil))
	if got := len(c.Default.Default.Retry.Methods); got != 110_000 {
		t.Errorf("%d methods", got)
	}
	c = parse(t, "upstreams: {a: {hosts: ["+numbered("h%d.example", 50_000)+"]}}", lookup(nil))
	if got := len(c.Upstreams[0].Hosts); got != 50_000 {
		t.Errorf("%d hosts", got)
	}
	const depth = 4000
	text := "upstreams: {a: " + strings.Repeat("{preserve_host: false, <<: ", depth) + "{hosts: [a.example]}" + strings.Repeat("}", depth) + "}"
	if c = parse(t, text, lookup(nil)); c.Upstreams[0].Hosts[0].Name != "a.example" {
		t.Errorf("hosts %v", c.Upstreams[0].Hosts)
	}
}

// numbered joins so many items.
func numbered(format string, many int) string {
	var text strings.Builder
	for i := range many {
		fmt.Fprintf(&text, format+", ", i)
	}
	return strings.TrimSuffix(text.String(), ", ")
}

func TestWarningsAreBounded(t *testing.T) {
	c := parse(t, "defaults: {retry: {retry_on: ["+strings.Repeat("200, ", 5000)+"]}}", lookup(nil))
	if got := len(c.Warnings); got != 1000 {
		t.Errorf("%d warnings", got)
	}
}

func TestErrorsAreBounded(t *testing.T) {
	var text strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&text, "nonsense%d: 1\n", i)
	}
	_, err := config.Parse("f", []byte(text.String()), lookup(nil))
	var all *config.Errors
	if !errors.As(err, &all) || len(all.All) != 1001 {
		t.Fatalf("got %.200v", err)
	}
	if got := all.All[1000].Message; got != "too much is wrong: nothing after the first 1000 errors was read" {
		t.Errorf("got %q", got)
	}
}

func TestFileIsBounded(t *testing.T) {
	wantOne(t, strings.Repeat("# more\n", 200_000), "the file is larger than 1MiB")
}

func TestDeepNesting(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("[", 50_000), strings.Repeat("{a: ", 50_000), "via: " + strings.Repeat("[", 5_000) + strings.Repeat("]", 5_000),
		strings.Repeat("- ", 50_000), strings.Repeat("? ", 20_000),
	} {
		if _, err := config.Parse("f", []byte(text), lookup(nil)); err == nil {
			t.Errorf("accepted %.20q...", text)
		}
	}
}

// wantOne wants one error with this message.
func wantOne(t *testing.T, text, message string) {
	t.Helper()
	_, err := config.Parse("f", []byte(text), lookup(nil))
	var all *config.Errors
	if !errors.As(err, &all) || len(all.All) != 1 || all.All[0].Message != message {
		t.Errorf("got %.300v, want %q", err, message)
	}
}
