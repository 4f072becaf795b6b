package main

import (
	"runtime"
	"runtime/debug"
	"time"
)

// giveBackEvery is how often memory is given back at most: a collection of a
// small heap costs a few milliseconds.
const giveBackEvery = 10 * time.Second

// giveBack returns a function that gives memory which a burst of requests left
// behind back to the system. Go collects when something is allocated, and a
// proxy that is idle allocates nothing: what its pools hold would stay for
// minutes. It takes two collections to empty a sync.Pool.
func giveBack() func() {
	var last time.Time
	return func() {
		if time.Since(last) < giveBackEvery {
			return
		}
		last = time.Now()
		runtime.GC()
		debug.FreeOSMemory()
	}
}
