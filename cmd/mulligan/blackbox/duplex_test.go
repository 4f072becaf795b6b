package blackbox

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// An answer that begins before the upload ends does not end the upload: both go
// on at once, as RFC 9110 7.5 allows a client and a server.
func TestFullDuplex(t *testing.T) {
	t.Parallel()
	u := serve(t, func(p *peer) {
		r := p.head()
		if r == nil {
			return
		}
		p.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		for {
			line, err := readLine(p.r)
			if err != nil {
				return
			}
			if line == "0" {
				_, _ = readLine(p.r)
				p.write("0\r\n\r\n")
				return
			}
			part, _ := readLine(p.r)
			p.write("5\r\n" + strings.ToUpper(part) + "\r\n")
		}
	})
	p := start(t, "")
	c := dial(t, p.proxy)
	c.send(head("POST", u.url("/"), "Transfer-Encoding: chunked"))
	want(t, "status", c.head().Status, 200)
	for _, part := range []string{"alpha", "gamma", "omega"} {
		c.send("5\r\n" + part + "\r\n")
		expectBytes(t, "echo", c.r, "5\r\n"+strings.ToUpper(part)+"\r\n")
	}
	c.send("0\r\n\r\n")
	expectBytes(t, "the end", c.r, "0\r\n\r\n")
}

// The body that a 100 had asked for is replayed to the next attempt, which asks again.
func TestContinueThenFailureThenRetry(t *testing.T) {
	t.Parallel()
	u := serve(t, func(p *peer) {
		r := p.head()
		if r == nil {
			return
		}
		if r.has("Expect") {
			p.write("HTTP/1.1 100 Continue\r\n\r\n")
		}
		p.body(r)
		if p.up.count() == 1 {
			text(503, "", "Connection: close")(p, r)
			return
		}
		text(200, r.Body)(p, r)
		p.ended()
	})
	p := start(t, `defaults: {retry: {`+quick+`}}`)
	c := dial(t, p.proxy)
	c.send(head("PUT", u.url("/"), "Expect: 100-continue", "Content-Length: 5"))
	want(t, "interim status", c.next("PUT").Status, 100)
	c.send("hello")
	r := c.final("PUT")
	r.expect(t, 200, "attempts=2; stop=success; received-status=200")
	want(t, "body", r.Body, "hello")
}

// A client that does not wait for the 100 is served as well.
func TestExpectWithoutWaiting(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, "fine"))
	p := start(t, "")
	c := dial(t, p.proxy)
	for range 3 {
		c.send(head("PUT", u.url("/"), "Expect: 100-continue", "Content-Length: 5") + "hello")
		r := c.final("PUT")
		r.expect(t, 200, "")
		want(t, "body at the upstream", u.request(u.count()).Body, "hello")
	}
}

// What a client pipelines behind its own Connection: close is not served.
func TestNothingAfterConnectionClose(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, "")
	c := dial(t, p.proxy)
	c.send(head("GET", u.url("/1"), "Connection: close") + head("GET", u.url("/2")))
	c.next("GET").expect(t, 200, "")
	c.expectEnd()
	want(t, "requests seen", u.count(), 1)
}

// IPv6 literals work in targets, in hosts and as listeners.
func TestIPv6(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 loopback: ", err)
	}
	u := upstreamOn(t, ln, answering(text(503, ""), text(200, "six")))
	p := prepare(t, "")
	port := freePort(t)
	p.proxy = fmt.Sprintf("[::1]:%d", port)
	writeFile(t, p.file, p.fill(fmt.Sprintf("upstreams: {six: {hosts: [\"[::1]:%d\"], retry: {%s}}}", u.port(), quick)))
	p.run()
	p.awaitReady("")
	r := p.get(u.url("/"))
	r.expect(t, 200, "attempts=2; stop=success; received-status=200")
	want(t, "Host", u.request(1).get("Host"), u.addr)
	p.wantMetric(1, "mulligan_requests_total", "upstream=six", "outcome=success_after_retry")
	c := p.connect(u.addr)
	c.send(lines("GET / HTTP/1.1", "Host: "+u.addr))
	want(t, "in a tunnel", c.next("GET").Body, "six")
	p.get(fmt.Sprintf("http://[0:0:0:0:0:0:0:1]:%d/", port)).expectProblem(t, 403, denied)
}

// listen.proxy may be a mapping with an address.
func TestListenMapping(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, "\nlisten:\n  proxy: {address: \"@PROXY@\"}\n  admin: \"@ADMIN@\"\n")
	p.get(u.url("/")).expect(t, 200, "")
}

// A crowd at a dead upstream: retries never exceed the budget, however many ask
// at once.
func TestBudgetUnderACrowd(t *testing.T) {
	t.Parallel()
	u := answers(t, text(503, ""))
	p := start(t, burst3)
	const crowd = 60
	conns := make([]*client, crowd)
	for i := range conns {
		conns[i] = dial(t, p.proxy)
	}
	for _, c := range conns {
		c.send(head("GET", u.url("/")))
	}
	for _, c := range conns {
		want(t, "status", c.next("GET").Status, 503)
	}
	p.wantAttempts(u, crowd+3)
	p.wantMetric(3, "mulligan_retries_total")
}

// The spread above a hint is cut to what the window leaves: the retry comes in time.
func TestSpreadIsCutToTheWindow(t *testing.T) {
	t.Parallel()
	u := answers(t, text(503, "", "retry-after-ms: 500"), text(200, "in time"))
	p := start(t, `defaults: {timeout: {attempt: 5s, total: 5s}, retry: {backoff: {strategy: constant, initial_delay: 60s, max_delay: 60s, jitter: none}}}`)
	begun := time.Now()
	r := p.get(u.url("/"))
	spent := time.Since(begun)
	// The wait is drawn from what the window leaves: one that is drawn close to
	// its end may leave no time for an answer. Nothing else ends so late.
	if spent < 4*time.Second {
		r.expect(t, 200, "attempts=2; stop=success; received-status=200")
	}
	if spent < 490*time.Millisecond || spent > patience {
		t.Errorf("the retry was answered after %v", spent)
	}
}

// A client that leaves while a CONNECT's dial waits for its retry: the token
// comes back, and nothing more is dialled.
func TestClientGoneDuringConnect(t *testing.T) {
	t.Parallel()
	for name, leave := range leavings() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, `defaults: {retry: {backoff: {strategy: constant, initial_delay: 100s, max_delay: 100s, jitter: none}}}`)
			dead := closedAddr(t)
			c := dial(t, p.proxy)
			c.send(lines("CONNECT "+dead+" HTTP/1.1", "Host: "+dead))
			p.wantMetric(1, "mulligan_retries_waiting", "upstream=default")
			p.wantMetric(2, "mulligan_retry_budget_remaining", "upstream=default")
			leave(c)
			p.wantMetric(3, "mulligan_retry_budget_remaining", "upstream=default")
			p.wantMetric(0, "mulligan_retries_waiting", "upstream=default")
		})
	}
}

// Histograms come in native form to a scraper that asks for protobuf.
func TestMetricsAsProtobuf(t *testing.T) {
	t.Parallel()
	p := start(t, "")
	r := p.ask("GET", "/metrics", "Accept: application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	want(t, "status", r.Status, 200)
	contains(t, "Content-Type", r.get("Content-Type"), "application/vnd.google.protobuf")
}
