package blackbox

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Issue, point 5: TLS on the proxy's, the admin's and reverse listeners, by the
// local CA or from files.

// secureListen is a `listen:` with TLS of the local CA on both ports.
const secureListen = `
listen:
  proxy: {address: "@PROXY@", tls: {internal: true}}
  admin: {address: "@ADMIN@", tls: {internal: true}}
`

// startSecure starts mulligan with a configuration in which the admin port may
// speak TLS, and waits for it in TLS then.
func startSecure(t *testing.T, config string) *inside {
	t.Helper()
	p := prepare(t, config)
	p.run()
	i := &inside{mulligan: p, rootFile: filepath.Join(t.TempDir(), "root.pem")}
	p.says("msg=listening") // the root is there by then
	text := p.rootPEM()
	writeFile(t, i.rootFile, text)
	i.roots = x509.NewCertPool()
	i.roots.AppendCertsFromPEM([]byte(text))
	return i
}

// direct is a client that asks servers themselves, trusting the local CA.
func (i *inside) direct(version int) *caller {
	return newCaller(i.t, version, &http.Transport{TLSClientConfig: &tls.Config{RootCAs: i.roots}})
}

// plainAt sends a plain request to a TLS port, and checks that it is told so.
func plainAt(t *testing.T, addr string, others ...string) {
	t.Helper()
	for _, request := range append(others, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 3000\r\n\r\n"+strings.Repeat("x", 3000)) {
		c := dial(t, addr)
		c.send(request)
		_ = c.SetReadDeadline(time.Now().Add(patience))
		all, _ := io.ReadAll(c.r)
		if text := string(all); !strings.HasPrefix(text, "HTTP/1.") || !strings.Contains(text, " 400 ") || !strings.Contains(text, "TLS") && !strings.Contains(text, "HTTPS") {
			t.Errorf("%.60q at a TLS port got %q", request, text)
		}
	}
}

