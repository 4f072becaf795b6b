package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"mulligan/policy/config"
)

// How often the files are looked at, and how soon again once something has
// changed: a file is read anew when two looks in a row see the same, so that
// one which is being written is left alone.
const (
	lookEvery  = time.Second
	settleTime = 200 * time.Millisecond
)

// maxLook, in bytes, is more than a configuration's file may have.
const maxLook = 2 << 20

// look stands for what the files of a configuration hold, by name.
type look map[string][sha256.Size]byte

// reloader reads the configuration again when its files change, or when it is
// told to. Contents are compared, not times: however a change comes about
// (rename, writing in place, the swap of a symlink on the way), it shows there.
type reloader struct {
	own   string // the configuration's own file, watched whether it is there or not
	load  func() (*config.Config, error)
	apply func(*config.Config) error
	note  func(success bool) // counts a reload
	look  func(files []string) look
	log   *slog.Logger

	held []string // the files of the configuration that holds
	seen look     // of every file that is watched: what was last read, for better or worse
}

// newReloader makes a reloader of what was started with cfg; before is a look at
// src's own file from before cfg was read.
func newReloader(src *source, before look, cfg *config.Config) *reloader {
	r := &reloader{own: src.own, load: src.loadAgain, look: lookAt}
	r.watch(cfg.Files(), before)
	return r
}

// run works until ctx ends; each value from ask is a wish to reload.
func (r *reloader) run(ctx context.Context, ask <-chan os.Signal) {
	timer := time.NewTimer(lookEvery)
	defer timer.Stop()
	var pending look // a change that was seen once
	for {
		select {
		case <-ctx.Done():
			return
		case <-ask:
			r.reload(r.look(r.watched()), true)
			pending = nil
		case <-timer.C:
			now := r.look(r.watched())
			switch {
			case maps.Equal(now, r.seen):
				pending = nil
			case pending != nil && maps.Equal(now, pending):
				r.reload(now, false)
				pending = nil
			default:
				pending = now
			}
		}
		if pending != nil {
			timer.Reset(settleTime)
		} else {
			timer.Reset(lookEvery)
		}
	}
}

// reload reads and takes the configuration. now is a look from before that, so
// that a change which comes meanwhile shows at the next one.
func (r *reloader) reload(now look, asked bool) {
	now, cfg, err := r.read(now)
	r.seen = now
	if err == nil && cfg.Empty() && !asked {
		// Whoever writes it has not got further. As it is, it would lift every guard.
		r.log.Warn("configuration not reloaded: its file is empty, and what will be written is waited for; SIGHUP takes it as it is",
			slog.String("file", r.own))
		return
	}
	if err == nil {
		err = r.apply(cfg)
	}
	r.note(err == nil)
	if err != nil {
		r.logFailure(err)
		return
	}
	for _, warning := range cfg.Warnings {
		r.log.Warn("configuration", slog.String("warning", warning))
	}
	r.log.Info("configuration reloaded", slog.Int("upstreams", len(cfg.Upstreams)))
	r.watch(cfg.Files(), now)
}

// read loads the configuration, and returns a look from before that at the files
// of the one that holds and at all that the new one names, those which could not
// be read included: mending one of them is a change like any other. What a file
// was before it was named nobody has seen, so for its sake all is read once more.
//
// A file that names another one each time it is read is read three times: what is
// missed then shows at the next look.
func (r *reloader) read(now look) (look, *config.Config, error) {
	for rounds := 1; ; rounds++ {
		cfg, err := r.load()
		files := r.with(filesOf(cfg, err))
		if !slices.ContainsFunc(files, func(name string) bool { _, known := now[name]; return !known }) {
			return now, cfg, err
		}
		now = r.look(files)
		if rounds == 3 {
			return now, cfg, err
		}
	}
}

// filesOf returns the files that were read, or should have been.
func filesOf(cfg *config.Config, err error) []string {
	var wrong *config.Errors
	switch {
	case errors.As(err, &wrong):
		return wrong.Files
	case cfg != nil:
		return cfg.Files()
	}
	return nil
}

// with returns the files that are watched in any case, and these.
func (r *reloader) with(files []string) []string {
	return slices.Concat([]string{r.own}, r.held, files)
}

// watched returns the files to look at.
func (r *reloader) watched() []string { return slices.Collect(maps.Keys(r.seen)) }

// watch sets the files of the configuration that holds from now on. What before
// has of them is older than the configuration and counts; of files that were not
// known before, what is there now does.
func (r *reloader) watch(files []string, before look) {
	r.held = files
	r.seen = r.look(r.with(nil))
	for name := range r.seen {
		if digest, known := before[name]; known {
			r.seen[name] = digest
		}
	}
}

// logFailure logs every error by itself: they are read one by one.
func (r *reloader) logFailure(err error) {
	var ours *mistake
	if errors.As(err, &ours) {
		r.log.Error("configuration not reloaded", slog.String("error", ours.message), slog.String("hint", ours.hint))
		return
	}
	var wrong *config.Errors
	if !errors.As(err, &wrong) {
		r.log.Error("configuration not reloaded", slog.Any("error", err))
		return
	}
	for _, one := range wrong.All {
		attrs := []any{slog.String("error", one.Error())}
		if one.Hint != "" {
			attrs = append(attrs, slog.String("hint", one.Hint))
		}
		r.log.Error("configuration not reloaded", attrs...)
	}
}

// lookAt takes a look at files. One that is missing, or cannot be read, looks
// like its error; one that is no regular file, such as a pipe, always the same,
// since reading it would take what is in it.
func lookAt(files []string) look {
	seen := make(look, len(files))
	for _, name := range files {
		seen[name] = digestOf(name)
	}
	return seen
}

func digestOf(name string) [sha256.Size]byte {
	info, err := os.Stat(name)
	if err != nil {
		return sha256.Sum256([]byte("error: " + err.Error()))
	}
	if !info.Mode().IsRegular() {
		return sha256.Sum256([]byte("not a regular file"))
	}
	if info.Size() > maxLook {
		return sha256.Sum256([]byte("error: too large"))
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return sha256.Sum256([]byte("error: " + err.Error()))
	}
	return sha256.Sum256(append([]byte("data: "), data...))
}
