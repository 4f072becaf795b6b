package blackbox

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Section 2.3: what a real client sees of an upstream that answers 503 and then
// 200, whichever version of HTTP either side speaks.
func TestCurlIntercepted(t *testing.T) {
	t.Parallel()
	curl, ca := need(t, "curl"), newAuthority(t)
	busyOnce := func(w http.ResponseWriter, r *http.Request, n int) {
		w.Header().Set("Got-Via", strings.Join(r.Header["Via"], "|"))
		w.Header().Set("Got-Agent", r.Header.Get("User-Agent"))
		if n == 1 {
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, "%s %s %s", r.Proto, r.Method, r.RequestURI)
	}
	one, two := newSite(t, ca, 1, busyOnce), newSite(t, ca, 2, busyOnce)
	p := startInside(t, fmt.Sprintf("defaults: {retry: {%s}}\nupstreams:\n", quick)+
		ca.intercepting("one", "one.localhost", "")+ca.intercepting("two", "two.localhost", ""))
	for _, client := range []string{"1.1", "2"} {
		for _, up := range []struct {
			name, proto, via string
			port             string
		}{{"one", "HTTP/1.1", "1.1", one.port}, {"two", "HTTP/2.0", "2.0", two.port}} {
			path := "/from" + client + "?q=%2f&x"
			out, err := p.client(curl, "-sS", "-i", "--http"+client, "--suppress-connect-headers", "--cacert", p.rootFile,
				fmt.Sprintf("https://%s.localhost:%s%s", up.name, up.port, path))
			if err != nil {
				t.Fatalf("curl: %v\n%s", err, out)
			}
			head, body, _ := strings.Cut(out, "\r\n\r\n")
			want(t, "body", body, up.proto+" GET "+path)
			if !strings.HasPrefix(head, "HTTP/"+client+" 200") {
				t.Errorf("asked in HTTP/%s, answered with %q", client, head)
			}
			m := response{message: parseMessage(head + "\r\n\r\n"), Status: 200}
			m.expect(t, 200, "attempts=2; stop=success; received-status=200")
			clientVia := map[string]string{"1.1": "1.1", "2": "2.0"}[client]
			for what, via := range map[string][2]string{
				"Via of the answer": {m.get("Via"), up.via}, "Via of the request": {m.get("Got-Via"), clientVia},
			} {
				protocol, name, _ := strings.Cut(via[0], " ")
				if id, ok := strings.CutPrefix(name, "mulligan-"); protocol != via[1] || !ok || len(id) != 8 {
					t.Errorf("%s (client HTTP/%s, upstream %s) is %q, want %s mulligan-ID", what, client, up.proto, via[0], via[1])
				}
			}
			contains(t, "the User-Agent", m.get("Got-Agent"), "curl/")
		}
	}
	for _, name := range []string{"upstream=one", "upstream=two"} {
		p.wantMetric(2, "mulligan_requests_total", name, "route=default", "outcome=success_after_retry")
		p.wantMetric(2, "mulligan_requests_total", name)
		p.wantMetric(2, "mulligan_attempts_total", name, "result=5xx")
		p.wantMetric(2, "mulligan_attempts_total", name, "result=2xx")
		p.wantMetric(2, "mulligan_retries_total", name, "reason=503")
		p.wantMetric(0, "mulligan_requests_in_flight", name)
	}
	p.wantMetric(0, "mulligan_tunnels_total")
	p.wantMetric(0, "mulligan_tunnels_open")
}

