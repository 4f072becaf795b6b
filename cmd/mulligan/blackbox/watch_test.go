package blackbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestEmptyFileIsWaitedFor: whoever truncates the file and then takes a while to
// write it, as a full disk or a slow copy does, once opened the proxy to all hosts
// meanwhile: an empty file is a valid one.
func TestEmptyFileIsWaitedFor(t *testing.T) {
	t.Parallel()
	u := answers(t, text(503, ""))
	p := start(t, "unmatched: deny\n")
	empty := func(n int) {
		t.Helper()
		p.saysTimes(n, "its file is empty")
		want(t, "status of a host that is denied", p.get(u.url("/")).Status, 403)
		p.wantMetric(0, "mulligan_config_reloads_total", "result=failure")
	}
	p.wantMetric(0, "mulligan_config_reloads_total", "result=success")
	writeFile(t, p.file, "")
	empty(1)
	p.replace("unmatched: deny\nvia: false\n")
	p.saysTimes(1, "configuration reloaded")
	p.replaceAll(" \n\r\n")
	empty(2)
	p.wantMetric(1, "mulligan_config_reloads_total", "result=success")
	p.signal(syscall.SIGHUP) // who asks for it gets it
	p.saysTimes(2, "configuration reloaded")
	want(t, "status after SIGHUP", p.get(u.url("/")).Status, 503)
}

// saysTimes waits until the log has a text so many times.
func (p *mulligan) saysTimes(n int, text string) {
	p.t.Helper()
	eventually(p.t, fmt.Sprintf("the log to say %q %d times", text, n), func() bool { return strings.Count(p.log.String(), text) == n })
}

// replace puts another configuration in the place of the file, in one step.
func (p *mulligan) replace(config string) { p.t.Helper(); p.replaceAll(p.fill(config)) }

// replaceAll is replace for a text that is taken as it is.
func (p *mulligan) replaceAll(text string) {
	p.t.Helper()
	writeFile(p.t, p.file+".new", text)
	if err := os.Rename(p.file+".new", p.file); err != nil {
		p.t.Fatal(err)
	}
}

// TestNamedFileIsMended: a configuration that failed over a file it names was not
// read again when that file came, or was put right: only the old files were watched.
func TestNamedFileIsMended(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]string{"not there yet": "", "not PEM yet": "half of it"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ca := newAuthority(t)
			u := ca.upstream(t, text(200, "secret"))
			p := start(t, "")
			late := filepath.Join(filepath.Dir(p.file), "late.pem")
			if before != "" {
				writeFile(t, late, before)
			}
			p.replace(strings.Replace(ca.config("s.internal", u.addr, ""), ca.file, "late.pem", 1))
			p.says("configuration not reloaded", "late.pem")
			p.wantMetric(1, "mulligan_config_reloads_total", "result=failure")
			if err := os.Rename(ca.file, late); err != nil {
				t.Fatal(err)
			}
			p.says("configuration reloaded")
			r := p.get("http://s.internal/")
			r.expect(t, 200, "")
			want(t, "body", r.Body, "secret")
		})
	}
}

// TestWrittenOutDefaultsNeedNoRestart: an empty list is what holds without the key.
func TestWrittenOutDefaultsNeedNoRestart(t *testing.T) {
	t.Parallel()
	p := start(t, "")
	p.replace(`listen: {proxy: "@PROXY@", admin: "@ADMIN@", allow_clients: [], admin_hosts: [], auth: {}}`)
	p.says("configuration reloaded")
	if strings.Contains(p.log.String(), "restart") {
		t.Error("the log speaks of a restart")
	}
}

// TestDanglingDefaultFile: a mulligan.yaml that is a link to nothing once counted
// as no file, and its guards were not there.
func TestDanglingDefaultFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Symlink("gone.yaml", filepath.Join(dir, "mulligan.yaml")); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"check"}, {"serve"}, {"explain", "http://a.example/"}, {"check", "--config", "mulligan.yaml"}} {
		code, _, stderr := commandIn(t, dir, nil, args...)
		want(t, fmt.Sprint("exit status of ", args), code, 1)
		contains(t, "the error", stderr, "error: mulligan.yaml: a symbolic link that leads to no file", "hint: ")
	}
}

// TestHelpWithMore: help refuses what the other commands refuse.
func TestHelpWithMore(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := command(t, "help", "serve", "extra")
	want(t, "exit status", code, 2)
	want(t, "standard output", stdout, "")
	contains(t, "the error", stderr, `unexpected argument "extra"`)
}
