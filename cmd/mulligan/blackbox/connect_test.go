package blackbox

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// connect opens a tunnel and fails the test unless it is established.
func (p *mulligan) connect(authority string) *client {
	p.t.Helper()
	c := dial(p.t, p.proxy)
	c.send(lines("CONNECT "+authority+" HTTP/1.1", "Host: "+authority))
	r := c.next("CONNECT")
	if r.Status != 200 {
		p.t.Fatalf("CONNECT %s: status %d, head %q, body %q", authority, r.Status, r.Head, r.Body)
	}
	if r.has("Content-Length") || r.has("Transfer-Encoding") {
		p.t.Errorf("the 200 of a CONNECT announces a body: %q", r.Head)
	}
	return c
}

// expectBytes reads exactly the bytes given.
func expectBytes(t *testing.T, what string, r io.Reader, bytes string) {
	t.Helper()
	got := make([]byte, len(bytes))
	n, err := io.ReadFull(r, got)
	if string(got[:n]) != bytes {
		t.Errorf("%s: got %q (%v), want %q", what, got[:n], err, bytes)
	}
}

// expectEOF reads to the end and checks that it is a FIN and nothing comes before it.
func expectEOF(t *testing.T, what string, r io.Reader) {
	t.Helper()
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		t.Errorf("%s: got %q and %v, want the end", what, rest, err)
	}
}

// opaque is not the beginning of any request: a TLS record header.
const opaque = "\x16\x03\x01\x00\x05hello"

// Section 2.2: bytes pass untouched, half-closes too, the client's first.
func TestTunnelClientHalfClose(t *testing.T) {
	t.Parallel()
	u := serve(t, func(p *peer) {
		all, _ := io.ReadAll(p.r) // ends by the client's half-close alone
		fmt.Fprintf(p, "got %q", all)
	})
	p := start(t, "")
	c := p.connect(u.addr)
	c.send(opaque + "\x00\xff\r\n\n")
	_ = c.CloseWrite()
	expectBytes(t, "answer after the half-close", c.r, fmt.Sprintf("got %q", opaque+"\x00\xff\r\n\n"))
	expectEOF(t, "the upstream's end", c.r)
	p.wantMetric(1, "mulligan_tunnels_total", "upstream=default", "result=established")
	p.wantMetric(0, "mulligan_tunnels_open", "upstream=default")
}

// The upstream's half-close passes too, and the client may go on sending.
func TestTunnelUpstreamHalfClose(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	u := serve(t, func(p *peer) {
		p.write("bye")
		_ = p.Conn.(interface{ CloseWrite() error }).CloseWrite()
		all, _ := io.ReadAll(p.r)
		got <- string(all)
	})
	p := start(t, "")
	c := p.connect(u.addr)
	expectBytes(t, "what the upstream said", c.r, "bye")
	expectEOF(t, "the upstream's half-close", c.r)
	p.wantMetric(1, "mulligan_tunnels_open", "upstream=default")
	c.send(opaque)
	c.Close()
	want(t, "sent after the upstream's half-close", <-got, opaque)
	p.wantMetric(0, "mulligan_tunnels_open", "upstream=default")
}

// A server that speaks first is heard before the client says anything.
func TestTunnelServerSpeaksFirst(t *testing.T) {
	t.Parallel()
	u := serve(t, func(p *peer) { p.write("220 ready\r\n"); p.ended() })
	c := start(t, "").connect(u.addr)
	expectBytes(t, "banner", c.r, "220 ready\r\n")
}

// Bytes that arrive with the CONNECT itself belong to the tunnel.
func TestTunnelEarlyBytes(t *testing.T) {
	t.Parallel()
	u := serve(t, func(p *peer) {
		head := make([]byte, len(opaque))
		_, _ = io.ReadFull(p.r, head)
		p.write("saw " + string(head))
	})
	p := start(t, "")
	c := dial(t, p.proxy)
	c.send(lines("CONNECT "+u.addr+" HTTP/1.1", "Host: "+u.addr) + opaque)
	want(t, "status", c.next("CONNECT").Status, 200)
	expectBytes(t, "answer", c.r, "saw "+opaque)
}

