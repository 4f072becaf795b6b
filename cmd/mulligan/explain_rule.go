package main

import (
	"fmt"
	"strings"

	"mulligan/policy"
)

// findRule returns the rule that decides about the answer that was asked for, nil
// where none does, and notes what it says. What broke off, no rule is about.
func (q *question) findRule(p *place, o *policy.Outcome) *policy.Rule {
	if o.Class != policy.ClassNone {
		return nil
	}
	seen := &policy.Seen{Status: o.Status, Field: q.responseField}
	if q.isLookedInto(p) {
		seen.Body = []byte(*q.body)
	}
	o.Ruled = p.route.Retry.Rule(seen)
	return p.route.Retry.Match(seen)
}

// isLookedInto reports whether the body that was given is short enough.
func (q *question) isLookedInto(p *place) bool {
	return q.body != nil && int64(len(*q.body)) <= q.mostHeld(p)
}

// mostHeld is the most of a response that is held.
func (q *question) mostHeld(p *place) int64 { return min(p.route.Buffer.Response, q.cfg.BufferTotal) }

// bodyNote says what the response's body has to do with the verdict, "" for
// nothing that is not seen in it.
func (q *question) bodyNote(p *place, o policy.Outcome) string {
	asJSON := func(name string) string {
		if value := q.responseField(name); value != "" || !strings.EqualFold(name, "Content-Type") {
			return value
		}
		return "application/json"
	}
	switch {
	case o.Class != policy.ClassNone || !p.route.Retry.LooksInto(o.Status, asJSON):
		return ""
	case q.body == nil:
		return "rules may say otherwise of a JSON body: give it with --response-body"
	case !q.isLookedInto(p):
		return fmt.Sprintf("longer than what is held of a response (%s), so that no rule looks into it", size(q.mostHeld(p)))
	}
	return ""
}

// ruledBy is the rule's word as a reason.
func ruledBy(rule *policy.Rule) string { return fmt.Sprintf("%s: retry: %t", rule.Name, rule.Retry) }

// statusRule returns the rule that decides about every answer with a status, nil
// where none does; may says that one before it, which looks at more than the
// status, may decide against the verdict that follows from the others.
func statusRule(r *policy.Retry, o *policy.Outcome) (rule *policy.Rule, may bool) {
	if o.Class != policy.ClassNone {
		return nil, false
	}
	seen := &policy.Seen{Status: o.Status, Field: func(string) string { return "" }}
	o.Ruled = r.Rule(seen)
	rule = r.Match(seen)
	retried := r.Classify(*o) == policy.Retryable
	for i := range r.Rules {
		one := &r.Rules[i]
		if one == rule {
			break
		}
		if one.Retry != retried && (one.Status == (policy.Set{}) || one.Status.HasStatus(o.Status)) {
			may = true
		}
	}
	return rule, may
}