// The proxy port over TLS: absolute-form, tunnels, interception, mounts.
func TestTLSProxyListener(t *testing.T) {
	t.Parallel()
	curl, ca := need(t, "curl"), newAuthority(t)
	plain := answers(t, text(503, ""), text(200, "plain"))
	mounted := answers(t, text(200, "mounted"))
	opaque := newSite(t, ca, 2, func(w http.ResponseWriter, r *http.Request, n int) { fmt.Fprint(w, "opaque ", r.Proto) })
	seen := newSite(t, ca, 2, func(w http.ResponseWriter, r *http.Request, n int) {
		if n == 1 {
			w.WriteHeader(503)
		}
		fmt.Fprint(w, "seen ", r.Proto)
	})
	p := startSecure(t, secureListen+fmt.Sprintf("defaults: {retry: {%s}}\nupstreams:\n", quick)+
		ca.intercepting("api", "api.localhost", "")+
		fmt.Sprintf("  m: {mount: /m, endpoints: [\"http://%s\"]}\n", mounted.addr))
	both := filepath.Join(t.TempDir(), "both.pem")
	writeFile(t, both, readFile(t, p.rootFile)+readFile(t, ca.file))
	run := func(args ...string) string {
		t.Helper()
		out, err := p.client(curl, append([]string{"-sS", "--fail-with-body", "--proxy-cacert", p.rootFile, "--cacert", both}, args...)...)
		if err != nil {
			t.Errorf("curl %q: %v\n%s", args, err, out)
		}
		return out
	}
	through := []string{"--proxy", "https://" + p.proxy}
	want(t, "http through an https proxy", run(append(through, plain.url("/"))...), "plain")
	want(t, "a tunnel through an https proxy", run(append(through, "https://localhost:"+opaque.port)...), "opaque HTTP/2.0")
	want(t, "inside, HTTP/1.1", run(append(through, "--http1.1", "https://api.localhost:"+seen.port)...), "seen HTTP/2.0")
	want(t, "inside, HTTP/2", run(append(through, "--http2", "https://api.localhost:"+seen.port)...), "seen HTTP/2.0")
	want(t, "a mount", run("--noproxy", "*", "--http1.1", "https://"+p.proxy+"/m/x"), "mounted")
	want(t, "at the mount", mounted.request(1).Target, "/x")
	p.viaTLS()

	// A proxy is spoken to in HTTP/1.1, whatever a client offers.
	s, err := tls.Dial("tcp", p.proxy, &tls.Config{RootCAs: p.roots, ServerName: "localhost", NextProtos: []string{"h2", "http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "ALPN", s.ConnectionState().NegotiatedProtocol, "http/1.1")
	fmt.Fprintf(s, "GET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if all, _ := io.ReadAll(s); !strings.HasPrefix(string(all), "HTTP/1.1 421 ") {
		t.Errorf("origin-form: %q", all)
	}
	plainAt(t, p.proxy, "CONNECT x.localhost:443 HTTP/1.1\r\nHost: x.localhost:443\r\n\r\n", head("GET", "http://x.localhost/"), head("PUT", "http://x.localhost/"))
}

// viaTLS checks the Go client, which calls https proxies by itself.
func (i *inside) viaTLS() {
	i.t.Helper()
	u := answers(i.t, text(200, "by Go"))
	c := newCaller(i.t, 1, &http.Transport{
		Proxy:           http.ProxyURL(&url.URL{Scheme: "https", Host: i.proxy}),
		TLSClientConfig: &tls.Config{RootCAs: i.roots},
	})
	want(i.t, "body", c.do("GET", u.url("/"), "").Body, "by Go")
}

// The admin port over TLS: metrics and health, and never a key or the root.
func TestTLSAdminListener(t *testing.T) {
	t.Parallel()
	p := startSecure(t, secureListen)
	for _, version := range []int{1, 2} {
		c := p.direct(version)
		for _, host := range []string{p.admin, strings.Replace(p.admin, "127.0.0.1", "localhost", 1)} {
			r := c.do("GET", "https://"+host+"/metrics", "")
			want(t, "status", r.Status, 200)
			contains(t, "/metrics", r.Body, "mulligan_build_info")
			want(t, "/readyz", c.do("GET", "https://"+host+"/readyz", "").Status, 200)
		}
		for _, path := range []string{"/", "/ca", "/root.pem"} {
			if r := c.do("GET", "https://"+p.admin+path, ""); strings.Contains(r.Body, "PRIVATE KEY") || strings.Contains(r.Body, "BEGIN CERTIFICATE") {
				t.Errorf("%s: %.100q", path, r.Body)
			}
		}
	}
	plainAt(t, p.admin)
	for _, name := range []string{"localhost", "127.0.0.1"} {
		s, err := tls.Dial("tcp", p.admin, &tls.Config{RootCAs: p.roots, ServerName: name})
		if err != nil {
			t.Errorf("as %s: %v", name, err)
			continue
		}
		want(t, "a CA as leaf", s.ConnectionState().PeerCertificates[0].IsCA, false)
		s.Close()
	}
	ownersOnly(t, filepath.Join(filepath.Dir(p.file), "mulligan-data"))
}

// The admin port answers to the names that its certificate is for: no verified
// call could be made by another.
func TestTLSAdminNames(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	certFile, keyFile := ca.write(ca.leaf(time.Now().Add(time.Hour), "Admin.test"))
	for name, source := range map[string]string{
		"internal": "internal: true, names: [admin.test]", "files": fmt.Sprintf("cert_file: %s, key_file: %s", certFile, keyFile),
	} {
		t.Run(name, func(t *testing.T) {
			p := prepare(t, "listen:\n  proxy: \"@PROXY@\"\n  admin: {address: \"@ADMIN@\", tls: {"+source+"}}\n")
			p.run()
			p.says("msg=listening")
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM([]byte(readFile(t, ca.file)))
			if name == "internal" {
				roots.AppendCertsFromPEM([]byte(p.rootPEM()))
			}
			c := newCaller(t, 1, &http.Transport{
				TLSClientConfig: &tls.Config{RootCAs: roots},
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, "tcp", p.admin)
				},
			})
			want(t, "by its name", c.do("GET", "https://admin.test/readyz", "").Status, 200)
			byAnother := func() int { return c.do("GET", "https://admin.test/readyz", "", "Host: other.test").Status }
			want(t, "by another", byAnother(), 421)
			if name != "files" {
				return
			}
			newCert, newKey := ca.write(ca.leaf(time.Now().Add(time.Hour), "admin.test", "*.test"))
			if err := errors.Join(os.Rename(newCert, certFile), os.Rename(newKey, keyFile)); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the names of a certificate that was replaced", func() bool { return byAnother() == 200 })
		})
	}
}

// A reverse listener over TLS is a server of both versions.
func TestTLSReverseListener(t *testing.T) {
	t.Parallel()
	curl, ca, door := need(t, "curl"), newAuthority(t), freeAddr(t)
	_, port, _ := net.SplitHostPort(door)
	u := newSite(t, ca, 2, func(w http.ResponseWriter, r *http.Request, n int) {
		w.Header().Set("Got-Via", r.Header.Get("Via"))
		if n == 1 {
			w.WriteHeader(503)
			return
		}
		fmt.Fprintf(w, "%s %s", r.Method, r.Host)
	})
	p := startInside(t, fmt.Sprintf(`
defaults: {retry: {%s}}
upstreams:
  svc:
    endpoints: ["https://%s"]
    listen: {address: "%s", tls: {internal: true, names: [svc.test, "127.0.0.1"]}}
    tls: {ca_file: %s}
    %s
`, quick, u.addr, door, ca.file, unhurried))
	for i, row := range []struct{ flag, proto, via string }{{"--http1.1", "HTTP/1.1", "1.1"}, {"--http2", "HTTP/2", "2.0"}} {
		for _, host := range []string{"svc.test", "127.0.0.1"} {
			path := fmt.Sprintf("/%d/%s", i, host)
			out, err := p.client(curl, "-sS", "-i", "--noproxy", "*", row.flag, "--cacert", p.rootFile, "--resolve", "svc.test:"+port+":127.0.0.1", "https://"+host+":"+port+path)
			if err != nil || !strings.HasPrefix(out, row.proto+" 200") || !strings.HasSuffix(out, "GET "+u.addr) {
				t.Errorf("curl %s: %v\n%s", row.flag, err, out)
				continue
			}
			head, _, _ := strings.Cut(out, "\r\n\r\n")
			m := response{message: parseMessage(head + "\r\n\r\n"), Status: 200}
			m.expect(t, 200, "attempts=2; stop=success")
			contains(t, "Via at the upstream", m.get("Got-Via"), row.via+" mulligan-")
		}
	}
	plainAt(t, door)
	p.wantMetric(4, "mulligan_requests_total", "upstream=svc", "outcome=success_after_retry")
	if out, err := p.client(curl, "-sS", "--noproxy", "*", "--cacert", ca.file, "https://"+door+"/"); err == nil {
		t.Errorf("trusted by another root: %q", out)
	}

	// What ends before or in its handshake is closed.
	before := p.weigh()
	hello := clientHello(t, &tls.Config{ServerName: "svc.test"})
	var all sync.WaitGroup
	for _, bytes := range []string{hello[:50], hello[:3], hello, "SSH-2.0-x\r\n", "\x15\x03\x03\x00\x02\x02\x28"} {
		c := dial(t, door)
		all.Go(func() {
			c.send(bytes)
			_ = c.SetReadDeadline(time.Now().Add(closes))
			if _, err := io.Copy(io.Discard, c.r); err != nil {
				if e, ok := err.(net.Error); ok && e.Timeout() {
					t.Errorf("%q: the connection stays open", tail(bytes, 20))
				}
			}
		})
	}
	all.Wait()
	p.leaksNothing(before)
}

// Certificates from files are noticed when they change, without a restart; what
// cannot be used changes nothing.
func TestTLSListenerFromFiles(t *testing.T) {
	t.Parallel()
	ca, door := newAuthority(t), freeAddr(t)
	u := answers(t, text(200, "fine"))
	certFile, keyFile := ca.write(ca.leaf(time.Now().Add(time.Hour), "first.test"))
	p := start(t, fmt.Sprintf(`
upstreams:
  svc:
    endpoints: ["%s"]
    listen: {address: "%s", tls: {cert_file: %s, key_file: %s}}
`, u.url(""), door, certFile, keyFile))
	name := func() string {
		s, err := tls.Dial("tcp", door, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		return s.ConnectionState().PeerCertificates[0].DNSNames[0]
	}
	want(t, "the certificate at first", name(), "first.test")
	old, err := tls.Dial("tcp", door, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()

	ca.write(ca.leaf(time.Now().Add(time.Hour), "second.test"))
	eventually(t, "the second certificate", func() bool { return name() == "second.test" })
	fmt.Fprintf(old, "GET / HTTP/1.1\r\nHost: first.test\r\nConnection: close\r\n\r\n")
	if all, _ := io.ReadAll(old); !strings.HasSuffix(string(all), "fine") {
		t.Errorf("a connection from before: %q", all)
	}

	writeFile(t, keyFile, "no key")
	p.says("level=ERROR", keyFile)
	want(t, "the certificate beside a bad key", name(), "second.test")

	dir := t.TempDir() // by renaming
	a := &authority{t: t, dir: dir, cert: ca.cert, key: ca.key}
	newCert, newKey := a.write(a.leaf(time.Now().Add(time.Hour), "third.test"))
	for from, to := range map[string]string{newCert: certFile, newKey: keyFile} {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the third certificate", func() bool { return name() == "third.test" })
	if log := p.log.String(); strings.Contains(log, "PRIVATE KEY") {
		t.Error("the log has a key")
	}
}

// Files that cannot be used at the start are an error, and nothing is started.
func TestTLSListenerBadFiles(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	certFile, _ := ca.write(ca.leaf(time.Now().Add(time.Hour), "x.test"))
	other := newAuthority(t)
	_, otherKey := other.write(other.leaf(time.Now().Add(time.Hour), "x.test"))
	for name, files := range map[string][2]string{
		"a key of another": {certFile, otherKey}, "no such file": {certFile, "missing.pem"}, "the wrong way round": {otherKey, certFile},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := prepare(t, fmt.Sprintf("listen:\n  proxy: {address: \"@PROXY@\", tls: {cert_file: %s, key_file: %s}}\n  admin: \"@ADMIN@\"\n", files[0], files[1]))
			p.run()
			p.expectExit(1)
			contains(t, "the error", p.log.String(), "key_file")
		})
	}
}

// TLS of listeners, like the rest of `listen`, needs a restart, and the log says so.
func TestTLSListenerReload(t *testing.T) {
	t.Parallel()
	p := start(t, "listen:\n  proxy: {address: \"@PROXY@\"}\n  admin: \"@ADMIN@\"\n")
	p.replace("listen:\n  proxy: {address: \"@PROXY@\", tls: {internal: true}}\n  admin: \"@ADMIN@\"\n")
	p.says("restart", "listen.proxy")
	want(t, "the port still speaks plain HTTP", p.raw("GET / HTTP/1.1\r\nHost: x\r\n\r\n").Status, 421)
}

// Credentials are asked for over TLS as they are in the clear.
func TestTLSProxyAuth(t *testing.T) {
	t.Parallel()
	curl := need(t, "curl")
	u := answers(t, text(200, "in"))
	p := startSecure(t, `
listen:
  proxy: {address: "@PROXY@", tls: {internal: true}}
  admin: "@ADMIN@"
  auth: {username: u, password: pw}
`)
	args := []string{"-sS", "-o", "/dev/null", "-w", "%{http_code}", "--proxy-cacert", p.rootFile, "--proxy", "https://" + p.proxy}
	out, err := p.client(curl, append(args, u.url("/"))...)
	if err != nil || out != "407" {
		t.Errorf("without: %v, %q", err, out)
	}
	out, err = p.client(curl, append(args, "--proxy-user", "u:pw", u.url("/"))...)
	if err != nil || out != "200" {
		t.Errorf("with: %v, %q", err, out)
	}
	want(t, "requests", u.count(), 1)
}
