package blackbox

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// seedRequests are what the mutations of requests begin from.
func seedRequests(target, addr string) []string {
	return []string{
		head("GET", target, "Accept: */*", "Connection: keep-alive, X-Y", "X-Y: z"),
		head("POST", target, "Content-Length: 11", "Expect: 100-continue") + "hello world",
		head("PUT", target, "Transfer-Encoding: chunked", "Trailer: T") + "5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nT: 1\r\n\r\n",
		lines("CONNECT "+addr+" HTTP/1.1", "Host: "+addr) + "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		head("GET", target, "Connection: Upgrade", "Upgrade: websocket") + "\x81\x05hello",
		lines("GET /mount/x?y=z HTTP/1.1", "Host: claimed.internal", "Mulligan-Policy: max-attempts=2, total=1.5", "Via: 1.1 mulligan-01234567"),
		lines("OPTIONS * HTTP/1.0", "Connection: keep-alive"),
		head("GET", target) + head("HEAD", target) + head("DELETE", target),
	}
}

// seedResponses are the same for upstreams.
var seedResponses = []string{
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\n\r\nhello",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: T\r\n\r\n5\r\nhello\r\n0\r\nT: 1\r\n\r\n",
	"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 503 No\r\nRetry-After: 0\r\nretry-after-ms: 1\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.0 200 OK\r\n\r\nuntil the end",
	"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x01x",
	"HTTP/1.1 204 No Content\r\nProxy-Status: a; error=b\r\nVia: 1.1 x\r\n\r\n",
}

// spice is what mutations put in: the bytes that framing turns on.
var spice = []string{"\r", "\n", "\r\n", "\r\n\r\n", "\x00", " ", "\t", ":", ";", ",", "0", "-1", "ffffffffffffffff", "99999999999999999999", "chunked",
	"Transfer-Encoding: chunked\r\n", "Content-Length: 3\r\n", "HTTP/1.1", "\xff", "/", "?", "%", "[", "]", "@", "GET ", "0\r\n\r\n"}

// mutate changes a message in one to four places.
func mutate(rng *rand.Rand, message string) string {
	for range 1 + rng.IntN(4) {
		at := rng.IntN(len(message) + 1)
		end := min(len(message), at+rng.IntN(8))
		switch rng.IntN(5) {
		case 0: // delete
			message = message[:at] + message[end:]
		case 1: // insert
			message = message[:at] + spice[rng.IntN(len(spice))] + message[at:]
		case 2: // replace
			message = message[:at] + spice[rng.IntN(len(spice))] + message[end:]
		case 3: // repeat
			message = message[:end] + message[at:]
		case 4: // flip a bit
			if at < len(message) {
				message = message[:at] + string([]byte{message[at] ^ 1<<rng.IntN(8)}) + message[at+1:]
			}
		}
	}
	return message
}

// Thousands of mutated messages in a row, from both sides: still serving, and no
// panic or race in the log (the harness looks).
func TestMutatedMessages(t *testing.T) {
	t.Parallel()
	const seed, workers, each = 20260101, 16, 200
	var mu sync.Mutex
	upRNG := rand.New(rand.NewPCG(seed, 2))
	u := serve(t, func(p *peer) {
		_ = p.SetDeadline(time.Now().Add(2 * time.Second))
		request, err := readHead(p.r)
		if err != nil {
			return
		}
		if strings.Contains(request, " /good ") {
			p.write("HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nstill serving")
			return
		}
		mu.Lock()
		answer := seedResponses[upRNG.IntN(len(seedResponses))]
		if upRNG.IntN(4) > 0 {
			answer = mutate(upRNG, answer)
		}
		mu.Unlock()
		p.write(answer)
	})
	p := start(t, fmt.Sprintf(`
log: {access: false}
defaults: {timeout: {connect: 1s, attempt: 300ms, total: 10s, idle: 1s, tunnel_idle: 500ms}, retry: {%s}}
upstreams: {claimed: {hosts: [claimed.internal], mount: /mount, endpoints: ["http://%s"]}}
unmatched: deny # no mutated name is looked up, no mutated address called
`, quick, u.addr))
	requests := seedRequests("http://claimed.internal/x", "claimed.internal:80")
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(100+worker)))
			for range each {
				exchangeMutated(p.proxy, mutate(rng, requests[rng.IntN(len(requests))]), rng.IntN(10) == 0)
			}
		})
	}
	wg.Wait()
	want(t, "/healthz after all that", p.ask("GET", "/healthz").Status, 200)
	for range 20 {
		r := p.get("http://claimed.internal/good")
		want(t, "status", r.Status, 200)
		want(t, "body", r.Body, "still serving")
	}
	p.wantMetric(0, "mulligan_requests_in_flight")
	p.wantMetric(0, "mulligan_tunnels_open")
	p.wantMetric(0, "mulligan_buffered_bytes")
	if n, _ := p.metric("mulligan_requests_total"); n < 100 {
		t.Errorf("only %v of the messages were requests: the mutations are too coarse to test anything", n)
	}
}

// exchangeMutated sends one message and reads whatever comes, or leaves at once.
func exchangeMutated(addr, message string, leave bool) {
	conn, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(150 * time.Millisecond))
	if _, err := io.WriteString(conn, message); err != nil || leave {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok && strings.HasSuffix(message, "\n\n") {
		_ = tcp.CloseWrite()
	}
	_, _ = io.Copy(io.Discard, bufio.NewReader(conn))
}
