package certs

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
)

// TestZapLogger: levels, fields and fields given before arrive.
func TestZapLogger(t *testing.T) {
	log := new(logBuffer)
	z := zapLogger(log.logger()).Named("part").With(zap.String("name", "a.test"))
	z.Debug("one")
	z.Info("two", zap.Strings("names", []string{"a", "b"}))
	z.Warn("three", zap.Duration("wait", time.Minute))
	z.With(zap.Int("n", 1)).Error("four", zap.Error(errors.New("it failed")))
	want := []string{
		`level=DEBUG msg="certificates: one" name=a.test`,
		`level=DEBUG msg="certificates: two" name=a.test names="[a b]"`,
		`level=WARN msg="certificates: three" name=a.test wait=1m0s`,
		`level=ERROR msg="certificates: four" name=a.test n=1 error="it failed"`,
	}
	got := strings.Split(strings.TrimSpace(log.String()), "\n")
	for i, line := range want {
		if i >= len(got) || !strings.HasSuffix(got[i], line) {
			t.Errorf("%q, want %q", got, line)
		}
	}
}

// TestZapLoggerLevel: what slog does not want costs nothing.
func TestZapLoggerLevel(t *testing.T) {
	log := new(logBuffer)
	z := zapLogger(slog.New(slog.NewTextHandler(log, nil)))
	if z.Core().Enabled(zap.InfoLevel) {
		t.Error("certmagic's Info is enabled")
	}
	z.Info("a step")
	if log.String() != "" {
		t.Error(log)
	}
}
