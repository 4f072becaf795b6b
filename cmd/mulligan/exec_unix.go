//go:build unix

package main

import (
	"os"
	"syscall"
	"unsafe"
)

// passedOn are the signals that a command gets through us.
var passedOn = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2,
}

// hasIt reports whether the command has got the signal already: what is typed at
// a terminal goes to all processes in its foreground, of which it is one as we
// are, and some programs take a second one for impatience. Whether the signal was
// typed cannot be known; whether it may have been can.
func hasIt(s os.Signal) bool {
	return (s == syscall.SIGINT || s == syscall.SIGQUIT) && inForeground()
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
