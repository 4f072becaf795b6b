package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Error is one thing that is wrong with a configuration, and where.
type Error struct {
	File    string
	Line    int // from 1; 0 where the file itself could not be read
	Column  int // from 1, in characters
	Message string
	Hint    string // what to write instead; "" where there is no good guess
	Err     error  // the cause, where the file could not be read; else nil

	bare string // Message without the key
}

// Error returns `file:line:column: message`, without the hint.
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Message
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Message)
}

// Unwrap returns the cause, so that errors.Is finds fs.ErrNotExist.
func (e *Error) Unwrap() error { return e.Err }

// Errors is everything that is wrong with a configuration, in the order of the
// file. Load and Parse return no other error.
type Errors struct {
	All []*Error

	// Files are those of Config.Files, as far as they are known, with those that
	// could not be read: a change of one of them may mend the configuration.
	Files []string
}

// Error returns one line for each error, and one more below it for its hint.
func (e *Errors) Error() string {
	var text strings.Builder
	for i, one := range e.All {
		if i > 0 {
			text.WriteByte('\n')
		}
		text.WriteString(one.Error())
		if one.Hint != "" {
			text.WriteString("\n  hint: " + one.Hint)
		}
	}
	return text.String()
}

// Unwrap returns the errors one by one, for errors.Is and errors.As.
func (e *Errors) Unwrap() []error {
	all := make([]error, len(e.All))
	for i, one := range e.All {
		all[i] = one
	}
	return all
}

// ordered sorts by place and drops repetitions: what an alias refers to is read
// once for each alias, and wrong each time in the same way.
func ordered(all []*Error) []*Error {
	slices.SortStableFunc(all, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	type same struct {
		line, column int
		bare         string
	}
	seen := make(map[same]bool)
	return slices.DeleteFunc(all, func(e *Error) bool {
		key := same{e.Line, e.Column, e.bare}
		again := seen[key]
		seen[key] = true
		return again
	})
}
