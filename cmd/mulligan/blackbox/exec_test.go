package blackbox

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// execution is a running `mulligan exec`.
type execution struct {
	t         *testing.T
	cmd       *exec.Cmd
	tmp       string // its TMPDIR
	out, errs output
	done      chan struct{}
}

// how says what a `mulligan exec` is started with.
type how struct {
	config string // the configuration's text; "" none
	flags  []string
	env    []string
	stdin  string
}

// startExec runs `mulligan exec` in a session of its own, so that no terminal of
// whoever runs the tests has a say in what signals do.
func startExec(t *testing.T, h how, command ...string) *execution {
	t.Helper()
	e := prepareExec(t, h, command...)
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	e.cmd.Stdin, e.cmd.Stdout, e.cmd.Stderr = strings.NewReader(h.stdin), &e.out, &e.errs
	e.start()
	return e
}

func prepareExec(t *testing.T, h how, command ...string) *execution {
	t.Helper()
	e := &execution{t: t, tmp: filepath.Join(t.TempDir(), "a name to quote"), done: make(chan struct{})}
	if err := os.Mkdir(e.tmp, 0o700); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	args := append([]string{"exec"}, h.flags...)
	if h.config != "" {
		file := filepath.Join(dir, "exec.yaml")
		writeFile(t, file, h.config)
		args = append(args, "--config", file)
	}
	e.cmd = exec.Command(binary, append(append(args, "--"), command...)...)
	e.cmd.Dir = dir
	e.cmd.Env = append(append(environment(), "TMPDIR="+e.tmp, "GORACE=atexit_sleep_ms=0"), h.env...)
	return e
}

func (e *execution) start() {
	e.t.Helper()
	if err := e.cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
	go func() { _ = e.cmd.Wait(); close(e.done) }()
	e.t.Cleanup(func() {
		_ = e.cmd.Process.Kill() // of what failed; it has ended otherwise
		<-e.done
	})
}

// wait waits for the end and returns the exit status. Nothing that was written
// may be left, whatever the end was.
func (e *execution) wait() int {
	e.t.Helper()
	timer := time.NewTimer(3 * patience)
	defer timer.Stop()
	select {
	case <-e.done:
	case <-timer.C:
		e.t.Fatalf("mulligan exec does not end; it wrote\n%s%s", e.out.String(), e.errs.String())
	}
	for _, bad := range []string{"panic", "DATA RACE", "goroutine ", "fatal error"} {
		if strings.Contains(e.errs.String(), bad) {
			e.t.Errorf("mulligan wrote %q:\n%s", bad, e.errs.String())
		}
	}
	if left, _ := filepath.Glob(filepath.Join(e.tmp, "mulligan-exec-*")); len(left) != 0 {
		e.t.Errorf("what was written is still there: %q", left)
	}
	return e.cmd.ProcessState.ExitCode()
}

// runExec runs `mulligan exec` to its end.
func runExec(t *testing.T, h how, command ...string) (code int, stdout, stderr string) {
	t.Helper()
	e := startExec(t, h, command...)
	code = e.wait()
	return code, e.out.String(), e.errs.String()
}

// The test's own binary is a command to run, too, which does one thing.
const actVariable = "MULLIGAN_TEST_ACT"

func init() {
	if act := os.Getenv(actVariable); act != "" {
		os.Exit(acts[act](os.Args[1:]))
	}
}

