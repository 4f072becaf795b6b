package blackbox

import (
	"io"
	"strings"
	"testing"
)

const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n"

// upgradeFields are a WebSocket handshake's.
var upgradeFields = []string{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: k", "Sec-WebSocket-Version: 13"}

// Section 7: upgrades pass, then bytes pass both ways, with half-closes.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	u := answers(t, func(p *peer, _ *request) bool {
		p.write(switching + "early") // bytes in the same segment as the 101
		all, _ := io.ReadAll(p.r)
		got <- string(all)
		p.write(" and late")
		return false
	})
	p := start(t, "")
	c := dial(t, p.proxy)
	c.send(head("GET", u.url("/chat"), upgradeFields...))
	r := c.next("GET")
	want(t, "status", r.Status, 101)
	want(t, "Upgrade", r.get("Upgrade"), "websocket")
	contains(t, "Connection", strings.ToLower(r.get("Connection")), "upgrade")
	want(t, "Sec-WebSocket-Accept", r.get("Sec-WebSocket-Accept"), "x")
	expectBytes(t, "early bytes", c.r, "early")
	c.send("\x81\x00GET / HTTP/1.1\r\n\r\n")
	_ = c.CloseWrite()
	want(t, "bytes at the upstream", <-got, "\x81\x00GET / HTTP/1.1\r\n\r\n")
	expectBytes(t, "late bytes", c.r, " and late")
	expectEOF(t, "the end", c.r)
	sent := u.request(1)
	want(t, "Upgrade at the upstream", sent.get("Upgrade"), "websocket")
	contains(t, "Connection at the upstream", strings.ToLower(sent.get("Connection")), "upgrade")
}

// An upgrade that the upstream does not want is an ordinary answer.
func TestUpgradeDeclined(t *testing.T) {
	t.Parallel()
	u := answers(t, text(426, "no", "Upgrade: other"), text(200, "plain"))
	p := start(t, "")
	c := dial(t, p.proxy)
	c.send(head("GET", u.url("/"), upgradeFields...))
	c.next("GET").expect(t, 426, "attempts=1; stop=permanent; received-status=426")
	c.send(head("GET", u.url("/"), upgradeFields...))
	r := c.next("GET")
	r.expect(t, 200, "")
	want(t, "body", r.Body, "plain")
	c.expectOpen(u.url("/"))
}

// A failed attempt at an upgrade is retried as any GET.
func TestUpgradeRetried(t *testing.T) {
	t.Parallel()
	u := answers(t, text(503, ""), fin, func(p *peer, _ *request) bool {
		p.write(switching + "hi")
		p.ended()
		return false
	})
	p := start(t, `defaults: {retry: {`+quick+`}}`)
	c := dial(t, p.proxy)
	c.send(head("GET", u.url("/"), upgradeFields...))
	want(t, "status", c.next("GET").Status, 101)
	expectBytes(t, "first bytes", c.r, "hi")
	want(t, "attempts", u.count(), 3)
	p.wantMetric(3, "mulligan_attempts_total")
	p.wantMetric(1, "mulligan_attempts_total", "result=1xx")
}

// Either side's end ends the other.
func TestUpgradeEnds(t *testing.T) {
	t.Parallel()
	gone := make(chan bool, 1)
	u := answers(t, func(p *peer, _ *request) bool {
		p.write(switching)
		gone <- p.ended()
		return false
	})
	p := start(t, "")
	c := dial(t, p.proxy)
	c.send(head("GET", u.url("/"), upgradeFields...))
	want(t, "status", c.next("GET").Status, 101)
	c.Close()
	want(t, "the upstream connection ended", <-gone, true)
	p.wantMetric(0, "mulligan_requests_in_flight", "upstream=default")
}

// The same through a reverse door, with TLS of the upstream's own.
func TestUpgradeThroughTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	u := ca.upstream(t, func(p *peer, _ *request) bool {
		p.write(switching + "over TLS")
		p.ended()
		return false
	})
	p := start(t, ca.config("ws.internal", u.addr, ""))
	c := dial(t, p.proxy)
	c.send(head("GET", "http://ws.internal/", upgradeFields...))
	want(t, "status", c.next("GET").Status, 101)
	expectBytes(t, "first bytes", c.r, "over TLS")
}

// A 101 has no body: its Content-Length went on to the client, who could wait for one.
func TestUpgradeHasNoFraming(t *testing.T) {
	t.Parallel()
	u := answers(t, func(p *peer, _ *request) bool {
		p.write(strings.Replace(switching, "\r\n\r\n", "\r\nContent-Length: 0\r\n\r\nhi", 1))
		p.ended()
		return false
	})
	c := dial(t, start(t, "").proxy)
	c.send(head("GET", u.url("/"), upgradeFields...))
	r := c.next("GET")
	want(t, "status", r.Status, 101)
	want(t, "Content-Length", r.get("Content-Length"), "")
	expectBytes(t, "first bytes", c.r, "hi")
}

// A 101 that does not say to what (RFC 9110 15.2.2) was passed on as an upgrade.
func TestUpgradeToNothing(t *testing.T) {
	t.Parallel()
	u := answers(t, rawClose("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\r\n"))
	r := start(t, `defaults: {retry: {`+quick+`}}`).get(u.url("/"), upgradeFields...)
	r.expectProblem(t, 502, "attempts=1; stop=permanent; error=http_protocol_error")
}

// Of several Upgrade lines only the first passed, either way.
func TestUpgradeLinesAllPass(t *testing.T) {
	t.Parallel()
	const both = "websocket foo/2"
	u := answers(t, func(p *peer, _ *request) bool {
		p.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: foo/2\r\n\r\n")
		p.ended()
		return false
	})
	c := dial(t, start(t, "").proxy)
	c.send(head("GET", u.url("/"), "Connection: Upgrade", "Upgrade: websocket", "Upgrade: foo/2"))
	r := c.next("GET")
	want(t, "status", r.Status, 101)
	want(t, "Upgrade at the client", strings.Join(r.all("Upgrade"), " "), both)
	want(t, "Upgrade at the upstream", strings.Join(u.request(1).all("Upgrade"), " "), both)
}

// RFC 9110 15.5.22: a 426 says which protocol is wanted; the field was taken for
// one of this hop.
func TestUpgradeThatIsRequired(t *testing.T) {
	t.Parallel()
	u := answers(t, raw("HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 2\r\n\r\nno"))
	p := start(t, "")
	r := p.get(u.url("/"))
	r.expect(t, 426, "attempts=1; stop=permanent; received-status=426")
	want(t, "Upgrade", r.get("Upgrade"), "websocket")
	want(t, "Connection", strings.ToLower(r.get("Connection")), "upgrade")
}
