package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"maps"
	"os"
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
	load  func() (*config.Config, error)
	apply func(*config.Config) error
	note  func(success bool) // counts a reload
	look  func(files []string) look
	log   *slog.Logger

	files []string // those of the configuration that holds
	seen  look     // what was last read of them, for better or worse
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
			r.reload(r.look(r.files))
			pending = nil
		case <-timer.C:
			now := r.look(r.files)
			switch {
			case maps.Equal(now, r.seen):
				pending = nil
			case pending != nil && maps.Equal(now, pending):
				r.reload(now)
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
func (r *reloader) reload(now look) {
	r.seen = now
	cfg, err := r.load()
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

// watch sets the files to look at. What before has of them is older than the
// configuration and counts; of files that were not known before, what is there
// now does.
func (r *reloader) watch(files []string, before look) {
	r.files, r.seen = files, r.look(files)
	for name := range r.seen {
		if digest, known := before[name]; known {
			r.seen[name] = digest
		}
	}
}

// logFailure logs every error by itself: they are read one by one.
func (r *reloader) logFailure(err error) {
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
