package config

import (
	"slices"
	"strconv"

	"gopkg.in/yaml.v3"
)

// entry is one key of a map with its value.
type entry struct {
	key, value *yaml.Node
	again      bool // the map has the key before
}

// entries returns what the map n has, in the order of the file, with what it
// merges (<<) after it. It reports what is written twice, and what is no map,
// for which it returns false.
func (d *decoder) entries(n *yaml.Node) ([]entry, bool) {
	m := merge{d: d, taken: make(map[string]bool)}
	ok := m.add(n, nil)
	return m.all, ok
}

// merge collects the entries of a map and of those that it merges.
type merge struct {
	d     *decoder
	all   []entry
	taken map[string]bool // keys that have a value: the first one holds
}

// add collects from n; outer are the maps that are being merged, none of which
// may be merged into itself. It returns false where n is no map.
func (m *merge) add(n *yaml.Node, outer []*yaml.Node) bool {
	target := m.d.follow(n)
	switch {
	case target == nil:
		return false
	case isNull(target):
		return true
	case target.Kind != yaml.MappingNode:
		m.d.fail(n, "needs a map (key: value), not %s", kind(target))
		return false
	case slices.Contains(outer, target):
		m.d.fail(n, "a map that merges itself")
		return false
	}
	outer = append(outer, target)
	for _, value := range m.addOwn(target) {
		for _, inner := range mergedMaps(value) {
			m.add(inner, outer)
		}
	}
	return true
}

// addOwn collects what a map itself has, but for what is taken, and returns the
// values that it merges.
func (m *merge) addOwn(target *yaml.Node) (merges []*yaml.Node) {
	first := make(map[string]*yaml.Node)
	for i := 0; i+1 < len(target.Content); i += 2 {
		n, e := target.Content[i], entry{key: resolve(target.Content[i]), value: target.Content[i+1]}
		if e.key.Kind != yaml.ScalarNode {
			m.d.complain(n, "", "a key must be a single word, not %s", kind(e.key))
			continue
		}
		if before := first[e.key.Value]; before != nil {
			e.again = true
			m.d.complain(n, "", "%s is written twice; first in line %d", quote(e.key.Value), before.Line)
		} else {
			first[e.key.Value] = e.key
		}
		if e.key.ShortTag() == "!!merge" {
			merges = append(merges, e.value)
		} else if e.again || !m.taken[e.key.Value] {
			m.taken[e.key.Value] = true
			m.all = append(m.all, e)
		}
	}
	return merges
}

// mergedMaps returns what the value of a << stands for: one map or a list of them.
func mergedMaps(n *yaml.Node) []*yaml.Node {
	if target := resolve(n); target.Kind == yaml.SequenceNode {
		return target.Content
	}
	return []*yaml.Node{n}
}

// named reads a map whose keys are the user's own names: each entry is read by
// item, with the path at it.
func (d *decoder) named(n *yaml.Node, item func(name, value *yaml.Node)) {
	entries, _ := d.entries(n)
	for _, e := range entries {
		step := e.key.Value
		if !isName(step) {
			step = quote(step)
		}
		read := func() { d.within(step, func() { item(e.key, e.value) }) }
		if e.again {
			d.apart(read)
		} else {
			read()
		}
	}
}

// items reads a list, each item with the path at it.
func (d *decoder) items(n *yaml.Node, item func(i int, value *yaml.Node)) {
	target := d.follow(n)
	switch {
	case target == nil:
	case target.Kind == yaml.SequenceNode:
		for i, value := range target.Content {
			d.within("["+strconv.Itoa(i)+"]", func() { item(i, value) })
		}
	case isNull(target):
		d.failHint(n, "write [] for none", "has no value")
	case target.Kind == yaml.ScalarNode:
		d.failHint(n, "write it in brackets: ["+show(target.Value)+"]", "needs a list, not a single value")
	default:
		d.fail(n, "needs a list, not %s", kind(target))
	}
}
