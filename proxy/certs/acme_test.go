package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// pebble is a real ACME server, and a DNS server for which every name is
// 127.0.0.1.
type pebble struct {
	t         *testing.T
	dir       string
	local     *Authority // signed the directory's certificate
	directory string     // port of
	manage    string     // address of its management
	dns       string     // address of
	http, tls int        // where it looks for challenges
}

// startPebble starts the servers, whose certificates are valid for a minute.
func startPebble(t *testing.T) *pebble {
	t.Helper()
	server, names := command(t, "pebble"), command(t, "pebble-challtestsrv")
	p := &pebble{t: t, dir: t.TempDir(), local: newTestAuthority(t), http: freePort(t), tls: freePort(t)}
	p.directory, p.manage, p.dns = strconv.Itoa(freePort(t)), loopback(freePort(t)), loopback(freePort(t))
	p.run(names, "-defaultIPv4", "127.0.0.1", "-defaultIPv6", "", "-dnsserver", p.dns, "-management", loopback(freePort(t)),
		"-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", "")
	p.run(server, "-config", p.configure(), "-dnsserver", p.dns)
	until(t, "pebble is there", func() bool {
		_, err := p.get("https://127.0.0.1:" + p.directory + "/dir")
		return err == nil
	})
	return p
}

// command finds a program that `go install` puts into its own place.
func command(t *testing.T, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	gopath, err := exec.Command("go", "env", "GOPATH").Output()
	if err != nil {
		t.Fatal(err)
	}
	path, err := exec.LookPath(filepath.Join(strings.TrimSpace(string(gopath)), "bin", name))
	if err != nil {
		t.Skip("there is no " + name)
	}
	return path
}

// run runs a program until the test ends.
func (p *pebble) run(name string, args ...string) {
	p.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=0", "PEBBLE_AUTHZREUSE=0")
	log := new(logBuffer)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if p.t.Failed() {
			p.t.Log(log)
		}
	})
}

// configure writes pebble's files.
func (p *pebble) configure() string {
	p.t.Helper()
	template := &x509.Certificate{
		SerialNumber: newSerial(), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"acme.test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(nil, template, p.local.root, p.local.leafKey.Public(), p.local.key)
	if err != nil {
		p.t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		p.t.Fatal(err)
	}
	config, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": "127.0.0.1:" + p.directory, "managementListenAddress": p.manage,
		"certificate": p.write("pebble.crt", encode(leaf)), "privateKey": p.write("pebble.key", keyPEM(p.t, p.local.leafKey)),
		"httpPort": p.http, "tlsPort": p.tls, "keyAlgorithm": "ecdsa",
		"retryAfter": map[string]int{"authz": 1, "order": 1},
		"profiles":   map[string]any{"default": map[string]any{"description": "short", "validityPeriod": 60}},
	}})
	if err != nil {
		p.t.Fatal(err)
	}
	return p.write("config.json", config)
}

func (p *pebble) write(name string, text []byte) string {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		p.t.Fatal(err)
	}
	return path
}

// get asks pebble.
func (p *pebble) get(url string) ([]byte, error) {
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool(p.local)}, DisableKeepAlives: true}, Timeout: patience}
	resp, err := client.Get(url)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// roots is what clients of certificates from pebble trust.
func (p *pebble) roots() *x509.CertPool {
	p.t.Helper()
	text, err := p.get("https://" + p.manage + "/roots/0")
	if err != nil {
		p.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		p.t.Fatalf("no root: %q", text)
	}
	return roots
}

// config is that of a listener that gets its certificate from pebble, by
// whatever challenge has a port.
func (p *pebble) config(httpPort, alpnPort int) Config {
	return Config{
		Names: []string{ownName()}, Storage: p.t.TempDir(),
		ACME: &ACME{
			Email: "ops@proxy.test", Directory: "https://127.0.0.1:" + p.directory + "/dir",
			CAFile:   p.write("roots.pem", p.local.RootPEM()),
			HTTPPort: httpPort, TLSALPNPort: alpnPort, ChallengeHost: "127.0.0.1",
		},
		magic: tuning{renewEvery: 200 * time.Millisecond, renewRatio: 0.95, stopWithin: patience},
	}
}

