package main

import (
	_ "embed"
	"log/slog"
	"os"
	"path/filepath"
)

// privateDir is where the files are that a command is pointed to. Nobody but its
// owner can list them, change them, or put others in their place. Whoever is told
// their names can read them: a command may give up root before it does, and there
// is no secret in them.
type privateDir struct{ path string }

func newPrivateDir() (*privateDir, error) {
	// TMPDIR may be relative, and the command may leave this directory.
	parent, err := filepath.Abs(os.TempDir())
	path := ""
	if err == nil {
		path, err = os.MkdirTemp(parent, "mulligan-exec-") // 0700
	}
	if err == nil {
		err = os.Chmod(path, 0o711)
	}
	if err != nil {
		return nil, failure(err, "TMPDIR names another place for temporary files", "cannot write the command's files: %v", err)
	}
	return &privateDir{path}, nil
}

// write makes a file, and the directory that it is in, and returns its path.
func (d *privateDir) write(name string, data []byte) (string, error) {
	return d.writeFor(name, data, 0o644)
}

// writeFor is write for those whom the mode lets read the file, whatever the umask
// says.
func (d *privateDir) writeFor(name string, data []byte, mode os.FileMode) (string, error) {
	path := filepath.Join(d.path, name)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if below := filepath.Dir(path); err == nil && below != d.path {
		err = os.Chmod(below, 0o755) // PHP lists it
	}
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err == nil {
		err = os.Chmod(path, mode)
	}
	if err != nil {
		return "", failure(err, "TMPDIR names another place for temporary files", "cannot write the command's files: %v", err)
	}
	return path, nil
}

// remove takes away what was written.
func (d *privateDir) remove(log *slog.Logger) {
	if d == nil {
		return
	}
	if err := os.RemoveAll(d.path); err != nil {
		log.Warn("what was written for the command could not be removed", slog.Any("error", err))
	}
}

// nodePreload makes old versions of Node know the proxy.
//
//go:embed exec_node.cjs
var nodePreload []byte