// The requests inside get the whole policy: methods, keys, counts, budget, hints,
// routes by path, the client's own wishes.
func TestPolicyInside(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	policies := []struct{ name, extra string }{
		{"plain", ""},
		{"routed", "    retry: {max_attempts: 2}\n    routes: [{name: charge, match: {methods: [POST], path: /charge*}, retry: {methods: [POST], max_attempts: 3}}]\n"},
		{"poor", "    retry: {budget: {burst: 1, ratio: 0}}\n"},
		{"short", "    timeout: {connect: 60s, attempt: 100ms}\n    retry: {max_attempts: 2}\n"},
		{"small", "    buffer: {request: 1KiB}\n"},
		{"observing", "    retry: {mode: observe}\n"},
	}
	config := fmt.Sprintf("defaults: {retry: {%s}}\nupstreams:\n", quick)
	for _, policy := range policies {
		config += ca.intercepting(policy.name, `"*.`+policy.name+`.localhost"`, policy.extra)
	}
	for _, upstream := range []int{1, 2} {
		t.Run(fmt.Sprintf("upstream HTTP %d", upstream), func(t *testing.T) {
			t.Parallel()
			versions(t, func(t *testing.T, version int) {
				u := newSite(t, ca, upstream, insideAnswers, "*.plain.localhost", "*.routed.localhost", "*.poor.localhost",
					"*.short.localhost", "*.small.localhost", "*.observing.localhost")
				testPolicyInside(t, startInside(t, config), u, version)
			})
		})
	}
}

// insideAnswers does as the path says.
func insideAnswers(w http.ResponseWriter, r *http.Request, n int) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Got-Policy", r.Header.Get("Mulligan-Policy"))
	word := strings.Split(r.URL.Path, "/")
	switch word[len(word)-1] {
	case "once":
		if n == 1 {
			w.WriteHeader(503)
		}
	case "down":
		w.WriteHeader(503)
		_, _ = io.WriteString(w, "down for good")
	case "later":
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(503)
	case "soon":
		if n == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(503)
		}
	case "slow":
		if n == 1 {
			<-r.Context().Done()
		}
	case "missing":
		w.WriteHeader(404)
	case "moved":
		w.Header().Set("Location", "https://elsewhere.invalid/")
		w.WriteHeader(302)
	}
}

