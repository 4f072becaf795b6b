package proxy

import (
	"sync"
	"sync/atomic"
	"time"
)

// watcher visits every client connection, as long as there is anything to see.
type watcher struct {
	now   func() int64
	quiet func() // called when it parks; may be nil

	mu     sync.Mutex
	all    map[*watch]struct{}
	parked atomic.Bool
	wake   chan struct{}
	once   sync.Once
	quit   chan struct{}
	done   chan struct{}
}

func newWatcher(now func() int64, quiet func()) *watcher {
	w := &watcher{now: now, quiet: quiet, all: map[*watch]struct{}{}, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	go w.run()
	return w
}

func (w *watcher) add(c *watch) {
	w.mu.Lock()
	w.all[c] = struct{}{}
	w.mu.Unlock()
	w.rouse()
}

func (w *watcher) remove(c *watch) {
	w.mu.Lock()
	delete(w.all, c)
	w.mu.Unlock()
}

// rouse makes sure that the watcher looks every tick: called when a request
// begins, it costs one atomic load.
func (w *watcher) rouse() {
	if w.parked.Load() && w.parked.CompareAndSwap(true, false) {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

func (w *watcher) stop() {
	w.once.Do(func() { close(w.quit) })
	<-w.done
}

// restless is how many visits in a row must find nothing busy before the
// watcher looks only once a second: connections between requests have limits of
// seconds.
const restless = 100

func (w *watcher) run() {
	defer close(w.done)
	timer := time.NewTimer(tick)
	defer timer.Stop()
	quiet := 0
	for {
		select {
		case <-w.quit:
			return
		case <-w.wake:
			quiet = 0
		case <-timer.C:
		}
		if w.visit() {
			quiet = 0
		} else {
			quiet++
		}
		pause := tick
		if quiet >= restless {
			// Park first and look again: a request that began in between has either
			// seen the flag or is seen by this visit.
			w.parked.Store(true)
			if w.visit() {
				w.parked.Store(false)
				quiet = 0
			} else {
				pause = time.Second
				if quiet == restless && w.quiet != nil {
					w.quiet()
				}
			}
		}
		timer.Reset(pause)
	}
}

func (w *watcher) visit() (busy bool) {
	now := w.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.all {
		if c.look(now) {
			busy = true
		}
	}
	return busy
}
