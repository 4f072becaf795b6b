package blackbox

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// client is a raw connection to mulligan.
type client struct {
	*net.TCPConn
	t *testing.T
	r *bufio.Reader
}

// response is what came back. Status is 0 where the connection ended without one.
type response struct {
	message
	Status int
}

// dial opens a connection, closed with the test.
func dial(t *testing.T, addr string) *client {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	return wrap(t, conn)
}

// dialFrom opens a connection from a local address.
func dialFrom(t *testing.T, local, addr string) *client {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(local)}, Timeout: patience}
	conn, err := d.Dial("tcp", addr)
	if err != nil {
		t.Fatalf("dial from %s: %v", local, err)
	}
	return wrap(t, conn)
}

func wrap(t *testing.T, conn net.Conn) *client {
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(2 * patience))
	return &client{TCPConn: conn.(*net.TCPConn), t: t, r: bufio.NewReader(conn)}
}

// send writes text as it is. A peer that already left is for the reads to notice.
func (c *client) send(text string) { _, _ = io.WriteString(c.TCPConn, text) }

// next reads one response, an interim one too, with its body.
func (c *client) next(method string) response {
	c.t.Helper()
	r := c.head()
	if r.Status == 0 || r.Status < 200 || method == "HEAD" || r.Status == 204 || r.Status == 304 ||
		method == "CONNECT" && r.Status < 300 {
		r.Whole = r.Status != 0
		return r
	}
	r.Body, r.Trailer, r.Broken = readBody(c.r, r.message, true)
	r.Whole = r.Broken == nil
	return r
}

// head reads one response head.
func (c *client) head() response {
	c.t.Helper()
	head, err := readHead(c.r)
	if err != nil {
		return response{message: message{Head: head, Broken: err}}
	}
	r := response{message: parseMessage(head)}
	words := strings.SplitN(r.Line, " ", 3)
	if len(words) < 2 || !strings.HasPrefix(words[0], "HTTP/1.") {
		c.t.Fatalf("not a response head: %q", head)
	}
	if r.Status, err = strconv.Atoi(words[1]); err != nil {
		c.t.Fatalf("not a status line: %q", r.Line)
	}
	return r
}

// final reads responses until one is not interim.
func (c *client) final(method string) response {
	c.t.Helper()
	for {
		if r := c.next(method); r.Status == 0 || r.Status >= 200 {
			return r
		}
	}
}

// expectEnd checks that nothing more comes and that the connection ends.
func (c *client) expectEnd() {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	rest, err := io.ReadAll(c.r)
	if len(rest) > 0 {
		c.t.Errorf("after the end of the answers came %q", rest)
	}
	if e, ok := err.(net.Error); ok && e.Timeout() {
		c.t.Errorf("the connection stays open")
	}
}

// expectOpen checks that the connection still answers.
func (c *client) expectOpen(url string) {
	c.t.Helper()
	c.send(head("GET", url))
	if r := c.final("GET"); r.Status == 0 {
		c.t.Errorf("the connection does not serve a further request: %v", r.Broken)
	}
}

// head builds a request head in absolute-form, the fields in their order after Host.
func head(method, url string, fields ...string) string {
	host := strings.TrimPrefix(url, "http://")
	if i := strings.IndexAny(host, "/?"); i >= 0 {
		host = host[:i]
	}
	return lines(fmt.Sprintf("%s %s HTTP/1.1", method, url), append([]string{"Host: " + host}, fields...)...)
}

// lines joins a start line and fields to a head.
func lines(start string, fields ...string) string {
	var b strings.Builder
	b.WriteString(start + "\r\n")
	for _, f := range fields {
		b.WriteString(f + "\r\n")
	}
	return b.String() + "\r\n"
}

// do sends one request on a new connection and reads the final response. A
// body that is not empty gets its Content-Length.
func (p *mulligan) do(method, url, body string, fields ...string) response {
	p.t.Helper()
	c := dial(p.t, p.proxy)
	defer c.Close()
	return c.do(method, url, body, fields...)
}

// do sends one request on this connection and reads the final response. Once
// the next request of the same connection is served, all is over with this one:
// its upstream connection is pooled.
func (c *client) do(method, url, body string, fields ...string) response {
	c.t.Helper()
	if body != "" {
		fields = append(fields, fmt.Sprintf("Content-Length: %d", len(body)))
	}
	c.send(head(method, url, fields...) + body)
	return c.final(method)
}

// get is do for a GET.
func (p *mulligan) get(url string, fields ...string) response {
	p.t.Helper()
	return p.do("GET", url, "", fields...)
}

// raw sends bytes on a new connection to the proxy port and reads one response.
func (p *mulligan) raw(bytes string) response {
	p.t.Helper()
	c := dial(p.t, p.proxy)
	defer c.Close()
	c.send(bytes)
	return c.final(strings.SplitN(bytes, " ", 2)[0])
}

// proxyStatus is mulligan's own member of Proxy-Status: the last one, its
// parameters by name. The test fails where the member is missing.
func (r response) proxyStatus(t *testing.T) map[string]string {
	t.Helper()
	members := splitOutside(strings.Join(r.all("Proxy-Status"), ","), ',')
	parts := splitOutside(members[len(members)-1], ';')
	if strings.TrimSpace(parts[0]) != "mulligan" {
		t.Errorf("Proxy-Status: %q, its last member is not mulligan's (status %d, head %q)", r.all("Proxy-Status"), r.Status, r.Head)
		return nil
	}
	params := map[string]string{}
	for _, part := range parts[1:] {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		params[name] = value
	}
	return params
}

// splitOutside splits at a separator outside of quoted strings.
func splitOutside(s string, separator byte) []string {
	var parts []string
	quoted, from := false, 0
	for i := range len(s) {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case s[i] == separator && !quoted:
			parts, from = append(parts, s[from:i]), i+1
		}
	}
	return append(parts, s[from:])
}

// expect checks a response's status and mulligan's account of it, given as
// "attempts=1; stop=permanent; received-status=404"; "" stands for no account.
func (r response) expect(t *testing.T, status int, account string) {
	t.Helper()
	if r.Status != status {
		t.Errorf("status %d, want %d; %v, head %q, body %q", r.Status, status, r.Broken, r.Head, tail(r.Body, 500))
	}
	if account == "" {
		if r.has("Proxy-Status") {
			t.Errorf("a success at the first attempt carries Proxy-Status %q", r.get("Proxy-Status"))
		}
		return
	}
	got := r.proxyStatus(t)
	for _, part := range strings.Split(account, "; ") {
		name, value, _ := strings.Cut(part, "=")
		if got[name] != value {
			t.Errorf("Proxy-Status %q: %s is %q, want %q", r.all("Proxy-Status"), name, got[name], value)
		}
	}
}

// expectProblem checks that mulligan itself answered, as a problem document.
func (r response) expectProblem(t *testing.T, status int, account string) {
	t.Helper()
	r.expect(t, status, account)
	want(t, "Content-Type of the problem", r.get("Content-Type"), "application/problem+json")
	var doc struct {
		Status int    `json:"status"`
		Title  string `json:"title"`
	}
	if err := json.Unmarshal([]byte(r.Body), &doc); err != nil {
		t.Errorf("the problem %q is not JSON: %v", r.Body, err)
		return
	}
	want(t, "status in the problem", doc.Status, status)
	if doc.Title == "" {
		t.Errorf("the problem has no title: %s", r.Body)
	}
}
