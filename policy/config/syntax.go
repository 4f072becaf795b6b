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

// parseYAML returns the root value of the one document in data, nil where there
// is none. Whatever is wrong with the text itself is one error with its place.
func parseYAML(data []byte) (*yaml.Node, *Error) {
	if err := checkText(data); err != nil {
		return nil, err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, syntaxError(data, err)
	}
	var second yaml.Node
	if err := decoder.Decode(&second); err == nil {
		return nil, &Error{Line: second.Line, Column: second.Column, Message: "a second document begins here",
			Hint: "a configuration is one document: remove the --- before it"}
	} else if !errors.Is(err, io.EOF) {
		return nil, syntaxError(data, err)
	}
	return document.Content[0], nil
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

// syntaxError finds the place of a YAML syntax error. The yaml package says a
// line at best, often that of the enclosing block, so the place is found by
// trial: the line after the longest beginning of the file that is valid.
func syntaxError(data []byte, cause error) *Error {
	lines := bytes.SplitAfter(data, []byte("\n"))
	at := brokenLine(data, lines, cause)
	text := lines[at]
	indent := text[:len(text)-len(bytes.TrimLeft(text, " \t"))]
	result := &Error{Line: at + 1, Column: len(indent) + 1}
	if tab := bytes.IndexByte(indent, '\t'); tab >= 0 {
		result.Column = tab + 1
		result.Message, result.Hint = "a tab in the indentation", "YAML is indented with spaces"
		return result
	}
	result.Message = "not valid YAML: " + problem(cause)
	result.Hint = syntaxHint(problem(cause), string(text))
	return result
}

// brokenLine returns the index of the line that breaks the file. How the whole
// file fails is how every beginning of it fails that has the place where the
// reader gave up, so that place is found by halving; what it gave up on began
// after the last beginning before it that is valid.
func brokenLine(data []byte, lines [][]byte, cause error) int {
	const patience = 200 // steps back: a construct longer than this is not looked for
	ends := make([]int, len(lines)+1)
	for i, line := range lines {
		ends[i+1] = ends[i] + len(line)
	}
	low, high := 1, len(lines)
	for low < high {
		middle := (low + high) / 2
		if err := trial(data[:ends[middle]]); err != nil && err.Error() == cause.Error() {
			high = middle
		} else {
			low = middle + 1
		}
	}
	for valid := low - 1; valid >= max(0, low-patience); valid-- {
		if trial(data[:ends[valid]]) == nil {
			return valid
		}
	}
	return low - 1
}

// trial reports whether data is any number of valid documents.
func trial(data []byte) error {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var document yaml.Node
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
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

// syntaxHint knows the slips that configurations of this kind invite.
func syntaxHint(problem, line string) string {
	switch {
	case strings.Contains(problem, "anchor"), strings.Contains(problem, "alphabetic or numeric"):
		return `quote a value that begins with * or &, as in "*.example.com"`
	case strings.Contains(problem, "mapping values are not allowed"):
		return `quote a value with ": " in it, and check the indentation`
	case strings.Contains(problem, "cannot start any token"):
		return "quote a value that begins with @, ` or %"
	case strings.Contains(line, "${") && strings.ContainsAny(line, "[{"):
		return `quote a ${NAME} that stands inside [] or {}`
	case strings.ContainsAny(line, "[{"):
		return "check that every [ and { is closed"
	}
	return "check the indentation, and that every quote is closed"
}
