package blackbox

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
)

// What explain says is what serve then does. Each of these was once a place where
// it was not.

// explained runs explain with the configuration of a running mulligan.
func explained(t *testing.T, p *mulligan, env []string, args ...string) string {
	t.Helper()
	code, stdout, stderr := commandIn(t, t.TempDir(), env, append([]string{"explain", "--config", p.file}, args...)...)
	if code != 0 {
		t.Errorf("explain %q: exit status %d\n%s", args, code, stderr)
	}
	return stdout
}

func lacks(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(text, part) {
			t.Errorf("%s says %q:\n%s", what, part, tail(text, 3000))
		}
	}
}

// A body too long to be kept is no hindrance where nothing of it was sent.
func TestExplainLongBodyOfWhichNothingWasSent(t *testing.T) {
	t.Parallel()
	nobody := "http://" + closedAddr(t) + "/"
	for _, row := range []struct {
		method, config string
		length         int
	}{
		{"POST", "", 2 << 20},
		{"PUT", "buffer: {request: 1KiB}, ", 2048},
		{"DELETE", "buffer: {request: 0B}, ", 1},
	} {
		p := start(t, "defaults: {"+row.config+"retry: {"+quick+"}}")
		p.do(row.method, nobody, strings.Repeat("x", row.length)).expectProblem(t, 502, "attempts=4; stop=max_attempts")
		says := explained(t, p, nil, "-X", row.method, "-H", fmt.Sprint("Content-Length: ", row.length), "--failure", "connect_failure", nobody)
		contains(t, "explain "+row.method, says, "up to 4 attempts", "stop=max_attempts")
		lacks(t, "explain "+row.method, says, "body_not_replayable")
	}
}

// A listener on all addresses is at those of this machine, not at every address
// with its port.
func TestExplainWildcardListener(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	door := freePort(t)
	p := startOpen(t, fmt.Sprintf(`
destinations: {deny: [192.0.2.0/24]}
upstreams: {o: {listen: "0.0.0.0:%d", endpoints: ["http://%s"]}}
`, door, u.addr))
	_, proxyPort, _ := net.SplitHostPort(p.proxy)
	for _, port := range []string{proxyPort, strconv.Itoa(door)} {
		elsewhere := "http://192.0.2.9:" + port + "/"
		p.get(elsewhere).expectProblem(t, 403, denied)
		says := explained(t, p, nil, elsewhere)
		contains(t, elsewhere, says, "forward: HTTP_PROXY", "refused    403, class denied: destinations.deny")
		lacks(t, elsewhere, says, "reverse", "421")
		contains(t, "this machine", explained(t, p, nil, "http://127.0.0.1:"+port+"/"), "reverse: ")
	}
}

// Max-Forwards: 0 makes mulligan the last hop.
func TestExplainLastHop(t *testing.T) {
	t.Parallel()
	u := answers(t, text(503, ""))
	p := start(t, "defaults: {retry: {"+quick+"}}")
	for _, method := range []string{"OPTIONS", "TRACE"} {
		p.do(method, u.url("/"), "", "Max-Forwards: 0").expect(t, 200, "")
		says := explained(t, p, nil, "-X", method, "-H", "Max-Forwards: 0", "--status", "503", u.url("/"))
		contains(t, method, says, "answered   200 ")
		lacks(t, method, says, "attempts", "retried")
	}
	want(t, "requests", u.count(), 0)
	p.do("OPTIONS", u.url("/"), "x", "Max-Forwards: 0").expectProblem(t, 400, "attempts=0")
	contains(t, "with a body", explained(t, p, nil, "-X", "OPTIONS", "-H", "Max-Forwards: 0", "-H", "Content-Length: 1", u.url("/")), "refused    400")
}

// Where listen.auth asks for credentials, a request without the right ones gets
// 407; they are not shown.
func TestExplainCredentials(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, authConfig+fmt.Sprintf(`upstreams: {m: {mount: /m, endpoints: ["http://%s"]}}`, u.addr), authEnv)
	for name, row := range map[string]struct {
		url, credentials string
		status           int
	}{
		"none":      {u.url("/"), "", 407},
		"wrong":     {u.url("/"), basic("u", "other"), 407},
		"right":     {u.url("/"), basic("u", "s3cr3t: pw"), 200},
		"to a port": {"http://" + p.proxy + "/m", "", 200},
	} {
		var fields, flags []string
		if row.credentials != "" {
			fields = []string{"Proxy-Authorization: " + row.credentials}
			flags = []string{"-H", fields[0]}
		}
		if name == "to a port" {
			want(t, name, p.raw(lines("GET /m HTTP/1.1", "Host: x")).Status, row.status)
		} else {
			want(t, name, p.get(row.url, fields...).Status, row.status)
		}
		says := explained(t, p, authEnv.env, append(flags, row.url)...)
		want(t, name+": explain says 407", strings.Contains(says, "refused    407"), row.status == 407)
		lacks(t, name, says, "s3cr3t", basic("u", "s3cr3t: pw"), basic("u", "other"))
	}
	connect := []string{"-X", "CONNECT", u.addr}
	contains(t, "CONNECT", explained(t, p, authEnv.env, connect...), "refused    407")
	lacks(t, "CONNECT", explained(t, p, authEnv.env, append(connect, "-H", "Proxy-Authorization: "+basic("u", "s3cr3t: pw"))...), "407")
}