var acts = map[string]func(args []string) int{
	// get calls URLs one after the other, with net/http as it is.
	"get": func(args []string) int {
		for _, url := range args {
			resp, err := http.Get(url)
			if err != nil {
				fmt.Println(err)
				return 1
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				fmt.Println(err)
				return 1
			}
			fmt.Println(resp.StatusCode, string(body))
		}
		return 0
	},
	// tunnel writes what comes out of a tunnel to the address.
	"tunnel": func(args []string) int {
		proxy, err := url.Parse(os.Getenv("HTTPS_PROXY"))
		if err != nil {
			return 1
		}
		c, err := net.Dial("tcp", proxy.Host)
		if err != nil {
			return 1
		}
		fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", args[0], args[0])
		r := bufio.NewReader(c)
		if _, err := http.ReadResponse(r, &http.Request{Method: "CONNECT"}); err != nil {
			return 1
		}
		_, _ = io.Copy(os.Stdout, r)
		return 0
	},
	// signals says which signals arrive. SIGTERM ends it, with status 5.
	"signals": func([]string) int {
		got := make(chan os.Signal, 16)
		signal.Notify(got)
		fmt.Println("ready")
		for s := range got {
			if s != syscall.SIGURG && s != syscall.SIGCHLD { // Go's own
				fmt.Println("got", s)
			}
			if s == syscall.SIGTERM {
				break
			}
		}
		return 5
	},
}

// act makes the test's own binary do one thing.
func act(name string, args ...string) (h how, command []string) {
	return how{env: []string{actVariable + "=" + name}}, append([]string{os.Args[0]}, args...)
}

// hear waits until the command has written a line.
func (e *execution) hear(line string) {
	e.t.Helper()
	eventually(e.t, "the command to write "+line, func() bool { return strings.Contains(e.out.String(), line+"\n") })
}

// The exit status is the command's own, and where it has none, a shell's.
func TestExecStatus(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain, script := filepath.Join(dir, "plain"), filepath.Join(dir, "script")
	writeFile(t, plain, "not executable")
	syscall.ForkLock.RLock() // a process that is just being started would have a copy of the file, which nobody can run while it is written
	writeFile(t, script, "no interpreter")
	syscall.ForkLock.RUnlock()
	if err := os.Chmod(script, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		command []string
		code    int
		says    string // by mulligan
	}{
		"success":         {[]string{"true"}, 0, ""},
		"its own":         {[]string{"sh", "-c", "exit 7"}, 7, ""},
		"255":             {[]string{"sh", "-c", "exit 255"}, 255, ""},
		"a signal":        {[]string{"sh", "-c", "kill -TERM $$"}, 128 + 15, ""},
		"killed":          {[]string{"sh", "-c", "kill -KILL $$"}, 128 + 9, ""},
		"not there":       {[]string{"no-such-command-anywhere"}, 127, "there is no such command"},
		"no such file":    {[]string{dir + "/nothing"}, 127, "cannot run"},
		"not executable":  {[]string{plain}, 126, "permission denied"},
		"a directory":     {[]string{dir}, 126, "cannot run"},
		"no interpreter":  {[]string{script}, 126, "#!"},
		"flags go to it":  {[]string{"sh", "-c", "exit $#", "--config", "x", "--quiet"}, 2, ""},
		"its own dashes":  {[]string{"sh", "-c", "exit $#", "sh", "--", "x"}, 2, ""},
		"a missing shell": {[]string{"sh", "-c", "no-such-command-anywhere"}, 127, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := runExec(t, how{}, row.command...)
			want(t, "exit status", code, row.code)
			want(t, "standard output", stdout, "")
			contains(t, "standard error", stderr, row.says)
		})
	}
}

