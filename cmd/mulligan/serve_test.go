package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mulligan/policy/config"
)

// soon bounds what must happen in the end.
const soon = 20 * time.Second

// page is a writer that may be read while others write.
type page struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (p *page) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *page) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// parse reads a configuration whose ports are chosen when they are bound.
func parse(t *testing.T, text string) *config.Config {
	t.Helper()
	if !strings.Contains(text, "listen: {proxy") {
		text = "listen: {proxy: \"127.0.0.1:0\", admin: \"127.0.0.1:0\"}\n" + text
	}
	cfg, err := config.Parse("test.yaml", []byte(text), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// running starts an app; it ends with the test.
func running(t *testing.T, text string) (*app, *page) {
	t.Helper()
	cfg, log := parse(t, text), new(page)
	a, err := newApp(cfg, newLogger(log, cfg.Log), appOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a.start("test.yaml")
	return a, log
}

// stopped ends an app that the test has not ended itself.
func stopped(t *testing.T, a *app) {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	if err := a.stop(ctx); err != nil {
		t.Error(err)
	}
}

// get asks an address for a path; 0 is no answer.
func get(address, path string) int {
	client := http.Client{Timeout: soon, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + address + path)
	if err != nil {
		return 0
	}
	response.Body.Close()
	return response.StatusCode
}

// until polls until the condition holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(soon); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("never: " + what)
		}
	}
}

// TestEnd: on the first signal not ready at once, still serving during
// shutdown_delay, and everything is closed at the end.
func TestEnd(t *testing.T) {
	a, log := running(t, "shutdown_delay: 3s\n")
	admin, proxy := a.adminAddr(), a.proxyAddr()
	if status := get(admin, "/readyz"); status != 200 {
		t.Fatalf("/readyz %d while serving", status)
	}
	ended, began := make(chan error, 1), time.Now()
	go func() { ended <- a.end(syscall.SIGTERM, nil, noReload()) }()
	serving := func() bool { return time.Since(began) < 3*time.Second } // else the machine stood still
	until(t, "not ready", func() bool { return get(admin, "/readyz") == 503 || !serving() })
	if status := get(proxy, "/x"); status != 421 && serving() {
		t.Errorf("the proxy answers %d during shutdown_delay", status)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if get(admin, "/healthz") != 0 || get(proxy, "/x") != 0 {
		t.Error("a port is still open at the end")
	}
	for _, part := range []string{"msg=listening proxy=" + proxy + " admin=" + admin, "msg=draining", "msg=stopped"} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("the log lacks %q:\n%s", part, log)
		}
	}
}

// TestEndAtOnce: a second signal does not wait for shutdown_delay.
func TestEndAtOnce(t *testing.T) {
	a, _ := running(t, "shutdown_delay: 1h\n")
	again := make(chan os.Signal, 1)
	again <- syscall.SIGINT
	err := a.end(syscall.SIGTERM, again, noReload())
	if !errors.Is(err, errEnded) || report(terminal{err: new(page)}, err) != exitFailed {
		t.Errorf("%v, want an end with status 1", err)
	}
	stopped(t, a) // the process would have ended
}

// TestEndCutsOff: what is in flight after shutdown_grace is cut off, and that
// is an orderly end.
func TestEndCutsOff(t *testing.T) {
	hung := make(chan struct{})
	upstream := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(hung); select {} })}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go upstream.Serve(ln)
	defer upstream.Close()
	a, log := running(t, fmt.Sprintf("shutdown_grace: 50ms\nupstreams: {u: {endpoints: [\"http://%s\"], mount: /u}}\n", ln.Addr()))
	answer := make(chan int, 1)
	go func() { answer <- get(a.proxyAddr(), "/u") }()
	<-hung
	if err := a.end(syscall.SIGTERM, nil, noReload()); err != nil {
		t.Error(err)
	}
	if status := <-answer; status == 200 {
		t.Error("the request was answered")
	}
	if !strings.Contains(log.String(), "cut off") {
		t.Errorf("the log does not say so:\n%s", log)
	}
}

