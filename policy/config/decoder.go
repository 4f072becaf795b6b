package config

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// What a file may ask of its reader. Aliases can repeat what they refer to so
// often that a small file means a huge configuration; both bounds are far
// beyond what a person writes.
const (
	maxVisits = 200_000 // maps and lists entered, entries included
	maxErrors = 1_000
)

// decoder is what the reading of one file shares: where it is, what it found
// wrong, and what may stand in the file only once.
type decoder struct {
	file  string
	env   Lookup
	keys  []string // every key there is, for hints about misplaced ones
	path  string   // the key that is being read: "upstreams.payments.retry"
	files *fileSet

	visits   int
	stopped  bool // a bound was passed: read no further
	errors   []*Error
	warnings []*Error

	claims    claims
	listeners []listener
}

// fail records an error at n about the key that is being read.
func (d *decoder) fail(n *yaml.Node, format string, args ...any) {
	d.failHint(n, "", format, args...)
}

// failHint is fail with a hint.
func (d *decoder) failHint(n *yaml.Node, hint, format string, args ...any) {
	if d.stopped {
		return
	}
	d.errors = append(d.errors, d.problem(n, hint, format, args...))
	if len(d.errors) >= maxErrors {
		d.stop(n, "too much is wrong: nothing after the first %d errors was read", maxErrors)
	}
}

// stop records a last error and ends the reading.
func (d *decoder) stop(n *yaml.Node, format string, args ...any) {
	if !d.stopped {
		d.stopped = true
		d.path = ""
		d.errors = append(d.errors, d.problem(n, "", format, args...))
	}
}

// warn records what is legal, but probably not what was meant.
func (d *decoder) warn(n *yaml.Node, format string, args ...any) {
	d.warnings = append(d.warnings, d.problem(n, "", format, args...))
}

func (d *decoder) problem(n *yaml.Node, hint, format string, args ...any) *Error {
	bare := fmt.Sprintf(format, args...)
	message := bare
	if d.path != "" {
		message = d.path + ": " + bare
	}
	return &Error{File: d.file, Line: n.Line, Column: n.Column, Message: message, Hint: hint, bare: bare}
}

// within runs read with the path one step deeper. A step is a key, or an index
// in brackets.
func (d *decoder) within(step string, read func()) {
	outer := d.path
	if outer != "" && !strings.HasPrefix(step, "[") {
		step = "." + step
	}
	d.path = outer + step
	read()
	d.path = outer
}

// follow returns what an alias refers to, and any other node itself. It counts
// the visit, and returns nil when there were too many.
func (d *decoder) follow(n *yaml.Node) *yaml.Node {
	if d.visits++; d.visits > maxVisits {
		d.stop(n, "the aliases of this file repeat too much")
	}
	if d.stopped {
		return nil
	}
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// kind names what a node is, for messages.
func kind(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a map"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	}
	return "a single value"
}

// isNull reports whether the value was left out, or is ~ or null.
func isNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}
