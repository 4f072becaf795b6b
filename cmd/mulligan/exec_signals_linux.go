package main

import (
	"os"
	"syscall"
)

// moreSignals are those that not every system has: that the power fails, and the
// real-time ones, by which some programs are told to stop. Below them are two that
// the C library keeps for its threads.
func moreSignals() []os.Signal {
	const first, last = 34, 64
	more := []os.Signal{syscall.SIGPWR}
	for s := first; s <= last; s++ {
		more = append(more, syscall.Signal(s))
	}
	return more
}
