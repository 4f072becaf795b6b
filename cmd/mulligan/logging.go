package main

import (
	"context"
	"io"
	"log/slog"
	"sync/atomic"

	"mulligan/policy/config"
)

// logger is the process's log, whose format and level a reload may change.
type logger struct {
	*slog.Logger
	level  *slog.LevelVar
	asJSON *atomic.Bool
}

func newLogger(w io.Writer, cfg config.Log) *logger {
	l := &logger{level: new(slog.LevelVar), asJSON: new(atomic.Bool)}
	options := slog.HandlerOptions{Level: l.level}
	forJSON := options
	forJSON.ReplaceAttr = durationsAsText
	l.Logger = slog.New(&eitherHandler{
		asJSON: l.asJSON, json: slog.NewJSONHandler(w, &forJSON), text: slog.NewTextHandler(w, &options),
	})
	l.configure(cfg)
	return l
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
// is os.Stderr, whose writes do not mix.
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
