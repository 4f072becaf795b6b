package blackbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// attempts is a configuration by whose max_attempts a reload shows.
func attempts(n int) string {
	return fmt.Sprintf("defaults: {retry: {max_attempts: %d, %s}}\n", n, strings.Replace(quick, "1000", "1000000", 1))
}

// awaitAttempts waits until requests get so many attempts.
func (p *mulligan) awaitAttempts(u *upstream, n int) {
	p.t.Helper()
	eventually(p.t, fmt.Sprintf("max_attempts: %d to be in force", n), func() bool {
		return p.get(u.url("/")).proxyStatus(p.t)["attempts"] == fmt.Sprint(n)
	})
}

// awaitReloads waits until so many reloads, or more, are counted: each is just
// after it is in force, and a file that is written some time before its SIGHUP
// is read twice.
func (p *mulligan) awaitReloads(n float64) {
	p.t.Helper()
	eventually(p.t, fmt.Sprintf("%v reloads", n), func() bool {
		got, _ := p.metric("mulligan_config_reloads_total", "result=success")
		return got >= n
	})
}

// Section 3: reload on SIGHUP and when the file changes, in whichever way.
func TestReload(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, p *mulligan, text string){
		"in-place write": func(t *testing.T, p *mulligan, text string) { writeFile(t, p.file, text) },
		"rename": func(t *testing.T, p *mulligan, text string) {
			writeFile(t, p.file+".new", text)
			if err := os.Rename(p.file+".new", p.file); err != nil {
				t.Fatal(err)
			}
		},
		"SIGHUP": func(t *testing.T, p *mulligan, text string) {
			writeFile(t, p.file, text)
			p.signal(syscall.SIGHUP)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := answers(t, text(503, ""))
			p := start(t, attempts(2))
			p.awaitAttempts(u, 2)
			for n := 3; n <= 5; n++ { // more than once: a watch must outlive a rename
				change(t, p, p.fill(attempts(n)))
				p.awaitAttempts(u, n)
			}
			p.awaitReloads(3)
			p.wantMetric(0, "mulligan_config_reloads_total", "result=failure")
		})
	}
}

// A Kubernetes ConfigMap's symlink swap: mulligan.yaml -> ..data/mulligan.yaml,
// ..data -> a directory that is replaced.
func TestReloadOnSymlinkSwap(t *testing.T) {
	t.Parallel()
	u := answers(t, text(503, ""))
	p := prepare(t, "")
	dir := t.TempDir()
	put := func(version, n int) {
		name := fmt.Sprintf("..v%d", version)
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, name, "mulligan.yaml"), p.fill(attempts(n)))
		if err := os.Symlink(name, filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
		if version > 1 {
			_ = os.RemoveAll(filepath.Join(dir, fmt.Sprintf("..v%d", version-1)))
		}
	}
	put(1, 2)
	p.file = filepath.Join(dir, "mulligan.yaml")
	if err := os.Symlink(filepath.Join("..data", "mulligan.yaml"), p.file); err != nil {
		t.Fatal(err)
	}
	p.run()
	p.awaitReady("")
	p.awaitAttempts(u, 2)
	put(2, 3)
	p.awaitAttempts(u, 3)
	put(3, 4)
	p.awaitAttempts(u, 4)
}

// A bad file changes nothing and is reported; a good one after it is taken.
func TestBadReload(t *testing.T) {
	t.Parallel()
	u := answers(t, text(503, ""))
	p := start(t, attempts(2))
	writeFile(t, p.file, p.fill("defaults:\n  retry: {max_attempts: many}\n"))
	p.signal(syscall.SIGHUP)
	eventually(t, "the failure to be counted", func() bool {
		n, _ := p.metric("mulligan_config_reloads_total", "result=failure")
		return n > 0
	})
	p.says("mulligan.yaml:3:", "many")
	p.awaitAttempts(u, 2)
	want(t, "/readyz", p.ask("GET", "/readyz").Status, 200)
	p.wantMetric(0, "mulligan_config_reloads_total", "result=success")
	if err := os.Remove(p.file); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGHUP)
	p.awaitAttempts(u, 2)
	writeFile(t, p.file, p.fill(attempts(3)))
	p.awaitAttempts(u, 3)
}

// Requests in flight keep the policy they began with.
func TestRequestsInFlightKeepTheirPolicy(t *testing.T) {
	t.Parallel()
	release := make(chan bool)
	u := answers(t, func(p *peer, r *request) bool {
		if r.Target == "/slow" {
			<-release
		}
		return text(503, "")(p, r)
	})
	p := start(t, attempts(4))
	c := dial(t, p.proxy)
	c.send(head("GET", u.url("/slow")))
	eventually(t, "the first attempt", func() bool { return u.count() == 1 })
	writeFile(t, p.file, p.fill(attempts(1)))
	p.awaitAttempts(u, 1)
	close(release)
	c.next("GET").expect(t, 503, "attempts=4; stop=max_attempts; received-status=503")
}

