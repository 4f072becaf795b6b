package blackbox

import (
	"fmt"
	"net"
	"strings"
	"testing"
)

// parent_proxy: the proxy's own dials go through it, with its credentials, for
// https endpoints as well.
func TestParentProxyWithCredentials(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	plain, secure := answers(t, text(200, "plain")), ca.upstream(t, text(200, "secure"))
	inner := start(t, authConfig, authEnv)
	outer := start(t, strings.Replace(ca.config("s.internal", secure.addr, ""), "defaults:", fmt.Sprintf("parent_proxy: \"http://u:s3cr3t%%3A%%20pw@%s\"\ndefaults:", inner.proxy), 1))
	want(t, "plain", outer.get(plain.url("/")).Body, "plain")
	want(t, "secure", outer.get("http://s.internal/").Body, "secure")
	if got := plain.request(1); got.has("Proxy-Authorization") {
		t.Errorf("the parent's credentials went on: %q", got.Head)
	}
	if strings.Contains(outer.log.String(), "s3cr3t") {
		t.Errorf("the log has the parent's password")
	}

	bare := start(t, "parent_proxy: http://"+inner.proxy+"\ndefaults: {retry: {max_attempts: 2, "+quick+"}}")
	r := bare.get(plain.url("/"))
	if r.Status < 400 {
		t.Errorf("without credentials: status %d", r.Status)
	}
	want(t, "requests", plain.count(), 1)
}

// A parent that is not there is a connect_failure: any method is retried.
func TestParentProxyDown(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, "parent_proxy: http://"+closedAddr(t)+"\ndefaults: {retry: {"+quick+"}}")
	p.do("POST", u.url("/"), "x").expectProblem(t, 502, "attempts=4; stop=max_attempts; error=connection_refused")
	want(t, "connections past the parent", u.connections(), 0)
}

// Through a parent as well, what is denied by its address is denied, as far as
// the request names it: own listeners, metadata.
func TestParentProxyOpensNoWayAround(t *testing.T) {
	t.Parallel()
	inner := start(t, "destinations: {allow: [\"0.0.0.0/0\"]}")
	outer := start(t, "parent_proxy: http://"+inner.proxy)
	_, port, _ := net.SplitHostPort(outer.admin)
	for _, host := range []string{"127.0.0.1:" + port, "localhost:" + port, "[::ffff:127.0.0.1]:" + port, "169.254.169.254"} {
		r := outer.get("http://" + host + "/metrics")
		if r.Status == 200 {
			t.Errorf("%s was reached through the parent", host)
		}
		want(t, "status for "+host, r.Status, 403)
	}
}

// A CONNECT to the parent says through whom it has come: two proxies that were
// each other's parent dialled each other until they were out of descriptors, and
// each in a chain tried anew what the one before it tried.
func TestParentProxyHearsOfTheHops(t *testing.T) {
	t.Parallel()
	parent := answers(t, raw("HTTP/1.1 502 No\r\nContent-Length: 0\r\n\r\n"))
	p := start(t, "parent_proxy: http://"+parent.addr+"\ndefaults: {retry: {max_attempts: 1}}")
	c := dial(t, p.proxy)
	c.send(lines("CONNECT far.invalid:443 HTTP/1.1", "Host: far.invalid:443", "Via: 1.1 first", "Via: 1.0 second"))
	want(t, "status", c.next("CONNECT").Status, 502)
	via := strings.Join(parent.request(1).all("Via"), ", ")
	if !strings.HasPrefix(via, "1.1 first, 1.0 second, 1.1 mulligan-") {
		t.Errorf("Via at the parent: %q", via)
	}

	inner := start(t, `defaults: {retry: {`+quick+`}}`)
	outer := start(t, "parent_proxy: http://"+inner.proxy+"\ndefaults: {retry: {"+quick+"}}")
	c = dial(t, outer.proxy)
	c.send(lines("CONNECT "+closedAddr(t)+" HTTP/1.1", "Host: x"))
	want(t, "status", c.next("CONNECT").Status, 502)
	outer.wantMetric(4, "mulligan_attempts_total", "result=connect_failure")
	inner.wantMetric(4, "mulligan_attempts_total", "result=connect_failure")
}

func TestParentProxiesOfEachOther(t *testing.T) {
	t.Parallel()
	a, b := prepare(t, ""), prepare(t, "")
	for _, pair := range [][2]*mulligan{{a, b}, {b, a}} {
		writeFile(t, pair[0].file, pair[0].fill("parent_proxy: http://"+pair[1].proxy+"\ndefaults: {retry: {max_attempts: 1}}"))
		pair[0].run()
		pair[0].awaitReady("")
	}
	c := dial(t, a.proxy)
	c.send(lines("CONNECT far.invalid:443 HTTP/1.1", "Host: far.invalid:443"))
	want(t, "status", c.next("CONNECT").Status, 502)
	a.says("proxy_loop_detected")
}

// The parent's answer to CONNECT is HTTP like any other's: a 1xx is not the
// answer, what is no HTTP is a protocol_error, and a 4xx will not heal.
func TestParentProxyAnswers(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		answer, status string
		attempts       int
		class          string
	}{
		"interim":   {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", "200", 0, ""},
		"garbage":   {"\x00\x01garbage\r\n\r\n", "502", 1, "protocol_error"},
		"forbidden": {"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n", "502", 1, "denied"},
		"auth":      {"HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n", "502", 1, "denied"},
		"busy":      {"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", "502", 4, "connect_failure"},
		"long":      {"HTTP/1.1 200 OK\r\nA: " + strings.Repeat("x", 2<<20), "502", 1, "protocol_error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parent := answers(t, raw(row.answer))
			p := start(t, "parent_proxy: http://"+parent.addr+"\ndefaults: {retry: {"+quick+"}}")
			c := dial(t, p.proxy)
			c.send(lines("CONNECT far.invalid:443 HTTP/1.1", "Host: far.invalid:443"))
			want(t, "status", fmt.Sprint(c.next("CONNECT").Status), row.status)
			if row.attempts > 0 {
				p.wantMetric(float64(row.attempts), "mulligan_attempts_total", "result="+row.class)
				want(t, "CONNECTs at the parent", parent.count(), row.attempts)
			}
		})
	}
}

// preserve_host holds behind a parent too, which takes the Host of what it can
// read from the target (RFC 9112 3.2.2).
func TestParentProxyAndPreservedHost(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	inner := start(t, "")
	outer := start(t, fmt.Sprintf("parent_proxy: http://%s\nupstreams: {kept: {hosts: [kept.internal], endpoints: [\"http://%s\"], preserve_host: true}}", inner.proxy, u.addr))
	outer.get("http://kept.internal/").expect(t, 200, "")
	want(t, "Host", u.request(1).get("Host"), "kept.internal")
}