// Python's requests sends CONNECT as HTTP/1.0 and without Host.
func TestConnectHTTP10(t *testing.T) {
	t.Parallel()
	u := serve(t, func(p *peer) { p.write("x"); p.ended() })
	p := start(t, "")
	c := dial(t, p.proxy)
	c.send(lines("CONNECT " + u.addr + " HTTP/1.0"))
	want(t, "status", c.next("CONNECT").Status, 200)
	expectBytes(t, "first byte", c.r, "x")
}

// A reset on one side ends the other at once.
func TestTunnelReset(t *testing.T) {
	t.Parallel()
	gone := make(chan bool, 2)
	u := serve(t, func(p *peer) {
		first := make([]byte, 1)
		_, _ = io.ReadFull(p.r, first)
		if first[0] == 0x01 {
			abort(p.Conn)
			return
		}
		gone <- p.ended()
	})
	p := start(t, "")
	c := p.connect(u.addr)
	c.send("\x01")
	c.expectEnd()
	c = p.connect(u.addr)
	c.send("\x02")
	p.wantMetric(1, "mulligan_tunnels_open", "upstream=default")
	abort(c.TCPConn)
	want(t, "the upstream noticed the client's reset", <-gone, true)
	p.wantMetric(0, "mulligan_tunnels_open", "upstream=default")
}

// Many bytes both ways at once pass whole.
func TestTunnelBulk(t *testing.T) {
	t.Parallel()
	u := serve(t, func(p *peer) {
		_, _ = io.Copy(p.Conn, p.r) // echo
		_ = p.Conn.(interface{ CloseWrite() error }).CloseWrite()
	})
	c := start(t, "").connect(u.addr)
	block := "\x16" + strings.Repeat("0123456789abcdef", 65536)
	go func() {
		for range 8 {
			c.send(block)
		}
		_ = c.CloseWrite()
	}()
	back, err := io.ReadAll(c.r)
	if err != nil || string(back) != strings.Repeat(block, 8) {
		t.Errorf("%d bytes came back (%v), want %d equal ones", len(back), err, 8*len(block))
	}
}

// The dial of a CONNECT gets the policy: retries, counted, and a plain answer.
func TestConnectRefused(t *testing.T) {
	t.Parallel()
	p := start(t, `defaults: {retry: {`+quick+`}}`)
	dead := closedAddr(t)
	c := dial(t, p.proxy)
	c.send(lines("CONNECT "+dead+" HTTP/1.1", "Host: "+dead))
	c.next("CONNECT").expectProblem(t, 502, "attempts=4; stop=max_attempts; error=connection_refused")
	p.wantMetric(1, "mulligan_tunnels_total", "upstream=default", "result=connect_failure")
	p.wantMetric(3, "mulligan_retries_total", "reason=connect_failure")
	p.wantMetric(1, "mulligan_retries_denied_total", "stop=max_attempts")
}

// A port that opens while the dial is retried makes the tunnel succeed.
func TestConnectRetriedUntilItListens(t *testing.T) {
	t.Parallel()
	p := start(t, `defaults: {retry: {max_attempts: 10, backoff: {strategy: constant, initial_delay: 1s, jitter: none}, budget: {burst: 100}}}`)
	addr := freeAddr(t)
	c := dial(t, p.proxy)
	c.send(lines("CONNECT "+addr+" HTTP/1.1", "Host: "+addr))
	p.wantMetric(1, "mulligan_retries_waiting")
	upstreamOn(t, listen(t, addr), func(p *peer) { p.write("up"); p.ended() })
	r := c.next("CONNECT")
	want(t, "status", r.Status, 200)
	account := r.proxyStatus(t)
	if account["stop"] != "success" {
		t.Errorf("Proxy-Status of a CONNECT that was retried: %q", r.get("Proxy-Status"))
	}
	if status, has := account["received-status"]; has { // it once named our own 200
		t.Errorf("received-status=%s, and no upstream has answered", status)
	}
	expectBytes(t, "first bytes", c.r, "up")
	p.wantMetric(1, "mulligan_tunnels_total", "result=established")
}

