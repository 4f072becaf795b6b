// Package config reads mulligan's configuration: YAML in, policy values out.
//
//	cfg, err := config.Load("mulligan.yaml", os.LookupEnv)
//	// err is an *Errors: everything that is wrong, each with file:line:column
//
// It is strict. What it does not know it refuses, and it goes on after an error
// so that one run names all of them. The keys are tables (schema*.go): a key
// has a name, a reader for its value and the place in the policy that it fills.
// One walker (object.go) reads every map with them, so that unknown keys,
// repeated keys, aliases, merges and hints are dealt with once.
//
// Inheritance needs no machinery: what inherits begins as a copy of what it
// inherits from, and its own keys are read over that copy, after those of its preset,
// which is an embedded file with the same keys (preset.go). Values that were
// inherited and then contradict a written one are capped at the very end
// (settle.go), so that a route inherits what was written, not what was capped. A
// feature is off until its map is written somewhere (feature.go); values of it that
// follow from others where nobody wrote them are filled in there too.
//
// Two errors that have nothing to do with each other are both reported, and none
// that would go away with another: what stands in a map and what is in doubt
// there are two questions (doubts.go). Only what is wrong with the text itself is
// one error, with its place (syntax.go, broken.go, unclosed.go). A file as large
// as is allowed is judged in about a second, whatever is in it: nothing is
// searched item by item, what aliases repeat is bounded (repetition.go), and so
// is the work of finding a place.
//
// ${NAME} in a value is expanded after YAML was parsed, so that an environment
// value cannot change the structure; messages show what the file has, never
// what it expanded to.
//
// The package has no behaviour: it opens no socket and watches no file.
package config
