package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// What shells exit with where a command cannot be run (POSIX, Shell Command
// Language, 2.8.2).
const (
	exitCannotRun = 126
	exitNotFound  = 127
)

// commandStatus is the status that a command ended with, which becomes ours.
type commandStatus int

func (s commandStatus) Error() string { return fmt.Sprintf("the command ended with status %d", int(s)) }

// findCommand finds the program as a shell would, which looks into the working
// directory, too, where PATH has it.
func findCommand(words []string) (*exec.Cmd, error) {
	cmd := exec.Command(words[0], words[1:]...)
	if errors.Is(cmd.Err, exec.ErrDot) {
		cmd.Err = nil
	}
	if cmd.Err != nil {
		return nil, cannotRun(words[0], cmd.Err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr // the files themselves: nothing stands between
	return cmd, nil
}

func startCommand(cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return cannotRun(cmd.Args[0], err)
	}
	return nil
}

// cannotRun says why a command does not run, with a shell's exit status.
func cannotRun(name string, err error) error {
	m := &mistake{message: fmt.Sprintf("cannot run %s: %s", name, reason(err)), status: exitCannotRun, err: err}
	switch {
	case errors.Is(err, exec.ErrNotFound):
		m.message, m.status = "cannot run "+name+": there is no such command", exitNotFound
	case errors.Is(err, fs.ErrNotExist):
		m.status = exitNotFound
	case errors.Is(err, syscall.ENOEXEC):
		m.hint = "a script needs a first line that names its interpreter, such as #!/bin/sh"
	}
	return m
}

// reason is an error without the call and the path that it came from.
func reason(err error) string {
	var path *fs.PathError
	var program *exec.Error
	switch {
	case errors.As(err, &path):
		err = path.Err
	case errors.As(err, &program):
		err = program.Err
	}
	return err.Error()
}

// ended is how a command ended, as an error; nil where all was well.
func ended(state *os.ProcessState) error {
	if status := statusOf(state); status != exitDone {
		return commandStatus(status)
	}
	return nil
}

// signals are those that the command is to get, and not us.
type signals struct{ caught, ignored chan os.Signal }

// catchSignals takes the signals that are passed on. SIGHUP and SIGINT stay ignored,
// for the command as well, where whoever started us wants that (nohup, a shell's
// background); of others Go does not know, and the command gets them.
//
// A broken pipe is no reason to end either: the command is still running. It is
// not ignored, which the command would inherit.
func catchSignals() *signals {
	s := &signals{make(chan os.Signal, 16), make(chan os.Signal, 1)}
	for _, one := range passedOn {
		if !signal.Ignored(one) {
			signal.Notify(s.caught, one)
		}
	}
	signal.Notify(s.ignored, syscall.SIGPIPE)
	return s
}

func (s *signals) release() {
	signal.Stop(s.caught)
	signal.Stop(s.ignored)
}

// attend passes signals on until the command has ended.
func (s *signals) attend(cmd *exec.Cmd) *os.ProcessState {
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = cmd.Wait() // the state says it
	}()
	for {
		select {
		case one := <-s.caught:
			if !hasIt(one) {
				_ = cmd.Process.Signal(one) // it may have ended meanwhile
			}
		case <-over:
			return cmd.ProcessState
		}
	}
}
