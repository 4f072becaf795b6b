package config_test

import (
	"errors"
	"strings"
	"testing"

	"mulligan/policy/config"
)

// TestSyntaxPlace: a syntax error is where the thing begins that is not valid,
// not where the reader noticed, nor where the block around it began.
func TestSyntaxPlace(t *testing.T) {
	head := "via: true\n" + strings.Repeat("# a comment\n", 50) + "upstreams:\n  first: {hosts: [first.example]}\n"
	const at = 54 // the line after head
	tail := strings.Repeat("  more: &m {hosts: [more.example]}\n", 100)
	tests := []struct {
		name, text   string
		line, column int
	}{
		{"bracket", "  a: {hosts: [a.example}\n", at, 14},
		{"brace", "  a: {hosts: [a.example]\n", at, 6},
		{"quote", "  a: {hosts: [\"a.example]}\n", at, 15},
		{"bracket in a line of its own", "  a:\n    hosts:\n      [a.example,\n      b.example,\n", at + 2, 7},
		{"inner bracket", "  a: {\n    hosts: [a.example,\n    mount: /a\n  }\n", at + 1, 12},
		{"comma", "  a: {\n    hosts: [a.example]\n    mount: /a\n  }\n", at + 1, 5},
		{"a word in brackets", "  a: [\n    b,\n    *.c,\n    d]\n", at + 2, 5},
		{"star", "  a: {hosts: [*.example]}\n", at, 3},
		{"unknown alias", "  a: *nothing\n", at, 3},
		{"too far left", "  a:\n    hosts: []\n   mount: /a\n", at + 2, 4},
		{"two colons", "  a: b: c\n", at, 3},
		{"no colon", "  a:\n    hosts\n    mount: /a\n", at + 2, 5},
		{"tab", "  a:\n\thosts: []\n", at + 1, 1},
		{"tab after spaces", "  a:\n  \thosts: [\n", at + 1, 3},
		{"escape", "  a: \"\\q\"\n", at, 3},
		{"directive", "%YAML 9\n", at, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, end := range []string{"", tail} {
				_, err := config.Parse("f", []byte(head+test.text+end), lookup(nil))
				var one *config.Error
				if !errors.As(err, &one) {
					t.Fatalf("got %v", err)
				}
				if one.Line != test.line || one.Column != test.column {
					t.Errorf("%v, want %d:%d", one, test.line, test.column)
				}
			}
		})
	}
}

// TestLineEnds: the file may come from Windows, and its last line need not end.
func TestLineEnds(t *testing.T) {
	_, err := config.Parse("f", []byte("via: true\r\nlog:\r\n  levl: info"), lookup(nil))
	if err == nil || err.Error() != "f:3:3: log: unknown key \"levl\"\n  hint: did you mean level?" {
		t.Errorf("got %v", err)
	}
}

// TestLongUnclosed: what is never closed is found where it opens, however much
// follows, and a wrong guess at that is not believed.
func TestLongUnclosed(t *testing.T) {
	long := strings.Repeat("      more.example, # more\n", 3000)
	tests := []struct {
		name, text   string
		line, column int
		hint         string
	}{
		{"bracket", "via: true\nupstreams:\n  a: {hosts: [\n" + long, 3, 14, "check that every [ and { is closed"},
		{"brace", "via: true\nupstreams: {\n" + long, 2, 12, "check that every [ and { is closed"},
		{"quote", "via: true\nunmatched: \"allow\n" + long, 2, 12, "check that every quote is closed"},
		{"single quote", "via: true\nunmatched: 'it''s\n" + long, 2, 12, "check that every quote is closed"},
		{"late", strings.Repeat("# more\n", 3000) + "via: [", 3001, 6, "check that every [ and { is closed"},
		{"after a wide character", "ü: \"ü\" # ü\nü: [é, {\"\\\"]", 2, 9, "check that every quote is closed"},
		{"environment", "via: {a: ${TWO\n", 1, 11, "quote a ${NAME} that stands inside [] or {}"},
		{"not a bracket", "via: [a, *]\nlog: [a\n", 1, 1, `quote a value that begins with * or &, as in "*.example.com"`},
		{"another error first", "via: [a]\n  log: b\nmore: [a\n", 2, 3, "check that every [ and { is closed"},
		{"not a quote", "via: a\n  b\n\n  \"c\nlog: d: e\n", 5, 1, `quote a value with ": " in it, and check the indentation`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := config.Parse("f", []byte(test.text), lookup(nil))
			var one *config.Error
			if !errors.As(err, &one) {
				t.Fatalf("got %v", err)
			}
			if one.Line != test.line || one.Column != test.column || one.Hint != test.hint {
				t.Errorf("%v (%s), want %d:%d (%s)", one, one.Hint, test.line, test.column, test.hint)
			}
		})
	}
}
