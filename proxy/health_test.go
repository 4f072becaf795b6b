package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mulligan/metrics"
	"mulligan/policy"
	"mulligan/proxy"
)

// patient is an endpoint, "up:80", that is checked, in virtual time.
type patient struct {
	*testing.T
	srv *proxy.Server
	net *memNet
	reg *prometheus.Registry
	log syncBuffer

	mu     sync.Mutex
	status int // of its answers; 0: none comes
	heads  []string
	at     []time.Time
	open   int
}

const checkEach = 10 * time.Second

func checked() *policy.Upstream {
	u := upstream("up")
	u.Hosts = []policy.HostPattern{{Name: "up"}}
	u.Endpoints = []policy.Endpoint{{Scheme: "http", Host: "up", Port: 80, Path: "/base"}}
	u.HealthCheck = policy.HealthCheck{Path: "/healthz?deep=1", Interval: checkEach, Timeout: 2 * time.Second, UnhealthyAfter: 2, HealthyAfter: 3}
	return u
}

// inWard runs f with a patient that listens at the address and answers with 200.
func inWard(t *testing.T, s *proxy.Settings, address string, f func(p *patient)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &patient{T: t, net: newMemNet(), reg: prometheus.NewRegistry(), status: 200}
		ln, _ := p.net.Listen("", address)
		defer ln.Close()
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				go p.serve(c)
			}
		}()
		srv, err := proxy.New(proxy.Options{
			Proxy: "proxy:1", Metrics: metrics.New(p.reg), Log: slog.New(slog.NewTextHandler(&p.log, nil)), Listen: p.net.Listen, Dial: p.net.Dial,
		}, s)
		if err != nil {
			t.Fatal(err)
		}
		p.srv = srv
		defer srv.Close()
		f(p)
	})
}

// serve takes one check.
func (p *patient) serve(c net.Conn) {
	p.count(1)
	defer p.count(-1)
	defer c.Close()
	r := bufio.NewReader(c)
	head := readHead(r)
	p.mu.Lock()
	p.heads, p.at = append(p.heads, head), append(p.at, time.Now())
	status := p.status
	p.mu.Unlock()
	if status != 0 {
		fmt.Fprintf(c, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 %d Whatever\r\nContent-Length: 1000\r\n\r\n", status)
	}
	io.Copy(io.Discard, r) // until the other side ends it
}

func (p *patient) count(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open += n
}

func (p *patient) answer(status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status = status
}

// checks returns how many there have been.
func (p *patient) checks() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.heads)
}

// after waits for n checks more, and compares the verdict.
func (p *patient) after(n int, unhealthy bool) {
	p.Helper()
	want := p.checks() + n
	for end := time.Now().Add(time.Duration(n+1) * 2 * checkEach); p.checks() < want; time.Sleep(time.Second) {
		if time.Now().After(end) {
			p.Fatal("no check")
		}
	}
	time.Sleep(3 * time.Second) // longer than one may take, shorter than until the next
	if p.checks() != want {
		p.Fatal("checks come too often")
	}
	p.is(unhealthy)
}

func (p *patient) is(unhealthy bool) {
	p.Helper()
	if got := p.srv.Unhealthy("up"); got[0] != unhealthy {
		p.Errorf("unhealthy is %v", got)
	}
}

// head returns what check i looked like, and time when it came.
func (p *patient) head(i int) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heads[i]
}

func (p *patient) time(i int) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at[i]
}

// left returns how many connections are open.
func (p *patient) left() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open
}

// reload takes an upstream's new settings.
func (p *patient) reload(u *policy.Upstream) {
	p.Helper()
	if err := p.srv.Reload(settings(u)); err != nil {
		p.Fatal(err)
	}
}

