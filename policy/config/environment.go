package config

import (
	"errors"
	"fmt"
	"strings"
)

// Lookup finds an environment variable, as os.LookupEnv does.
type Lookup func(name string) (value string, set bool)

// expand replaces ${NAME} and ${NAME:-default} in text. The default stands in
// where NAME is unset or empty, as in a shell. Nothing else is special: a lone $
// is a $, and what a variable holds is not expanded again. It goes on after an
// error. Errors name the variable, never a value.
func expand(text string, env Lookup) (expanded string, wrong []error) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		out.WriteString(before)
		if !found {
			return out.String(), wrong
		}
		inner, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", append(wrong, errors.New("has a ${ without its }"))
		}
		value, err := variable(inner, env)
		if err != nil {
			wrong = append(wrong, err)
		}
		out.WriteString(value)
		text = after
	}
}

// variable gives what stands for `NAME` or `NAME:-default`.
func variable(inner string, env Lookup) (string, error) {
	name, fallback, hasFallback := strings.Cut(inner, ":-")
	if !isVariable(name) {
		return "", errors.New("has a ${...} that is neither ${NAME} nor ${NAME:-default}")
	}
	if strings.Contains(fallback, "${") {
		return "", fmt.Errorf("has a ${ inside the default of ${%s:-...}", name)
	}
	value, set := env(name)
	switch {
	case hasFallback && value == "":
		return fallback, nil
	case !set:
		return "", &unsetError{name}
	}
	return value, nil
}

// unsetError says which variable the environment lacks.
type unsetError struct{ name string }

func (e *unsetError) Error() string {
	return fmt.Sprintf("needs the environment variable %s, which is not set", e.name)
}

// isVariable reports whether name is a letter or underscore, then letters,
// digits and underscores.
func isVariable(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c != '_' && !isLetter(c) && (i == 0 || !isDigit(c)) {
			return false
		}
	}
	return name != ""
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
