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