// The dial's retries are paid for from the budget.
func TestConnectSpendsBudget(t *testing.T) {
	t.Parallel()
	p := start(t, `defaults: {retry: {backoff: {initial_delay: 1ms, max_delay: 2ms}, budget: {burst: 2}}}`)
	dead := closedAddr(t)
	ask := func() response {
		c := dial(t, p.proxy)
		c.send(lines("CONNECT "+dead+" HTTP/1.1", "Host: "+dead))
		return c.next("CONNECT")
	}
	ask().expectProblem(t, 502, "attempts=3; stop=budget; error=connection_refused")
	ask().expectProblem(t, 502, "attempts=1; stop=budget; error=connection_refused")
}

// A tunnel goes to the host it names, never to endpoints.
func TestTunnelIgnoresEndpoints(t *testing.T) {
	t.Parallel()
	named := answers(t, text(200, "named"))
	other := answers(t, text(200, "endpoint"))
	p := start(t, fmt.Sprintf(`upstreams: {u: {hosts: ["%s"], endpoints: ["http://%s"]}}`, named.addr, other.addr))
	c := p.connect(named.addr)
	c.send(lines("GET / HTTP/1.1", "Host: "+named.addr))
	want(t, "who answered", c.next("GET").Body, "named")
	want(t, "connections to the endpoint", other.connections(), 0)
	p.wantMetric(1, "mulligan_tunnels_total", "upstream=u", "result=established")
}

// What cannot be dialled is refused before any dial.
func TestConnectBadAuthority(t *testing.T) {
	t.Parallel()
	p := start(t, "")
	for _, authority := range []string{"127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:x", "http://127.0.0.1:80/", "/", ":80", "a b:1", "[::1:80", "user@127.0.0.1:80"} {
		c := dial(t, p.proxy)
		c.send(lines("CONNECT "+authority+" HTTP/1.1", "Host: x"))
		if r := c.next("CONNECT"); r.Status != 400 {
			t.Errorf("CONNECT %q: status %d, want 400", authority, r.Status)
		}
		c.Close()
	}
}

// tunnel_idle ends a tunnel through which no byte moves.
func TestTunnelIdle(t *testing.T) {
	t.Parallel()
	gone := make(chan bool, 1)
	u := serve(t, func(p *peer) { p.write("."); gone <- p.ended() })
	p := start(t, `defaults: {timeout: {tunnel_idle: 3s}}`)
	begun := time.Now() // before the tunnel's first byte can move
	c := p.connect(u.addr)
	expectBytes(t, "first byte", c.r, ".")
	c.expectEnd()
	if waited := time.Since(begun); waited < 2500*time.Millisecond {
		t.Errorf("the tunnel ended after %v, before tunnel_idle", waited)
	}
	want(t, "the upstream's side ended", <-gone, true)
	p.wantMetric(0, "mulligan_tunnels_open", "upstream=default")
}

// A tunnel that moves bytes in one direction only is not idle.
func TestTunnelOneWayIsNotIdle(t *testing.T) {
	t.Parallel()
	u := serve(t, func(p *peer) {
		for range 10 {
			linger(500 * time.Millisecond)
			p.write(".")
		}
	})
	c := start(t, `defaults: {timeout: {tunnel_idle: 3s}}`).connect(u.addr)
	expectBytes(t, "ten bytes over 5 s", c.r, strings.Repeat(".", 10))
}

// What a client sent ahead for the tunnel is no request of the proxy's where there
// is no tunnel.
func TestEarlyBytesOfARefusedConnect(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	c := dial(t, start(t, `defaults: {retry: {max_attempts: 1}}`).proxy)
	c.send(lines("CONNECT "+closedAddr(t)+" HTTP/1.1", "Host: x") + head("GET", u.url("/")))
	r := c.next("CONNECT")
	want(t, "status", r.Status, 502)
	want(t, "Connection", r.get("Connection"), "close")
	c.expectEnd()
	want(t, "requests seen", u.count(), 0)
}
