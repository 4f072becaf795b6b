package config

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"mulligan/policy"
)

// maxPathSteps bounds the paths of rules: no body that a rule is about is nested so
// deep.
const maxPathSteps = 32

// ruleFields are the keys of `retry` by which responses are told apart.
var ruleFields = fields(
	key("rules", readRules, func(r *policy.Retry) *[]policy.Rule { return &r.Rules }).holding(ruleKeys.keys),
	key("reset_headers", readResetHeaders, func(r *policy.Retry) *[]policy.ResetHeader { return &r.ResetHeaders }).
		holding(resetHeaderKeys.keys),
)

var ruleKeys = object[policy.Rule]{
	fields: fields(
		key("status", ruleStatuses, func(r *policy.Rule) *policy.Set { return &r.Status }),
		key("header", fieldRules, func(r *policy.Rule) *[]policy.FieldRule { return &r.Header }),
		key("json", pathRules, func(r *policy.Rule) *[]policy.PathRule { return &r.JSON }),
		key("retry", boolean, func(r *policy.Rule) *bool { return &r.Retry }).must(),
	),
	check: checkRule,
}

// readRules reads rules and puts them before those that v holds.
func readRules(d *decoder, n *yaml.Node, v *[]policy.Rule) {
	var rules []policy.Rule
	owner, before := d.owner(), len(d.errors)
	d.items(n, func(i int, value *yaml.Node) {
		if target := resolve(value); target.Kind == yaml.ScalarNode && target.Value == inheritWord {
			d.failHint(value, "leave it out", "inherited rules stay in any case, behind those that are written here")
			return
		}
		rule := policy.Rule{Name: fmt.Sprintf("rule %d of %s", i+1, owner)}
		ruleKeys.read(d, value, &rule)
		rules = append(rules, rule)
	})
	if len(d.errors) == before && d.mayKeep(n, len(*v)) {
		*v = slices.Concat(rules, *v)
	}
}

// owner says whose keys are being read: where rules come from, for who asks why.
func (d *decoder) owner() string {
	switch {
	case strings.HasPrefix(d.path, "defaults."):
		return "defaults"
	case strings.Contains(d.path, ".routes["):
		return "the route"
	case strings.HasPrefix(d.path, "upstreams."):
		return "the upstream"
	}
	return "the " + d.file
}

// checkRule wants a rule to be about something, and warns of one that is about
// answers that are right.
func checkRule(d *decoder, r *policy.Rule, w written) {
	bare := len(r.Header) == 0 && len(r.JSON) == 0
	verdict, statuses := w.right("retry"), w.right("status")
	switch {
	case verdict == nil || w.doubtful("status", "header", "json"):
	case bare && w.at("status") == nil:
		d.complain(verdict, "write status: [429], or header or json, beside it", "a rule without a condition would decide about every response")
	case bare && r.Retry && hasSuccess(r.Status):
		d.warn(statuses, "this rule retries answers that are no failures")
	}
}

// ruleStatuses reads the statuses of a rule: a list of them, or one.
func ruleStatuses(d *decoder, n *yaml.Node, v *policy.Set) {
	var read policy.Set
	before := len(d.errors)
	d.oneOrMore(n, "leave status out for a rule about every status", func(s scalar) {
		_, class := policy.ParseClass(s.text)
		_, grpc := policy.ParseGRPC(s.text)
		switch {
		case class || grpc:
			d.failHint(s.node, "write it in retry_on or do_not_retry_on", "%s is no status of a response, which is what rules are about", s)
		case strings.HasPrefix(s.text, "1") && new(policy.Set).Add(s.text) == nil:
			d.failHint(s.node, "leave it out", "%s ends no attempt: rules are about final responses", s)
		case read.Add(s.text) != nil:
			hint := "write a status (503), a class of statuses (5xx) or dependency_overloaded"
			if meant := nearest(s.raw, []string{"dependency_overloaded", "5xx", "4xx", "3xx", "2xx"}); meant != "" {
				hint = "did you mean " + meant + "?"
			}
			d.failHint(s.node, hint, "%s is not a status", s)
		}
	})
	if len(d.errors) == before {
		*v = read
	}
}

// fieldRules reads the header of a rule: a map of fields and the values that each
// may have.
func fieldRules(d *decoder, n *yaml.Node, v *[]policy.FieldRule) {
	*v = nil
	d.named(n, func(name, value *yaml.Node) {
		if !isToken(name.Value) {
			d.failHint(name, "write a name such as Retry-After", "not the name of a header field")
		}
		*v = append(*v, policy.FieldRule{Name: name.Value, Values: d.patterns(value)})
	})
}

// pathRules reads the json of a rule: a map of places in a body and the values
// that each may have.
func pathRules(d *decoder, n *yaml.Node, v *[]policy.PathRule) {
	*v = nil
	d.named(n, func(name, value *yaml.Node) {
		path := strings.Split(name.Value, ".")
		switch {
		case slices.Contains(path, ""):
			d.failHint(name, "write names with dots between them, such as error.code", "has an empty step")
		case len(path) > maxPathSteps:
			d.fail(name, "has more than %d steps", maxPathSteps)
		}
		*v = append(*v, policy.PathRule{Path: path, Values: d.patterns(value)})
	})
}

// patterns reads the values that a rule takes, as they are written: a list of
// them, or one.
func (d *decoder) patterns(n *yaml.Node) []string {
	var all []string
	d.oneOrMore(n, `write "*" for any value`, func(s scalar) {
		inner := strings.TrimSuffix(strings.TrimPrefix(s.text, "*"), "*")
		switch {
		case s.text == "":
			d.failHint(s.node, `write "*" for any value`, "%s is empty", s)
		case strings.Contains(inner, "*"):
			d.fail(s.node, "%s has a * that is neither at its beginning nor at its end", s)
		}
		all = append(all, s.text)
	})
	return all
}

// oneOrMore reads a list that may not be empty, or a single value as a list of one.
func (d *decoder) oneOrMore(n *yaml.Node, ifEmpty string, item func(s scalar)) {
	target := d.follow(n)
	switch {
	case target == nil:
	case isNull(target):
		d.failHint(n, ifEmpty, "has no value")
	case target.Kind == yaml.ScalarNode:
		if s, ok := d.scalar(n); ok {
			item(s)
		}
	case target.Kind == yaml.SequenceNode && len(target.Content) == 0:
		d.failHint(n, ifEmpty, "is an empty list, which nothing matches")
	default:
		d.items(n, func(_ int, value *yaml.Node) {
			if s, ok := d.scalar(value); ok {
				item(s)
			}
		})
	}
}

var resetHeaderKeys = object[policy.ResetHeader]{fields: fields(
	key("name", headerName, func(h *policy.ResetHeader) *string { return &h.Name }).must(),
	key("format", oneOf(named(policy.ResetEpoch, policy.ResetSeconds, policy.ResetDuration, policy.ResetRFC3339, policy.ResetClock)...),
		func(h *policy.ResetHeader) *policy.ResetFormat { return &h.Format }).must(),
	key("remaining", headerName, func(h *policy.ResetHeader) *string { return &h.Remaining }),
	key("full", boolean, func(h *policy.ResetHeader) *bool { return &h.Full }),
)}

// readResetHeaders reads the fields by which a vendor says when a limit is over.
func readResetHeaders(d *decoder, n *yaml.Node, v *[]policy.ResetHeader) {
	if list(resetHeaderKeys.read)(d, n, v); len(*v) == 0 {
		*v = nil
	}
}
