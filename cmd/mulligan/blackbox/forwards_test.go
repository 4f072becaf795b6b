package blackbox

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Max-Forwards (RFC 9110 7.6.2): 0 ends an OPTIONS or TRACE here, more is
// counted down, other methods do not care.
func TestMaxForwards(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, "there"))
	p := start(t, "")
	for _, row := range []struct{ method, sent, seen string }{
		{"OPTIONS", "5", "4"}, {"TRACE", "1", "0"}, {"GET", "0", "0"}, {"POST", "3", "3"}, {"OPTIONS", "soon", "soon"},
	} {
		before := u.count()
		r := p.do(row.method, u.url("/"), "", "Max-Forwards: "+row.sent)
		want(t, row.method+" with "+row.sent, r.Body, "there")
		if u.count() > before {
			want(t, "Max-Forwards of a "+row.method, u.request(before+1).get("Max-Forwards"), row.seen)
		}
	}
	before := u.count()
	c := dial(t, p.proxy)
	want(t, "OPTIONS", c.do("OPTIONS", u.url("/"), "", "Max-Forwards: 0").Status, 200)
	r := c.do("TRACE", u.url("/x"), "", "Max-Forwards: 0", "X-Mark: 1", "Authorization: Bearer secret", "Cookie: secret", "Proxy-Authorization: Basic secret")
	want(t, "TRACE", r.Status, 200)
	want(t, "Content-Type", r.get("Content-Type"), "message/http")
	contains(t, "what TRACE sends back", r.Body, "TRACE", "X-Mark: 1")
	if strings.Contains(r.Body, "secret") {
		t.Errorf("TRACE sends back secrets (RFC 9110 9.3.8): %q", r.Body)
	}
	want(t, "requests seen", u.count(), before)
	c.expectOpen(u.url("/"))
}

// State is kept per authority in a bounded LRU: thousands of hosts, one after
// the other, cost no more than the bound, and those of today work as ever.
func TestManyAuthorities(t *testing.T) {
	t.Parallel()
	ln := listen(t, "0.0.0.0:0")
	u := upstreamOn(t, ln, answering(every(2, text(200, "ok"), text(503, ""))))
	p := start(t, "log: {access: false}\ndefaults: {retry: {"+quick+"}}")
	c := dial(t, p.proxy)
	const hosts = 1400
	port := strconv.Itoa(ln.Addr().(*net.TCPAddr).Port)
	for i := range hosts {
		_ = c.SetDeadline(time.Now().Add(2 * patience))
		url := fmt.Sprintf("http://127.%d.%d.%d:%s/", 1+i%7, i/200, 1+i%200, port)
		r := c.do("GET", url, "")
		if r.Status != 200 {
			t.Fatalf("host %d: status %d, %v", i, r.Status, r.Broken)
		}
	}
	if fds, _ := p.metric("process_open_fds"); fds > 1200 {
		t.Errorf("%v descriptors are open after %d hosts", fds, hosts)
	}
	p.wantMetric(float64(u.count()), "mulligan_attempts_total")
	p.wantMetric(hosts, "mulligan_requests_total", "upstream=default")
}

// A CONNECT inside of a tunnel that speaks HTTP leads nowhere else.
func TestConnectInsideATunnel(t *testing.T) {
	t.Parallel()
	u, other := answers(t, text(200, "")), answers(t, text(200, ""))
	p := start(t, "")
	c := p.connect(u.addr)
	c.send(lines("GET / HTTP/1.1", "Host: "+u.addr))
	want(t, "first", c.next("GET").Status, 200)
	c.send(lines("CONNECT "+other.addr+" HTTP/1.1", "Host: "+other.addr))
	if r := c.next("CONNECT"); r.Status != 400 && r.Status != 0 {
		t.Errorf("status %d", r.Status)
	}
	want(t, "connections to the other host", other.connections(), 0)
}

// A reload that changes `connections` keeps what is open within the new bounds.
func TestReloadOfConnections(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	config := func(idle string) string {
		return fmt.Sprintf("upstreams: {c: {hosts: [\"%s\"], connections: {idle: %s}}}", u.addr, idle)
	}
	p := start(t, config("1h"))
	c := dial(t, p.proxy)
	c.do("GET", u.url("/"), "").expect(t, 200, "")
	c.do("GET", u.url("/"), "").expect(t, 200, "")
	want(t, "connections before", u.connections(), 1)
	writeFile(t, p.file, p.fill(config("200ms")))
	p.signal(syscall.SIGHUP)
	p.awaitReloads(1)
	eventually(t, "the idle connection to be closed", func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		return u.open == 0
	})
	c.do("GET", u.url("/"), "").expect(t, 200, "")
}

// A reverse door that comes with a reload needs a restart, and the log says so.
func TestReloadWithANewListen(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, "still"))
	first, second := freeAddr(t), freeAddr(t)
	config := func(addr string) string {
		return fmt.Sprintf("upstreams: {d: {listen: \"%s\", mount: /d, endpoints: [\"http://%s\"]}}", addr, u.addr)
	}
	p := start(t, config(first))
	writeFile(t, p.file, p.fill(config(second)))
	p.signal(syscall.SIGHUP)
	p.awaitReloads(1)
	eventually(t, "the log to say so", func() bool { return strings.Contains(p.log.String(), "restart") })
	listen(t, second).Close()
	want(t, "the mount goes on", p.raw(lines("GET /d/ HTTP/1.1", "Host: h")).Body, "still")
}
