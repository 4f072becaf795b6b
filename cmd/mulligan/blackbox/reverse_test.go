package blackbox

import (
	"fmt"
	"strings"
	"testing"
)

// Section 2: an origin-form request on the proxy port belongs to the upstream
// with endpoints whose hosts names its Host.
func TestOriginFormByHost(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, "claimed"))
	p := start(t, fmt.Sprintf(`
upstreams:
  stripe:
    hosts: [stripe.internal, "*.stripe.internal:8080"]
    endpoints: ["http://%s"]
`, u.addr))
	for _, host := range []string{"stripe.internal", "STRIPE.Internal", "stripe.internal.", "stripe.internal:80", "a.stripe.internal:8080"} {
		before := u.count()
		r := p.raw(lines("GET /v1?x=1 HTTP/1.1", "Host: "+host))
		r.expect(t, 200, "")
		if u.count() == before+1 {
			want(t, "request line", u.request(before+1).Line, "GET /v1?x=1 HTTP/1.1")
			want(t, "Host, the endpoint's", u.request(before+1).get("Host"), u.addr)
		}
	}
	p.wantMetric(5, "mulligan_requests_total", "upstream=stripe")
}

// An origin-form request that nothing claims gets 421 and is told how to use the port.
func TestUnclaimedOriginForm(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, fmt.Sprintf(`
upstreams:
  plain: {hosts: ["127.0.0.1:%d"]}
  other: {hosts: [other.internal], endpoints: ["http://%s"], mount: /other}
`, u.port(), u.addr))
	for _, request := range []string{
		lines("GET / HTTP/1.1", "Host: "+u.addr), // named, but without endpoints
		lines("GET / HTTP/1.1", "Host: "+p.proxy),
		lines("GET /otherwise HTTP/1.1", "Host: nobody.example"),
		lines("GET / HTTP/1.1", "Host: sub.other.internal"),
		lines("GET / HTTP/1.0"),
	} {
		r := p.raw(request)
		r.expectProblem(t, 421, "attempts=0; stop=permanent")
		contains(t, "the body of the 421", r.Body, "HTTP_PROXY", "mount")
		if e := r.proxyStatus(t)["error"]; !strings.HasPrefix(e, "http_request_") {
			t.Errorf("error=%s, want an http_request_*", e)
		}
	}
	want(t, "requests seen", u.count(), 0)
	p.wantMetric(0, "mulligan_requests_total")
}

// A mount is stripped, matches itself and what is below it, and the longest wins.
func TestMount(t *testing.T) {
	t.Parallel()
	short, long := answers(t, text(200, "short")), answers(t, text(200, "long"))
	p := start(t, fmt.Sprintf(`
upstreams:
  payments: {mount: /payments, endpoints: ["http://%s"]}
  refunds: {mount: /payments/refunds, endpoints: ["http://%s/base"]}
`, short.addr, long.addr))
	for _, row := range []struct{ target, body, seen string }{
		{"/payments", "short", "/"},
		{"/payments/", "short", "/"},
		{"/payments/v1/charges?q=1&r=/payments", "short", "/v1/charges?q=1&r=/payments"},
		{"/payments?q=1", "short", "/?q=1"},
		{"/payments//x", "short", "//x"},
		{"/payments/refundsx", "short", "/refundsx"},
		{"/payments/refunds/7", "long", "/base/7"},
		{"/payments/refunds?a", "long", "/base?a"},
		{"/payments/refunds", "long", "/base"},
	} {
		r := p.raw(lines("GET "+row.target+" HTTP/1.1", "Host: whatever"))
		r.expect(t, 200, "")
		want(t, "upstream of "+row.target, r.Body, row.body)
		u := map[string]*upstream{"short": short, "long": long}[r.Body]
		if u == nil {
			continue
		}
		got := u.request(u.count()).Target
		if strings.Replace(got, "/base/?", "/base?", 1) != row.seen && got != row.seen+"/" {
			t.Errorf("%s arrived as %s, want %s", row.target, got, row.seen)
		}
	}
	for _, target := range []string{"/paymentsx", "/payment", "/", "/Payments/x", "/x/payments/y"} {
		p.raw(lines("GET "+target+" HTTP/1.1", "Host: whatever")).expectProblem(t, 421, "attempts=0; stop=permanent")
	}
}

// An upstream may have a port of its own; every origin-form request there is its.
func TestListen(t *testing.T) {
	t.Parallel()
	u := answers(t, text(503, ""), text(200, "own port"))
	door := freeAddr(t)
	p := start(t, fmt.Sprintf(`
upstreams:
  orders: {listen: "%s", endpoints: ["http://%s/api"], retry: {%s}}
`, door, u.addr, quick))
	c := dial(t, door)
	c.send(lines("GET /x?y HTTP/1.1", "Host: anything.example"))
	r := c.next("GET")
	r.expect(t, 200, "attempts=2; stop=success; received-status=200")
	want(t, "request line", u.request(1).Line, "GET /api/x?y HTTP/1.1")
	want(t, "Host", u.request(1).get("Host"), u.addr)
	p.wantMetric(1, "mulligan_requests_total", "upstream=orders", "outcome=success_after_retry")
	c.send(lines("GET / HTTP/1.0")) // no Host at all
	c.next("GET").expect(t, 200, "")
}

