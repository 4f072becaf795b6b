package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// maxFile is the largest configuration that is read, in bytes: far beyond any
// written one, and small enough that a wrong path cannot fill the memory.
const maxFile = 1 << 20

// parseYAML returns the root value of the first document in data, nil where
// there is none. Whatever is wrong with the text itself is one error with its
// place; only where that is a second document is there a root beside it.
func parseYAML(data []byte) (*yaml.Node, *Error) {
	if err := checkText(data); err != nil {
		return nil, err
	}
	text := &lineReader{data: data}
	decoder := yaml.NewDecoder(text)
	var document yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, syntaxError(data, text.lines(), err)
	}
	root := document.Content[0]
	var second yaml.Node
	if err := decoder.Decode(&second); err == nil {
		return root, &Error{Line: second.Line, Column: second.Column, Message: "a second document begins here",
			Hint: "a configuration is one document: remove the --- before it"}
	} else if !errors.Is(err, io.EOF) {
		return nil, syntaxError(data, text.lines(), err)
	}
	return root, nil
}

// lineReader hands out a text by the line, so that what was taken of it tells
// how far its reader came.
type lineReader struct {
	data  []byte
	taken int
}

func (r *lineReader) Read(p []byte) (int, error) {
	rest := r.data[r.taken:]
	if len(rest) == 0 {
		return 0, io.EOF
	}
	if end := bytes.IndexByte(rest, '\n'); end >= 0 {
		rest = rest[:end+1]
	}
	n := copy(p, rest)
	r.taken += n
	return n, nil
}

// lines returns how many lines were begun.
func (r *lineReader) lines() int {
	taken := r.data[:r.taken]
	return bytes.Count(bytes.TrimSuffix(taken, []byte("\n")), []byte("\n")) + 1
}

// checkText refuses what no YAML reader should see: too much, not UTF-8, or
// control characters. The yaml package refuses them too, but without the place.
func checkText(data []byte) *Error {
	if len(data) > maxFile {
		return &Error{Line: 1, Column: 1, Message: "the file is larger than 1MiB"}
	}
	line, column := 1, 1
	for rest := data; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		switch {
		case r == utf8.RuneError && size == 1:
			return &Error{Line: line, Column: column, Message: fmt.Sprintf("byte %#02x is not UTF-8", rest[0]),
				Hint: "save the file as UTF-8"}
		case r < ' ' && r != '\t' && r != '\n' && r != '\r', r == 0x7f:
			return &Error{Line: line, Column: column, Message: fmt.Sprintf("control character %#02x", r)}
		}
		rest = rest[size:]
		column++
		if r == '\n' {
			line, column = line+1, 1
		}
	}
	return nil
}

// syntaxError is a YAML syntax error with its place. reached is how many lines
// the yaml package read before it gave up.
func syntaxError(data []byte, reached int, cause error) *Error {
	return newBroken(data, cause).place(reached)
}

// place finds the place of the error: a bracket or quote that is never closed
// is where it opens, all else is in the line that breaks the file.
func (b *broken) place(reached int) *Error {
	var open []opening
	if !isExact(b.problem) {
		open = unclosed(b.data)
	}
	if len(open) > 0 && b.opens(open, reached) {
		last := open[len(open)-1]
		line, column := position(b.data, last.at)
		return &Error{Line: line, Column: column, Message: notYAML + b.problem, Hint: openHint(last, b.data)}
	}
	at := b.line(reached)
	text := string(b.lines[at])
	indent := text[:len(text)-len(strings.TrimLeft(text, " \t"))]
	if tab := strings.IndexByte(indent, '\t'); tab >= 0 {
		return &Error{Line: at + 1, Column: tab + 1, Message: "a tab in the indentation", Hint: "YAML is indented with spaces"}
	}
	return &Error{Line: at + 1, Column: len(indent) + 1, Message: notYAML + b.problem,
		Hint: syntaxHint(b.problem, text, len(open) > 0)}
}

const notYAML = "not valid YAML: "

// position returns the line and column, in characters, of a byte of data.
func position(data []byte, at int) (line, column int) {
	start := bytes.LastIndexByte(data[:at], '\n') + 1
	return bytes.Count(data[:start], []byte("\n")) + 1, utf8.RuneCount(data[start:at]) + 1
}

// problem is the yaml package's message without its own idea of the place.
func problem(cause error) string {
	text := strings.TrimPrefix(cause.Error(), "yaml: ")
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		if _, message, ok := strings.Cut(rest, ": "); ok {
			return message
		}
	}
	return text
}

// isExact reports whether a problem is with one word, right where the yaml
// package gave up, and not with what began before.
func isExact(problem string) bool {
	for _, part := range []string{"anchor", "alphabetic or numeric", "cannot start any token", "escape", "hexdecimal", "max depth"} {
		if strings.Contains(problem, part) {
			return true
		}
	}
	return false
}

const bracketHint = "check that every [ and { is closed"

// openHint is about a bracket or quote that is not closed.
func openHint(o opening, data []byte) string {
	switch {
	case o.mark != '[' && o.mark != '{':
		return "check that every quote is closed"
	case o.at > 0 && data[o.at-1] == '$':
		return environmentHint
	}
	return bracketHint
}

const environmentHint = `quote a ${NAME} that stands inside [] or {}`

// syntaxHint knows the slips that configurations of this kind invite; inside is
// whether a bracket seems to be open.
func syntaxHint(problem, line string, inside bool) string {
	switch {
	case strings.Contains(problem, "anchor"), strings.Contains(problem, "alphabetic or numeric"):
		return `quote a value that begins with * or &, as in "*.example.com"`
	case strings.Contains(problem, "mapping values are not allowed"):
		return `quote a value with ": " in it, and check the indentation`
	case strings.Contains(problem, "cannot start any token"):
		return "quote a value that begins with @, ` or %"
	case strings.Contains(line, "${") && (isFlow(problem) || strings.ContainsAny(line, "[{")):
		return environmentHint
	case isFlow(problem) && !inside:
		return "check the commas, and that every [ and { is closed"
	case inside, strings.ContainsAny(line, "[{"):
		return bracketHint
	}
	return "check the indentation, and that every quote is closed"
}

// isFlow reports whether a problem is inside of brackets.
func isFlow(problem string) bool {
	return strings.Contains(problem, "expected ',' or") || strings.Contains(problem, "node content")
}
