package blackbox

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// expectExit waits for the end and checks the status.
func (p *mulligan) expectExit(code int) {
	p.t.Helper()
	if !p.exited(patience) {
		p.t.Fatal("mulligan does not end")
	}
	want(p.t, "exit status", p.cmd.ProcessState.ExitCode(), code)
}

// refuses reports whether the address takes no connections, or ends them at once.
func refuses(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return true
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	_, _ = conn.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
	n, _ := conn.Read(make([]byte, 1))
	return n == 0
}

// Section 11: SIGTERM or SIGINT: not ready, no new connections, what is in flight
// finishes, exit 0.
func TestDrain(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			release := make(chan bool)
			u := answers(t, func(p *peer, r *request) bool {
				<-release
				return text(200, "finished")(p, r)
			})
			p := start(t, "")
			idle := dial(t, p.proxy)
			c := dial(t, p.proxy)
			c.send(head("GET", u.url("/")))
			eventually(t, "the request", func() bool { return u.count() == 1 })
			p.signal(signal)
			eventually(t, "/readyz to say 503", func() bool { return probe(p.admin, "", "/readyz") == 503 })
			want(t, "/healthz", probe(p.admin, "", "/healthz"), 200)
			eventually(t, "the proxy port to close", func() bool { return refuses(p.proxy) })
			idle.expectEnd()
			want(t, "ended with a request in flight", p.exited(100*time.Millisecond), false)
			close(release)
			r := c.next("GET")
			r.expect(t, 200, "")
			want(t, "body", r.Body, "finished")
			c.expectEnd()
			p.expectExit(0)
		})
	}
}

// Nothing in flight: the end comes at once.
func TestDrainIdle(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, "shutdown_grace: 100s")
	c := dial(t, p.proxy) // an idle keep-alive connection holds nothing up
	c.send(head("GET", u.url("/")))
	c.next("GET").expect(t, 200, "")
	p.signal(syscall.SIGTERM)
	p.expectExit(0)
}

// No new retries while draining: stop=draining, with what the attempt gave.
func TestDrainingStopsRetries(t *testing.T) {
	t.Parallel()
	release := make(chan bool)
	u := answers(t, func(p *peer, r *request) bool { <-release; return text(503, "last word")(p, r) })
	p := start(t, `defaults: {retry: {`+quick+`}}`)
	c := dial(t, p.proxy)
	c.send(head("GET", u.url("/")))
	eventually(t, "the request", func() bool { return u.count() == 1 })
	p.signal(syscall.SIGTERM)
	eventually(t, "/readyz to say 503", func() bool { return probe(p.admin, "", "/readyz") == 503 })
	eventually(t, "the proxy port to close", func() bool { return refuses(p.proxy) })
	close(release)
	r := c.next("GET")
	r.expect(t, 503, "attempts=1; stop=draining; received-status=503")
	want(t, "body", r.Body, "last word")
	p.expectExit(0)
	want(t, "attempts", u.count(), 1)
}

// A request that waits for its retry gets its answer now.
func TestDrainingEndsWaits(t *testing.T) {
	t.Parallel()
	u := answers(t, text(503, "so far"))
	p := start(t, `
log: {format: json}
defaults: {retry: {backoff: {strategy: constant, initial_delay: 100s, max_delay: 100s, jitter: none}}}
`)
	c := dial(t, p.proxy)
	c.send(head("GET", u.url("/")))
	p.wantMetric(1, "mulligan_retries_waiting")
	p.signal(syscall.SIGTERM)
	r := c.next("GET")
	r.expect(t, 503, "attempts=1; stop=draining; received-status=503")
	want(t, "body", r.Body, "so far")
	p.expectExit(0)
	want(t, "attempts", u.count(), 1)
	waits := p.waits(t)
	if len(waits) != 1 || waits[0] <= 0 || waits[0] > 3*patience {
		t.Errorf("the log has the waits %v, of 100 s that were cut short", waits)
	}
}

// waits are the waits after the first attempts of the requests in the log.
func (p *mulligan) waits(t *testing.T) (list []time.Duration) {
	t.Helper()
	for _, entry := range p.entries(t) {
		attempts, _ := entry["attempts"].(map[string]any)
		first, _ := attempts["1"].(map[string]any)
		text, _ := first["wait"].(string)
		wait, err := time.ParseDuration(text)
		if err != nil {
			t.Errorf("no attempts.1.wait in %v: %v", entry, err)
		}
		list = append(list, wait)
	}
	return list
}

// shutdown_delay: keep serving, but not ready, for so long.
func TestShutdownDelay(t *testing.T) {
	t.Parallel()
	u := answers(t, text(503, ""), text(200, "still"))
	p := start(t, "shutdown_delay: 6s\ndefaults: {retry: {"+quick+"}}")
	begun := time.Now()
	p.signal(syscall.SIGTERM)
	eventually(t, "/readyz to say 503", func() bool { return probe(p.admin, "", "/readyz") == 503 })
	r := p.get(u.url("/"))
	if r.Status != 200 && time.Since(begun) < 5*time.Second {
		t.Errorf("a request within shutdown_delay: status %d (%v)", r.Status, r.Broken)
	}
	p.expectExit(0)
	if spent := time.Since(begun); spent < 5900*time.Millisecond {
		t.Errorf("ended after %v, before shutdown_delay", spent)
	}
}

