package config

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Load reads the configuration in the file at path. Environment values come
// from env, which is os.LookupEnv outside of tests. The error is an *Errors.
func Load(path string, env Lookup) (*Config, error) { return LoadAs(path, path, env) }

// LoadAs is Load with another name for the file in messages.
func LoadAs(name, path string, env Lookup) (*Config, error) {
	data, err := readConfig(path)
	if err != nil {
		return nil, &Errors{All: []*Error{{File: name, Message: reason(err), Err: err}}, Files: []string{absolute(path)}}
	}
	return parse(name, path, data, env)
}

// readConfig reads one byte more than is allowed at most, which Parse refuses.
func readConfig(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}

// Parse reads a configuration from data. file is its name in messages, and the
// place from which relative names of other files start. The error is an
// *Errors.
func Parse(file string, data []byte, env Lookup) (*Config, error) {
	return parse(file, file, data, env)
}

func parse(name, path string, data []byte, env Lookup) (*Config, error) {
	d := &decoder{file: name, env: env, keys: Keys(), files: newFileSet(path), claims: newClaims(), doubts: make(doubts)}
	c := Default()
	d.document(data, c)
	if len(d.errors) > 0 {
		return nil, &Errors{All: ordered(d.errors), Files: d.files.names()}
	}
	settle(c)
	for _, w := range ordered(d.warnings) {
		c.Warnings = append(c.Warnings, w.Error())
	}
	c.files, c.digests = d.files.names(), d.files.digests
	return c, nil
}

// document reads all of a file into c.
func (d *decoder) document(data []byte, c *Config) {
	root, syntax := parseYAML(data)
	if syntax != nil {
		syntax.File, syntax.bare = d.file, syntax.Message
		d.errors = append(d.errors, syntax)
	}
	if root == nil {
		c.empty = syntax == nil
		return
	}
	if alias := repetition(root); alias != nil {
		d.stop(alias, "the aliases of this file repeat too much")
		return
	}
	topLevel.read(d, root, c)
	if syntax == nil { // else it may be the second document that has what is missed
		d.checkListeners(c)
	}
}

// reason is what went wrong with a file, without its name: the name may have
// come from the environment.
func reason(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

// absolute is filepath.Abs, or the path as it is where there is no working
// directory to start from.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