func testPolicyInside(t *testing.T, p *inside, u *site, version int) {
	c := p.caller(version)
	long := strings.Repeat("x", 100_000)
	rows := []struct {
		name, method, host, path, body string
		fields                         []string
		status, seen                   int
		account                        string
	}{
		{"a POST without a key", "POST", "plain", "/a/down", "x", nil, 503, 1, "attempts=1; stop=not_idempotent; received-status=503"},
		{"a POST with a key", "POST", "plain", "/b/once", "x", []string{"Idempotency-Key: k"}, 200, 2, "attempts=2; stop=success; received-status=200"},
		{"a POST with an empty key", "POST", "plain", "/c/down", "x", []string{"Idempotency-Key: "}, 503, 1, "attempts=1; stop=not_idempotent"},
		{"a PUT with a body", "PUT", "plain", "/d/once", long, nil, 200, 2, "attempts=2; stop=success"},
		{"all attempts", "GET", "plain", "/e/down", "", nil, 503, 4, "attempts=4; stop=max_attempts; received-status=503"},
		{"permanent", "GET", "plain", "/f/missing", "", nil, 404, 1, "attempts=1; stop=permanent; received-status=404"},
		{"redirects pass", "GET", "plain", "/g/moved", "", nil, 302, 1, ""},
		{"a success", "GET", "plain", "/h/fine", "", nil, 200, 1, ""},
		{"the client's wish", "GET", "plain", "/i/down", "", []string{"Mulligan-Policy: max-attempts=1"}, 503, 1, "attempts=1; stop=max_attempts"},
		{"a malformed wish", "GET", "plain", "/j/fine", "", []string{"Mulligan-Policy: max-attempts=no"}, 400, 0, "attempts=0; stop=permanent; error=http_request_error"},
		{"nested", "GET", "plain", "/k/down", "", []string{"Via: 1.1 mulligan-0badc0de"}, 503, 1, "attempts=1; stop=nested"},
		{"a hint too long", "GET", "plain", "/l/later", "", nil, 503, 1, "attempts=1; stop=retry_after; received-status=503"},
		{"by route", "POST", "routed", "/charge/down", "x", nil, 503, 3, "attempts=3; stop=max_attempts"},
		{"by no route", "GET", "routed", "/other/down", "", nil, 503, 2, "attempts=2; stop=max_attempts"},
		{"not by route", "POST", "routed", "/other2/down", "x", nil, 503, 1, "attempts=1; stop=not_idempotent"},
		{"the budget ends", "GET", "poor", "/m/down", "", nil, 503, 2, "attempts=2; stop=budget; received-status=503"},
		{"time for an attempt", "GET", "short", "/n/slow", "", nil, 200, 2, "attempts=2; stop=success"},
		{"a body past its buffer", "PUT", "small", "/o/down", long, nil, 503, 1, "attempts=1; stop=body_not_replayable"},
		{"observing", "GET", "observing", "/p/down", "", nil, 503, 1, "attempts=1; stop=disabled"},
	}
	for _, row := range rows {
		r := c.do(row.method, fmt.Sprintf("https://a.%s.localhost:%s%s", row.host, u.port, row.path), row.body, row.fields...)
		if r.Status != row.status {
			t.Errorf("%s: status %d, want %d (%v)", row.name, r.Status, row.status, r.Broken)
			continue
		}
		r.expect(t, row.status, row.account)
		want(t, row.name+": attempts seen", u.seen(row.path), row.seen)
		if strings.HasSuffix(row.path, "down") {
			want(t, row.name+": body", r.Body, "down for good")
		}
		want(t, row.name+": Mulligan-Policy at the upstream", r.get("Got-Policy"), "")
		if row.name == "a hint too long" {
			want(t, "the hint", r.get("Retry-After"), "3600")
		}
	}
	began := time.Now()
	c.do("GET", "https://b.plain.localhost:"+u.port+"/q/soon", "").expect(t, 200, "attempts=2; stop=success")
	if took := time.Since(began); took < time.Second {
		t.Errorf("a hint of 1 s was waited for %v", took)
	}
	p.wantMetric(1, "mulligan_requests_total", "upstream=routed", "route=charge", "outcome=failed")
	p.wantMetric(2, "mulligan_requests_total", "upstream=routed", "route=default", "outcome=failed")
	p.wantMetric(1, "mulligan_retries_denied_total", "upstream=poor", "stop=budget")
	p.wantMetric(0, "mulligan_retry_budget_remaining", "upstream=poor")
	p.wantMetric(1, "mulligan_attempts_total", "upstream=short", "result=timeout")
	p.wantMetric(0, "mulligan_requests_in_flight")
	p.wantMetric(0, "mulligan_buffered_bytes")
	p.wantMetric(0, "mulligan_tunnels_total")
}

// CONNECT is answered 200 at once; the dial, and what becomes of it, belongs to
// the request inside.
func TestDialBelongsToTheRequestInside(t *testing.T) {
	t.Parallel()
	ca, dead := newAuthority(t), closedAddr(t)
	p := startInside(t, fmt.Sprintf("defaults: {retry: {max_attempts: 3, %s}}\nupstreams:\n", quick)+ca.intercepting("dead", "127.0.0.1", ""))
	versions(t, func(t *testing.T, version int) {
		for _, method := range []string{"GET", "POST"} { // nothing was sent: any method
			r := p.caller(version).do(method, "https://"+dead+"/", "")
			r.expectProblem(t, 502, "attempts=3; stop=max_attempts; error=connection_refused")
		}
	})
	t.Cleanup(func() {
		p.wantMetric(12, "mulligan_attempts_total", "upstream=dead", "result=connect_failure")
		p.wantMetric(4, "mulligan_requests_total", "upstream=dead", "outcome=failed")
		p.wantMetric(0, "mulligan_tunnels_total")
	})
}