// shutdown_grace bounds the waiting for what is in flight, tunnels included.
func TestShutdownGrace(t *testing.T) {
	t.Parallel()
	u := answers(t, hang)
	plain := serve(t, func(p *peer) { p.write("x"); p.ended() })
	p := start(t, "shutdown_grace: 500ms")
	c := dial(t, p.proxy)
	c.send(head("GET", u.url("/")))
	eventually(t, "the request", func() bool { return u.count() == 1 })
	tunnel := p.connect(plain.addr)
	expectBytes(t, "through the tunnel", tunnel.r, "x")
	begun := time.Now()
	p.signal(syscall.SIGTERM)
	p.expectExit(0)
	if spent := time.Since(begun); spent < 450*time.Millisecond {
		t.Errorf("ended after %v, before shutdown_grace", spent)
	}
	tunnel.expectEnd()
}

// The shutdown_grace that holds is that of the last reload.
func TestShutdownGraceOfTheLastReload(t *testing.T) {
	t.Parallel()
	u := answers(t, hang)
	p := start(t, "shutdown_grace: 10m")
	c := dial(t, p.proxy)
	c.send(head("GET", u.url("/")))
	eventually(t, "the request", func() bool { return u.count() == 1 })
	writeFile(t, p.file, p.fill("shutdown_grace: 50ms"))
	p.signal(syscall.SIGHUP)
	eventually(t, "the reload", func() bool {
		n, _ := p.metric("mulligan_config_reloads_total", "result=success")
		return n > 0
	})
	p.signal(syscall.SIGTERM)
	p.expectExit(0)
	contains(t, "the log", p.log.String(), "shutdown_grace=50ms")
}

// Tunnels in flight are waited for.
func TestDrainWaitsForTunnels(t *testing.T) {
	t.Parallel()
	u := serve(t, func(p *peer) {
		line, _ := p.r.ReadString('\n')
		p.write("echo " + line)
	})
	p := start(t, "")
	c := p.connect(u.addr)
	p.signal(syscall.SIGTERM)
	eventually(t, "the proxy port to close", func() bool { return refuses(p.proxy) })
	c.send("SSH after the signal\n")
	expectBytes(t, "through the tunnel", c.r, "echo SSH after the signal\n")
	c.Close()
	p.expectExit(0)
}

// A second signal ends at once.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	u := answers(t, hang)
	p := start(t, "shutdown_grace: 100s")
	c := dial(t, p.proxy)
	c.send(head("GET", u.url("/")))
	eventually(t, "the request", func() bool { return u.count() == 1 })
	p.signal(syscall.SIGTERM)
	eventually(t, "/readyz to say 503", func() bool { return probe(p.admin, "", "/readyz") == 503 })
	want(t, "ended after the first signal", p.exited(200*time.Millisecond), false)
	p.signal(syscall.SIGTERM)
	if !p.exited(patience) {
		t.Fatal("a second signal did not end it")
	}
}

// The listening line says where; the end says nothing that looks like an error.
func TestLifeInTheLog(t *testing.T) {
	t.Parallel()
	p := start(t, "")
	eventually(t, "the listening line", func() bool {
		return strings.Contains(p.log.String(), p.proxy) && strings.Contains(p.log.String(), p.admin)
	})
	p.signal(syscall.SIGTERM)
	p.expectExit(0)
	if text := strings.ToLower(p.log.String()); strings.Contains(text, "level=error") || strings.Contains(text, "level=warn") {
		t.Errorf("an ordinary life in the log:\n%s", p.log.String())
	}
	if n := strings.Count(p.log.String(), "\n"); n > 20 {
		t.Errorf("%d lines for an idle life: %s", n, fmt.Sprint(p.log.String()))
	}
}

// What is cut off is not to look whole: a body that ends with the connection
// ended with a FIN where shutdown_grace was over, or a second signal came.
func TestCutOffIsAReset(t *testing.T) {
	t.Parallel()
	for name, signals := range map[string]int{"grace": 1, "second signal": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := answers(t, func(p *peer, _ *request) bool {
				p.write("HTTP/1.1 200 OK\r\n\r\nthe first part")
				p.ended()
				return false
			})
			grace := "shutdown_grace: 300ms"
			if signals == 2 {
				grace = "shutdown_grace: 1m"
			}
			p := start(t, grace)
			c := dial(t, p.proxy)
			c.send(lines("GET "+u.url("/")+" HTTP/1.0", "Host: x"))
			want(t, "status", c.head().Status, 200)
			if _, err := c.r.Peek(len("the first part")); err != nil {
				t.Fatal(err)
			}
			p.signal(syscall.SIGTERM)
			if signals == 2 {
				eventually(t, "/readyz to say 503", func() bool { return probe(p.admin, "", "/readyz") == 503 })
				p.signal(syscall.SIGTERM)
			}
			_ = c.SetReadDeadline(time.Now().Add(patience))
			if rest, err := io.ReadAll(c.r); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("%q and %v, want a reset", rest, err)
			}
		})
	}
}
