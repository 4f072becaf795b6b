package blackbox

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// rtmin is the first of the real-time signals; the third after it is how systemd
// is told to stop.
const rtmin = syscall.Signal(34)

// Signals are the command's.
func TestExecPassesSignalsOn(t *testing.T) {
	t.Parallel()
	h, command := act("signals")
	e := startExec(t, h, command...)
	e.hear("ready")
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGABRT,
		syscall.SIGALRM, syscall.SIGWINCH, rtmin + 3, syscall.SIGTERM} {
		if err := e.cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		e.hear("got " + s.String())
	}
	want(t, "exit status", e.wait(), 5)
	contains(t, "standard error", e.errs.String(), "0 requests")
}

// A command that a signal ends ends mulligan, in good order.
func TestExecSignalled(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		e := startExec(t, how{}, "sh", "-c", "echo ready; exec sleep 60")
		e.hear("ready")
		_ = e.cmd.Process.Signal(s)
		want(t, s.String(), e.wait(), 128+int(s))
		contains(t, s.String(), e.errs.String(), "0 requests")
	}
}

// A signal that is ignored, as nohup has it, stays so for the command; one that
// mulligan needs for itself is not ignored there.
func TestExecIgnoredSignals(t *testing.T) {
	t.Parallel()
	e := prepareExec(t, how{}, "cat", "/proc/self/status")
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("no /proc here")
	}
	args := append([]string{"sh", "-c", `trap "" HUP INT; exec "$0" "$@"`}, e.cmd.Args...)
	e.cmd.Path, e.cmd.Args = need(t, "sh"), args
	e.cmd.Stdout, e.cmd.Stderr = &e.out, &e.errs
	e.start()
	want(t, "exit status", e.wait(), 0)
	_, rest, _ := strings.Cut(e.out.String(), "SigIgn:\t")
	mask, err := strconv.ParseUint(strings.SplitN(rest, "\n", 2)[0], 16, 64)
	if err != nil {
		t.Fatalf("%v\n%s", err, e.out.String())
	}
	for s, ignored := range map[syscall.Signal]bool{syscall.SIGHUP: true, syscall.SIGINT: true, syscall.SIGPIPE: false, syscall.SIGTERM: false} {
		want(t, s.String()+" is ignored", mask>>(s-1)&1 == 1, ignored)
	}
}

// Whoever reads standard error may be gone: that ends neither mulligan nor, with
// it, the command.
func TestExecBrokenPipe(t *testing.T) {
	t.Parallel()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	reader.Close()
	done := filepath.Join(t.TempDir(), "done")
	e := prepareExec(t, how{}, "sh", "-c", "echo fine > "+done+"; exit 3")
	e.cmd.Stderr = writer
	e.start()
	writer.Close()
	want(t, "exit status", e.wait(), 3)
	want(t, "the command ran", readFile(t, done), "fine\n")
}

// What the command left behind may finish its requests; a signal ends that.
func TestExecDrains(t *testing.T) {
	t.Parallel()
	curl := need(t, "curl")
	for _, impatient := range []bool{false, true} {
		asked, release := make(chan struct{}), make(chan struct{})
		u := answers(t, func(p *peer, r *request) bool {
			close(asked)
			<-release
			return text(200, "late")(p, r)
		})
		dir := t.TempDir()
		result, end := filepath.Join(dir, "result"), filepath.Join(dir, "end")
		e := startExec(t, how{}, "sh", "-c", "echo $$; "+curl+" -sS "+u.url("/")+" > "+result+" 2>/dev/null & until test -e "+end+"; do sleep 0.05; done")
		eventually(t, "the request to be under way", func() bool { return u.count() == 1 })
		<-asked
		writeFile(t, end, "")
		eventually(t, "the command to end", func() bool { return isGone(e.out.String()) })
		linger(500 * time.Millisecond) // curl lives on, and so has the proxy to
		select {
		case <-e.done:
			t.Error("mulligan did not wait for the request")
		default:
		}
		if impatient {
			_ = e.cmd.Process.Signal(syscall.SIGTERM)
			want(t, "exit status", e.wait(), 0)
			close(release)
			continue
		}
		close(release)
		want(t, "exit status", e.wait(), 0)
		eventually(t, "curl to end", func() bool { return readFile(t, result) == "late" })
		contains(t, "standard error", e.errs.String(), "1 request,")
	}
}

// Tunnels that the command left behind may go on, too, as long as bytes move in
// them. An idle one is not waited for: a daemon's would be there for ever.
func TestExecDrainsTunnels(t *testing.T) {
	t.Parallel()
	for name, moves := range map[string]int{"idle": 0, "moving": 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := upstreamOn(t, listen(t, "127.0.0.1:0"), func(p *peer) {
				p.write("a")
				for range moves {
					linger(200 * time.Millisecond) // longer than exec waits for an idle one, in all
					p.write("x")
				}
				if moves == 0 {
					p.ended()
				}
			})
			dir := t.TempDir()
			result := filepath.Join(dir, "result")
			h, command := act("tunnel", u.addr)
			h.config = "shutdown_grace: 10m\n"
			e := startExec(t, h, "sh", "-c", `"$0" "$1" > "$2" 2>/dev/null & until test -s "$2"; do sleep 0.05; done`, command[0], command[1], result)
			want(t, "exit status", e.wait(), 0)
			eventually(t, "what came through the tunnel", func() bool { return readFile(t, result) == "a"+strings.Repeat("x", moves) })
		})
	}
}

// isGone reports whether the process of which this line is the number has ended,
// and whoever started it knows.
func isGone(line string) bool {
	pid, err := strconv.Atoi(strings.TrimSuffix(line, "\n"))
	return err == nil && syscall.Kill(pid, 0) == syscall.ESRCH
}
