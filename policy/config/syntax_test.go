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
		{"bracket", "  a: {hosts: [a.example}\n", at, 3},
		{"brace", "  a: {hosts: [a.example]\n", at, 3},
		{"quote", "  a: {hosts: [\"a.example]}\n", at, 3},
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