func TestHealthChecks(t *testing.T) {
	inWard(t, settings(checked()), "up:80", func(p *patient) {
		time.Sleep(time.Minute)
		if p.checks() > 0 {
			p.Error("checked before the start")
		}
		p.srv.Start()
		time.Sleep(time.Second)
		if p.checks() != 1 {
			p.Error("no check at the start")
		}
		p.is(false)
		p.answer(503)
		p.after(1, false)
		p.after(1, true)
		p.answer(302)
		p.after(2, true)
		p.after(1, false)
		p.answer(404)
		p.after(2, true)
		p.answer(200)
		p.after(2, true)
		p.answer(0)
		p.after(1, true)
		p.answer(399)
		p.after(3, false)
		for i := range p.checks() - 1 {
			if took := p.time(i + 1).Sub(p.time(i)); took < checkEach*9/10 || took > checkEach*11/10 {
				p.Errorf("check %d came after %v", i+1, took)
			}
		}
		if n := p.left(); n != 0 {
			p.Errorf("%d connections are left", n)
		}
		if n := counter(p.T, p.reg, "mulligan_attempts_total") + counter(p.T, p.reg, "mulligan_requests_total"); n != 0 {
			p.Error("checks are counted as requests")
		}
		head := p.head(0)
		for _, line := range []string{
			"GET /base/healthz?deep=1 HTTP/1.1\r\n", "\r\nHost: up\r\n", "\r\nUser-Agent: mulligan-health-check\r\n",
			"\r\nVia: 1.1 mulligan-", "\r\nConnection: close\r\n",
		} {
			if !strings.Contains(head, line) {
				p.Errorf("no %q in %q", line, head)
			}
		}
		for line, n := range map[string]int{
			`level=WARN msg="an endpoint fails its health checks, and is skipped where there is another" upstream=up endpoint=http://up/base from=healthy to=unhealthy reason="answered with 503"`: 1,
			`reason="answered with 404"`: 1,
			`level=INFO msg="an endpoint is well again" upstream=up endpoint=http://up/base from=unhealthy to=healthy`: 2,
		} {
			if got := strings.Count(p.log.String(), line); got != n {
				p.Errorf("%d times %s in\n%s", got, line, p.log.String())
			}
		}
	})
}

// TestHealthOfTheUnreachable: no connection and no answer are failures too, with the
// reason in the log.
func TestHealthOfTheUnreachable(t *testing.T) {
	for reason, row := range map[string]struct {
		address string
		status  int
	}{
		`reason="the connection broke off while it was made"`: {"elsewhere:80", 200},
		`reason="no response in time"`:                        {"up:80", 0},
	} {
		inWard(t, settings(checked()), row.address, func(p *patient) {
			p.answer(row.status)
			p.srv.Start()
			time.Sleep(checkEach / 2)
			p.is(false)
			time.Sleep(checkEach)
			p.is(true)
			if log := p.log.String(); !strings.Contains(log, reason) {
				p.Error(log)
			}
			if n := p.left(); n != 0 {
				p.Errorf("%d connections are left", n)
			}
		})
	}
}

// TestHealthOverReloads: what is checked as before goes on, with its verdict and at
// its pace; what is checked otherwise is looked at soon; what is not is let be.
func TestHealthOverReloads(t *testing.T) {
	inWard(t, settings(checked()), "up:80", func(p *patient) {
		p.answer(500)
		p.srv.Start()
		p.after(2, true)
		before := p.checks()
		p.reload(checked())
		p.is(true)
		time.Sleep(2 * time.Second)
		if p.checks() != before {
			p.Error("an unchanged check began anew")
		}
		other := checked()
		other.HealthCheck.Path = "/other"
		p.answer(200)
		p.reload(other)
		p.is(true)
		time.Sleep(2 * time.Second)
		if p.checks() != before+1 || !strings.HasPrefix(p.head(before), "GET /base/other ") {
			p.Error("a changed check did not begin anew")
		}
		p.after(1, true)
		p.after(1, false)
		p.answer(500)
		p.after(2, true)
		more := checked()
		more.HealthCheck = other.HealthCheck
		more.Endpoints = append(more.Endpoints, policy.Endpoint{Scheme: "http", Host: "elsewhere", Port: 80})
		p.reload(more)
		if got := fmt.Sprint(p.srv.Unhealthy("up")); got != "[true false]" {
			p.Error(got)
		}
		time.Sleep(2 * checkEach)
		if got := fmt.Sprint(p.srv.Unhealthy("up")); got != "[true true]" {
			p.Error(got)
		}
		none := checked()
		none.HealthCheck = policy.HealthCheck{}
		p.reload(none)
		p.is(false)
		before = p.checks()
		time.Sleep(time.Hour)
		if p.checks() != before {
			p.Error("what is not to be checked is")
		}
		p.reload(checked())
		p.is(false)
		p.after(2, true)
	})
}

