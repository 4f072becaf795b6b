package main

import (
	"errors"
	"flag"
	"io/fs"
	"os"

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
	path     string // "" for the defaults
	env      config.Lookup
	variable bool // configVariable names it
}

// configFlag adds --config to a verb's flags. The function that it returns
// finds the source once the flags are parsed.
func configFlag(f *flags, t terminal) func() (source, error) {
	named := f.String("config", "", "")
	return func() (source, error) {
		if *named == "" && f.given("config") {
			return source{}, misuse("leave --config out for the default file", "--config names no file")
		}
		return findSource(*named, t.env)
	}
}

// given reports whether the flag was written.
func (f *flags) given(name string) bool {
	given := false
	f.Visit(func(one *flag.Flag) { given = given || one.Name == name })
	return given
}

// findSource follows the order that configUsage gives. A default file that is
// there but cannot be looked at is an error later, when it is read: the
// defaults are for where there is none.
func findSource(named string, env config.Lookup) (source, error) {
	if named != "" {
		return source{path: named, env: env}, nil
	}
	if path, _ := env(configVariable); path != "" {
		return source{path: path, env: env, variable: true}, nil
	}
	if _, err := os.Stat(configFile); errors.Is(err, fs.ErrNotExist) {
		return source{env: env}, nil
	}
	return source{path: configFile, env: env}, nil
}

// load reads the configuration.
func (s source) load() (*config.Config, error) {
	if s.path == "" {
		return config.Default(), nil
	}
	cfg, err := config.Load(s.path, s.env)
	if errors.Is(err, fs.ErrNotExist) {
		hint := "give the right name with --config, or leave it out for the defaults"
		if s.variable {
			hint = "the environment's " + configVariable + " names it: put the right name there, or unset it for the defaults"
		}
		return nil, failure(err, hint, "%s: there is no such file", s.path)
	}
	return cfg, err
}

// String names the source in messages.
func (s source) String() string {
	if s.path == "" {
		return "built-in defaults"
	}
	return s.path
}
