package config

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// maxErrors is how many errors are reported at most, and how many warnings.
const maxErrors = 1_000

// decoder is what the reading of one file shares: where it is, what it found
// wrong, and what may stand in the file only once.
type decoder struct {
	file  string
	env   Lookup
	keys  []string // every key there is, for hints about misplaced ones
	path  string   // the key that is being read: "upstreams.payments.retry"
	files *fileSet

	stopped  bool // a bound was passed: read no further
	kept     int  // items that lists were given by `inherit`
	errors   []*Error
	warnings []*Error

	claims    claims
	doubts    doubts
	listeners []listener
}

// fail records an error at n about the value of the key that is being read,
// which is then in doubt.
func (d *decoder) fail(n *yaml.Node, format string, args ...any) {
	d.failHint(n, "", format, args...)
}

// failHint is fail with a hint.
func (d *decoder) failHint(n *yaml.Node, hint, format string, args ...any) {
	d.doubts.add(d.path)
	d.complain(n, hint, format, args...)
}

// complain records an error at n that leaves the value of the key that is being
// read as it is: one about another key, or about values that are right but do
// not go together.
func (d *decoder) complain(n *yaml.Node, hint, format string, args ...any) {
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
	if len(d.warnings) < maxErrors {
		d.warnings = append(d.warnings, d.problem(n, "", format, args...))
	}
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
	d.path = join(outer, step)
	read()
	d.path = outer
}

// join is the path of a step from an outer one.
func join(outer, step string) string {
	if outer != "" && !strings.HasPrefix(step, "[") {
		step = "." + step
	}
	return outer + step
}

// follow is resolve for reading on: it returns nil once reading has stopped.
func (d *decoder) follow(n *yaml.Node) *yaml.Node {
	if d.stopped {
		return nil
	}
	return resolve(n)
}

// resolve returns what an alias refers to, and any other node itself.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
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
