package config

import (
	"slices"
	"strconv"

	"gopkg.in/yaml.v3"
)

// entry is one key of a map with its value.
type entry struct{ key, value *yaml.Node }

// entries returns what the map n has, in the order of the file, with what it
// merges (<<) after it. It reports what is written twice, and what is no map,
// for which it returns false.
func (d *decoder) entries(n *yaml.Node) ([]entry, bool) {
	return d.mapEntries(n, nil)
}

// mapEntries is entries inside of merges; outer are the maps that are being
// merged, none of which may be merged into itself.
func (d *decoder) mapEntries(n *yaml.Node, outer []*yaml.Node) ([]entry, bool) {
	target := d.follow(n)
	if target == nil {
		return nil, false
	}
	if isNull(target) {
		return nil, true
	}
	if target.Kind != yaml.MappingNode {
		d.fail(n, "needs a map (key: value), not %s", kind(target))
		return nil, false
	}
	if slices.Contains(outer, target) {
		d.fail(n, "a map that merges itself")
		return nil, false
	}
	return d.allEntries(target, append(outer, target)), true
}

// allEntries returns the entries of a map, its own and merged ones.
func (d *decoder) allEntries(target *yaml.Node, outer []*yaml.Node) []entry {
	var own, merges []entry
	first := make(map[string]*yaml.Node)
	for i := 0; i+1 < len(target.Content); i += 2 {
		key := d.follow(target.Content[i])
		if key == nil {
			return nil
		}
		e := entry{key, target.Content[i+1]}
		switch {
		case key.Kind != yaml.ScalarNode:
			d.fail(target.Content[i], "a key must be a single word, not %s", kind(key))
		case first[key.Value] != nil:
			d.fail(target.Content[i], "%s is written twice; first in line %d", quote(key.Value), first[key.Value].Line)
		case key.ShortTag() == "!!merge":
			first[key.Value] = key
			merges = append(merges, e)
		default:
			first[key.Value] = key
			own = append(own, e)
		}
	}
	for _, m := range merges {
		own = append(own, d.merged(m.value, outer, first)...)
	}
	return own
}

// merged returns the entries of the map or list of maps n whose keys are not in
// taken, and takes them.
func (d *decoder) merged(n *yaml.Node, outer []*yaml.Node, taken map[string]*yaml.Node) []entry {
	maps := []*yaml.Node{n}
	if target := d.follow(n); target == nil {
		return nil
	} else if target.Kind == yaml.SequenceNode {
		maps = target.Content
	}
	var all []entry
	for _, m := range maps {
		entries, _ := d.mapEntries(m, outer)
		for _, e := range entries {
			if taken[e.key.Value] == nil {
				taken[e.key.Value] = e.key
				all = append(all, e)
			}
		}
	}
	return all
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
		d.within(step, func() { item(e.key, e.value) })
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