// A response that breaks off is retried for its class or for its status.
func TestExplainBrokenResponse(t *testing.T) {
	t.Parallel()
	p := start(t, "defaults: {retry: {retry_on: [200, 503], "+quick+"}}")
	for status, row := range map[int]struct{ account, says string }{
		200: {"attempts=4; stop=max_attempts", "up to 4 attempts"},
		503: {"attempts=4; stop=max_attempts", "up to 4 attempts"},
		500: {"attempts=1; stop=permanent", "retried    no, stop=permanent"},
	} {
		u := answers(t, rawClose(fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Length: 9\r\n\r\nhalf", status)))
		p.get(u.url("/")).expectProblem(t, 502, row.account)
		contains(t, "explain", explained(t, p, nil, "--status", strconv.Itoa(status), "--failure", "truncated", u.url("/")), row.says)
		contains(t, "without the status", explained(t, p, nil, "--failure", "truncated", u.url("/")), "retry_on may have its --status")
	}
}

// With mode off the stop is that of a retry that would have been sent, or would
// not.
func TestExplainModeOffWithoutTokens(t *testing.T) {
	t.Parallel()
	u := answers(t, text(503, ""))
	p := start(t, `defaults: {retry: {mode: "off", budget: {burst: 0, ratio: 0.2}}}`)
	p.get(u.url("/")).expect(t, 503, "attempts=1; stop=budget")
	contains(t, "explain", explained(t, p, nil, "--status", "503", u.url("/")), "stop=disabled", "where nothing was earned, stop=budget")
}

// Names under localhost are loopback, whatever the resolver says of them.
func TestLocalhostWithoutResolver(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, "here"))
	p := start(t, "defaults: {retry: {"+quick+"}}")
	_, admin, _ := net.SplitHostPort(p.admin)
	for _, host := range []string{"localhost", "a.localhost", "B.a.LOCALHOST."} {
		want(t, host, p.get(fmt.Sprintf("http://%s:%d/", host, u.port())).Body, "here")
		own := "http://" + host + ":" + admin + "/"
		p.get(own).expectProblem(t, 403, denied)
		contains(t, "explain", explained(t, p, nil, own), "refused    403, class denied: it is mulligan's own listener")
	}
}

// The parent's address may be spelled as an endpoint's may.
func TestParentProxyLegacyAddress(t *testing.T) {
	t.Parallel()
	parent := answers(t, text(200, "through"))
	p := start(t, fmt.Sprintf("parent_proxy: http://127.1:%d\ndefaults: {retry: {max_attempts: 1}}", parent.port()))
	r := p.get("http://far.invalid/")
	r.expect(t, 200, "")
	want(t, "body", r.Body, "through")
}

// Statuses beyond 599 pass, and can be listed and asked about.
func TestExplainOddStatus(t *testing.T) {
	t.Parallel()
	p := start(t, "defaults: {retry: {retry_on: [600], "+quick+"}}")
	for status, row := range map[int]struct{ account, says string }{
		600: {"attempts=4; stop=max_attempts", "up to 4 attempts"},
		999: {"attempts=1; stop=permanent", "stop=permanent"},
	} {
		u := answers(t, text(status, ""))
		p.get(u.url("/")).expect(t, status, row.account)
		contains(t, "explain", explained(t, p, nil, "--status", strconv.Itoa(status), u.url("/")), row.says)
	}
}

// An outcome that is given empty is no outcome left out.
func TestExplainEmptyOutcome(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--status", "--failure", "-X"} {
		code, stdout, stderr := command(t, "explain", flag, "", "http://a.invalid/")
		want(t, flag+": exit status", code, 2)
		want(t, flag+": standard output", stdout, "")
		contains(t, flag, stderr, "error: ", "hint: ")
	}
}

// Where no response is held none is known to break off before it goes out.
func TestExplainBrokenResponseThatIsNotHeld(t *testing.T) {
	t.Parallel()
	u := answers(t, rawClose("HTTP/1.1 200 X\r\nContent-Length: 20000\r\n\r\nhalf"))
	p := start(t, "defaults: {buffer: {response: 0}, retry: {"+quick+"}}")
	want(t, "status", p.get(u.url("/")).Status, 200)
	want(t, "attempts", u.count(), 1)
	contains(t, "explain", explained(t, p, nil, "--status", "200", "--failure", "truncated", u.url("/")), "no response is held (buffer.response")
}

// A CONNECT has no body.
func TestExplainConnectWithABody(t *testing.T) {
	t.Parallel()
	p := start(t, "")
	c := dial(t, p.proxy)
	c.send(lines("CONNECT 127.0.0.1:1 HTTP/1.1", "Host: 127.0.0.1:1", "Content-Length: 3") + "abc")
	want(t, "status", c.next("CONNECT").Status, 400)
	contains(t, "explain", explained(t, p, nil, "-X", "CONNECT", "-H", "Content-Length: 3", "127.0.0.1:1"), "refused    400")
}
