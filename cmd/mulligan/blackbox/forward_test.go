package blackbox

import (
	"fmt"
	"strings"
	"testing"
)

// Section 2.1: absolute-form requests on the proxy port.
func TestForwardAbsoluteForm(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, "hello", "X-From: upstream"))
	p := start(t, "")
	r := p.get(u.url("/a/b?q=1&r=%20"))
	r.expect(t, 200, "")
	want(t, "body", r.Body, "hello")
	want(t, "X-From", r.get("X-From"), "upstream")
	want(t, "request line", u.request(1).Line, "GET /a/b?q=1&r=%20 HTTP/1.1")
	p.wantAttempts(u, 1)
}

// The target's bytes reach the upstream as they are, in origin-form.
func TestForwardTargetBytes(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, "")
	for _, row := range []struct{ sent, seen string }{
		{"", "/"},
		{"/", "/"},
		{"?q", "/?q"},
		{"/?", "/?"},
		{"/a//b/../c/./d", "/a//b/../c/./d"},
		{"/%2e%2E/%41%zz", "/%2e%2E/%41%zz"},
		{"/a;b=c,d:e@f!$&'()*+", "/a;b=c,d:e@f!$&'()*+"},
		{"/a?b=http://x/y?z", "/a?b=http://x/y?z"},
		{"/{}|^`\"<>\\", "/{}|^`\"<>\\"},
	} {
		before := u.count()
		r := p.get(u.url(row.sent))
		r.expect(t, 200, "")
		if u.count() == before+1 {
			want(t, "target of "+row.sent, u.request(before+1).Target, row.seen)
		} else {
			t.Errorf("target %q: did not reach the upstream", row.sent)
		}
	}
}

// OPTIONS without a path asks about the server: the last proxy sends *
// (RFC 9112 3.2.4).
func TestForwardOptionsWithoutPath(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, "")
	p.do("OPTIONS", u.url(""), "").expect(t, 200, "")
	want(t, "request line", u.request(1).Line, "OPTIONS * HTTP/1.1")
}

// The scheme and the host have no case.
func TestForwardSchemeCase(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, "")
	p.raw(lines("GET HTTP://"+u.addr+"/ HTTP/1.1", "Host: "+u.addr)).expect(t, 200, "")
	p.raw(lines(fmt.Sprintf("GET http://LOCALHOST:%d/ HTTP/1.1", u.port()), "Host: x")).expect(t, 200, "")
	want(t, "requests", u.count(), 2)
}

// Section 7: Host comes from the target (RFC 9112 3.2.2), whatever the field said.
func TestHostFromTarget(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, "")
	for _, host := range []string{u.addr, "other.example", "other.example:99", ""} {
		before := u.count()
		p.raw(lines("GET "+u.url("/")+" HTTP/1.1", "Accept: */*", "Host: "+host)).expect(t, 200, "")
		got := u.request(before + 1)
		if all := got.all("Host"); len(all) != 1 || all[0] != u.addr {
			t.Errorf("Host %q sent, upstream got %q, want %q once", host, all, u.addr)
		}
	}
}

// Userinfo in a target (RFC 9110 4.2.4) is refused or dropped, never passed on or logged.
func TestForwardUserinfoStaysHere(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, "")
	r := p.raw(lines("GET http://user:secret@"+u.addr+"/ HTTP/1.1", "Host: "+u.addr))
	switch r.Status {
	case 400:
		want(t, "requests", u.count(), 0)
	case 200:
		if got := u.request(1); strings.Contains(got.Head, "secret") && !got.has("Authorization") {
			t.Errorf("the userinfo reached the upstream: %q", got.Head)
		}
	default:
		t.Errorf("status %d", r.Status)
	}
	if strings.Contains(p.log.String(), "secret") {
		t.Errorf("the userinfo is in the log")
	}
}

// An absolute-form target that names nothing mulligan can go to is malformed.
func TestForwardBadTargets(t *testing.T) {
	t.Parallel()
	p := start(t, "")
	for _, target := range []string{
		"http://", "http:///path", "ftp://127.0.0.1/", "http://127.0.0.1:99999/", "http://127.0.0.1:x/",
		"http://[::1/", "http://a b/", "http:/127.0.0.1/", "127.0.0.1:80", "path", "*",
	} {
		r := p.raw(lines("GET "+target+" HTTP/1.1", "Host: x"))
		if r.Status != 400 && r.Status != 421 {
			t.Errorf("target %q: status %d, want 400 or 421; %q", target, r.Status, r.Body)
		}
	}
	p.wantMetric(0, "mulligan_requests_total")
}

