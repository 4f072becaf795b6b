package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/policy/config"
)

// fakeFile is a configuration's file that is looked at and loaded.
type fakeFile struct {
	mu      sync.Mutex
	content string
}

func (f *fakeFile) write(content string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.content = content
}

// look finds the same in all files.
func (f *fakeFile) look(files []string) look {
	f.mu.Lock()
	defer f.mu.Unlock()
	seen := make(look)
	for _, name := range files {
		seen[name] = sha256.Sum256([]byte(f.content))
	}
	return seen
}

func (f *fakeFile) load() (*config.Config, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if strings.HasPrefix(f.content, "bad") {
		return nil, errors.New(f.content)
	}
	if strings.TrimSpace(f.content) == "" {
		return config.Parse("file", []byte(f.content), os.LookupEnv)
	}
	return config.Default(), nil
}

// watched is a reloader in a bubble, and what it did.
type watched struct {
	fakeFile
	*reloader
	applied, failed int
	ask             chan os.Signal
}

// watch starts a reloader; it ends with the test.
func watch(t *testing.T) *watched {
	w := &watched{ask: make(chan os.Signal)}
	w.write("first")
	w.reloader = &reloader{
		own:   "file",
		load:  w.fakeFile.load,
		apply: func(*config.Config) error { return nil },
		look:  w.fakeFile.look,
	}
	w.watch([]string{"file"}, nil)
	w.begin(t)
	return w
}

// begin runs the reloader, until the test ends.
func (w *watched) begin(t *testing.T) {
	w.log = slog.New(slog.DiscardHandler)
	w.note = func(success bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if success {
			w.applied++
		} else {
			w.failed++
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.run(ctx, w.ask) }()
	t.Cleanup(func() { cancel(); <-done })
}

// after lets time pass, and compares what was reloaded until then.
func (w *watched) after(t *testing.T, d time.Duration, applied, failed int) {
	t.Helper()
	time.Sleep(d)
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.applied != applied || w.failed != failed {
		t.Errorf("%d reloads and %d failures, want %d and %d", w.applied, w.failed, applied, failed)
	}
}

func TestReloadOnChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		w.after(t, time.Minute, 0, 0)
		w.write("second")
		w.after(t, 2*lookEvery, 1, 0)
		w.after(t, time.Minute, 1, 0)
		w.write("first") // what was there before is a change too
		w.after(t, 2*lookEvery, 2, 0)
	})
}

// TestReloadLeavesUnfinishedAlone: while every look sees something else the
// file is being written; what it was in between is of no interest.
func TestReloadLeavesUnfinishedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		for i := range 100 {
			w.write("bad" + strings.Repeat("x", i))
			w.after(t, settleTime/2, 0, 0)
		}
		w.write("whole")
		w.after(t, 2*lookEvery, 1, 0)
		for range 100 {
			w.write("")
			time.Sleep(settleTime / 2)
			w.write("whole") // emptied and written again with the same: nothing changed
			w.after(t, settleTime*7/4, 1, 0)
		}
	})
}

// TestReloadWaitsForAnEmptyFile: whoever truncates a file and takes a while to write
// it would else get the defaults meanwhile. Who asks gets them.
func TestReloadWaitsForAnEmptyFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		var text page
		w.log = slog.New(slog.NewTextHandler(&text, nil))
		w.write("")
		w.after(t, time.Minute, 0, 0)
		if said := strings.Count(text.String(), "is empty"); said != 1 {
			t.Errorf("said %d times:\n%s", said, &text)
		}
		w.ask <- os.Interrupt
		w.after(t, 0, 1, 0)
		w.write("whole")
		w.after(t, 2*lookEvery, 2, 0)
		w.write("\n \n")
		w.after(t, time.Minute, 2, 0)
		w.write("whole") // as it was before
		w.after(t, 2*lookEvery, 3, 0)
	})
}

// TestReloadSeesWhatComesMeanwhile: a file that a configuration failed over, and
// that came while the failure was being found, is a change that nobody has seen.
func TestReloadSeesWhatComesMeanwhile(t *testing.T) {
	there, applied := false, false
	look := func(files []string) look {
		seen := make(look)
		for _, name := range files {
			seen[name] = sha256.Sum256(fmt.Append(nil, name, there))
		}
		return seen
	}
	load := func() (*config.Config, error) {
		if there {
			return config.Default(), nil
		}
		there = true
		return nil, &config.Errors{Files: []string{"file", "ca.pem"}}
	}
	r := &reloader{
		own: "file", look: look, load: load, note: func(bool) {}, log: slog.New(slog.DiscardHandler),
		apply: func(*config.Config) error { applied = true; return nil },
	}
	r.reload(look([]string{"file"}), false)
	if !applied {
		t.Error("the file that came is taken for what was read")
	}
}

// TestDefaultFileComesAndGoes: a default file that comes after the start is a change
// like any other, and once it was in use its end lifts none of its guards.
func TestDefaultFileComesAndGoes(t *testing.T) {
	t.Chdir(t.TempDir())
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(configFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		src := findSource("", os.LookupEnv)
		before := lookAt([]string{src.own})
		cfg, err := src.load()
		if err != nil {
			t.Fatal(err)
		}
		w := &watched{reloader: newReloader(src, before, cfg), ask: make(chan os.Signal)}
		var denies atomic.Bool
		w.apply = func(cfg *config.Config) error { denies.Store(cfg.DenyUnmatched); return nil }
		w.begin(t)
		w.ask <- os.Interrupt
		w.after(t, time.Minute, 1, 0)
		put("unmatched: deny\n")
		w.after(t, 2*lookEvery, 2, 0)
		if err := os.Remove(configFile); err != nil {
			t.Fatal(err)
		}
		w.after(t, 2*lookEvery, 2, 1)
		w.ask <- os.Interrupt
		w.after(t, time.Minute, 2, 2)
		if !denies.Load() {
			t.Error("the guard went with the file")
		}
		put("via: false\n")
		w.after(t, 2*lookEvery, 3, 2)
	})
}

