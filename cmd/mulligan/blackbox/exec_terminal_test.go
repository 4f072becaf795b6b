//go:build linux

package blackbox

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// Ctrl-C at a terminal goes to every process in its foreground: the command gets
// it once, not once more through mulligan, which does not end by it either.
func TestExecAtATerminal(t *testing.T) {
	t.Parallel()
	keyboard, screen := terminal(t)
	h, command := act("signals")
	e := prepareExec(t, h, command...)
	e.cmd.Stdin, e.cmd.Stdout, e.cmd.Stderr = screen, screen, screen
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	e.start()
	screen.Close()
	go func() {
		for b := make([]byte, 4096); ; {
			n, err := keyboard.Read(b)
			_, _ = e.out.Write([]byte(strings.ReplaceAll(string(b[:n]), "\r\n", "\n")))
			if err != nil {
				return // EIO: the other side is closed
			}
		}
	}()
	e.hear("ready")
	for n := range 2 {
		if _, err := keyboard.WriteString("\x03"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the command to be interrupted", func() bool { return strings.Count(e.out.String(), "got interrupt") > n })
		linger(300 * time.Millisecond) // in which a second one would come
		want(t, "interrupts", strings.Count(e.out.String(), "got interrupt"), n+1)
	}
	_ = e.cmd.Process.Signal(syscall.SIGTERM)
	want(t, "exit status", e.wait(), 5)
}

// terminal returns the two sides of a new pseudo-terminal.
func terminal(t *testing.T) (keyboard, screen *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here: ", err)
	}
	t.Cleanup(func() { keyboard.Close() })
	var number, unlock int32
	for call, value := range map[uintptr]*int32{syscall.TIOCGPTN: &number, syscall.TIOCSPTLCK: &unlock} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, keyboard.Fd(), call, uintptr(unsafe.Pointer(value))); errno != 0 {
			t.Fatal(errno)
		}
	}
	if screen, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	return keyboard, screen
}
