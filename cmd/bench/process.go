package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a program that this one started and will end.
type process struct {
	name   string
	cmd    *exec.Cmd
	cancel context.CancelFunc
	done   chan struct{} // closed once the process has ended
	output *tail
}

// start starts a program that ends with ctx: by SIGTERM, and by SIGKILL where
// that is not enough. Its output is kept for error messages.
func start(ctx context.Context, name string, cmd func(context.Context) *exec.Cmd) (*process, error) {
	ctx, cancel := context.WithCancel(ctx)
	p := &process{name: name, cmd: cmd(ctx), cancel: cancel, done: make(chan struct{}), output: &tail{}}
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = 3 * time.Second
	p.cmd.Stderr = p.output
	if p.cmd.Stdout == nil {
		p.cmd.Stdout = p.output
	}
	if err := p.cmd.Start(); err != nil {
		cancel()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // whoever needed it alive learns from done
	}()
	return p, nil
}

// stop ends the process and waits until it has ended.
func (p *process) stop() {
	p.cancel()
	<-p.done
}

// await waits until the process accepts connections at address.
func (p *process) await(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second, errors.New("did not start to listen in 10 s"))
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-tick.C:
		case <-p.done:
			return fmt.Errorf("%s ended at once: %s", p.name, p.output)
		case <-ctx.Done():
			return fmt.Errorf("%s at %s: %w: %s", p.name, address, context.Cause(ctx), p.output)
		}
	}
}

// userHZ is the unit of the times in /proc: Linux shows them to programs in
// hundredths of a second, whatever it counts in itself.
const userHZ = 100

// cpu returns the CPU time, user and system, that the process has used.
func (p *process) cpu() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	return parseStat(string(stat))
}

// parseStat returns utime + stime of a /proc/PID/stat (proc_pid_stat(5)).
func parseStat(stat string) (time.Duration, error) {
	// The second field is the program's name in parentheses, which may have
	// spaces and parentheses in it.
	_, rest, ok := cutLast(stat, ")")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 13 {
		return 0, fmt.Errorf("/proc stat has an unknown form: %q", stat)
	}
	var ticks int64
	for _, field := range fields[11:13] { // the 14th and 15th of all
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc stat: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / userHZ, nil
}

// cutLast is strings.Cut at the last separator.
func cutLast(s, separator string) (before, after string, ok bool) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(separator):], true
}

// Names of memory sizes in /proc/PID/status.
const (
	resident     = "VmRSS"
	peakResident = "VmHWM"
)

// memory returns one of the sizes above, in bytes.
func (p *process) memory(name string) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	return parseStatus(string(status), name)
}

// parseStatus returns a size of a /proc/PID/status (proc_pid_status(5)), in
// bytes.
func parseStatus(status, name string) (int64, error) {
	for line := range strings.Lines(status) {
		value, ok := strings.CutPrefix(line, name+":")
		if !ok {
			continue
		}
		number, unit, _ := strings.Cut(strings.TrimSpace(value), " ")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || unit != "kB" {
			return 0, fmt.Errorf("/proc status has an unknown form: %q", line)
		}
		return n << 10, nil
	}
	return 0, fmt.Errorf("/proc status has no %s", name)
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	last []byte
}

// tailSize is how many bytes a tail keeps.
const tailSize = 4 << 10

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, p...)
	if extra := len(t.last) - tailSize; extra > 0 {
		t.last = bytes.Clone(t.last[extra:])
	}
	return len(p), nil
}

// String returns what was kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.last))
}
