package blackbox

import (
	"bytes"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds everything that must happen "at once" or "in the end": far
// more than a busy machine needs, far less than a hang.
const patience = 20 * time.Second

// lifetime bounds a connection or a stream on which much happens, one thing after
// the other.
const lifetime = 4 * time.Minute

// quick is what most policies here share: waits of milliseconds and a budget
// that never runs out, for a `retry:` mapping.
const quick = `backoff: {initial_delay: 1ms, max_delay: 5ms}, budget: {burst: 1000}`

// unhurried is for an upstream's mapping, or for defaults: a handshake that takes
// its 5 s on a busy machine would be an attempt more.
const unhurried = `timeout: {connect: 60s}`

// binary is the path of mulligan, built once by TestMain.
var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	// The tests wait (for hints, timeouts, fixed clocks) far more than they
	// compute: the default of one a core would only make them queue.
	if !flagGiven("test.parallel") {
		_ = flag.Set("test.parallel", "12")
	}
	os.Exit(buildAndRun(m))
}

func flagGiven(name string) bool {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	return given
}

// buildAndRun builds the binary into a directory of its own, with the race
// detector and, where GOCOVERDIR asks for it, with coverage. MULLIGAN_BINARY
// names a binary to test instead.
func buildAndRun(m *testing.M) int {
	if binary = os.Getenv("MULLIGAN_BINARY"); binary != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "mulligan-blackbox-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "mulligan")
	args := []string{"build", "-race", "-o", binary}
	if os.Getenv("GOCOVERDIR") != "" {
		args = append(args, "-cover", "-coverpkg=mulligan/...")
	}
	build := exec.Command("go", append(args, "mulligan/cmd/mulligan")...)
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building mulligan: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// output collects what a process writes.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// mulligan is a running `mulligan serve`.
type mulligan struct {
	t            *testing.T
	cmd          *exec.Cmd
	proxy, admin string // addresses
	file         string // the configuration
	log          output // standard output and error
	done         chan struct{}
}

// launch says how start starts the process, where the defaults do not do.
type launch struct {
	env  []string
	from string // local address of the harness's own connections to the admin port
}

// start runs `mulligan serve` with the configuration and waits until it is
// ready. @PROXY@ and @ADMIN@ in the text stand for its addresses; without a
// `listen:` of its own it gets one with just these.
func start(t *testing.T, config string, how ...launch) *mulligan {
	t.Helper()
	p := prepare(t, config)
	p.run(how...)
	var from string
	for _, h := range how {
		from += h.from
	}
	p.awaitReady(from)
	return p
}

// prepare writes the configuration and chooses addresses, and starts nothing.
func prepare(t *testing.T, config string) *mulligan {
	t.Helper()
	p := &mulligan{t: t, proxy: freeAddr(t), admin: freeAddr(t), done: make(chan struct{})}
	p.file = filepath.Join(t.TempDir(), "mulligan.yaml")
	writeFile(t, p.file, p.fill(config))
	return p
}

// fill puts the addresses into a configuration.
func (p *mulligan) fill(config string) string {
	if !strings.Contains("\n"+config, "\nlisten:") {
		config = "listen: {proxy: \"@PROXY@\", admin: \"@ADMIN@\"}\n" + strings.TrimLeft(config, "\n")
	}
	return strings.NewReplacer("@PROXY@", p.proxy, "@ADMIN@", p.admin).Replace(config)
}

func (p *mulligan) run(how ...launch) {
	p.t.Helper()
	p.cmd = exec.Command(binary, "serve", "--config", p.file)
	p.cmd.Dir = filepath.Dir(p.file)
	p.cmd.Env = environment()
	for _, h := range how {
		p.cmd.Env = append(p.cmd.Env, h.env...)
	}
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() { _ = p.cmd.Wait(); close(p.done) }()
	p.t.Cleanup(p.end)
}

// environment is what the processes get: nothing that could change behaviour.
func environment() []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "TMPDIR=" + os.TempDir()}
	if dir := os.Getenv("GOCOVERDIR"); dir != "" {
		env = append(env, "GOCOVERDIR="+dir)
	}
	return env
}

// end stops the process, by its own handle, and looks through what it wrote for
// what no run may ever say.
func (p *mulligan) end() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	if !p.exited(2 * time.Second) {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
	}
	if !p.exited(patience) {
		p.t.Errorf("mulligan did not end within %v of a second SIGTERM", patience)
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	text := p.log.String()
	for _, bad := range []string{"panic", "DATA RACE", "goroutine ", "fatal error"} {
		if at := strings.Index(text, bad); at >= 0 {
			p.t.Errorf("mulligan wrote %q:\n%s", bad, text[max(0, at-500):min(len(text), at+4000)])
		}
	}
	if p.t.Failed() {
		p.t.Logf("configuration:\n%s\nmulligan wrote:\n%s", readFile(p.t, p.file), tail(text, 20000))
	}
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// exited waits for the process to end, for so long at most.
func (p *mulligan) exited(within time.Duration) bool {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		return false
	}
}

func (p *mulligan) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("signal %v: %v", s, err)
	}
}

// awaitReady polls /readyz until it says 200.
func (p *mulligan) awaitReady(from string) {
	p.t.Helper()
	eventually(p.t, "mulligan to be ready", func() bool {
		if p.exited(0) {
			p.t.Fatalf("mulligan ended: %v\n%s", p.cmd.ProcessState, p.log.String())
		}
		return probe(p.admin, from, "/readyz") == 200
	})
}

// probe asks the admin port for a path and returns the status, 0 for none.
func probe(addr, from, path string) int {
	dialer := net.Dialer{Timeout: patience}
	if from != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	conn, err := dialer.Dial("tcp", addr)
	if err != nil {
		return 0
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", path, addr)
	head := make([]byte, 12)
	if _, err := conn.Read(head); err != nil {
		return 0
	}
	status, _ := strconv.Atoi(strings.TrimSpace(string(head[9:])))
	return status
}

// eventually polls until the condition holds; what says what was waited for.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(patience); !holds(); <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain for %s", patience, what)
		}
	}
}

// linger lets time pass where the passing of time is itself the stimulus: a
// slow peer, an idle connection, a span in which nothing may happen.
func linger(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// want compares, and names what was compared.
func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// says waits until the log says all of these: its lines come after the answers
// that they are about.
func (p *mulligan) says(parts ...string) {
	p.t.Helper()
	for _, part := range parts {
		eventually(p.t, fmt.Sprintf("the log to say %q", part), func() bool { return strings.Contains(p.log.String(), part) })
	}
}

// contains reports a text that lacks what it should say.
func contains(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s does not say %q:\n%s", what, part, tail(text, 3000))
		}
	}
}
