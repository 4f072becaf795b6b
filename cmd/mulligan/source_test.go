package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mulligan/policy/config"
)

// TestWorkingDirectoryThatIsSwapped: where a link on the way to the working
// directory is swapped for another, as releases are, the file under a relative name
// is the new one for the look and for the reading alike. They once differed: each
// change was noticed, the old file read, and success reported.
func TestWorkingDirectoryThatIsSwapped(t *testing.T) {
	dir := t.TempDir()
	for _, release := range []string{"one", "two"} {
		if err := os.MkdirAll(filepath.Join(dir, release), 0o700); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("upstreams: {%s: {hosts: [%s.example]}}\n", release, release)
		if err := os.WriteFile(filepath.Join(dir, release, configFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	current := filepath.Join(dir, "current")
	lead := func(to string) {
		t.Helper()
		if err := os.Symlink(to, current+".new"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(current+".new", current); err != nil {
			t.Fatal(err)
		}
	}
	lead("one")
	t.Chdir(current)
	src := findSource("", os.LookupEnv)
	for _, release := range []string{"one", "two"} {
		lead(release)
		cfg, err := src.loadAgain()
		if err != nil {
			t.Fatal(err)
		}
		if got := cfg.Upstreams[0].Name; got != release {
			t.Errorf("read the upstream of %q, want %q", got, release)
		}
		if got := cfg.Files(); len(got) != 1 || got[0] != src.own {
			t.Errorf("files %q, watched is %q", got, src.own)
		}
	}
	if src.String() != configFile {
		t.Errorf("messages call it %q", src)
	}
}

// TestReloadOfAFileThatIsGone: it is reported with what to do about it.
func TestReloadOfAFileThatIsGone(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile(configFile, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	src := findSource("", os.LookupEnv)
	if _, err := src.load(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(configFile); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	r := &reloader{own: src.own, load: src.loadAgain, look: lookAt, note: func(bool) {}, log: slog.New(slog.NewTextHandler(&log, nil))}
	r.reload(lookAt([]string{src.own}), true)
	if got := log.String(); !strings.Contains(got, "there is no such file") || !strings.Contains(got, "put it back") {
		t.Error(got)
	}
}

// TestReadingEnds: a configuration that names another file each time it is read
// is not read for ever.
func TestReadingEnds(t *testing.T) {
	reads := 0
	load := func() (*config.Config, error) {
		reads++
		return nil, &config.Errors{Files: []string{"file", fmt.Sprint("ca", reads, ".pem")}}
	}
	look := func(files []string) look {
		seen := make(look)
		for _, name := range files {
			seen[name] = [32]byte{}
		}
		return seen
	}
	r := &reloader{own: "file", look: look, load: load, note: func(bool) {}, log: slog.New(slog.DiscardHandler)}
	r.reload(look([]string{"file"}), false)
	if reads != 3 {
		t.Errorf("read %d times", reads)
	}
}
