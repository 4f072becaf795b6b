package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/policy/config"
)

// stuck is a pipe that nobody empties until it is let go.
type stuck struct {
	mu    sync.Mutex
	lines bytes.Buffer
	gate  chan struct{}
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.gate
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines.Write(p)
}

func (s *stuck) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines.String()
}

// TestLogNobodyReads: a full pipe once held up every answer and both signals.
func TestLogNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipe := &stuck{gate: make(chan struct{})}
		w := newLogWriter(pipe, 100, func(w io.Writer, n int64) { fmt.Fprintf(w, "%d dropped\n", n) })
		line := strings.Repeat("x", 9) + "\n"
		io.WriteString(w, line)
		synctest.Wait() // the first is being written
		for range 15 {  // ten fit
			if n, err := io.WriteString(w, line); n != 10 || err != nil {
				t.Fatal(n, err)
			}
		}
		close(pipe.gate)
		synctest.Wait()
		if got, want := pipe.String(), strings.Repeat(line, 11)+"5 dropped\n"; got != want {
			t.Errorf("%q", got)
		}
		io.WriteString(w, "last\n")
		w.Close(time.Second)
		if !strings.HasSuffix(pipe.String(), "5 dropped\nlast\n") {
			t.Errorf("%q", pipe.String())
		}
	})
}

func TestLogWriterClosesInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipe := &stuck{gate: make(chan struct{})}
		w := newLogWriter(pipe, 100, nil)
		io.WriteString(w, "line\n")
		began := time.Now()
		w.Close(time.Second)
		if took := time.Since(began); took != time.Second {
			t.Error(took)
		}
		close(pipe.gate)
		<-w.done
	})
}

func TestQueuedLoggerReportsInItsFormat(t *testing.T) {
	var out page
	l := newQueuedLogger(&out, config.Log{Level: "info", JSON: true})
	l.droppedLines(&out, 7)
	l.Info("hello")
	l.close(time.Minute)
	l.close(time.Minute)
	for _, want := range []string{`"level":"WARN"`, `"lines":7`, `"msg":"hello"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in %s", want, out.String())
		}
	}
}
