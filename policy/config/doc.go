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
// inherits from, and its own keys are read over that copy. Values that were
// inherited and then contradict a written one are capped at the very end
// (settle.go), so that a route inherits what was written, not what was capped.
//
// ${NAME} in a value is expanded after YAML was parsed, so that an environment
// value cannot change the structure; messages show what the file has, never
// what it expanded to.
//
// The package has no behaviour: it opens no socket and watches no file.
package config
