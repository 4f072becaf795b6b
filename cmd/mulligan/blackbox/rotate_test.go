package blackbox

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// A reload that moves an endpoint sends what comes next to the new place.
func TestReloadMovesAnEndpoint(t *testing.T) {
	t.Parallel()
	old, moved := answers(t, text(200, "old")), answers(t, text(200, "moved"))
	config := "upstreams: {m: {hosts: [m.internal], endpoints: [\"http://%s\"]}}"
	p := start(t, fmt.Sprintf(config, old.addr))
	c := dial(t, p.proxy) // the same client connection before and after
	want(t, "before", c.do("GET", "http://m.internal/", "").Body, "old")
	writeFile(t, p.file, p.fill(fmt.Sprintf(config, moved.addr)))
	p.signal(syscall.SIGHUP)
	p.awaitReloads(1)
	want(t, "after", c.do("GET", "http://m.internal/", "").Body, "moved")
	want(t, "a new client after", p.get("http://m.internal/").Body, "moved")
	want(t, "requests at the old place", old.count(), 1)
}

// A rotated CA file is read anew on SIGHUP.
func TestReloadReadsCertificatesAnew(t *testing.T) {
	t.Parallel()
	right, wrong := newAuthority(t), newAuthority(t)
	u := right.upstreamWith(t, rightConfig(right), text(200, "trusted"))
	root := readFile(t, right.file)
	writeFile(t, right.file, readFile(t, wrong.file))
	p := start(t, right.config("s.internal", u.addr, ""))
	p.get("http://s.internal/").expectProblem(t, 502, "attempts=1; stop=permanent; error=tls_certificate_error")
	writeFile(t, right.file, root)
	p.signal(syscall.SIGHUP)
	eventually(t, "the new root to be trusted", func() bool { return p.get("http://s.internal/").Status == 200 })
}

// DNS names of endpoints are looked up anew for each connection; localhost is
// the one name that every machine has.
func TestEndpointByName(t *testing.T) {
	t.Parallel()
	u := answers(t, text(503, ""), text(200, "by name"))
	p := start(t, fmt.Sprintf("defaults: {retry: {%s}}\nupstreams: {n: {hosts: [n.internal], endpoints: [\"http://localhost:%d\"]}}", quick, u.port()))
	begun := time.Now()
	r := p.get("http://n.internal/")
	r.expect(t, 200, "attempts=2; stop=success; received-status=200")
	want(t, "Host", u.request(1).get("Host"), fmt.Sprintf("localhost:%d", u.port()))
	if time.Since(begun) > patience {
		t.Errorf("localhost took %v", time.Since(begun))
	}
}