// The tunnel itself: HTTP/1.0 without Host, a ClientHello in the CONNECT's own
// segment, and plain HTTP instead of TLS.
func TestWaysIntoAnInterceptedTunnel(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	u := newSite(t, ca, 2, func(w http.ResponseWriter, r *http.Request, n int) { fmt.Fprint(w, r.Host) })
	plain := answers(t, text(503, ""), text(200, "plain"))
	p := startInside(t, fmt.Sprintf("defaults: {retry: {%s}}\nupstreams:\n", quick)+ca.intercepting("u", `"*.localhost"`, ""))
	host := "api.localhost:" + u.port

	c := dial(t, p.proxy)
	c.send(lines("CONNECT " + host + " HTTP/1.0"))
	want(t, "CONNECT as HTTP/1.0", c.next("CONNECT").Status, 200)
	if s, err := p.handshake(c, "api.localhost"); err != nil {
		t.Error(err)
	} else {
		fmt.Fprintf(s, "GET / HTTP/1.0\r\nHost: %s\r\n\r\n", host)
		if all, _ := io.ReadAll(s); !strings.HasSuffix(string(all), "\r\n\r\n"+host) {
			t.Errorf("HTTP/1.0 inside: %q", all)
		}
	}

	c = dial(t, p.proxy)
	early := &earlyConn{TCPConn: c.TCPConn, head: lines("CONNECT "+host+" HTTP/1.1", "Host: "+host)}
	early.r = c.r
	s := tls.Client(early, &tls.Config{RootCAs: p.roots, ServerName: "api.localhost"})
	if err := s.Handshake(); err != nil {
		t.Error("a ClientHello with the CONNECT:", err)
	}

	c = p.connect("other.localhost:" + fmt.Sprint(plain.port()))
	c.send(lines("GET / HTTP/1.1", "Host: other.localhost"))
	r := c.next("GET")
	r.expect(t, 200, "attempts=2; stop=success")
	want(t, "plain HTTP inside", r.Body, "plain")
	p.wantMetric(0, "mulligan_tunnels_open")
}

// earlyConn sends a CONNECT in front of the first bytes, and skips its answer.
type earlyConn struct {
	*net.TCPConn
	head string
	r    io.Reader
	seen bool
}

func (c *earlyConn) Write(p []byte) (int, error) {
	head := c.head
	c.head = ""
	n, err := c.TCPConn.Write(append([]byte(head), p...))
	return max(0, n-len(head)), err
}

func (c *earlyConn) Read(p []byte) (int, error) {
	if !c.seen {
		c.seen = true
		if head := connectHead(c.r); !strings.HasPrefix(head, "HTTP/1.1 200") {
			return 0, fmt.Errorf("CONNECT: %q", head)
		}
	}
	return c.r.Read(p)
}

