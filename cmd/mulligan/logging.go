package main

import (
	"context"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"mulligan/policy/config"
)

// logger is the process's log, whose format and level a reload may change.
type logger struct {
	*slog.Logger
	level  *slog.LevelVar
	asJSON *atomic.Bool
	queue  *logWriter // nil: lines are written at once
}

func newLogger(w io.Writer, cfg config.Log) *logger {
	l := &logger{level: new(slog.LevelVar), asJSON: new(atomic.Bool)}
	l.configure(cfg)
	l.Logger = l.to(w)
	return l
}

// newQueuedLogger is newLogger with a queue before w; close it when all else has
// ended.
func newQueuedLogger(w io.Writer, cfg config.Log) *logger {
	l := newLogger(w, cfg)
	l.queue = newLogWriter(w, logBacklog, l.droppedLines)
	l.Logger = l.to(l.queue)
	return l
}

// close writes what waits in the queue, for so long at most. Only the first call
// waits.
func (l *logger) close(patience time.Duration) {
	if l.queue != nil {
		l.queue.Close(patience)
		l.queue = nil
	}
}

// to makes a log on w, whose format and level are l's.
func (l *logger) to(w io.Writer) *slog.Logger {
	options := slog.HandlerOptions{Level: l.level}
	forJSON := options
	forJSON.ReplaceAttr = durationsAsText
	return slog.New(&eitherHandler{
		asJSON: l.asJSON, json: slog.NewJSONHandler(w, &forJSON), text: slog.NewTextHandler(w, &options),
	})
}

// durationsAsText gives durations their unit: slog's JSON has bare nanoseconds.
func durationsAsText(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// configure takes the format and the level.
func (l *logger) configure(cfg config.Log) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Level)); err == nil { // config has checked the word
		l.level.Set(level)
	}
	l.asJSON.Store(cfg.JSON)
}

// eitherHandler writes JSON or text, as the switch says at the time. Its writer
// takes whole lines, which do not mix.
type eitherHandler struct {
	asJSON     *atomic.Bool
	json, text slog.Handler
}

func (h *eitherHandler) current() slog.Handler {
	if h.asJSON.Load() {
		return h.json
	}
	return h.text
}

// Enabled implements slog.Handler.
func (h *eitherHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.text.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *eitherHandler) Handle(ctx context.Context, r slog.Record) error {
	return h.current().Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *eitherHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &eitherHandler{h.asJSON, h.json.WithAttrs(attrs), h.text.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h *eitherHandler) WithGroup(name string) slog.Handler {
	return &eitherHandler{h.asJSON, h.json.WithGroup(name), h.text.WithGroup(name)}
}
