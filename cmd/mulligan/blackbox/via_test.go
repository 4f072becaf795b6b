package blackbox

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

var viaPattern = regexp.MustCompile(`^1\.1 mulligan-([0-9a-f]{8})$`)

// Section 7: Via is added once to requests and once to responses, and names
// this instance by 8 hex digits.
func TestVia(t *testing.T) {
	t.Parallel()
	u := answers(t, text(503, ""), text(200, ""))
	p := start(t, `defaults: {retry: {`+quick+`}}`)
	r := p.get(u.url("/"))
	ids := map[string]bool{}
	for name, values := range map[string][]string{"request": u.request(1).all("Via"), "retry": u.request(2).all("Via"), "response": r.all("Via")} {
		if len(values) != 1 || !viaPattern.MatchString(values[0]) {
			t.Errorf("Via of the %s: %q, want one of 1.1 mulligan-ID", name, values)
			continue
		}
		ids[values[0]] = true
	}
	want(t, "names of one instance", len(ids), 1)
	other := start(t, "")
	if again := other.get(u.url("/")).get("Via"); ids[again] {
		t.Errorf("two instances share the name %q", again)
	}
}

// What other proxies wrote stays in front, both ways.
func TestViaIsAppended(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, "", "Via: 1.0 origin-side", "Via: 1.1 another"))
	p := start(t, "")
	r := p.get(u.url("/"), "Via: 1.0 fred, 1.1 p.example.net (squid)")
	for name, all := range map[string]string{
		"1.0 fred, 1.1 p.example.net (squid), ": strings.Join(u.request(1).all("Via"), ", "),
		"1.0 origin-side, 1.1 another, ":        strings.Join(r.all("Via"), ", "),
	} {
		rest, ok := strings.CutPrefix(all, name)
		if !ok || !viaPattern.MatchString(rest) {
			t.Errorf("Via %q, want %q and ours", all, name)
		}
	}
}

// via: false: none on responses, still one on requests.
func TestViaOff(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, "", "Via: 1.1 another"))
	p := start(t, "via: false")
	r := p.get(u.url("/"))
	want(t, "Via of the response", strings.Join(r.all("Via"), ", "), "1.1 another")
	if got := u.request(1).all("Via"); len(got) != 1 || !viaPattern.MatchString(got[0]) {
		t.Errorf("Via of the request: %q", got)
	}
}

// A request that came through another mulligan is tried once here.
func TestNested(t *testing.T) {
	t.Parallel()
	p := start(t, `defaults: {retry: {`+quick+`}}`)
	for _, via := range []string{"1.1 mulligan-0badcafe", "1.0 fred, 1.1 mulligan-0badcafe", "1.1 mulligan-0badcafe (x), 1.1 other", "HTTP/1.1 mulligan-0badcafe", "2 mulligan-0badcafe", "1.1\tmulligan-0badcafe"} {
		u := answers(t, text(503, ""))
		p.get(u.url("/"), "Via: "+via).expect(t, 503, "attempts=1; stop=nested; received-status=503")
		want(t, "attempts for Via "+via, u.count(), 1)
	}
	u := answers(t, text(503, ""))
	p.get(u.url("/"), "Via: 1.0 fred", "Via: 1.1 mulligan-0badcafe").expect(t, 503, "attempts=1; stop=nested; received-status=503")
	for _, via := range []string{"1.1 mulligan.example.net", "1.1 fred (mulligan-0badcafe)", "1.1 xmulligan-0badcafe"} {
		u := answers(t, text(503, ""), text(200, ""))
		p.get(u.url("/"), "Via: "+via).expect(t, 200, "attempts=2; stop=success; received-status=200")
	}
	u = answers(t, text(200, ""))
	p.get(u.url("/"), "Via: 1.1 mulligan-0badcafe").expect(t, 200, "")
}

// retry.nested: true retries even so.
func TestNestedAllowed(t *testing.T) {
	t.Parallel()
	u := answers(t, text(503, ""), text(200, ""))
	p := start(t, `defaults: {retry: {nested: true, `+quick+`}}`)
	p.get(u.url("/"), "Via: 1.1 mulligan-0badcafe").expect(t, 200, "attempts=2; stop=success; received-status=200")
}

// One that came through this instance is a loop.
func TestLoopByVia(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, "")
	mine := p.get(u.url("/")).get("Via")
	r := p.get(u.url("/"), "Via: "+mine)
	r.expectProblem(t, 502, "error=proxy_loop_detected")
	p.get(u.url("/"), "Via: 1.0 a, "+mine+", 1.1 b").expectProblem(t, 502, "error=proxy_loop_detected")
	want(t, "requests seen", u.count(), 1)
}

// Two instances that send to each other notice it, though each has only one
// endpoint and neither is the other's listener.
func TestLoopOfTwo(t *testing.T) {
	t.Parallel()
	one, two := freeAddr(t), freeAddr(t)
	config := `
listen: {proxy: "%s", admin: "@ADMIN@"}
defaults: {retry: {` + quick + `}}
upstreams: {peer: {hosts: [loop.internal], endpoints: ["http://%s"], preserve_host: true}}
`
	start(t, fmt.Sprintf(config, one, two))
	start(t, fmt.Sprintf(config, two, one))
	c := dial(t, one)
	c.send(lines("GET / HTTP/1.1", "Host: loop.internal"))
	r := c.next("GET")
	want(t, "status", r.Status, 502)
	contains(t, "Proxy-Status", strings.Join(r.all("Proxy-Status"), ", "), "proxy_loop_detected")
}

// Chained mulligans do not multiply: attempts of the outer one only, through
// parent_proxy, which the proxy's own dials go through.
func TestChain(t *testing.T) {
	t.Parallel()
	u := answers(t, text(503, ""))
	inner := start(t, `defaults: {retry: {`+quick+`}}`)
	outer := start(t, fmt.Sprintf("parent_proxy: http://%s\ndefaults: {retry: {%s}}", inner.proxy, quick))
	outer.get(u.url("/")).expect(t, 503, "attempts=4; stop=max_attempts; received-status=503")
	want(t, "attempts seen", u.count(), 4)
	got := u.request(1)
	all := strings.Split(strings.Join(got.all("Via"), ", "), ", ")
	want(t, "Via entries", len(all), 2)
}

// Through parent_proxy a tunnel goes as a tunnel.
func TestParentProxyTunnel(t *testing.T) {
	t.Parallel()
	u := serve(t, func(p *peer) { p.write("through both"); p.ended() })
	inner := start(t, "")
	outer := start(t, "parent_proxy: http://"+inner.proxy)
	c := outer.connect(u.addr)
	expectBytes(t, "through two proxies", c.r, "through both")
	inner.wantMetric(1, "mulligan_tunnels_total", "result=established")
}