// Hosts that no upstream intercepts stay opaque tunnels: their TLS is the
// server's own, byte for byte.
func TestOtherTunnelsStayOpaque(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	u := newSite(t, ca, 2, func(w http.ResponseWriter, r *http.Request, n int) {
		w.Header().Set("Got-Via", r.Header.Get("Via"))
		w.WriteHeader(503)
	})
	p := startInside(t, "upstreams:\n"+ca.intercepting("mine", "mine.localhost", "")+"  known: {hosts: [known.localhost]}\n")
	for _, host := range []string{"other.localhost", "known.localhost"} {
		s, err := p.handshake(p.connect(host+":"+u.port), "")
		if err != nil {
			t.Fatal(err)
		}
		cert := s.ConnectionState().PeerCertificates[0]
		if err := cert.CheckSignatureFrom(ca.cert); err != nil {
			t.Errorf("%s: the certificate is not the server's own: %v", host, err)
		}
		fmt.Fprintf(s, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		all, _ := io.ReadAll(s)
		if !strings.HasPrefix(string(all), "HTTP/1.1 503") || strings.Contains(strings.ToLower(string(all)), "mulligan") {
			t.Errorf("%s: %q", host, all)
		}
	}
	want(t, "requests seen", u.seen("/"), 2)
	p.wantMetric(1, "mulligan_tunnels_total", "upstream=default", "result=established")
	p.wantMetric(1, "mulligan_tunnels_total", "upstream=known", "result=established")
	p.wantMetric(0, "mulligan_requests_total")
}

// A reload begins to intercept, and ends it; no CA is made before it is needed.
func TestReloadIntercepts(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	u := newSite(t, ca, 1, func(w http.ResponseWriter, r *http.Request, n int) {})
	host := "api.localhost:" + u.port
	off := "upstreams: {api: {hosts: [api.localhost]}}\n"
	p := start(t, off)
	signer := func() string {
		c := p.connect(host)
		s := tls.Client(c.TCPConn, &tls.Config{InsecureSkipVerify: true, ServerName: "api.localhost"})
		if err := s.Handshake(); err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return s.ConnectionState().PeerCertificates[0].Issuer.String()
	}
	own := signer()
	data := filepath.Join(filepath.Dir(p.file), "mulligan-data")
	if _, err := os.Stat(data); !os.IsNotExist(err) {
		t.Errorf("data_dir without anything that needs it: %v", err)
	}
	p.replace("upstreams:\n" + ca.intercepting("api", "api.localhost", ""))
	eventually(t, "interception to begin", func() bool { return signer() != own })
	root := parsePEM(t, p.rootPEM())
	want(t, "the signer", signer(), root.Subject.String())
	p.replace(off)
	eventually(t, "interception to end", func() bool { return signer() == own })
	p.wantMetric(0, "mulligan_config_reloads_total", "result=failure")
}

// One root, made once, for its owner's eyes only; never on the admin port, nor
// its key anywhere.
func TestLocalCA(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	config := "log: {level: debug}\nupstreams:\n" + ca.intercepting("api", "api.localhost", "")
	p := prepare(t, config)
	before := p.rootPEM() // by the command, before anything else needed it
	p.run()
	p.awaitReady("")
	i := &inside{mulligan: p}
	root := parsePEM(t, before)
	want(t, "the root of the running process", p.rootPEM(), before)
	if !root.IsCA || root.MaxPathLen != 0 || !root.MaxPathLenZero || root.PublicKeyAlgorithm.String() != "ECDSA" {
		t.Errorf("CA %v, path length %d (%v), %v", root.IsCA, root.MaxPathLen, root.MaxPathLenZero, root.PublicKeyAlgorithm)
	}
	s, err := i.handshake(p.connect("api.localhost:1"), "")
	if err != nil {
		t.Fatal(err)
	}
	leaf := s.ConnectionState().PeerCertificates[0]
	if err := leaf.CheckSignatureFrom(root); err != nil {
		t.Error(err)
	}
	if leaf.IsCA || len(leaf.DNSNames) != 1 || leaf.DNSNames[0] != "api.localhost" || time.Until(leaf.NotAfter) > 25*time.Hour || leaf.NotAfter.After(root.NotAfter) {
		t.Errorf("leaf: CA %v, for %q, until %v", leaf.IsCA, leaf.DNSNames, leaf.NotAfter)
	}
	data := filepath.Join(filepath.Dir(p.file), "mulligan-data")
	keys := ownersOnly(t, data)
	if len(keys) != 1 {
		t.Errorf("private keys in data_dir: %q", keys)
	}
	for _, path := range append(adminPaths(t, data), "/", "/ca", "/ca.pem", "/root.pem", "/metrics", "/api/v1/config", "/api/v1/upstreams", "/%2e%2e/mulligan-data/") {
		r := p.ask("GET", path)
		if strings.Contains(r.Body, "PRIVATE KEY") || strings.Contains(r.Body, "BEGIN CERTIFICATE") {
			t.Errorf("the admin port serves %s: %.200s", path, r.Body)
		}
	}
	if log := p.log.String(); strings.Contains(log, "PRIVATE KEY") || strings.Contains(log, "BEGIN") {
		t.Error("the log has a key, or a certificate")
	}

	p.end()
	again := prepare(t, "")
	again.file, again.proxy, again.admin = p.file, p.proxy, p.admin
	again.run()
	again.awaitReady("")
	want(t, "the root after a restart", again.rootPEM(), before)
}

// ownersOnly checks the modes below a directory, and returns the files with a key.
func ownersOnly(t *testing.T, dir string) (keys []string) {
	t.Helper()
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		mode := os.FileMode(0o600)
		if info.IsDir() {
			mode = 0o700
		} else if strings.Contains(readFile(t, path), "PRIVATE KEY") {
			keys = append(keys, path)
		}
		if info.Mode().Perm() != mode {
			t.Errorf("%s has the mode %v", path, info.Mode().Perm())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// adminPaths are the files of a directory as somebody would try them on a server.
func adminPaths(t *testing.T, dir string) (paths []string) {
	t.Helper()
	_ = filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		rel, _ := filepath.Rel(filepath.Dir(dir), path)
		paths = append(paths, "/"+rel, "/"+filepath.Base(path))
		return err
	})
	return paths
}

// Processes that share a data_dir and start at once have one root.
func TestOneRootForAll(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	dir := filepath.Join(t.TempDir(), "shared")
	config := "data_dir: " + dir + "\nupstreams:\n" + ca.intercepting("api", "api.localhost", "")
	var all []*mulligan
	for range 4 {
		p := prepare(t, config)
		p.run()
		all = append(all, p)
	}
	issuers := map[string]bool{}
	for _, p := range all {
		p.awaitReady("")
		s, err := (&inside{mulligan: p}).handshake(p.connect("api.localhost:1"), "")
		if err != nil {
			t.Fatal(err)
		}
		issuers[string(s.ConnectionState().PeerCertificates[0].AuthorityKeyId)] = true
	}
	root := parsePEM(t, all[0].rootPEM())
	if len(issuers) != 1 || !issuers[string(root.SubjectKeyId)] {
		t.Errorf("%d roots signed", len(issuers))
	}
}

// A data_dir that others may read is no place for a CA's key, and one that
// cannot be written is an error with its name, before anything starts.
func TestDataDirUnusable(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	file := filepath.Join(t.TempDir(), "file")
	writeFile(t, file, "")
	p := prepare(t, "data_dir: "+file+"\nupstreams:\n"+ca.intercepting("api", "api.localhost", ""))
	p.run()
	p.expectExit(1)
	contains(t, "the error", p.log.String(), file, "hint:")
}

// A client that does not trust the CA: one clear hint for the host, nothing else.
func TestClientDoesNotTrust(t *testing.T) {
	t.Parallel()
	curl, ca := need(t, "curl"), newAuthority(t)
	u := newSite(t, ca, 1, func(http.ResponseWriter, *http.Request, int) {})
	p := startInside(t, "upstreams:\n"+ca.intercepting("api", "api.localhost", "")+ca.intercepting("b", "b.localhost", ""))
	for range 3 {
		for _, host := range []string{"api", "b"} {
			if out, err := p.client(curl, "-sS", "https://"+host+".localhost:"+u.port+"/"); err == nil || !strings.Contains(out, "certificate") {
				t.Errorf("curl trusts: %v, %s", err, out)
			}
		}
	}
	eventually(t, "two hints", func() bool { return strings.Count(p.log.String(), "mulligan ca") >= 2 })
	p.caller(2).do("GET", "https://api.localhost:"+u.port+"/", "").expect(t, 200, "")
	want(t, "hints", strings.Count(p.log.String(), "level=WARN"), 2)
	want(t, "requests seen", u.seen("/"), 1)
	p.wantMetric(1, "mulligan_attempts_total")
	p.wantMetric(1, "mulligan_requests_total")
	p.wantMetric(0, "mulligan_tunnels_total")
}

// What drains finishes the requests inside, and takes no more of them.
func TestDrainInside(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	came, go1 := make(chan bool, 4), make(chan bool)
	u := newSite(t, ca, 2, func(w http.ResponseWriter, r *http.Request, n int) {
		came <- true
		<-go1
		_, _ = io.WriteString(w, "whole")
	})
	p := startInside(t, "upstreams:\n"+ca.intercepting("api", "api.localhost", ""))
	results := make(chan response, 2)
	for _, version := range []int{1, 2} {
		go func() { results <- p.caller(version).do("GET", "https://api.localhost:"+u.port+"/", "") }()
	}
	soon(t, "a request", came)
	soon(t, "the other request", came)
	p.signal(syscall.SIGTERM)
	p.says("draining")
	close(go1)
	for range 2 {
		r := soon(t, "an answer", results)
		want(t, "the body of a request in flight", r.Body, "whole")
		want(t, "status", r.Status, 200)
	}
	p.expectExit(0)
}

// Interception opens no way around: own listeners are denied to the requests
// inside, and the tunnel itself needs the proxy's credentials.
func TestInterceptionOpensNoWayAround(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	p := startInside(t, "upstreams:\n"+ca.intercepting("all", `127.0.0.1, "*.localhost"`, ""))
	versions(t, func(t *testing.T, version int) {
		for _, addr := range []string{p.proxy, p.admin, strings.Replace(p.admin, "127.0.0.1", "admin.localhost", 1)} {
			r := p.caller(version).do("GET", "https://"+addr+"/metrics", "")
			r.expectProblem(t, 403, denied)
		}
	})
	u := answersTo(t, ca)
	locked := startInside(t, `
listen: {proxy: "@PROXY@", admin: "@ADMIN@", auth: {username: u, password: pw}}
upstreams:
`+ca.intercepting("all", `"*.localhost"`, ""))
	host := "api.localhost:" + u.port
	c := dial(t, locked.proxy)
	c.send(lines("CONNECT "+host+" HTTP/1.1", "Host: "+host))
	c.next("CONNECT").expectProblem(t, 407, "attempts=0; stop=permanent")
	c = dial(t, locked.proxy)
	c.send(lines("CONNECT "+host+" HTTP/1.1", "Host: "+host, "Proxy-Authorization: "+basic("u", "pw")))
	want(t, "CONNECT", c.next("CONNECT").Status, 200)
	s, err := locked.handshake(c, "api.localhost", "h2")
	if err != nil {
		t.Fatal(err)
	}
	want(t, "inside nobody is asked", askOver(t, s, host), 200)
	want(t, "requests seen", u.seen("/"), 1)
}

// An upgrade goes through interception, to an upstream that likes HTTP/2 better.
func TestUpgradeInside(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	u := newSite(t, ca, 2, func(w http.ResponseWriter, r *http.Request, n int) {
		if r.Header.Get("Upgrade") == "" {
			fmt.Fprint(w, r.Proto)
			return
		}
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_, _ = io.Copy(conn, rw)
	})
	p := startInside(t, "upstreams:\n"+ca.intercepting("api", "api.localhost", ""))
	host := "api.localhost:" + u.port
	c := p.secure1(host)
	want(t, "before", c.ask("GET", "/", host).Body, "HTTP/2.0")
	c.send(lines("GET /up HTTP/1.1", "Host: "+host, "Connection: Upgrade", "Upgrade: echo"))
	want(t, "status", c.next("GET").Status, 101)
	c.send("hello")
	expectBytes(t, "what came back", c.r, "hello")
	c.Conn.Close()
	p.wantMetric(0, "mulligan_requests_in_flight")
}
