package blackbox

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestSecondSignalThatNobodyReads: the last line, which goes to standard error
// when all else has ended, once kept the process there for ever.
func TestSecondSignalThatNobodyReads(t *testing.T) {
	t.Parallel()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	stuff(t, writer)
	p := prepare(t, "shutdown_delay: 1h\n")
	p.runInto(writer)
	p.signal(syscall.SIGTERM)
	eventually(t, "/readyz to say 503", func() bool { return probe(p.admin, "", "/readyz") == 503 })
	p.signal(syscall.SIGTERM)
	p.expectExit(1)
}

// stuff fills a pipe to the last byte.
func stuff(t *testing.T, pipe *os.File) {
	t.Helper()
	raw, err := pipe.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Write(func(fd uintptr) bool { // which does not block until exec takes the descriptor
		for _, size := range []int{4096, 1} {
			for chunk := make([]byte, size); ; {
				if _, err := syscall.Write(int(fd), chunk); err == syscall.EAGAIN {
					break
				} else if err != nil && err != syscall.EINTR {
					t.Error(err)
					break
				}
			}
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestSignalWhileReading: while the configuration is being read nothing is there
// to be ended in order, and a signal kills, as it does any program. It was kept for
// an end that never came where the file was a pipe without a writer.
func TestSignalWhileReading(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			p, writer := readingPipe(t)
			defer writer.Close()
			p.signal(signal)
			if !p.exited(patience) {
				t.Fatal("the signal does not end it")
			}
			if status := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != signal {
				t.Errorf("it ended otherwise: %v", p.cmd.ProcessState)
			}
		})
	}
}

// TestReloadSignalWhileReading: a wish to reload is not deadly then.
func TestReloadSignalWhileReading(t *testing.T) {
	t.Parallel()
	p, writer := readingPipe(t)
	p.signal(syscall.SIGHUP)
	if _, err := writer.WriteString(p.fill("")); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	p.awaitReady("")
	p.says("read only once") // the reload that was asked for
}

// readingPipe starts a process whose configuration is a pipe, and returns when it
// is being read.
func readingPipe(t *testing.T) (*mulligan, *os.File) {
	t.Helper()
	p := prepare(t, "")
	file, pipe := p.file, filepath.Join(filepath.Dir(p.file), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	p.file = pipe
	p.run()
	p.file = file // which the end shows of a test that failed
	var writer *os.File
	eventually(t, "the pipe to be read", func() (open bool) {
		var err error
		writer, err = os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		return err == nil // it has no reader yet otherwise
	})
	return p, writer
}
