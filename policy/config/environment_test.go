package config

import "testing"

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
		{"${NONE:-${A}}", "", "has a ${ inside the default of ${NONE:-...}"},
	}
	for _, test := range tests {
		got, err := expand(test.text, env)
		wrong := ""
		if err != nil {
			wrong = err.Error()
		}
		if got != test.want || wrong != test.wrong {
			t.Errorf("%q: got %q, %q; want %q, %q", test.text, got, wrong, test.want, test.wrong)
		}
	}
}
