package config

import (
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"mulligan/policy"
)

// maxKept is how many items all lists of a file inherit together, at most.
const maxKept = 200_000

// inheritWord at the head of a list keeps what the list would replace.
const inheritWord = "inherit"

// list reads a list that replaces what v holds.
func list[V comparable](item reader[V]) reader[[]V] { return listOf(item, false) }

// inheritingList is list, but `inherit` at its head keeps what v holds.
func inheritingList[V comparable](item reader[V]) reader[[]V] { return listOf(item, true) }

func listOf[V comparable](item reader[V], inherits bool) reader[[]V] {
	return func(d *decoder, n *yaml.Node, v *[]V) {
		read, has := []V{}, make(map[V]bool)
		add := func(one V) {
			if !has[one] {
				has[one] = true
				read = append(read, one)
			}
		}
		keep := func() {
			if d.mayKeep(n, len(*v)) {
				for _, one := range *v {
					add(one)
				}
			}
		}
		if !inherits {
			keep = nil
		}
		before := len(d.errors)
		d.inheriting(n, keep, func(value *yaml.Node) {
			var one V
			item(d, value, &one)
			add(one)
		})
		if len(d.errors) == before {
			*v = read
		}
	}
}

// mayKeep counts what a list inherits: a long list that many inherit would make
// a small file a huge configuration.
func (d *decoder) mayKeep(n *yaml.Node, items int) bool {
	if d.kept += items; d.kept > maxKept {
		d.stop(n, "what the lists of this file inherit is too much")
	}
	return !d.stopped
}

// inheriting reads a list, calling keep where it begins with `inherit`. A nil
// keep is for lists that inherit nothing.
func (d *decoder) inheriting(n *yaml.Node, keep func(), item func(value *yaml.Node)) {
	d.items(n, func(i int, value *yaml.Node) {
		target := d.follow(value)
		switch {
		case target == nil:
		case target.Kind != yaml.ScalarNode || target.Value != inheritWord:
			item(value)
		case keep == nil:
			d.fail(value, "this list inherits nothing")
		case i > 0:
			d.failHint(value, "move it to the front", "only the first item may be inherit")
		default:
			keep()
		}
	})
}

// nameOrList reads a single name as a list of one.
func nameOrList(item reader[string]) reader[[]string] {
	whole := inheritingList(item)
	return func(d *decoder, n *yaml.Node, v *[]string) {
		target := d.follow(n)
		if target == nil {
			return
		}
		if target.Kind != yaml.ScalarNode || isNull(target) {
			whole(d, n, v)
			return
		}
		var one string
		before := len(d.errors)
		item(d, n, &one)
		if len(d.errors) == before {
			*v = []string{one}
		}
	}
}

// conditions reads the list of what is retried, or of what is not.
func conditions(retried bool) reader[policy.Set] {
	return func(d *decoder, n *yaml.Node, v *policy.Set) {
		var read policy.Set
		before := len(d.errors)
		d.inheriting(n, func() { read = *v }, func(value *yaml.Node) {
			if s, ok := d.scalar(value); ok {
				d.condition(s, retried, &read)
			}
		})
		if len(d.errors) == before {
			*v = read
		}
	}
}

// condition adds one word to the set.
func (d *decoder) condition(s scalar, retried bool, set *policy.Set) {
	if err := set.Add(s.text); err != nil {
		hint := ""
		if meant := meantCondition(s.raw); meant != "" {
			hint = "did you mean " + meant + "?"
		}
		d.failHint(s.node, hint, "%s is neither a failure class, nor a status (503), a class of statuses (5xx), "+
			"dependency_overloaded or a gRPC status (grpc_unavailable)", s)
		return
	}
	if !retried {
		return
	}
	for _, class := range policy.Classes() {
		if class.Never() && class.String() == s.text {
			d.failHint(s.node, "leave it out", "%s is never retried: it does not heal by itself", s)
		}
	}
	var alone policy.Set
	if alone.Add(s.text) == nil && hasSuccess(alone) {
		d.warn(s.node, "%s retries answers that are no failures", s)
	}
}

// meantCondition returns the condition that a wrong word was probably meant to
// be, or "".
func meantCondition(word string) string {
	if g := "grpc_" + strings.ToLower(word); new(policy.Set).Add(g) == nil { // as gRPC itself spells it: UNAVAILABLE
		return g
	}
	words := policy.Conditions()
	slices.Reverse(words) // of 1xx to 5xx, 5xx is the likeliest
	return nearest(word, words)
}

// hasSuccess reports whether the set has a status under 400.
func hasSuccess(set policy.Set) bool {
	for status := 100; status < 400; status++ {
		if set.HasStatus(status) {
			return true
		}
	}
	return false
}
