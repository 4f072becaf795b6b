package config

import "gopkg.in/yaml.v3"

// maxRepeated bounds what the aliases of a file repeat. They can repeat what
// they refer to so often that a small file means a huge configuration; this is
// far beyond what a person writes, in about the bytes of a file without aliases.
const maxRepeated = 4 << 20

// repetition returns the alias with which those of a file, in its order, repeat
// too much; nil where they do not.
func repetition(root *yaml.Node) *yaml.Node {
	r := repeated{sizes: make(map[*yaml.Node]int)}
	r.size(root)
	return r.tooMuch
}

// repeated adds up what aliases repeat.
type repeated struct {
	sizes   map[*yaml.Node]int // of what has an anchor, its own aliases followed
	total   int
	tooMuch *yaml.Node
}

// size returns about how much n stands for.
func (r *repeated) size(n *yaml.Node) int {
	if r.tooMuch != nil {
		return 0
	}
	if n.Kind == yaml.AliasNode {
		size, whole := r.sizes[n.Alias]
		if !whole { // the alias is inside of what it refers to
			size = plainSize(n.Alias)
		}
		if r.total += size; r.total > maxRepeated {
			r.tooMuch = n
		}
		return size
	}
	size := nodeSize(n)
	for _, below := range n.Content {
		size += r.size(below)
	}
	if n.Anchor != "" {
		r.sizes[n] = size
	}
	return size
}

// plainSize is size where no alias is followed.
func plainSize(n *yaml.Node) int {
	size := nodeSize(n)
	for _, below := range n.Content {
		size += plainSize(below)
	}
	return size
}

// nodeSize is the size of a node without what is in it.
func nodeSize(n *yaml.Node) int {
	const some = 16
	return some + len(n.Value)
}