// Section 7: no User-Agent, Accept-Encoding or X-Forwarded-* added; names keep
// their case and order. The upstream gets the very bytes but for the request
// line, and one Via.
func TestHeaderBytesAreKept(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, "")
	fields := []string{
		"hOsT: " + u.addr, "x-UPPER: One", "ACCEPT: a, b", "x-upper: two", "X-Empty:", "X-Wide:  a  b\tc ", "x-utf8: gr\xc3\xbc\xc3\x9f\xff",
		"Cookie: a=b; c=d", "cookie: e", "Authorization: Bearer t", "X_under.score!#$%&'*+-^`|~: ok",
	}
	p.raw(lines("GET "+u.url("/p")+" HTTP/1.1", fields...)).expect(t, 200, "")
	got := u.request(1)
	var rest []string
	for _, line := range strings.Split(strings.TrimSuffix(got.Head, "\r\n\r\n"), "\r\n") {
		if !strings.HasPrefix(line, "Via: ") {
			rest = append(rest, line)
		}
	}
	if len(got.all("Via")) != 1 {
		t.Errorf("Via %q, want one", got.all("Via"))
	}
	want(t, "request line", rest[0], "GET /p HTTP/1.1")
	want(t, "number of fields", len(rest)-1, len(fields))
	for i, line := range rest[1:] {
		if i < len(fields) {
			wantName, wantValue, _ := strings.Cut(fields[i], ":")
			name, value, _ := strings.Cut(line, ":")
			want(t, "name in place", name, wantName)
			want(t, "value of "+name, strings.Trim(value, " \t"), strings.Trim(wantValue, " \t"))
		}
	}
}

// The same for what comes back, the reason phrase included.
func TestResponseHeaderBytesAreKept(t *testing.T) {
	t.Parallel()
	u := answers(t, raw("HTTP/1.1 203 Not Quite  It\r\nx-LOWER: 1\r\nSet-Cookie: a=1\r\nX-LOWER: 2\r\ncontent-length: 2\r\nSet-Cookie: b=2\r\nServer: s\xff\r\n\r\nok"))
	p := start(t, "")
	r := p.get(u.url("/"))
	want(t, "status line", r.Line, "HTTP/1.1 203 Not Quite  It")
	var names []string
	for _, f := range r.Fields {
		if f.Name != "Via" {
			names = append(names, f.Name+"="+f.Value)
		}
	}
	want(t, "fields", strings.Join(names, "|"), "x-LOWER=1|Set-Cookie=a=1|X-LOWER=2|content-length=2|Set-Cookie=b=2|Server=s\xff")
	want(t, "body", r.Body, "ok")
}

// Redirects are passed on, never followed.
func TestRedirectIsPassedOn(t *testing.T) {
	t.Parallel()
	u := answers(t, text(302, "moved", "Location: /elsewhere"))
	p := start(t, "")
	r := p.get(u.url("/"))
	r.expect(t, 302, "")
	want(t, "Location", r.get("Location"), "/elsewhere")
	want(t, "requests", u.count(), 1)
}

// Section 8: the proxy's own dials ignore HTTP_PROXY.
func TestOwnDialsIgnoreEnvironment(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	dead := "http://" + closedAddr(t)
	p := start(t, "", launch{env: []string{"HTTP_PROXY=" + dead, "http_proxy=" + dead, "HTTPS_PROXY=" + dead, "ALL_PROXY=" + dead}})
	p.get(u.url("/")).expect(t, 200, "")
}

// Brackets are for IPv6 addresses (RFC 3986 3.2.2): names and IPv4 addresses in
// them were taken for what they enclose.
func TestBracketsAreForIPv6(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, fmt.Sprintf(`upstreams: {l: {hosts: [localhost, 127.0.0.1], endpoints: ["http://%s"]}}`, u.addr))
	for _, host := range []string{"[localhost]", "[127.0.0.1]"} {
		authority := fmt.Sprintf("%s:%d", host, u.port())
		for _, request := range []string{
			lines("GET http://"+authority+"/ HTTP/1.1", "Host: x"),
			lines("GET "+u.url("/")+" HTTP/1.1", "Host: "+authority),
			lines("GET / HTTP/1.1", "Host: "+authority),
			lines("CONNECT "+authority+" HTTP/1.1", "Host: x"),
		} {
			if r := p.raw(request); r.Status != 400 {
				t.Errorf("%q: status %d", request, r.Status)
			}
		}
	}
	want(t, "connections", u.connections(), 0)
}
