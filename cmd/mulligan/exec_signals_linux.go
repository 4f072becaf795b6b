package main

import (
	"os"
	"syscall"
)

// moreSignals are those that not every system has: that the power fails, and the
// real-time ones, by which some programs are told to stop. Below them are three that
// C libraries keep for their threads, and Go passes to nobody.
func moreSignals() []os.Signal {
	const first, last = 35, 64
	more := []os.Signal{syscall.SIGPWR}
	for s := first; s <= last; s++ {
		more = append(more, syscall.Signal(s))
	}
	return more
}
