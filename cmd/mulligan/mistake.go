package main

import (
	"errors"
	"fmt"

	"mulligan/policy/config"
)

// mistake is what a person can put right: what is wrong, and what to do.
type mistake struct {
	message, hint string
	status        int // to exit with
	err           error
}

func (m *mistake) Error() string { return m.message }
func (m *mistake) Unwrap() error { return m.err }

// misuse is a mistake in the command line.
func misuse(hint, format string, args ...any) error {
	return &mistake{message: fmt.Sprintf(format, args...), hint: hint, status: exitMisused}
}

// failure is a mistake found out while doing what was asked.
func failure(err error, hint, format string, args ...any) error {
	return &mistake{message: fmt.Sprintf(format, args...), hint: hint, status: exitFailed, err: err}
}

// report prints an error, if there is one, and returns the exit status.
func report(t terminal, err error) int {
	var wrong *config.Errors
	var m *mistake
	var command commandStatus
	switch {
	case err == nil, errors.Is(err, errHelped):
		return exitDone
	case errors.As(err, &command):
		return int(command)
	case errors.Is(err, errEnded):
		printed := make(chan struct{})
		go func() { defer close(printed); fmt.Fprintln(t.err, "error:", err) }()
		await(printed, atOnce) // printing to a pipe that nobody reads never ends
		return exitFailed
	case errors.As(err, &m):
		fmt.Fprintln(t.err, "error:", m.message)
		if m.hint != "" {
			fmt.Fprintln(t.err, "hint:", m.hint)
		}
		return m.status
	case errors.As(err, &wrong):
		// One line each, as compilers write them, so that editors find the place.
		fmt.Fprintln(t.err, wrong.Error())
		fmt.Fprintf(t.err, "error: the configuration has %s\n", count(len(wrong.All), "error"))
		return exitFailed
	}
	fmt.Fprintln(t.err, "error:", err)
	return exitFailed
}

// count writes a number of things: "1 error", "2 errors".
func count(n int, thing string) string { return plural(n, thing, thing+"s") }

// plural is count for things whose plural is not made with an s alone.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", many)
}