// Budgets, and connections of unchanged upstreams, live on: a reload does not
// forgive everyone.
func TestStateLivesOn(t *testing.T) {
	t.Parallel()
	well, sick := answers(t, text(200, "")), answers(t, text(503, ""))
	config := fmt.Sprintf(burst3+"\nupstreams: {well: {hosts: [\"%s\"]}, sick: {hosts: [\"%s\"]}}\n", well.addr, sick.addr)
	p := start(t, config)
	p.get(sick.url("/")).expect(t, 503, "attempts=4; stop=max_attempts; received-status=503")
	p.get(well.url("/")).expect(t, 200, "")
	unnamed := answers(t, text(503, ""))
	p.get(unnamed.url("/")).expect(t, 503, "attempts=4; stop=max_attempts; received-status=503")
	reloads := 0.0
	reload := func(config string) {
		reloads, _ = p.metric("mulligan_config_reloads_total", "result=success")
		writeFile(t, p.file, p.fill(config))
		p.signal(syscall.SIGHUP)
		eventually(t, "the reload", func() bool {
			n, _ := p.metric("mulligan_config_reloads_total", "result=success")
			return n > reloads
		})
	}
	reload(config + "via: false\n")
	p.wantMetric(0, "mulligan_retry_budget_remaining", "upstream=sick")
	p.get(sick.url("/")).expect(t, 503, "attempts=1; stop=budget; received-status=503")
	p.get(unnamed.url("/")).expect(t, 503, "attempts=1; stop=budget; received-status=503")
	r := p.get(well.url("/"))
	r.expect(t, 200, "")
	want(t, "connections of the unchanged upstream", well.connections(), 1)
	want(t, "Via of the reloaded response", r.has("Via"), false)

	// A smaller burst takes at once; a bigger one gives no tokens.
	reload(strings.Replace(config, "2ms}}", "2ms}, budget: {burst: 50}}", 1))
	p.wantMetric(0, "mulligan_retry_budget_remaining", "upstream=sick")
	reload(strings.Replace(config, "2ms}}", "2ms}, budget: {burst: 1, ratio: 0}}", 1))
	p.wantMetric(1, "mulligan_retry_budget_remaining", "upstream=well")
}

// `listen` needs a restart, and the log says so.
func TestListenNeedsARestart(t *testing.T) {
	t.Parallel()
	u := answers(t, text(503, ""))
	p := start(t, attempts(2))
	moved := freeAddr(t)
	writeFile(t, p.file, strings.Replace(p.fill(attempts(3)), p.proxy, moved, 1))
	p.signal(syscall.SIGHUP)
	p.awaitAttempts(u, 3) // at the old address, with the rest of the new file
	p.says("restart", "listen")
	listen(t, moved).Close()
}

// Until then the door of an upstream leads where it did. It answered 421 when the
// file gave the upstream another port, or none.
func TestDoorGoesOnUntilTheRestart(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	door := freeAddr(t)
	config := func(listen, rest string) string {
		return fmt.Sprintf("upstreams: {door: {%sendpoints: [\"http://%s\"], mount: /door}}\nvia: %s\n", listen, u.addr, rest)
	}
	p := start(t, config(fmt.Sprintf("listen: %q, ", door), "true"))
	through := func() response { return dial(t, door).do("GET", "/", "") }
	through().expect(t, 200, "")
	for i, listen := range []string{fmt.Sprintf("listen: %q, ", freeAddr(t)), ""} {
		writeFile(t, p.file, p.fill(config(listen, "false")))
		p.signal(syscall.SIGHUP)
		eventually(t, "the reload", func() bool {
			n, _ := p.metric("mulligan_config_reloads_total", "result=success")
			return n >= float64(i+1)
		})
		r := through()
		r.expect(t, 200, "")
		want(t, "Via, which the new file turns off", r.has("Via"), false)
	}
	p.says("goes on until a restart")
	writeFile(t, p.file, p.fill("via: false"))
	p.signal(syscall.SIGHUP)
	eventually(t, "the upstream to be gone", func() bool { return through().Status == 421 })
}

// An upstream that comes with a reload is served and counted; one that goes is not.
func TestUpstreamsComeAndGo(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, fmt.Sprintf("upstreams: {old: {hosts: [old.test], endpoints: [\"http://%s\"]}}", u.addr))
	p.get("http://old.test/").expect(t, 200, "")
	gauges := []string{"mulligan_retry_budget_remaining", "mulligan_requests_in_flight", "mulligan_retries_waiting", "mulligan_tunnels_open"}
	for _, gauge := range gauges {
		if _, found := p.metric(gauge, "upstream=old"); !found {
			t.Errorf("no %s of the upstream", gauge)
		}
	}
	writeFile(t, p.file, p.fill(fmt.Sprintf("upstreams: {new: {hosts: [new.test], endpoints: [\"http://%s\"]}}", u.addr)))
	p.signal(syscall.SIGHUP)
	eventually(t, "the new upstream's gauge", func() bool {
		n, found := p.metric("mulligan_retry_budget_remaining", "upstream=new")
		return found && n == 3
	})
	p.get("http://new.test/").expect(t, 200, "")
	p.wantMetric(1, "mulligan_requests_total", "upstream=new", "outcome=success")
	if r := p.raw(lines("GET / HTTP/1.1", "Host: old.test")); r.Status != 421 {
		t.Errorf("the upstream that went still answers: status %d", r.Status)
	}
	for _, gauge := range gauges {
		if n, found := p.metric(gauge, "upstream=old"); found {
			t.Errorf("%s of the upstream that went is still there: %v", gauge, n)
		}
	}
}
