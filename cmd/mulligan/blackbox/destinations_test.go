package blackbox

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// open is a listener beyond loopback that the tests' clients may use.
const open = `
listen:
  proxy: "0.0.0.0:@PORT@"
  admin: "@ADMIN@"
  allow_clients: [127.0.0.0/8, "::1/128"]
`

// startOpen starts mulligan listening beyond loopback.
func startOpen(t *testing.T, config string) *mulligan {
	t.Helper()
	p := prepare(t, "")
	_, port, _ := net.SplitHostPort(p.proxy)
	writeFile(t, p.file, p.fill(strings.ReplaceAll(open, "@PORT@", port)+config))
	p.run()
	p.awaitReady("")
	return p
}

// denied is the account of a refused destination: the error whose recommended
// status is the contract's 403 (RFC 9209 2.3.18).
const denied = "stop=permanent; error=http_request_denied"

// Section 8: mulligan's own listeners are denied under any spelling, by every way in.
func TestOwnListenersAreDenied(t *testing.T) {
	t.Parallel()
	door := freeAddr(t)
	u := answers(t, text(200, ""))
	p := start(t, fmt.Sprintf(`
destinations: {allow: ["0.0.0.0/0", "::/0"]} # lifts built-in denials, own listeners aside
upstreams:
  o: {listen: "%s", endpoints: ["http://%s"]}
`, door, u.addr))
	for _, addr := range []string{p.proxy, p.admin, door} {
		_, port, _ := net.SplitHostPort(addr)
		for _, host := range []string{"127.0.0.1", "localhost", "LOCALHOST", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:127.0.0.1]", "0.0.0.0", "[::]"} {
			url := "http://" + host + ":" + port
			r := p.get(url + "/metrics")
			r.expectProblem(t, 403, denied)
			c := dial(t, p.proxy)
			c.send(lines("CONNECT "+host+":"+port+" HTTP/1.1", "Host: "+host+":"+port))
			if r := c.next("CONNECT"); r.Status != 403 {
				t.Errorf("CONNECT %s:%s: status %d, want 403", host, port, r.Status)
			}
			c.Close()
		}
		// Spellings that only some resolvers know: denied or unknown, never reached.
		for _, host := range []string{"2130706433", "0x7f000001", "0177.0.0.1", "127.1", "127.0.1", "127.0.0.1.", "localhost.", "0", "0x7f.1"} {
			r := p.get("http://" + host + ":" + port + "/metrics")
			if r.Status != 403 && r.Status != 400 && r.Status != 502 && r.Status != 504 {
				t.Errorf("%s:%s: status %d", host, port, r.Status)
			}
			if strings.Contains(r.Body, "mulligan_requests_total") {
				t.Errorf("%s:%s reached the admin port through the proxy", host, port)
			}
		}
	}
}

// An endpoint that is an own listener is denied, too: by the configuration or
// by the dial.
func TestEndpointThatIsAnOwnListener(t *testing.T) {
	t.Parallel()
	p := prepare(t, `upstreams: {self: {hosts: [self.internal], endpoints: ["http://@ADMIN@"]}}`)
	if code, _, _ := command(t, "check", "--config", p.file); code == 1 {
		return
	}
	p.run()
	p.awaitReady("")
	p.get("http://self.internal/metrics").expectProblem(t, 403, denied)
}

