package main

import (
	"io"
	"log/slog"
	"sync"
	"time"
)

// logBacklog is how many bytes of log wait at most for whoever reads it.
const logBacklog = 1 << 20

// logWriter puts a queue between the proxy and the reader of its log: a pipe that
// nobody empties must hold up no answer and no signal. What does not fit the
// queue is dropped and counted, and the count is logged once there is room.
type logWriter struct {
	below io.Writer
	most  int // bytes that wait

	mu      sync.Mutex
	waiting []byte // whole lines
	dropped int64  // lines, since the last that were reported
	more    chan struct{}
	ending  bool
	done    chan struct{}
	report  func(w io.Writer, lines int64)
}

// newLogWriter starts a writer to below; report writes a line that tells of lines
// that were dropped.
func newLogWriter(below io.Writer, most int, report func(io.Writer, int64)) *logWriter {
	w := &logWriter{below: below, most: most, more: make(chan struct{}, 1), done: make(chan struct{}), report: report}
	go w.run()
	return w
}

// Write queues one line. It never waits.
func (w *logWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting)+len(p) > w.most {
		w.dropped++
		return len(p), nil
	}
	w.waiting = append(w.waiting, p...)
	w.wake()
	return len(p), nil
}

func (w *logWriter) wake() {
	select {
	case w.more <- struct{}{}:
	default:
	}
}

// run writes what waits until Close; one buffer fills while the other is written.
func (w *logWriter) run() {
	defer close(w.done)
	var spare []byte
	for range w.more {
		w.mu.Lock()
		lines, dropped, ending := w.waiting, w.dropped, w.ending
		w.waiting, w.dropped = spare[:0], 0
		w.mu.Unlock()
		// Whoever read the log may be gone: that is no reason to stop serving.
		_, _ = w.below.Write(lines)
		if dropped > 0 {
			w.report(w.below, dropped)
		}
		if ending {
			return
		}
		spare = lines
	}
}

// Close writes what waits, for so long at most.
func (w *logWriter) Close(patience time.Duration) {
	w.mu.Lock()
	w.ending = true
	w.mu.Unlock()
	w.wake()
	await(w.done, patience)
}

// await waits for done, for so long at most.
func await(done <-chan struct{}, patience time.Duration) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// Limits of the wait for the log's reader when the process ends.
const (
	logPatience = time.Second
	atOnce      = 100 * time.Millisecond
)

// droppedLines reports lines that nobody took in time.
func (l *logger) droppedLines(w io.Writer, lines int64) {
	l.to(w).Warn("log lines were dropped: nobody took them in time", slog.Int64("lines", lines))
}