// TestShutdownEndsChecks: those under way too, at once, and no reload begins more.
func TestShutdownEndsChecks(t *testing.T) {
	u := checked()
	u.HealthCheck.UnhealthyAfter = 1
	inWard(t, settings(u), "up:80", func(p *patient) {
		p.answer(0)
		p.srv.Start()
		time.Sleep(1100 * time.Millisecond)
		began := time.Now()
		p.srv.Close()
		if took := time.Since(began); p.checks() != 1 || took > 0 {
			p.Errorf("%d checks, took %v", p.checks(), took)
		}
		more := checked()
		more.Endpoints = append(more.Endpoints, policy.Endpoint{Scheme: "http", Host: "up", Port: 80})
		p.reload(more)
		time.Sleep(checkEach)
		p.srv.Close()
		if p.checks() != 1 || p.left() != 0 {
			p.Errorf("%d checks, %d connections", p.checks(), p.left())
		}
		if log := p.log.String(); strings.Contains(log, "unhealthy") {
			p.Error(log)
		}
	})
}

// TestHealthThroughAParent: as requests are, a check is sent through a parent proxy.
func TestHealthThroughAParent(t *testing.T) {
	s := settings(checked())
	s.ParentProxy = &url.URL{Scheme: "http", Host: "parent:3128", User: url.UserPassword("u", "p")}
	inWard(t, s, "parent:3128", func(p *patient) {
		p.srv.Start()
		p.after(1, false)
		if head := p.head(0); !strings.HasPrefix(head, "GET http://up:80/base/healthz?deep=1 HTTP/1.1\r\nHost: up\r\n") || !strings.Contains(head, "\r\nProxy-Authorization: Basic dTpw\r\n") {
			p.Error(head)
		}
	})
}

// TestHealthOverTLS: a check speaks as requests do, HTTP/2 too, and trusts whom they
// trust.
func TestHealthOverTLS(t *testing.T) {
	for _, trusted := range []bool{true, false} {
		first, _, port := twoReplicas(t)
		u := serveTLS(t, port, first)
		u.Name, u.Endpoints[0].Host = "up", "127.0.0.1"
		u.HealthCheck = policy.HealthCheck{Path: "/", Interval: 50 * time.Millisecond, Timeout: 20 * time.Second, UnhealthyAfter: 1, HealthyAfter: 1}
		if !trusted {
			u.TLS.CAFile = ""
		}
		var log syncBuffer
		srv, _ := startWith(t, settings(u), nil, &log)
		if trusted {
			if !eventually(func() bool { return first.requests.Load() >= 3 }) || srv.Unhealthy("up")[0] {
				t.Error("no checks, or bad ones: ", log.String())
			}
			if got := first.protocol.Load(); got != "HTTP/2.0" {
				t.Error(got)
			}
		} else if !eventually(func() bool { return srv.Unhealthy("up")[0] }) || first.requests.Load() > 0 {
			t.Error("checked without trust")
		}
		srv.Close()
		if !eventually(func() bool { return first.closed.Load() == first.opened.Load() }) {
			t.Errorf("%d of %d connections were closed", first.closed.Load(), first.opened.Load())
		}
	}
}
