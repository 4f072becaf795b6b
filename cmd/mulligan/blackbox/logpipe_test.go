package blackbox

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestLogThatNobodyReads: a full pipe behind standard error once kept finished
// answers from their clients, and no signal but SIGKILL ended the process.
func TestLogThatNobodyReads(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, "x"))
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	p := prepare(t, "")
	p.runInto(writer)

	const requests, long = 80, 30_000 // 2.4 MB of lines: more than the pipe and the queue hold
	path := "/" + strings.Repeat("a", long)
	c := dial(t, p.proxy)
	for i := range requests {
		if r := c.do("GET", u.url(path), ""); r.Status != 200 {
			t.Fatalf("request %d: %d", i, r.Status)
		}
	}
	c.Close()
	p.wantMetric(requests, "mulligan_requests_total", "outcome=success")

	p.signal(syscall.SIGTERM)
	if !p.exited(patience) || p.cmd.ProcessState.ExitCode() != 0 {
		t.Fatalf("after SIGTERM: %v", p.cmd.ProcessState)
	}
	text, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), "time=") || len(text) >= requests*long {
		t.Errorf("%d bytes of log", len(text))
	}
}

// runInto starts the process with its log going into a pipe, of which it gets the
// only writing end.
func (p *mulligan) runInto(pipe *os.File) {
	p.t.Helper()
	p.cmd = exec.Command(binary, "serve", "--config", p.file)
	p.cmd.Dir, p.cmd.Env, p.cmd.Stderr = filepath.Dir(p.file), environment(), pipe
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	pipe.Close()
	go func() { _ = p.cmd.Wait(); close(p.done) }()
	p.t.Cleanup(p.end)
	p.awaitReady("")
}
