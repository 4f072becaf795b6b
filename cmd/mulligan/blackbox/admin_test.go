package blackbox

import (
	"net"
	"strings"
	"testing"
)

// askHost asks the admin port under a Host.
func (p *mulligan) askHost(method, path, host string, fields ...string) response {
	p.t.Helper()
	c := dial(p.t, p.admin)
	defer c.Close()
	c.send(lines(method+" "+path+" HTTP/1.1", append([]string{"Host: " + host, "Connection: close"}, fields...)...))
	return c.final(method)
}

// Section 8: the admin port answers to IP literals, localhost and admin_hosts.
func TestAdminHosts(t *testing.T) {
	t.Parallel()
	p := start(t, `
listen: {proxy: "@PROXY@", admin: "@ADMIN@", admin_hosts: [mulligan.internal]}
`)
	_, port, _ := net.SplitHostPort(p.admin)
	for _, path := range []string{"/", "/metrics", "/healthz"} {
		for _, host := range []string{"127.0.0.1", "127.0.0.1:" + port, "[::1]:" + port, "[::1]", "10.1.2.3", "localhost", "localhost:" + port, "LocalHost", "mulligan.internal", "Mulligan.Internal:" + port} {
			want(t, path+" as "+host, p.askHost("GET", path, host).Status, 200)
		}
		for _, host := range []string{"evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "mulligan.internal.evil.example", "xlocalhost"} {
			want(t, path+" as "+host, p.askHost("GET", path, host).Status, 421)
		}
	}
}

// It refuses cross-origin writes.
func TestAdminCrossOrigin(t *testing.T) {
	t.Parallel()
	p := start(t, "")
	for _, field := range []string{"Origin: http://evil.example", "Origin: null", "Sec-Fetch-Site: cross-site"} {
		want(t, "POST with "+field, p.askHost("POST", "/", p.admin, field, "Content-Length: 0").Status, 403)
	}
	if status := p.askHost("POST", "/", p.admin, "Origin: http://"+p.admin, "Content-Length: 0").Status; status == 403 {
		t.Errorf("a write of its own origin was refused")
	}
	want(t, "GET with a foreign Origin", p.askHost("GET", "/healthz", p.admin, "Origin: http://evil.example").Status, 200)
}

// Beyond loopback it serves without auth only metrics and health.
func TestAdminBeyondLoopback(t *testing.T) {
	t.Parallel()
	p := prepare(t, "")
	_, port, _ := net.SplitHostPort(p.admin)
	writeFile(t, p.file, strings.ReplaceAll(p.fill("listen: {proxy: \"@PROXY@\", admin: \"0.0.0.0:@PORT@\", allow_clients: [127.0.0.0/8]}\n"), "@PORT@", port))
	p.run()
	p.awaitReady("")
	for _, path := range []string{"/metrics", "/healthz", "/readyz"} {
		want(t, path, p.ask("GET", path).Status, 200)
	}
	if status := p.ask("GET", "/").Status; status != 401 && status != 403 && status != 404 {
		t.Errorf("/ beyond loopback without auth: status %d", status)
	}
}

// Health and readiness, and an index for who looks.
func TestAdminPaths(t *testing.T) {
	t.Parallel()
	p := start(t, "")
	for path, status := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 200, "/": 200, "/no-such-page": 404} {
		want(t, path, p.ask("GET", path).Status, status)
	}
	want(t, "HEAD /healthz", p.ask("HEAD", "/healthz").Status, 200)
	contains(t, "/metrics", p.ask("GET", "/metrics").Body, "# TYPE mulligan_requests_total counter", "go_goroutines", "process_open_fds")
}
