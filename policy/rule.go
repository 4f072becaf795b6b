package policy

import "strings"

// Rule is a user's or a preset's word on responses that look so: all that it names
// must match.
type Rule struct {
	Name   string      // for explanations: "rule 2 of the preset stripe"
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

// PathRule matches a JSON body that has one of the values at a place. A step is
// the name of a member, the index of an array's element, or * for any element.
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

func matchesOne(patterns []string, text string) bool {
	for _, p := range patterns {
		if Matches(p, text) {
			return true
		}
	}
	return false
}

// leastRuled is the least status that rules are about: an interim response ends no
// attempt, and one that switches protocols cannot be taken back.
const leastRuled = 200

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
	Field  func(name string) string // the first value of a field by its name, in any case; "" none
	Body   []byte                   // the whole body, its codings undone; nil where it is not known
}

// Rule returns what the first rule says that matches.
func (r *Retry) Rule(s *Seen) Ruled {
	switch rule := r.Match(s); {
	case rule == nil:
		return NotRuled
	case rule.Retry:
		return RuledRetry
	}
	return RuledFinal
}

// Match returns the first rule that matches, nil where none does. Rules with
// JSON conditions match only bodies that are JSON by their Content-Type, and are.
func (r *Retry) Match(s *Seen) *Rule {
	body := document{seen: s}
	for i := range r.Rules {
		rule := &r.Rules[i]
		if rule.takes(s.Status, s.Field) && (len(rule.JSON) == 0 || body.valid() && rule.matchesBody(s.Body)) {
			return rule
		}
	}
	return nil
}

// LooksInto reports whether the body of a response with this status and these
// fields can decide what rules say of it, so that it is worth holding.
func (r *Retry) LooksInto(status int, field func(name string) string) bool {
	for i := range r.Rules {
		if rule := &r.Rules[i]; rule.takes(status, field) {
			// Without JSON conditions it matches, and those behind it do not count.
			return len(rule.JSON) > 0 && IsJSON(field("Content-Type"))
		}
	}
	return false
}

// takes reports whether the rule's conditions on status and fields hold.
func (r *Rule) takes(status int, field func(string) string) bool {
	if status < leastRuled || r.Status != (Set{}) && !r.Status.hasStatus(status) {
		return false
	}
	for i := range r.Header {
		f := &r.Header[i]
		if value := trim(field(f.Name)); value == "" || !matchesOne(f.Values, value) {
			return false
		}
	}
	return true
}

// matchesBody reports whether the conditions on the body hold, which is valid JSON.
func (r *Rule) matchesBody(body []byte) bool {
	for i := range r.JSON {
		p := &r.JSON[i]
		if !anyAt(body, p.Path, func(text string) bool { return matchesOne(p.Values, text) }) {
			return false
		}
	}
	return true
}

// retries reports whether a rule may have responses with this status retried.
func (r *Retry) retries(status int) bool {
	for i := range r.Rules {
		if rule := &r.Rules[i]; rule.Retry && (rule.Status == (Set{}) || rule.Status.hasStatus(status)) {
			return true
		}
	}
	return false
}
