package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"mulligan/policy/config"
)

// TestMain lets the test's own binary be the upstream, as the program's is, and
// proxies that answer by themselves, started as the real ones are.
func TestMain(m *testing.M) {
	switch args := strings.Join(os.Args[1:], " "); {
	case args == upstreamVerb:
		main()
	case args == "-v", args == "version":
		fmt.Println("fake proxy")
	case strings.HasPrefix(args, "-db -f "):
		serveAsConfigured(os.Args[3], `bind (\S+)`)
	case strings.HasPrefix(args, "serve --config "):
		serveAsConfigured(os.Args[3], `(?m)^ +listen: (\S+)`)
	default:
		os.Exit(m.Run())
	}
}

// serveAsConfigured serves an upstream where a proxy's configuration says that
// the proxy listens.
func serveAsConfigured(file, pattern string) {
	config, err := os.ReadFile(file)
	if err != nil {
		panic(err)
	}
	listener, err := net.Listen("tcp", string(regexp.MustCompile(pattern).FindSubmatch(config)[1]))
	if err != nil {
		panic(err)
	}
	newUpstream().serve(listener)
}

// TestBench goes through everything, with programs that are none.
func TestBench(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	wrk, _ := fakeWrk(t, wrkOutput+wrkEnd)
	t.Setenv("TMPDIR", t.TempDir())
	var out, errs bytes.Buffer
	args := []string{"-mulligan", self, "-haproxy", self, "-wrk", wrk, "-rounds", "1", "-idle", "20", "-settle", "0s",
		"-body", "1", "-gomaxprocs", "1"}
	if status := run(t.Context(), args, &out, &errs); status != 0 {
		t.Fatalf("exit status %d: %s", status, errs.String())
	}
	for _, part := range []string{"fake proxy, GOMAXPROCS 1,", "| POST 10 KB | ", "connection (of 20, idle for 0s)", "request of 1 MiB"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("no %q in\n%s", part, out.String())
		}
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestMulliganConfig: mulligan takes the configuration that it is given here.
func TestMulliganConfig(t *testing.T) {
	text := fmt.Sprintf(mulliganConfig, 1, 2, 3, "127.0.0.1:4", 1100)
	c, err := config.Parse("mulligan.yaml", []byte(text), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	if c.Log.Access {
		t.Error("the access log is on")
	}
	if len(c.Warnings) > 0 {
		t.Error(c.Warnings)
	}
}

// TestHAProxyConfig: so does HAProxy, where there is one.
func TestHAProxyConfig(t *testing.T) {
	haproxy, err := exec.LookPath("haproxy")
	if err != nil {
		t.Skip("no haproxy here; make bench installs it")
	}
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	text := fmt.Sprintf(haproxyConfig, 1, "127.0.0.1:2", 1100)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), haproxy, "-c", "-f", file).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// fakeWrk writes a program that prints out, after noting its arguments, and
// returns its path and that of the notes.
func fakeWrk(t *testing.T, out string) (program, notes string) {
	t.Helper()
	dir := t.TempDir()
	program, notes = filepath.Join(dir, "wrk"), filepath.Join(dir, "notes")
	script := fmt.Sprintf("#!/bin/sh\necho \"$@\" >> %s\ncat <<'END'\n%sEND\n", notes, out)
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return program, notes
}

// fakeMakers returns proxies that are no proxies: the upstream itself.
func fakeMakers(t *testing.T) []maker {
	address := serveUpstream(t)
	start := func(context.Context) (*proxy, error) { return &proxy{sleeper(t), address}, nil }
	return []maker{{"HAProxy", start}, {"mulligan", start}}
}

// TestRoundsAreInterleaved: each case begins without a proxy, and then the
// proxies take turns in going first.
func TestRoundsAreInterleaved(t *testing.T) {
	wrk, notes := fakeWrk(t, wrkOutput+wrkEnd)
	o, err := parse([]string{"-wrk", wrk, "-rounds", "2", "-duration", "1s"}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	proxies := [2]*proxy{{sleeper(t), "a:1"}, {sleeper(t), "b:1"}}
	up := &upstreamProcess{address: "u:1"}
	s := scenario{name: "POST", path: "/sink", post: 10}
	script, err := s.script(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.measure(t.Context(), o, script, up, proxies)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.samples[0]) != 2 || len(r.samples[1]) != 2 {
		t.Errorf("%d and %d samples, want 2 and 2", len(r.samples[0]), len(r.samples[1]))
	}
	got, err := os.ReadFile(notes)
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, host := range []string{"u", "a", "b", "b", "a"} {
		fmt.Fprintf(&want, "-t1 -c32 -d1s --latency -s %s http://%s:1/sink\n", script, host)
	}
	if string(got) != want.String() {
		t.Errorf("wrk ran as\n%swant\n%s", got, want.String())
	}
}

// TestFailuresVoidARun: a proxy that is fast because it fails is no result.
func TestFailuresVoidARun(t *testing.T) {
	wrk, _ := fakeWrk(t, wrkOutput+"  Non-2xx or 3xx responses: 400\n"+wrkEnd)
	p := &proxy{sleeper(t), "a:1"}
	if _, err := (scenario{}).once(t.Context(), options{wrk: wrk}, "", p); err == nil {
		t.Error("400 failures of 92810 were let pass where none may fail")
	}
	if _, err := (scenario{tolerated: 0.005}).once(t.Context(), options{wrk: wrk}, "", p); err != nil {
		t.Error("failures under what is tolerated:", err)
	}
}

func TestRunOfWrkFails(t *testing.T) {
	if _, err := runWrk(t.Context(), options{wrk: "false"}, "http://a:1", ""); err == nil {
		t.Error("no error")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	if _, err := runWrk(ctx, options{wrk: "true"}, "http://a:1", ""); !errors.Is(err, why) {
		t.Errorf("%v, want the reason why it was ended", err)
	}
}

// TestSpeed goes through all cases with a wrk that is none.
func TestSpeed(t *testing.T) {
	wrk, _ := fakeWrk(t, wrkOutput+wrkEnd)
	o := options{wrk: wrk, rounds: 1}
	var out bytes.Buffer
	up := &upstreamProcess{address: serveUpstream(t)}
	if err := speed(t.Context(), o, t.TempDir(), up, fakeMakers(t), &out); err != nil {
		t.Fatal(err)
	}
	for _, s := range scenarios {
		if !strings.Contains(out.String(), "| "+s.name+" |") {
			t.Errorf("no row of %s in\n%s", s.name, out.String())
		}
	}
}

func TestMemory(t *testing.T) {
	var out bytes.Buffer
	if err := memory(t.Context(), options{body: 1 << 20}, fakeMakers(t), &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "| peak resident, request of 1 MiB | ") {
		t.Errorf("no row of a large request in\n%s", out.String())
	}
	if err := memory(t.Context(), options{}, nil, &out); err != nil {
		t.Error("nothing wanted:", err)
	}
}