// A reverse port is not a forward proxy: it opens no way to other places.
func TestListenIsNoForwardProxy(t *testing.T) {
	t.Parallel()
	mine, other := answers(t, text(200, "mine")), answers(t, text(200, "other"))
	door := freeAddr(t)
	start(t, fmt.Sprintf(`upstreams: {orders: {listen: "%s", endpoints: ["http://%s"]}}`, door, mine.addr))
	for _, request := range []string{head("GET", other.url("/")), lines("CONNECT "+other.addr+" HTTP/1.1", "Host: "+other.addr)} {
		c := dial(t, door)
		c.send(request)
		c.final("GET")
		c.Close()
	}
	want(t, "requests at the other upstream", other.count(), 0)
	want(t, "connections to it", other.connections(), 0)
}

// preserve_host keeps the client's Host.
func TestPreserveHost(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, fmt.Sprintf(`
upstreams:
  kept: {hosts: [kept.internal], endpoints: ["http://%[1]s"], preserve_host: true, mount: /kept}
  not: {hosts: [not.internal], endpoints: ["http://%[1]s"], mount: /not}
`, u.addr))
	p.raw(lines("GET /kept/a HTTP/1.1", "Host: Front.Example:81")).expect(t, 200, "")
	want(t, "Host kept through a mount", u.request(1).get("Host"), "Front.Example:81")
	p.get("http://kept.internal/b").expect(t, 200, "")
	want(t, "Host kept in absolute-form", u.request(2).get("Host"), "kept.internal")
	p.raw(lines("GET /not/a HTTP/1.1", "Host: front.example")).expect(t, 200, "")
	want(t, "Host replaced", u.request(3).get("Host"), u.addr)
	p.get("http://not.internal/b").expect(t, 200, "")
	want(t, "Host replaced in absolute-form", u.request(4).get("Host"), u.addr)
}

// The endpoint's path comes before the request's, in absolute-form too.
func TestEndpointPath(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, fmt.Sprintf(`
upstreams:
  api: {hosts: [api.internal], endpoints: ["http://%s/v2/base"]}
  slash: {hosts: [slash.internal], endpoints: ["http://%s/v3/"]}
`, u.addr, u.addr))
	for url, seen := range map[string]string{
		"http://api.internal/things?a=b": "/v2/base/things?a=b",
		"http://api.internal/":           "/v2/base/",
		"http://slash.internal/things":   "/v3/things",
	} {
		p.get(url).expect(t, 200, "")
		want(t, "target of "+url, u.request(u.count()).Target, seen)
	}
}

// Section 8: reverse doors refuse browsers' cross-site requests.
func TestReverseDoorsRefuseCrossSite(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	door := freeAddr(t)
	p := start(t, fmt.Sprintf(`upstreams: {o: {listen: "%s", mount: /o, endpoints: ["http://%s"]}}`, door, u.addr))
	ask := func(addr, site string) int {
		c := dial(t, addr)
		defer c.Close()
		c.send(lines("GET /o/x HTTP/1.1", "Host: h", "Sec-Fetch-Site: "+site))
		return c.final("GET").Status
	}
	for _, addr := range []string{door, p.proxy} {
		want(t, "cross-site", ask(addr, "cross-site"), 403)
	}
	want(t, "requests seen", u.count(), 0)
	for _, addr := range []string{door, p.proxy} {
		for _, site := range []string{"same-origin", "same-site", "none"} {
			want(t, site, ask(addr, site), 200)
		}
	}
	p.get(u.url("/"), "Sec-Fetch-Site: cross-site").expect(t, 200, "") // a forward request is no reverse door's
}

// A cross-site request on a port of its own passed in absolute-form, and where
// another Sec-Fetch-Site line came first.
func TestCrossSiteInDisguise(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	door := freeAddr(t)
	p := start(t, fmt.Sprintf(`upstreams: {o: {listen: "%s", mount: /o, endpoints: ["http://%s"]}}`, door, u.addr))
	for _, row := range []struct{ addr, request string }{
		{door, lines("GET http://h/x HTTP/1.1", "Host: h", "Sec-Fetch-Site: cross-site")},
		{door, lines("GET /x HTTP/1.1", "Host: h", "Sec-Fetch-Site: none", "sec-fetch-site: cross-site")},
		{p.proxy, lines("GET /o/x HTTP/1.1", "Host: h", "Sec-Fetch-Site: none", "sec-fetch-site: cross-site")},
	} {
		c := dial(t, row.addr)
		c.send(row.request)
		if r := c.final("GET"); r.Status != 403 {
			t.Errorf("%q: status %d", row.request, r.Status)
		}
		c.Close()
	}
	want(t, "requests seen", u.count(), 0)
}

// The asterisk is the target of an OPTIONS and of nothing else, and has nothing
// behind it (RFC 9112 3.2.4); both were sent on.
func TestAsteriskIsForOptionsAlone(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, fmt.Sprintf(`upstreams: {a: {hosts: [a.internal], endpoints: ["http://%s"]}}`, u.addr))
	for _, line := range []string{"GET * HTTP/1.1", "OPTIONS *x HTTP/1.1"} {
		want(t, line, p.raw(lines(line, "Host: a.internal")).Status, 400)
		c := p.connect(u.addr)
		c.send(lines(line, "Host: "+u.addr))
		want(t, line+" in a tunnel", c.final("GET").Status, 400)
	}
	want(t, "requests seen", u.count(), 0)
}