// TestNothingLeftBound: where one address cannot be had, the others are free
// again, and the message says which and why.
func TestNothingLeftBound(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	free, err := net.Listen("tcp", "127.0.71.1:0") // whose ports no outgoing connection of another test takes
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	for _, text := range []string{
		"listen: {proxy: \"%[1]s\", admin: \"%[2]s\"}\n",
		"listen: {proxy: \"%[2]s\", admin: \"%[1]s\"}\n",
		"listen: {proxy: \"127.0.0.1:0\", admin: \"%[2]s\"}\nupstreams: {u: {endpoints: [http://x.example], listen: \"%[1]s\"}}\n",
	} {
		cfg := parse(t, fmt.Sprintf(text, taken.Addr(), free.Addr()))
		_, err := newApp(cfg, newLogger(new(page), cfg.Log), appOptions{})
		var out page
		if status := report(terminal{err: &out}, err); status != exitFailed {
			t.Errorf("%s: exit status %d, want 1", text, status)
		}
		want := fmt.Sprintf("error: cannot listen on %s: address already in use\nhint: another process", taken.Addr())
		if !strings.HasPrefix(out.String(), want) {
			t.Errorf("got\n%s\nwant\n%s", out.String(), want)
		}
		again, err := net.Listen("tcp", free.Addr().String())
		if err != nil {
			t.Fatalf("%s: left bound: %v", text, err)
		}
		again.Close()
	}
}

// TestReload: what may change does; what needs a restart is said, and its
// guards stay as they were.
func TestReload(t *testing.T) {
	a, log := running(t, "listen: {proxy: \"127.0.0.1:0\", admin: \"127.0.0.1:0\", allow_clients: [127.0.0.0/8]}\n")
	defer stopped(t, a)
	next := parse(t, "listen: {proxy: \"127.0.0.1:1\", admin: \"127.0.0.1:0\", admin_hosts: [m.example]}\n"+
		"log: {level: warn, format: json}\nunmatched: deny\n")
	if err := a.reload(next); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"listen.proxy", "listen.allow_clients", "listen.admin_hosts"} {
		if !strings.Contains(log.String(), `"key":"`+key+`"`) {
			t.Errorf("the log, in JSON now, does not say that %s needs a restart:\n%s", key, log)
		}
	}
	if strings.Contains(log.String(), `"listen.admin"`) {
		t.Error("listen.admin did not change")
	}
	if settings, err := newSettings(next, a.started); err != nil || len(settings.AllowClients) != 1 {
		t.Errorf("a guard was dropped while its listener is open: %v, %v", settings, err)
	}
	client := http.Client{Transport: newClient(a.proxyAddr()).Transport}
	response, err := client.Get("http://other.example/")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != 403 {
		t.Errorf("unmatched: deny is not in force: %d", response.StatusCode)
	}
	a.log.Info("quiet now")
	if strings.Contains(log.String(), "quiet now") {
		t.Error("the level did not change")
	}
}

// TestAdminClients: allow_clients holds for the admin port too.
func TestAdminClients(t *testing.T) {
	for _, test := range []struct {
		allow  string
		status int
	}{{"10.0.0.0/8", 403}, {"127.0.0.1", 200}, {"10.0.0.0/8, 127.0.0.0/8", 200}} {
		a, _ := running(t, "listen: {proxy: \"127.0.0.1:0\", admin: \"127.0.0.1:0\", allow_clients: ["+test.allow+"]}\n")
		if status := get(a.adminAddr(), "/metrics"); status != test.status {
			t.Errorf("allow_clients %s: %d, want %d", test.allow, status, test.status)
		}
		stopped(t, a)
	}
}

// TestFindSource: the flag, else the environment, else the file that is there,
// else the defaults; a default file may come later.
func TestFindSource(t *testing.T) {
	t.Chdir(t.TempDir())
	env := map[string]string{}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	find := func(named string) *source { return findSource(named, lookup) }
	started := find("")
	if cfg, err := started.load(); err != nil || len(cfg.Files()) > 0 || started.String() != "built-in defaults" {
		t.Errorf("%s, want the defaults: %v", started, err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(configFile, "unmatched: deny\n")
	if s := find(""); s.path != configFile {
		t.Errorf("%q, want %s", s.path, configFile)
	}
	if cfg, err := started.loadAgain(); err != nil || !cfg.DenyUnmatched {
		t.Errorf("a reload does not find the file that came: %v, %v", cfg, err)
	}
	env[configVariable] = "env.yaml"
	if s := find(""); s.path != "env.yaml" {
		t.Errorf("%q, want env.yaml", s.path)
	}
	if s := find("flag.yaml"); s.path != "flag.yaml" {
		t.Errorf("%q, want flag.yaml", s.path)
	}
	if _, err := find("").load(); err == nil || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a named file that is missing: %v", err)
	}
	if own, _ := filepath.Abs("env.yaml"); find("").own != own {
		t.Error("the configuration's own file is not looked at by its absolute name")
	}
}

// noReload is a reloader that has ended.
func noReload() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}