// Cloud metadata, link-local, multicast and the unspecified addresses are
// denied at once, by every way in, whatever form hides the IPv4 inside.
func TestDeniedDestinations(t *testing.T) {
	t.Parallel()
	p := start(t, `defaults: {timeout: {connect: 30s, total: 60s}, retry: {`+quick+`}}`)
	hosts := []string{
		"169.254.169.254", "[fd00:ec2::254]", "100.100.100.200", "168.63.129.16", "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]",
		"[64:ff9b::a9fe:a9fe]", "[64:ff9b::169.254.169.254]", "[2002:a9fe:a9fe::1]", "[64:ff9b::6464:64c8]", "[2002:6464:64c8::]",
		"169.254.1.1", "[fe80::1]", "[febf::1]", "224.0.0.1", "239.255.255.250", "[ff02::1]", "0.0.0.0", "[::]", "[::ffff:0.0.0.0]", "[64:ff9b::]", "[64:ff9b::e000:1]",
	}
	begun := time.Now()
	for _, host := range hosts {
		r := p.get("http://" + host + "/latest/meta-data/")
		if r.Status != 403 {
			t.Errorf("%s: status %d, want 403", host, r.Status)
			continue
		}
		r.expectProblem(t, 403, denied)
		c := dial(t, p.proxy)
		c.send(lines("CONNECT "+host+":443 HTTP/1.1", "Host: "+host+":443"))
		if r := c.next("CONNECT"); r.Status != 403 {
			t.Errorf("CONNECT %s: status %d, want 403", host, r.Status)
		}
		c.Close()
	}
	if spent := time.Since(begun); spent > patience {
		t.Errorf("%d refusals took %v: something was dialled", 2*len(hosts), spent)
	}
	p.wantMetric(float64(len(hosts)), "mulligan_requests_total", "outcome=permanent")
	p.wantMetric(float64(len(hosts)), "mulligan_tunnels_total", "result=denied")
	p.wantMetric(0, "mulligan_retries_total")
}

// destinations.deny refuses, under mapped spellings and names as well, and beats allow.
func TestDenyList(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, `destinations: {allow: [127.0.0.0/8], deny: [127.0.0.1/32]}`)
	for _, host := range []string{"127.0.0.1", "[::ffff:127.0.0.1]"} {
		p.get(fmt.Sprintf("http://%s:%d/", host, u.port())).expectProblem(t, 403, denied)
	}
	if r := p.get(fmt.Sprintf("http://localhost:%d/", u.port())); r.Status == 200 {
		t.Errorf("localhost reached a denied address")
	}
	want(t, "connections", u.connections(), 0)
	other := upstreamOn(t, listen(t, "127.0.0.2:0"), answering(text(200, "")))
	p.get(other.url("/")).expect(t, 200, "")
}

// Configured endpoints are exempt from it.
func TestEndpointsAreExempt(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := startOpen(t, fmt.Sprintf(`
destinations: {deny: [127.0.0.0/8]}
upstreams: {local: {hosts: [local.internal], endpoints: ["http://%s"]}}
`, u.addr))
	p.get("http://local.internal/").expect(t, 200, "")
	p.get(u.url("/")).expectProblem(t, 403, denied)
}

// Loopback is denied where the proxy listens beyond loopback; allow lifts that.
func TestLoopbackBeyondLoopback(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := startOpen(t, "")
	p.get(u.url("/")).expectProblem(t, 403, denied)
	if r := p.get(fmt.Sprintf("http://localhost:%d/", u.port())); r.Status == 200 {
		t.Errorf("localhost was reached")
	}
	want(t, "connections", u.connections(), 0)

	p = startOpen(t, `destinations: {allow: [127.0.0.0/8]}`)
	p.get(u.url("/")).expect(t, 200, "")
	p.get("http://"+p.admin+"/metrics").expectProblem(t, 403, denied)
	for _, host := range append(localAddresses(t), "127.0.0.1", "127.9.9.9") {
		_, port, _ := net.SplitHostPort(p.proxy)
		p.get("http://"+net.JoinHostPort(host, port)+"/").expectProblem(t, 403, denied)
	}
}

// localAddresses are this machine's IPv4 addresses beyond loopback.
func localAddresses(t *testing.T) []string {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, addr := range addrs {
		if n, ok := addr.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			list = append(list, n.IP.String())
		}
	}
	return list
}

// unmatched: deny refuses hosts that no upstream names, in every form.
func TestUnmatchedDeny(t *testing.T) {
	t.Parallel()
	named, other := answers(t, text(200, "named")), answers(t, text(200, "other"))
	p := start(t, fmt.Sprintf("unmatched: deny\nupstreams: {n: {hosts: [\"%s\"]}}", named.addr))
	want(t, "body", p.get(named.url("/")).Body, "named")
	p.get(other.url("/")).expectProblem(t, 403, "stop=permanent")
	c := dial(t, p.proxy)
	c.send(lines("CONNECT "+other.addr+" HTTP/1.1", "Host: "+other.addr))
	c.next("CONNECT").expectProblem(t, 403, "stop=permanent")
	p.connect(named.addr)
	want(t, "connections to the other", other.connections(), 0)
}
