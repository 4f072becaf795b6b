package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// narrator tells of an act. One goroutine tells; the others hand it what to tell,
// so that nobody waits for a terminal.
type narrator struct {
	out     io.Writer
	paint   paint
	began   time.Time
	events  chan func()
	over    chan struct{}
	telling sync.WaitGroup
}

func newNarrator(out io.Writer) *narrator {
	return &narrator{out: out, paint: newPaint(out), began: time.Now(), events: make(chan func(), 4096), over: make(chan struct{})}
}

// start begins to tell, also what there is to say each second.
func (s *narrator) start(eachSecond func()) {
	s.telling.Go(func() { s.run(eachSecond) })
}

// run is the telling goroutine.
func (s *narrator) run(eachSecond func()) {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		select {
		case event := <-s.events:
			event()
		case <-second.C:
			eachSecond()
		case <-s.over:
			return
		}
	}
}

// tell hands something over to be told.
func (s *narrator) tell(event func()) {
	select {
	case s.events <- event:
	case <-s.over:
	}
}

// tellNow does the same and waits until it, and all before it, is told.
func (s *narrator) tellNow(event func()) {
	told := make(chan struct{})
	s.tell(func() { event(); close(told) })
	<-told
}

// await waits until so many of what counts were told of, or it is clear that they
// will not be: requests' lines in the log come a moment after their answers.
func (s *narrator) await(most int, counted func() int) {
	for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		told := 0
		s.tellNow(func() { told = counted() })
		if told >= most {
			return
		}
	}
}

// stop ends the telling, whether it has begun or not.
func (s *narrator) stop() {
	close(s.over)
	s.telling.Wait()
}

func (s *narrator) say(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }

// sayAt says something with its time, in a colour.
func (s *narrator) sayAt(in func(string) string, format string, args ...any) {
	at := s.at()
	s.say("%s%s", at, in(wrapped(at+fmt.Sprintf(format, args...), len(at))[len(at):]))
}

// at is the time, as lines begin with it.
func (s *narrator) at() string { return fmt.Sprintf("%5.1fs  ", time.Since(s.began).Seconds()) }

// storyIndent is where a request's method stands, and below it what is said of it.
const storyIndent = 16

// line is what became of a request.
func (s *narrator) line(t told) string {
	at := s.at()
	verdict, in := s.verdict(t)
	text := wrapped(fmt.Sprintf("%s%-7s %-4s %-12s %s", at, verdict, t.method, t.path, t.chain()), storyIndent)
	end := len(at) + len(verdict)
	return at + in(text[len(at):end]) + text[end:]
}

// row says what something is, at the beginning of an act.
func (s *narrator) row(label, format string, args ...any) {
	s.say("%s", wrapped(fmt.Sprintf("%-10s ", label)+fmt.Sprintf(format, args...), 11))
}

// show shows a configuration.
func (s *narrator) show(config string) {
	s.say("\n%s\n", s.paint.dim("    "+strings.ReplaceAll(strings.TrimSuffix(config, "\n"), "\n", "\n    ")))
}

// listener is a slog.Handler that hands the proxy's log to an act.
type listener struct{ hear func(slog.Record) }

// heardBy is a log whose lines somebody hears.
func heardBy(hear func(slog.Record)) *logger {
	return &logger{Logger: slog.New(listener{hear}), level: new(slog.LevelVar), asJSON: new(atomic.Bool)}
}

// Enabled implements slog.Handler.
func (l listener) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// Handle implements slog.Handler.
func (l listener) Handle(_ context.Context, r slog.Record) error {
	l.hear(r)
	return nil
}

// WithAttrs implements slog.Handler: no act needs what all lines share.
func (l listener) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup implements slog.Handler.
func (l listener) WithGroup(string) slog.Handler { return l }

// verdict says in a word what came of a request, and in which colour; stop says
// why.
func (s *narrator) verdict(t told) (string, func(string) string) {
	switch t.outcome {
	case "success_after_retry":
		return "saved", s.paint.good
	case "permanent":
		return "refused", s.paint.fair
	case "client_gone":
		return "left", s.paint.fair
	}
	return "failed", s.paint.bad
}
