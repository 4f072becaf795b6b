package config

import (
	"strings"
	"testing"
)

func TestExpand(t *testing.T) {
	values := map[string]string{"A": "a", "_b2": "b", "EMPTY": "", "DOLLAR": "${A}", "LINES": "x: y\n- z # no"}
	env := func(name string) (string, bool) {
		value, set := values[name]
		return value, set
	}
	tests := []struct{ text, want, wrong string }{
		{"", "", ""},
		{"plain", "plain", ""},
		{"${A}", "a", ""},
		{"x${A}y${_b2}z", "xaybz", ""},
		{"${EMPTY}", "", ""},
		{"${EMPTY:-d}", "d", ""},
		{"${NONE:-d}", "d", ""},
		{"${NONE:-}", "", ""},
		{"${NONE:-a:-b}", "a:-b", ""},
		{"${A:-d}", "a", ""},
		{"${DOLLAR}", "${A}", ""}, // once, not again
		{"${LINES}", "x: y\n- z # no", ""},
		{"$A $ $$ {A} a}", "$A $ $$ {A} a}", ""},
		{"$${A}", "$a", ""},
		{"${NONE}", "", "needs the environment variable NONE, which is not set"},
		{"${A", "", "has a ${ without its }"},
		{"a ${", "", "has a ${ without its }"},
		{"${}", "", "has a ${...} that is neither ${NAME} nor ${NAME:-default}"},
		{"${:-x}", "", "has a ${...} that is neither ${NAME} nor ${NAME:-default}"},
		{"${A-x}", "", "has a ${...} that is neither ${NAME} nor ${NAME:-default}"},
		{"${1A}", "", "has a ${...} that is neither ${NAME} nor ${NAME:-default}"},
		{"${ A}", "", "has a ${...} that is neither ${NAME} nor ${NAME:-default}"},
		{"${Ä}", "", "has a ${...} that is neither ${NAME} nor ${NAME:-default}"},
		{"${NONE:-${A}}", "}", "has a ${ inside the default of ${NONE:-...}"},
		{"${NONE}${A}${ONE}${", "", "needs the environment variable NONE, which is not set; " +
			"needs the environment variable ONE, which is not set; has a ${ without its }"},
	}
	for _, test := range tests {
		got, errs := expand(test.text, env)
		var all []string
		for _, err := range errs {
			all = append(all, err.Error())
		}
		wrong := strings.Join(all, "; ")
		if got != test.want || wrong != test.wrong {
			t.Errorf("%q: got %q, %q; want %q, %q", test.text, got, wrong, test.want, test.wrong)
		}
	}
}
