package main

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"

	"mulligan/policy/config"
)

// Where the configuration is when nobody says.
const (
	configVariable = "MULLIGAN_CONFIG"
	configFile     = "mulligan.yaml"
)

// configUsage is the line on --config in every usage text.
const configUsage = "  --config F   the configuration; else $MULLIGAN_CONFIG, else mulligan.yaml where there is one, else the defaults\n"

// source is where a configuration comes from.
type source struct {
	path     string // as it was given, for messages
	own      string // absolute, found out once: a link on the way to the working directory may be swapped
	env      config.Lookup
	variable bool // configVariable names it

	// optional: nobody names a file, and the default one has not been read yet.
	// While it is not there the defaults hold; once it was read they never do
	// again, or its guards would go with it.
	optional bool
}

// configFlag adds --config to a verb's flags. The function that it returns
// finds the source once the flags are parsed.
func configFlag(f *flags, t terminal) func() (*source, error) {
	named := f.String("config", "", "")
	return func() (*source, error) {
		if *named == "" && f.given("config") {
			return nil, misuse("leave --config out for the default file", "--config names no file")
		}
		return findSource(*named, t.env), nil
	}
}

// given reports whether the flag was written.
func (f *flags) given(name string) bool {
	given := false
	f.Visit(func(one *flag.Flag) { given = given || one.Name == name })
	return given
}

// findSource follows the order that configUsage gives.
func findSource(named string, env config.Lookup) *source {
	s := &source{path: configFile, env: env, optional: true}
	if named != "" {
		s.path, s.optional = named, false
	} else if path, _ := env(configVariable); path != "" {
		s.path, s.optional, s.variable = path, false, true
	}
	s.own = s.path
	if own, err := filepath.Abs(s.path); err == nil {
		s.own = own
	}
	return s
}

// load reads the configuration.
func (s *source) load() (*config.Config, error) {
	hint := "give the right name with --config, or leave it out for the defaults"
	if s.variable {
		hint = "the environment's " + configVariable + " names it: put the right name there, or unset it for the defaults"
	}
	return s.read(hint)
}

// read is load; hint is what to do where there is no file.
func (s *source) read(hint string) (*config.Config, error) {
	cfg, err := config.LoadAs(s.path, s.own, s.env)
	switch {
	case err == nil:
		s.optional = false
		return cfg, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case isLink(s.own):
		return nil, failure(err, "let it lead to a file, or remove it", "%s: a symbolic link that leads to no file", s.path)
	case s.optional:
		return config.Default(), nil
	}
	return nil, failure(err, hint, "%s: there is no such file", s.path)
}

// isLink reports whether there is a symbolic link, wherever it leads.
func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// loadAgain is load for a reload: a pipe has nothing more to give.
func (s *source) loadAgain() (*config.Config, error) {
	if info, err := os.Stat(s.own); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return nil, &fs.PathError{Op: "reload", Path: s.path, Err: errors.New("not a regular file, which can be read only once")}
	}
	return s.read("put it back: until then what was read last holds")
}

// String names, in messages, what load read.
func (s *source) String() string {
	if s.optional {
		return "built-in defaults"
	}
	return s.path
}

// loadAsked reads the configuration for a verb that takes nothing but --config.
func loadAsked(t terminal, verb, usage string, args []string) (*source, *config.Config, error) {
	f := newFlags(verb, usage)
	find := configFlag(f, t)
	if _, err := f.parse(t, args, 0); err != nil {
		return nil, nil, err
	}
	src, err := find()
	if err != nil {
		return nil, nil, err
	}
	cfg, err := src.load()
	return src, cfg, err
}