func TestExecMisused(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no command":         {[]string{"exec"}, 2, "no command to run"},
		"nothing after --":   {[]string{"exec", "--"}, 2, "no command to run"},
		"unknown flag":       {[]string{"exec", "--quite", "true"}, 2, "did you mean --quiet?"},
		"both":               {[]string{"exec", "--quiet", "--verbose", "true"}, 2, "contradict"},
		"no configuration":   {[]string{"exec", "--config", "/nonexistent/m.yaml", "true"}, 1, "/nonexistent/m.yaml"},
		"TLS on the proxy":   {[]string{"exec", "--config", "tls.yaml", "true"}, 1, "listen.proxy has tls"},
		"address in use":     {[]string{"exec", "--config", "used.yaml", "true"}, 1, "cannot listen on"},
		"-- may be left out": {[]string{"exec", "sh", "-c", "exit 3"}, 3, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			ca := newAuthority(t)
			certFile, keyFile := ca.write(ca.leaf(time.Now().Add(time.Hour), "127.0.0.1"))
			writeFile(t, dir+"/tls.yaml", fmt.Sprintf("listen: {proxy: {address: \"%s\", tls: {cert_file: %s, key_file: %s}}}\n", freeAddr(t), certFile, keyFile))
			writeFile(t, dir+"/used.yaml", fmt.Sprintf("listen: {admin: \"%s\"}\n", closedAddr(t)))
			code, stdout, stderr := commandIn(t, dir, []string{"GORACE=atexit_sleep_ms=0"}, row.args...)
			want(t, "exit status", code, row.code)
			want(t, "standard output", stdout, "")
			contains(t, "standard error", stderr, row.says)
		})
	}
}

// Standard input, output and error are the command's; mulligan adds one line at
// the start and one at the end to the last, or with --quiet none.
func TestExecStreams(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{nil, {"--quiet"}} {
		text := pattern(300_000)
		code, stdout, stderr := runExec(t, how{stdin: text, flags: flags}, "sh", "-c", "echo oops >&2; cat")
		want(t, "exit status", code, 0)
		want(t, "standard output is what went in", stdout == text, true)
		pattern := `^mulligan: proxy http://127\.0\.0\.1:\d+, dashboard http://127\.0\.0\.1:\d+/\noops\nmulligan: 0 requests, 0 retried, 0 saved, 0 failed\n$`
		if flags != nil {
			pattern = `^oops\n$`
		}
		if !regexp.MustCompile(pattern).MatchString(stderr) {
			t.Errorf("%q: standard error is\n%s", flags, stderr)
		}
	}
}

// What was done for the command: requests that were retried, not retries, and of
// those that could have been.
func TestExecSummary(t *testing.T) {
	t.Parallel()
	policy := "defaults: {retry: {" + quick + "}}\n"
	for name, row := range map[string]struct {
		answers []answer
		urls    int
		says    string
	}{
		"well":     {[]answer{text(200, "fine")}, 3, "3 requests, 0 retried, 0 saved, 0 failed"},
		"saved":    {[]answer{text(503, ""), text(200, "fine")}, 1, "1 request, 1 retried, 1 saved, 0 failed"},
		"twice":    {[]answer{text(503, ""), text(502, ""), text(200, "fine")}, 2, "2 requests, 1 retried, 1 saved, 0 failed"},
		"in vain":  {[]answer{text(503, "")}, 1, "1 request, 1 retried, 0 saved, 1 failed"},
		"not ours": {[]answer{text(404, "")}, 1, "1 request, 0 retried, 0 saved, 0 failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := answers(t, row.answers...)
			h, command := act("get")
			for range row.urls {
				command = append(command, fmt.Sprintf("http://api.localhost:%d/", u.port()))
			}
			h.config = policy
			code, stdout, stderr := runExec(t, h, command...)
			want(t, "exit status", code, 0)
			contains(t, "standard error", stderr, "mulligan: "+row.says+"\n")
			if strings.Contains(stderr, "msg=") {
				t.Errorf("the log is not asked for:\n%s", stderr)
			}
			want(t, "answers", strings.Count(stdout, "\n"), row.urls)
		})
	}
}

// A tunnel hides what is in it. The summary names where it went, and what to do.
func TestExecSummaryOfTunnels(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	u := ca.upstream(t, text(200, "secret"))
	h, command := act("get", "https://localhost.localhost:"+fmt.Sprint(u.port()))
	code, stdout, stderr := runExec(t, h, command...)
	want(t, "exit status", code, 1) // it trusts no such certificate
	contains(t, "the command", stdout, "certificate")
	contains(t, "standard error", stderr,
		fmt.Sprintf("0 requests, 0 retried, 0 saved, 0 failed; plus 1 tunnel that it could not see into (localhost.localhost:%d)\n", u.port()),
		fmt.Sprintf("`mulligan explain https://localhost.localhost:%d/`", u.port()))
}

