package config

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// TestUnclosed: an opening is written as its mark and byte.
func TestUnclosed(t *testing.T) {
	tests := map[string]string{
		"":                               "",
		"a: [b, {c: d}]\n":               "",
		"a: [b":                          "[3",
		"a: {b: [c}":                     "{3 [7",
		"a: {b: [c":                      "{3 [7",
		"a: ]\n":                         "",
		"- [a\n- b]":                     "",
		"- - {a\n":                       "{4",
		"? [a":                           "[2",
		"a: b[c\n":                       "", // not where a value begins
		"a: it's\n":                      "",
		"it's: [a":                       "[6",
		"a: 'it''s'\nb: '":               "'14",
		`a: "\"[" # [`:                   "",
		`a: "\\" [`:                      "", // a quoted value is the whole of it
		`a: ["b" {`:                      "[3 {8",
		"a: 'b\n\n  [c' # {\n":           "",
		"a: # [\n  {":                    "{9",
		"a#[: {":                         "{5",
		"a: !t [b":                       "[6",
		"a: &x [*y, !t{":                 "[6 {13",
		"a: *b [":                        "[6", // wrong too
		"a: |\n  [\n\n   {\n":            "",
		"a: >-\n  [\nb: {":               "{13",
		"- |\n [\n- {":                   "{9",
		"- a: |\n   [\n  b: {":           "{17",
		"--- [\n":                        "[4",
		"---\na: [":                      "[7",
		"a: |\n  b\n...\n[":              "[13",
		"a: b\n  [c\n":                   "", // goes on with b
		"a: b\n\n  'c\nd: [":             "[14",
		"a:\n  b\n  : [":                 "[11",
		"{a:[b], \"c\":[d], e: {f:}, [}": "{0 [26",
		"[a\n\"b, c]":                    "", // goes on with a
		"[a, # ]\n]":                     "",
		"\ufeff[":                        "[3",
		"a:\r\n  [b,\r\n":                "[6",
	}
	for text, want := range tests {
		var got []string
		for _, o := range unclosed([]byte(text)) {
			got = append(got, fmt.Sprintf("%c%d", o.mark, o.at))
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

// TestPatience: the place of a syntax error is looked for with so much work, and
// no more, and is near the truth also where that is not enough.
func TestPatience(t *testing.T) {
	upstreams := strings.Repeat("  - {hosts: [api.example.com]}\n", 3_000)
	quotes := strings.Repeat("  - a\n    'b\n", 7_000)
	const size = 100 << 10 // of such a text, at most
	tests := []struct {
		name, text  string
		least, most int // lines
		parsed      int // bytes, at most
	}{
		{"never closed", "a: [\n" + upstreams, 1, 1, 100},
		{"closed late", "a:\n" + upstreams + "b: [\n  c,\n", 3_002, 3_002, 2 * size},
		{"a word at the end", "a:\n" + upstreams + "b: @\n", 3_002, 3_002, 3 * size},
		{"a word in the middle", "a:\n" + upstreams + "b: @\n" + upstreams + upstreams, 3_002, 3_002, 3 * size},
		{"quotes that are none", "a:\n" + quotes + "b: c: d\n", 14_002, 14_002, 4 * size},
		{"a long quote", "a:\n" + upstreams + "b:\n c\n  : \"" + strings.Repeat("d\n", 3_000) + "\" e\n", 3_002, 6_005, 4 * size},
		{"a long value", "a:\n" + upstreams + "b: \"c" + strings.Repeat("\n", 3_000) + "\" d\n", 3_002, 6_002, 4 * size},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			text := &lineReader{data: []byte(test.text)}
			cause := yaml.NewDecoder(text).Decode(new(yaml.Node))
			if cause == nil {
				t.Fatal("no error")
			}
			b := newBroken(text.data, cause)
			b.left = 4 * size
			result := b.place(text.lines())
			if result.Line < test.least || result.Line > test.most {
				t.Errorf("line %d, want %d to %d", result.Line, test.least, test.most)
			}
			if parsed := 4*size - b.left; parsed > test.parsed {
				t.Errorf("%d bytes parsed for it", parsed)
			}
		})
	}
}

// TestLineReader: the yaml package reads the same whoever feeds it, and never
// far beyond the line that it is at.
func TestLineReader(t *testing.T) {
	const good, bad = "a: b\n", "c: @\n"
	long := strings.Repeat("x", 5000)
	text := &lineReader{data: []byte("l: " + long + "\n" + strings.Repeat(good, 100) + bad + strings.Repeat(good, 100))}
	err := yaml.NewDecoder(text).Decode(new(yaml.Node))
	whole := yaml.NewDecoder(bytes.NewReader(text.data)).Decode(new(yaml.Node))
	if err == nil || err.Error() != whole.Error() {
		t.Fatalf("got %v, want %v", err, whole)
	}
	if got := text.lines(); got < 102 || got > 103 {
		t.Errorf("gave up in line %d, want 102 or the next", got)
	}
}
