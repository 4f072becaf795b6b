//go:build unix

package main

import (
	"os"
	"syscall"
	"unsafe"
)

// passedOn are the signals that a command gets through us: all that somebody
// would send to it. What a terminal stops and wakes processes by goes to both of
// us, what they do to themselves to one.
var passedOn = append([]os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGTERM,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGWINCH,
}, moreSignals()...)

// wantsEnd reports whether the signal asks whoever gets it to end.
func wantsEnd(s os.Signal) bool {
	switch s {
	case syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGTERM:
		return true
	}
	return false
}

// hasIt reports whether the command has got the signal already: what is typed at
// a terminal, and its change of size, goes to all processes in its foreground, of which it is one as we
// are, and some programs take a second one for impatience. Whether the signal was
// typed cannot be known; whether it may have been can.
func hasIt(s os.Signal) bool {
	return (s == syscall.SIGINT || s == syscall.SIGQUIT || s == syscall.SIGWINCH) && inForeground()
}

// inForeground reports whether the process group is its terminal's foreground.
func inForeground() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false // no terminal
	}
	defer tty.Close()
	var group int32
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, tty.Fd(), syscall.TIOCGPGRP, uintptr(unsafe.Pointer(&group)))
	return errno == 0 && int(group) == syscall.Getpgrp()
}

// statusOf is a command's exit status, as a shell counts it.
func statusOf(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}