// TestReloadBadOnce: a bad file is reported once, and taken once it is good.
func TestReloadBadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		w.write("bad")
		w.after(t, time.Minute, 0, 1)
		w.write("bad again")
		w.after(t, time.Minute, 0, 2)
		w.write("good")
		w.after(t, time.Minute, 1, 2)
	})
}

// TestReloadAsked: a signal reloads at once, changed or not.
func TestReloadAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		w.ask <- os.Interrupt
		w.after(t, 0, 1, 0)
		w.write("bad")
		w.ask <- os.Interrupt
		w.after(t, 0, 1, 1)
		w.after(t, time.Minute, 1, 1) // it was read: nothing new to see
	})
}

// TestReloadRefused: a configuration that the proxy refuses is a failure.
func TestReloadRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		w.apply = func(*config.Config) error { return errors.New("no") }
		w.ask <- os.Interrupt
		w.after(t, 0, 0, 1)
	})
}

// TestWatchKeepsWhatWasRead: a change between reading a file and watching it
// still shows.
func TestWatchKeepsWhatWasRead(t *testing.T) {
	f := &fakeFile{content: "read"}
	r := &reloader{own: "file", look: f.look}
	before := f.look([]string{"file"})
	f.write("changed meanwhile")
	r.watch([]string{"file"}, before)
	if maps.Equal(r.seen, f.look([]string{"file"})) {
		t.Error("the change is taken for what was read")
	}
}

// TestReloadLogsEveryError: each error is a line with its place and hint.
func TestReloadLogsEveryError(t *testing.T) {
	_, err := config.Parse("f.yaml", []byte("lisen: {}\nlog: {format: txt}\n"), os.LookupEnv)
	var text bytes.Buffer
	r := &reloader{log: slog.New(slog.NewTextHandler(&text, nil))}
	r.logFailure(err)
	if lines := strings.Count(text.String(), "\n"); lines != 2 {
		t.Errorf("%d lines, want 2:\n%s", lines, text.String())
	}
	for _, part := range []string{"f.yaml:1:1: ", "did you mean listen?", "f.yaml:2:15: "} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("lacks %q:\n%s", part, text.String())
		}
	}
}

// TestLookAt: a change shows however it comes about, and nothing else does.
func TestLookAt(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "config", "mulligan.yaml")
	put := func(path, content string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	// As Kubernetes mounts a ConfigMap: the file is a link through ..data.
	put(filepath.Join(dir, "config", "..one", "mulligan.yaml"), "one")
	put(filepath.Join(dir, "config", "..two", "mulligan.yaml"), "two")
	must(os.Symlink("..one", filepath.Join(dir, "config", "..data")))
	must(os.Symlink("..data/mulligan.yaml", name))

	last := lookAt([]string{name})
	step := func(what string, changed bool) {
		t.Helper()
		now := lookAt([]string{name})
		if maps.Equal(now, last) == changed {
			t.Errorf("%s: seen as a change: %v, want %v", what, !changed, changed)
		}
		last = now
	}
	step("nothing", false)
	must(os.Symlink("..two", filepath.Join(dir, "config", "..new")))
	must(os.Rename(filepath.Join(dir, "config", "..new"), filepath.Join(dir, "config", "..data")))
	step("swap of a symlink on the way", true)
	put(name, "owt")
	step("writing in place, the same length", true)
	put(filepath.Join(dir, "aside"), "three")
	must(os.Rename(filepath.Join(dir, "aside"), name))
	step("rename", true)
	must(os.Chtimes(name, time.Now(), time.Now().Add(time.Hour)))
	step("touch", false)
	must(os.Remove(name))
	step("removal", true)
	step("still gone", false)
	put(name, "")
	step("an empty file is not a missing one", true)
}

// TestLookAtPipe: a look does not take what is in a pipe, nor wait for it.
func TestLookAtPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	name := fmt.Sprint("/dev/fd/", r.Fd())
	if _, err := os.Stat(name); err != nil {
		t.Skip("no /dev/fd here")
	}
	if !maps.Equal(lookAt([]string{name}), lookAt([]string{name})) {
		t.Error("two looks at a pipe differ")
	}
	if _, err := findSource(name, os.LookupEnv).loadAgain(); err == nil || !strings.Contains(err.Error(), "only once") {
		t.Errorf("a pipe is read again: %v", err)
	}
}

// TestReloadOfADirectory: it is called the same at a reload as at the start.
func TestReloadOfADirectory(t *testing.T) {
	s := findSource(t.TempDir(), os.LookupEnv)
	_, atStart := s.load()
	_, again := s.loadAgain()
	if atStart == nil || again == nil || atStart.Error() != again.Error() || !strings.Contains(again.Error(), "is a directory") {
		t.Errorf("at the start: %v; at a reload: %v", atStart, again)
	}
}
