package policy

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// IsJSON reports whether a message with this Content-Type is JSON: by its type
// (RFC 8259), by the suffix +json (RFC 6839), or as the AWS JSON protocols name it.
func IsJSON(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	kind = trim(kind)
	for _, known := range [...]string{"application/json", "application/x-amz-json-1.0", "application/x-amz-json-1.1"} {
		if equalFold(kind, known) {
			return true
		}
	}
	const suffix = "+json"
	return len(kind) > len(suffix) && equalFold(kind[len(kind)-len(suffix):], suffix)
}

// document is a response's body, looked at no earlier than a rule needs it.
type document struct {
	seen           *Seen
	looked, isGood bool
}

// valid reports whether the body is one JSON value and is said to be. Nesting is
// bounded by encoding/json, and nothing is built: however hostile the body, the
// work grows with its length alone.
func (d *document) valid() bool {
	if !d.looked {
		d.looked = true
		d.isGood = len(d.seen.Body) > 0 && IsJSON(d.seen.Field("Content-Type")) && json.Valid(d.seen.Body)
	}
	return d.isGood
}

// anyAt reports whether accept takes one of the strings, numbers, trues and falses
// that stand at a path of valid JSON. Of members with the same name the last
// counts, as with most readers (RFC 8259 section 4).
func anyAt(value []byte, path []string, accept func(text string) bool) bool {
	value = skipSpace(value)
	if len(path) == 0 {
		text, ok := scalarText(value)
		return ok && accept(text)
	}
	step, rest := path[0], path[1:]
	switch value[0] {
	case '{':
		member := memberOf(value, step)
		return member != nil && anyAt(member, rest, accept)
	case '[':
		return anyElement(value, step, func(element []byte) bool { return anyAt(element, rest, accept) })
	}
	return false
}

// isSpace reports whether c is white space of RFC 8259 section 2.
func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

func skipSpace(b []byte) []byte {
	for len(b) > 0 && isSpace(b[0]) {
		b = b[1:]
	}
	return b
}

// memberOf returns the value of the last member of this name, and what follows
// it; nil where there is none.
func memberOf(object []byte, name string) (found []byte) {
	for b := skipSpace(object[1:]); b[0] != '}'; {
		key, after := cutValue(b)
		value := skipSpace(skipSpace(after)[1:]) // behind the colon
		if isNamed(key, name) {
			found = value
		}
		_, after = cutValue(value)
		b = nextItem(after)
	}
	return found
}

// isNamed reports whether a quoted name is this one.
func isNamed(quoted []byte, name string) bool {
	if plain := quoted[1 : len(quoted)-1]; bytes.IndexByte(plain, '\\') < 0 {
		return string(plain) == name
	}
	return unquote(quoted) == name
}

// anyElement reports whether take says yes to the element that the step names, or
// to any of them for a *.
func anyElement(array []byte, step string, take func(element []byte) bool) bool {
	wanted, err := strconv.Atoi(step)
	if step != "*" && (err != nil || wanted < 0) {
		return false
	}
	i := 0
	for b := skipSpace(array[1:]); b[0] != ']'; i++ {
		if (step == "*" || i == wanted) && take(b) {
			return true
		}
		_, after := cutValue(b)
		b = nextItem(after)
	}
	return false
}

// nextItem goes behind the comma that follows a member or element, or to the
// bracket that ends them.
func nextItem(after []byte) []byte {
	after = skipSpace(after)
	if after[0] == ',' {
		return skipSpace(after[1:])
	}
	return after
}

// cutValue cuts the value off that b begins with, without white space before it.
func cutValue(b []byte) (value, after []byte) {
	depth := 0
	for i := 0; i < len(b); {
		switch b[i] {
		case '"':
			i += stringLength(b[i:])
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\t', '\n', '\r':
			i++
			continue // inside of brackets: outside, what is before it has ended the value
		default:
			i += literalLength(b[i:])
		}
		if depth == 0 {
			return b[:i], b[i:]
		}
	}
	return b, nil
}

// stringLength is the length of the string that b begins with, its quotes included.
func stringLength(b []byte) int {
	i := 1
	for b[i] != '"' {
		if b[i] == '\\' {
			i++
		}
		i++
	}
	return i + 1
}

// literalLength is the length of the number, true, false or null that b begins with.
func literalLength(b []byte) int {
	for i, c := range b {
		if c == ',' || c == ']' || c == '}' || isSpace(c) {
			return i
		}
	}
	return len(b)
}

// scalarText returns the text of a string, number, true or false that b begins
// with: numbers as they are written.
func scalarText(b []byte) (string, bool) {
	switch b[0] {
	case '{', '[', 'n':
		return "", false
	case '"':
		value, _ := cutValue(b)
		return unquote(value), true
	}
	value, _ := cutValue(b)
	return string(value), true
}

// unquote undoes a string's escapes.
func unquote(quoted []byte) (text string) {
	if plain := quoted[1 : len(quoted)-1]; bytes.IndexByte(plain, '\\') < 0 {
		return string(plain)
	}
	_ = json.Unmarshal(quoted, &text) // it was found to be valid
	return text
}
