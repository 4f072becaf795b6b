package certs

import (
	"context"
	"log/slog"
	"slices"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Certmagic writes what it cannot say to a given logger (about its file locks)
// to one of its own, on standard error and in a format of its own.
func init() {
	*certmagic.Default.Logger = *zap.New(&zapCore{})
	certmagic.UserAgent = "mulligan" // towards the CA (RFC 8555 section 6.1)
}

// zapCore passes certmagic's log on to slog.
type zapCore struct {
	log   *slog.Logger // nil: what slog has as its default at the time
	attrs []slog.Attr
}

// zapLogger is a logger for certmagic.
func zapLogger(log *slog.Logger) *zap.Logger { return zap.New(&zapCore{log: log}) }

func (c *zapCore) handler() slog.Handler {
	if c.log == nil {
		return slog.Default().Handler()
	}
	return c.log.Handler()
}

// level translates levels. Certmagic tells each step at its level Info, which
// here is what Debug is for; what users want to know of it is in logEvent.
func level(l zapcore.Level) slog.Level {
	switch {
	case l <= zapcore.InfoLevel:
		return slog.LevelDebug
	case l == zapcore.WarnLevel:
		return slog.LevelWarn
	}
	return slog.LevelError
}

// Enabled implements zapcore.Core.
func (c *zapCore) Enabled(l zapcore.Level) bool {
	return c.handler().Enabled(context.Background(), level(l))
}

// With implements zapcore.Core.
func (c *zapCore) With(fields []zapcore.Field) zapcore.Core {
	return &zapCore{c.log, append(slices.Clip(c.attrs), attrs(fields)...)}
}

// Check implements zapcore.Core.
func (c *zapCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write implements zapcore.Core.
func (c *zapCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	record := slog.NewRecord(e.Time, level(e.Level), "certificates: "+e.Message, 0)
	record.AddAttrs(c.attrs...)
	record.AddAttrs(attrs(fields)...)
	return c.handler().Handle(context.Background(), record)
}

// Sync implements zapcore.Core.
func (c *zapCore) Sync() error { return nil }

// attrs translates fields. One field can have several values (an error has its
// details besides), each with a key.
func attrs(fields []zapcore.Field) []slog.Attr {
	out := make([]slog.Attr, 0, len(fields))
	for _, f := range fields {
		enc := zapcore.NewMapObjectEncoder()
		f.AddTo(enc)
		if value, ok := enc.Fields[f.Key]; ok {
			out = append(out, slog.Any(f.Key, value))
		}
	}
	return out
}
