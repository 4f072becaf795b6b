package config

import "testing"

func TestNearest(t *testing.T) {
	words := []string{"timeout", "retry", "buffer", "connections", "max_attempts", "via"}
	tests := map[string]string{
		"timeout":     "timeout",
		"TimeOut":     "timeout",
		"time-out":    "timeout",
		"tiemout":     "timeout", // neighbours swapped: one slip
		"timeouts":    "timeout",
		"rety":        "retry",
		"retries":     "retry",
		"maxAttempts": "max_attempts",
		"max_atempt":  "max_attempts",
		"conection":   "connections",
		"vie":         "via",
		"abc":         "",
		"":            "",
		"something":   "",
		"a-very-long-word-that-goes-on-and-on-and-on-and-on-and-on-and-on-and-on": "",
	}
	for word, want := range tests {
		if got := Nearest(word, words); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
}

func TestEditDistance(t *testing.T) {
	tests := []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"abc", "abd", 1}, {"abc", "acb", 1},
		{"abc", "bc", 1}, {"abc", "abcd", 1}, {"kitten", "sitting", 3}, {"abcd", "badc", 2}}
	for _, test := range tests {
		if got := editDistance(test.a, test.b); got != test.want {
			t.Errorf("%q to %q: got %d, want %d", test.a, test.b, got, test.want)
		}
	}
}
