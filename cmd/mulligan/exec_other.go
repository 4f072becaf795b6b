//go:build !unix

package main

import "os"

// passedOn are the signals that a command gets through us.
var passedOn = []os.Signal{os.Interrupt}

// hasIt reports whether the command has got the signal already: what is typed at
// a console goes to all its processes.
func hasIt(os.Signal) bool { return true }

// wantsEnd reports whether the signal asks whoever gets it to end.
func wantsEnd(os.Signal) bool { return true }

// statusOf is a command's exit status.
func statusOf(state *os.ProcessState) int { return state.ExitCode() }
