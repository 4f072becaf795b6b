package policy

import (
	"bytes"
	"encoding/json"
	"io"
	"strconv"
	"strings"
)

// Rule is a user's or a preset's word on responses that look so: all that it names
// must match.
type Rule struct {
	Status Set         // empty: any
	Header []FieldRule // each
	JSON   []PathRule  // each; none matches a body that is not seen
	Retry  bool        // the verdict
}

// FieldRule matches a response that has one of the values in a field.
type FieldRule struct {
	Name   string
	Values []string // patterns, see Matches
}

// PathRule matches a JSON body that has one of the values at a place: names of
// members, and indexes of arrays.
type PathRule struct {
	Path   []string
	Values []string // patterns, see Matches; numbers, true and false as they are written
}

// Matches reports whether the text is the pattern, in which a * at the beginning
// or end stands for anything.
func Matches(pattern, text string) bool {
	inner, before := strings.CutPrefix(pattern, "*")
	if inner == "" && before {
		return true
	}
	inner, after := strings.CutSuffix(inner, "*")
	switch {
	case before && after:
		return strings.Contains(text, inner)
	case before:
		return strings.HasSuffix(text, inner)
	case after:
		return strings.HasPrefix(text, inner)
	}
	return text == inner
}

// Ruled is what rules say of a response.
type Ruled uint8

// What rules can say.
const (
	NotRuled   Ruled = iota
	RuledFinal       // it is not to be retried
	RuledRetry       // it is
)

// Seen is a response as rules look at it.
type Seen struct {
	Status int
	Field  func(name string) string // the first value of a field; "" none
	Body   []byte                   // the whole body, decoded; nil where it is not to be looked at
	parsed bool
	value  any
}

// LooksInto reports whether a rule could be decided by the body of a response with
// this status and these fields.
func (r *Retry) LooksInto(status int, field func(name string) string) bool {
	for i := range r.Rules {
		if rule := &r.Rules[i]; len(rule.JSON) > 0 && rule.takes(status) {
			return IsJSON(field("Content-Type"))
		}
	}
	return false
}

// IsJSON reports whether a message with this Content-Type is JSON: application/json,
// or anything that ends in +json (RFC 6839 3.1).
func IsJSON(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	media = strings.ToLower(trim(media))
	return media == "application/json" || strings.HasSuffix(media, "+json")
}

// Rule returns what the first rule says that matches.
func (r *Retry) Rule(s *Seen) Ruled {
	for i := range r.Rules {
		if rule := &r.Rules[i]; rule.matches(s) {
			if rule.Retry {
				return RuledRetry
			}
			return RuledFinal
		}
	}
	return NotRuled
}

func (r *Rule) takes(status int) bool {
	return r.Status == (Set{}) || r.Status.hasStatus(status)
}

func (r *Rule) matches(s *Seen) bool {
	if !r.takes(s.Status) {
		return false
	}
	for i := range r.Header {
		f := &r.Header[i]
		if value := s.Field(f.Name); value == "" || !oneOf(f.Values, trim(value)) {
			return false
		}
	}
	for i := range r.JSON {
		p := &r.JSON[i]
		if text, ok := s.at(p.Path); !ok || !oneOf(p.Values, text) {
			return false
		}
	}
	return true
}

func oneOf(patterns []string, text string) bool {
	for _, p := range patterns {
		if Matches(p, text) {
			return true
		}
	}
	return false
}

// at returns the scalar at a place of the body.
func (s *Seen) at(path []string) (string, bool) {
	if !s.parsed {
		s.parsed = true
		s.value = parseJSON(s.Body)
	}
	v := s.value
	for _, step := range path {
		switch at := v.(type) {
		case map[string]any:
			v = at[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(at) {
				return "", false
			}
			v = at[i]
		default:
			return "", false
		}
	}
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}

// parseJSON returns nil for what is no JSON value (RFC 8259), or more than one.
func parseJSON(body []byte) any {
	if len(body) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber() // numbers are compared as they are written
	var v any
	if err := d.Decode(&v); err != nil {
		return nil
	}
	if _, err := d.Token(); err != io.EOF {
		return nil
	}
	return v
}
