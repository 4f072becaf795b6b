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