// A tunnel in which plain HTTP is spoken is no secret.
func TestExecSummaryOfOpenTunnels(t *testing.T) {
	t.Parallel()
	curl, u := need(t, "curl"), answers(t, text(503, ""), text(200, "fine"))
	h := how{config: "defaults: {retry: {" + quick + "}}\n"}
	code, stdout, stderr := runExec(t, h, curl, "-sS", "--proxytunnel", u.url("/"))
	want(t, "exit status", code, 0)
	want(t, "standard output", stdout, "fine")
	contains(t, "standard error", stderr, "mulligan: 1 request, 1 retried, 1 saved, 0 failed\n")
}

// --verbose shows the log as the configuration has it; warnings are shown always.
func TestExecLog(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		flags    []string
		config   string
		has, not string
	}{
		"asked for":      {[]string{"--verbose"}, "", "msg=request", "msg=nothing"},
		"without access": {[]string{"--verbose"}, "log: {access: false}\n", "msg=listening", "msg=request"},
		"as JSON":        {[]string{"--verbose"}, "log: {format: json}\n", `"msg":"request"`, "msg="},
		"not":            {nil, "", "parent_proxy", "msg=request"},
		"quiet":          {[]string{"--quiet"}, "", "parent_proxy", "mulligan: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := answers(t, text(503, ""))
			h, command := act("get", fmt.Sprintf("http://api.localhost:%d/", u.port()))
			h.flags, h.config = row.flags, row.config+"defaults: {retry: {max_attempts: 1}}\n"
			h.env = append(h.env, "HTTP_PROXY=http://u:hidden@proxy.invalid:3128")
			_, _, stderr := runExec(t, h, command...)
			contains(t, "standard error", stderr, row.has)
			for _, not := range []string{row.not, "hidden"} {
				if strings.Contains(stderr, not) {
					t.Errorf("standard error says %q:\n%s", not, stderr)
				}
			}
		})
	}
}

// The proxy takes the addresses that the file names, and free ones else.
func TestExecPorts(t *testing.T) {
	t.Parallel()
	proxy, admin := freeAddr(t), freeAddr(t)
	for name, row := range map[string]struct{ config, says string }{
		"named":   {fmt.Sprintf("listen: {proxy: \"%s\", admin: \"%s\"}\n", proxy, admin), fmt.Sprintf("proxy http://%s, dashboard http://%s/", proxy, admin)},
		"neither": {"", "proxy http://127.0.0.1:"},
	} {
		h, command := how{config: row.config}, []string{"sh", "-c", "echo $http_proxy"}
		code, stdout, stderr := runExec(t, h, command...)
		want(t, name, code, 0)
		contains(t, name, stderr, row.says)
		contains(t, name, stderr, "proxy "+strings.TrimSpace(stdout)+",")
		if strings.Contains(stderr, ":7080") || strings.Contains(stderr, ":7081") {
			t.Errorf("%s: the ports of serve are not for exec:\n%s", name, stderr)
		}
	}
}

// The proxy's own credentials are in the URL that the command gets, not in what is
// said of it.
func TestExecAuth(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, "fine"))
	h, command := act("get", fmt.Sprintf("http://api.localhost:%d/", u.port()))
	h.config = "listen: {auth: {username: me, password: \"p@ss: word\"}}\n"
	_, stdout, stderr := runExec(t, h, command...)
	want(t, "standard output", stdout, "200 fine\n")
	contains(t, "standard error", stderr, "mulligan: 1 request, ")
	if strings.Contains(stderr, "word") {
		t.Errorf("the password is shown:\n%s", stderr)
	}
}
