package blackbox

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
)

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

const authConfig = `
listen: {proxy: "@PROXY@", admin: "@ADMIN@", auth: {username: u, password: "${PROXY_PASSWORD}"}}
`

var authEnv = launch{env: []string{"PROXY_PASSWORD=s3cr3t: pw"}}

// Section 3: absolute-form and CONNECT need the credentials, else 407; they are
// not forwarded, and not in the log.
func TestProxyAuth(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, "in"))
	p := start(t, authConfig+fmt.Sprintf(`upstreams: {m: {mount: /m, hosts: [m.internal], endpoints: ["http://%s"]}}`, u.addr), authEnv)
	good := "Proxy-Authorization: " + basic("u", "s3cr3t: pw")
	for name, fields := range map[string][]string{
		"none":            nil,
		"wrong password":  {"Proxy-Authorization: " + basic("u", "other")},
		"wrong user":      {"Proxy-Authorization: " + basic("v", "s3cr3t: pw")},
		"prefix":          {"Proxy-Authorization: " + basic("u", "s3cr3t")},
		"other scheme":    {"Proxy-Authorization: Bearer s3cr3t"},
		"not base64":      {"Proxy-Authorization: Basic ***"},
		"the other field": {"Authorization: " + basic("u", "s3cr3t: pw")},
		"empty":           {"Proxy-Authorization: "},
	} {
		r := p.get(u.url("/"), fields...)
		r.expectProblem(t, 407, "attempts=0; stop=permanent")
		if !strings.HasPrefix(strings.ToLower(r.get("Proxy-Authenticate")), "basic realm=") {
			t.Errorf("%s: Proxy-Authenticate %q", name, r.get("Proxy-Authenticate"))
		}
		c := dial(t, p.proxy)
		c.send(lines("CONNECT "+u.addr+" HTTP/1.1", append([]string{"Host: " + u.addr}, fields...)...))
		c.next("CONNECT").expectProblem(t, 407, "attempts=0; stop=permanent")
		c.Close()
	}
	want(t, "connections", u.connections(), 0)

	p.get(u.url("/"), good).expect(t, 200, "")
	p.get(u.url("/"), strings.Replace(good, "Basic", "bAsIc", 1)).expect(t, 200, "")
	c := dial(t, p.proxy)
	c.send(lines("CONNECT "+u.addr+" HTTP/1.1", "Host: "+u.addr, good))
	want(t, "CONNECT with credentials", c.next("CONNECT").Status, 200)
	c.send(lines("GET / HTTP/1.1", "Host: "+u.addr)) // requests inside need none of their own
	want(t, "a request inside", c.next("GET").Status, 200)
	p.raw(lines("GET /m/ HTTP/1.1", "Host: h")).expect(t, 200, "") // reverse doors are not the forward proxy's
	for n := 1; n <= u.count(); n++ {
		if got := u.request(n); got.has("Proxy-Authorization") {
			t.Errorf("Proxy-Authorization was forwarded: %q", got.Head)
		}
	}
	for _, secret := range []string{"s3cr3t", basic("u", "s3cr3t: pw")[6:]} {
		if strings.Contains(p.log.String(), secret) {
			t.Errorf("the log has the credentials")
		}
	}
}

// After a 407 the connection goes on, as clients that answer the challenge need.
func TestProxyAuthOnTheSameConnection(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, "in"))
	p := start(t, authConfig, authEnv)
	c := dial(t, p.proxy)
	c.send(head("GET", u.url("/")))
	r := c.next("GET")
	want(t, "first status", r.Status, 407)
	if strings.EqualFold(r.get("Connection"), "close") {
		return
	}
	c.send(head("GET", u.url("/"), "Proxy-Authorization: "+basic("u", "s3cr3t: pw")))
	want(t, "second status", c.next("GET").Status, 200)
}

// The admin port beyond health and metrics: 401.
func TestAdminAuth(t *testing.T) {
	t.Parallel()
	p := start(t, authConfig, authEnv)
	for _, path := range []string{"/metrics", "/healthz", "/readyz"} {
		want(t, path, p.ask("GET", path).Status, 200)
	}
	r := p.ask("GET", "/")
	want(t, "/ without credentials", r.Status, 401)
	if !strings.HasPrefix(strings.ToLower(r.get("WWW-Authenticate")), "basic") {
		t.Errorf("WWW-Authenticate %q", r.get("WWW-Authenticate"))
	}
	want(t, "/ with wrong ones", p.ask("GET", "/", "Authorization: "+basic("u", "x")).Status, 401)
	want(t, "/ with credentials", p.ask("GET", "/", "Authorization: "+basic("u", "s3cr3t: pw")).Status, 200)
}

// allow_clients: who is not on the list gets nothing, on the proxy port, ...
func TestAllowClients(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, `
listen: {proxy: "@PROXY@", admin: "@ADMIN@", allow_clients: [127.0.0.2/32]}
`, launch{from: "127.0.0.2"})
	c := dialFrom(t, "127.0.0.2", p.proxy)
	c.send(head("GET", u.url("/")))
	want(t, "status for a listed client", c.next("GET").Status, 200)
	c = dialFrom(t, "127.0.0.3", p.proxy)
	c.send(head("GET", u.url("/")))
	if r := c.next("GET"); r.Status != 0 && r.Status != 403 {
		t.Errorf("status %d for a client that is not listed", r.Status)
	}
	want(t, "requests", u.count(), 1)
}

// ... and on a reverse upstream's own port.
func TestAllowClientsOnReverseDoors(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	door := freeAddr(t)
	start(t, fmt.Sprintf(`
listen: {proxy: "@PROXY@", admin: "@ADMIN@", allow_clients: [127.0.0.2/32]}
upstreams: {o: {listen: "%s", endpoints: ["http://%s"]}}
`, door, u.addr), launch{from: "127.0.0.2"})
	c := dialFrom(t, "127.0.0.2", door)
	c.send(lines("GET / HTTP/1.1", "Host: h"))
	want(t, "status for a listed client", c.next("GET").Status, 200)
	c = dialFrom(t, "127.0.0.3", door)
	c.send(lines("GET / HTTP/1.1", "Host: h"))
	if r := c.next("GET"); r.Status != 0 && r.Status != 403 {
		t.Errorf("status %d for a client that is not listed", r.Status)
	}
	want(t, "requests", u.count(), 1)
}