// TestACME: a certificate by each challenge, and a renewal, which the listener
// shows without a restart. With TLS-ALPN-01 it answers the challenge itself.
func TestACME(t *testing.T) {
	p := startPebble(t)
	for _, test := range []struct {
		name         string
		http, alpn   int
		listenerPort int      // 0: any
		protos       []string // none: clients may offer what they like
		agreed       string
	}{
		{"TLS-ALPN-01", -1, p.tls, p.tls, []string{"h2", "http/1.1"}, "h2"},
		{"TLS-ALPN-01 beside no protocol", -1, p.tls, p.tls, nil, ""},
		{"HTTP-01", p.http, -1, 0, []string{"h2", "http/1.1"}, "h2"},
		{"TLS-ALPN-01 on a port that is opened for it", -1, p.tls, 0, []string{"h2", "http/1.1"}, "h2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := p.config(test.http, test.alpn)
			cfg.NextProtos = test.protos
			ln := listen(t, loopback(test.listenerPort)) // first, or its port is opened for the challenge
			m, log := start(t, cfg)
			addr := serve(ln, m.TLS())
			roots := p.roots()
			serial := func() string {
				state, err := dial(addr, &tls.Config{RootCAs: roots, ServerName: cfg.Names[0], NextProtos: []string{"h2"}})
				if err != nil {
					return ""
				}
				if state.NegotiatedProtocol != test.agreed {
					t.Fatalf("protocol %q", state.NegotiatedProtocol)
				}
				return state.PeerCertificates[0].SerialNumber.String()
			}
			var first string
			until(t, "a certificate", func() bool { first = serial(); return first != "" })
			if log.count("certificate: obtained") == 0 {
				t.Error("not logged")
			}
			until(t, "a new certificate", func() bool { s := serial(); return s != "" && s != first })

			// What is stored is served at once by the next process.
			m.Close()
			again, _ := start(t, cfg)
			if _, err := again.TLS().GetCertificate(&tls.ClientHelloInfo{ServerName: cfg.Names[0]}); err != nil {
				t.Error("not taken from the storage:", err)
			}
		})
	}
}

// awayCA is a CA that is not there.
func awayCA() *ACME {
	return &ACME{Directory: "https://127.0.0.1:9/dir", HTTPPort: -1, ChallengeHost: "127.0.0.1", TLSALPNPort: 1}
}

// TestACMEAway: a CA that is away holds up neither the start nor the end;
// handshakes fail, and the log says why, once.
func TestACMEAway(t *testing.T) {
	cfg := Config{Names: []string{"proxy.test", "other.test"}, Storage: t.TempDir(), ACME: awayCA()}
	m, log := start(t, cfg)
	addr := serve(listen(t, "127.0.0.1:0"), m.TLS())
	for range 5 {
		if _, err := dial(addr, &tls.Config{ServerName: "proxy.test"}); err == nil {
			t.Error("a handshake without a certificate")
		}
	}
	if log.count("handshakes fail until there is one") != 1 {
		t.Error("logged:", log)
	}
	until(t, "the log says why", func() bool { return log.count("level=ERROR") > 0 })
	closed := make(chan struct{})
	go func() { defer close(closed); m.Close() }()
	select {
	case <-closed:
	case <-time.After(patience):
		t.Fatal("Close waits for the CA")
	}
}

// TestACMEIgnoresProxies: with HTTP_PROXY set, the CA is asked directly. It runs
// in a process of its own: Go reads the variable once.
func TestACMEIgnoresProxies(t *testing.T) {
	p := startPebble(t)
	proxy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	var calls atomic.Int32
	go func() {
		for {
			c, err := proxy.Accept()
			if err != nil {
				return
			}
			calls.Add(1)
			c.Close()
		}
	}()
	url := "http://" + proxy.Addr().String()
	cmd := helperProcess(t, "acme", "CERTS_TEST_DIR="+t.TempDir(), "CERTS_TEST_CA="+p.write("roots.pem", p.local.RootPEM()),
		"CERTS_TEST_DIRECTORY=https://acme.test:"+p.directory+"/dir", "CERTS_TEST_DNS="+p.dns, "CERTS_TEST_PORT="+strconv.Itoa(p.http),
		"HTTP_PROXY="+url, "HTTPS_PROXY="+url, "http_proxy="+url, "https_proxy="+url, "ALL_PROXY="+url, "NO_PROXY=", "no_proxy=")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "got it\n") {
		t.Errorf("%v\n%s", err, out)
	}
	for line := range strings.Lines(strings.TrimSuffix(string(out), "got it\n")) {
		if !strings.HasPrefix(line, "time=") {
			t.Error("not in the log's format:", line)
		}
	}
	if calls.Load() != 0 {
		t.Error("the proxy was called:", calls.Load())
	}
}

