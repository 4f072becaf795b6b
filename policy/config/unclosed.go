package config

import (
	"bytes"
	"strings"
)

// opening is a bracket or a quote, and where it stands.
type opening struct {
	mark byte
	at   int
}

// unclosed returns the brackets that data leaves open, outermost first, and
// last a quote: at its end, or where a bracket is closed by one of the other
// kind. It knows just enough YAML for that (comments, quotes, block scalars,
// where a value may begin), so that its answer is a guess to be tried.
func unclosed(data []byte) []opening {
	s := &scan{text: string(data), fresh: true}
	s.text = strings.TrimPrefix(s.text, "\ufeff")
	s.skipped = len(data) - len(s.text)
	for s.beginLine(); s.pos < len(s.text) && !s.torn; {
		s.step()
	}
	for i := range s.open {
		s.open[i].at += s.skipped
	}
	return s.open
}

// scan is where unclosed is, and what it knows about that place.
type scan struct {
	text    string
	pos     int
	skipped int // bytes before text
	open    []opening
	torn    bool // a bracket was closed by the wrong one

	line   int  // where the line begins
	fresh  bool // a value may begin here
	plain  bool // the last value was a plain one, which may go on in the next line
	key    int  // column of the value that may turn out to be a key
	parent int  // column of the last key or dash; what belongs to it stands to the right
	block  bool // inside of a block scalar
}

// step takes one word, mark or character.
func (s *scan) step() {
	c := s.text[s.pos]
	switch {
	case c == '\n':
		s.pos++
		s.beginLine()
	case isBlank(c):
		s.pos++
	case c == '#' && (s.pos == s.line || isBlank(s.text[s.pos-1])):
		s.skipLine()
	case s.bracket(c), s.mark(c):
	case s.fresh:
		s.value(c)
	default:
		s.pos++
	}
}

// bracket takes what opens, parts or closes a list or map in brackets.
func (s *scan) bracket(c byte) bool {
	inside := len(s.open) > 0
	switch {
	case (c == '[' || c == '{') && (s.fresh || inside):
		s.open = append(s.open, opening{c, s.pos})
		s.fresh = true
	case inside && c == ',':
		s.fresh = true
	case inside && (c == ']' || c == '}'):
		last := len(s.open) - 1
		if s.torn = s.open[last].mark != c-2; s.torn { // '[' is ']' - 2, '{' is '}' - 2
			return true
		}
		s.open = s.open[:last]
		s.fresh, s.plain = false, false
	default:
		return false
	}
	s.pos++
	return true
}

// mark takes the marks of keys, values and list items.
func (s *scan) mark(c byte) bool {
	next := byte('\n')
	if s.pos+1 < len(s.text) {
		next = s.text[s.pos+1]
	}
	inside := len(s.open) > 0
	apart := next == '\n' || isBlank(next)
	switch {
	case c == ':' && (apart || inside && (!s.plain || strings.IndexByte(",[]{}", next) >= 0)):
		s.parent, s.plain = s.key, false
	case s.fresh && apart && (c == '-' || c == '?'):
		s.parent = s.pos - s.line
	default:
		return false
	}
	s.fresh = true
	s.pos++
	return true
}

// value takes the beginning of a value.
func (s *scan) value(c byte) {
	s.key = s.pos - s.line
	switch {
	case c == '"' || c == '\'':
		s.quoted(c)
	case c == '!' || c == '&' || c == '*':
		s.pos += len(s.text[s.pos:]) - len(strings.TrimLeftFunc(s.text[s.pos:], func(r rune) bool {
			return !strings.ContainsRune(" \t\r\n,[]{}", r)
		}))
	case (c == '|' || c == '>') && len(s.open) == 0:
		s.block = true
		s.skipLine()
	default:
		s.fresh, s.plain = false, true
		s.pos++
	}
}

// quoted takes a quoted value, or leaves its quote open.
func (s *scan) quoted(quote byte) {
	start := s.pos
	for s.pos++; s.pos < len(s.text); s.pos++ {
		switch c := s.text[s.pos]; {
		case c == '\\' && quote == '"':
			s.pos++
		case c == quote && quote == '\'' && strings.HasPrefix(s.text[s.pos+1:], "'"):
			s.pos++
		case c == quote:
			s.pos++
			s.fresh, s.plain = false, false
			return
		}
	}
	s.open = append(s.open, opening{quote, start})
}

// beginLine takes the indentation of a line, and whole lines that are a block
// scalar's. Inside of brackets indentation says nothing.
func (s *scan) beginLine() {
	s.line = s.pos
	if len(s.open) > 0 {
		return
	}
	rest := s.text[s.pos:]
	indent := len(rest) - len(strings.TrimLeft(rest, " "))
	blank := indent == len(rest) || rest[indent] == '\n' || rest[indent] == '\r'
	inner := blank || indent > s.parent
	if s.block = s.block && inner; s.block {
		s.skipLine()
		return
	}
	s.pos += indent
	if blank || s.plain && inner {
		return // what was begun may go on
	}
	s.fresh, s.plain = true, false
	s.parent, s.key = indent, indent
	if strings.HasPrefix(rest, "---") || strings.HasPrefix(rest, "...") {
		s.pos += len("---")
		s.parent = -1
	}
}

// skipLine goes to the end of the line.
func (s *scan) skipLine() {
	if end := strings.IndexByte(s.text[s.pos:], '\n'); end >= 0 {
		s.pos += end
	} else {
		s.pos = len(s.text)
	}
}

func isBlank(c byte) bool { return bytes.IndexByte([]byte(" \t\r"), c) >= 0 }