// acmeProcess gets a certificate, by HTTP-01.
func acmeProcess() {
	fail := func(what any) { fmt.Println("failed:", what); os.Exit(1) }
	directory, port := os.Getenv("CERTS_TEST_DIRECTORY"), os.Getenv("CERTS_TEST_PORT")
	req, err := http.NewRequest(http.MethodGet, directory, nil)
	if err != nil {
		fail(err)
	}
	if proxy, _ := http.ProxyFromEnvironment(req); proxy == nil {
		fail("the test cannot fail: no proxy would be used anyway")
	}
	number, _ := strconv.Atoi(port)
	m, err := Listener(context.Background(), Config{
		Names: []string{"proxy.test"}, Storage: os.Getenv("CERTS_TEST_DIR"), Log: slog.New(slog.NewTextHandler(os.Stdout, nil)),
		ACME: &ACME{
			Directory: directory, CAFile: os.Getenv("CERTS_TEST_CA"),
			HTTPPort: number, TLSALPNPort: -1, ChallengeHost: "127.0.0.1",
		},
		magic: tuning{resolver: os.Getenv("CERTS_TEST_DNS")},
	})
	if err != nil {
		fail(err)
	}
	ln, err := tls.Listen("tcp", "127.0.0.1:0", m.TLS())
	if err != nil {
		fail(err)
	}
	server := http.Server{ErrorLog: log.New(io.Discard, "", 0)}
	go server.Serve(ln)
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		_, err := dial(ln.Addr().String(), &tls.Config{ServerName: "proxy.test", InsecureSkipVerify: true})
		if err == nil {
			fmt.Println("got it")
			os.Exit(0)
		}
		if time.Now().After(deadline) {
			fail(err)
		}
	}
}

// TestACMEMistakes: at the start.
func TestACMEMistakes(t *testing.T) {
	junk := filepath.Join(t.TempDir(), "junk.pem")
	if err := os.WriteFile(junk, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		names []string
		acme  ACME
		want  string
	}{
		{nil, ACME{}, "needs the names"},
		{[]string{"*.proxy.test"}, ACME{}, `no certificate for "*.proxy.test"`},
		{[]string{"proxy.test"}, ACME{CAFile: junk}, "no certificate"},
		{[]string{"proxy.test"}, ACME{CAFile: junk + ".missing"}, "cannot be read"},
		{[]string{"proxy.test"}, ACME{Directory: "http://acme.example/dir"}, "no https:// URL"},
		{[]string{"proxy.test"}, ACME{Directory: "acme.example"}, "no https:// URL"},
		{[]string{"proxy.test"}, ACME{HTTPPort: -1, TLSALPNPort: -1}, "no ACME challenge can be answered"},
	} {
		_, err := Listener(t.Context(), Config{Names: test.names, ACME: &test.acme, Storage: t.TempDir(), Log: new(logBuffer).logger()})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v %+v: %v", test.names, test.acme, err)
		}
	}
}

var givenPorts sync.Map

func loopback(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }

// freePort returns a port on which nothing listens, below those that the kernel
// gives to outgoing connections. With the fork lock no process is started while
// the port is tried, which would get a copy of the socket. Each port is given once.
func freePort(t *testing.T) int {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	for range 1000 {
		port := 10000 + rand.IntN(8000)
		if _, given := givenPorts.LoadOrStore(port, true); given {
			continue
		}
		ln, err := net.Listen("tcp", loopback(port))
		if err != nil {
			continue
		}
		ln.Close()
		if udp, err := net.ListenPacket("udp", loopback(port)); err == nil {
			udp.Close()
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}
