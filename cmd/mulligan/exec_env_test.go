package main

import (
	"bytes"
	"encoding/pem"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mulligan/proxy/certs"
)

// furnished is an environment, made for a test, and what was warned of.
type furnished struct {
	*environment
	t    *testing.T
	dir  *privateDir
	root []byte
	said *bytes.Buffer
}

func newFurnished(t *testing.T, vars ...string) *furnished {
	t.Helper()
	said := new(bytes.Buffer)
	ca, err := certs.New([]string{"api.example.com"})
	if err != nil {
		t.Fatal(err)
	}
	return &furnished{
		&environment{vars: vars, log: slog.New(slog.NewTextHandler(said, nil))}, t, &privateDir{t.TempDir()}, ca.RootPEM(), said,
	}
}

// TestRelativeTMPDIR: the command may go to another directory, and still has to
// find what it is pointed to.
func TestRelativeTMPDIR(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("TMPDIR", "tmp")
	if err := os.Mkdir("tmp", 0o700); err != nil {
		t.Fatal(err)
	}
	dir, err := newPrivateDir()
	if err != nil {
		t.Fatal(err)
	}
	file, err := dir.write("sub/file", nil)
	if err != nil || !filepath.IsAbs(file) {
		t.Errorf("%q, %v", file, err)
	}
}

// through sets the proxy, trust the root.
func (f *furnished) through(proxy string) {
	f.t.Helper()
	u, err := url.Parse(proxy)
	if err != nil {
		f.t.Fatal(err)
	}
	f.proxyThrough(u)
}

func (f *furnished) trustRoot() {
	f.t.Helper()
	if err := f.trust(f.dir, f.root); err != nil {
		f.t.Fatal(err)
	}
}

// certificatesOf are the certificates in the file that a variable names.
func (f *furnished) certificatesOf(name string) [][]byte {
	f.t.Helper()
	return certificatesOf(f.t, f.get(name))
}

func certificatesOf(t *testing.T, path string) (all [][]byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		all = append(all, block.Bytes)
	}
	return all
}

// pemFile writes a file of certificates of authorities that are new.
func pemFile(t *testing.T, path string, howMany int) (ders [][]byte) {
	t.Helper()
	var text []byte
	for range howMany {
		ca, err := certs.New([]string{"x.example.com"})
		if err != nil {
			t.Fatal(err)
		}
		ders = append(ders, ca.Root().Raw)
		text = append(append(text, "a comment\n"...), ca.RootPEM()...)
	}
	if err := os.WriteFile(path, bytes.TrimRight(text, "\n"), 0o600); err != nil { // the last line has no end
		t.Fatal(err)
	}
	return ders
}

func TestProxyThrough(t *testing.T) {
	f := newFurnished(t, "PATH=/bin", "NO_PROXY=localhost", "no_proxy=*", "HTTP_PROXY=http://corp:3128", "https_proxy=x", "ALL_PROXY=socks5://s",
		"JAVA_TOOL_OPTIONS=-Da=b", "EMPTY=", "=odd")
	f.through("http://me:p%20w@127.0.0.1:4711")
	for _, name := range []string{"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"} {
		if got := f.get(name); got != "http://me:p%20w@127.0.0.1:4711" {
			t.Errorf("%s is %q", name, got)
		}
	}
	for _, name := range []string{"no_proxy", "NO_PROXY", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "WGETRC", "NODE_EXTRA_CA_CERTS", "PHP_INI_SCAN_DIR"} {
		if value, ok := f.lookup(name); ok {
			t.Errorf("%s is set, to %q", name, value)
		}
	}
	if got := f.get("ALL_PROXY"); got != "socks5://s" {
		t.Errorf("ALL_PROXY is %q", got)
	}
	if got := f.get("JAVA_TOOL_OPTIONS"); got != "-Da=b -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=4711 -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=4711 -Dhttp.nonProxyHosts=" {
		t.Errorf("JAVA_TOOL_OPTIONS is %q", got)
	}
	if !slices.Contains(f.vars, "PATH=/bin") || !slices.Contains(f.vars, "EMPTY=") || !slices.Contains(f.vars, "=odd") {
		t.Errorf("what has nothing to do with it has changed: %q", f.vars)
	}
	if f.said.Len() != 0 {
		t.Errorf("it warns: %s", f.said)
	}
}

// Git prefers its own configuration to the environment: what it is told goes
// behind what it was told already.
func TestGitConfiguration(t *testing.T) {
	f := newFurnished(t, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=a.b", "GIT_CONFIG_VALUE_0=c")
	f.through("http://127.0.0.1:4711")
	for name, want := range map[string]string{
		"GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_0": "a.b", "GIT_CONFIG_KEY_1": "http.proxy", "GIT_CONFIG_VALUE_1": "http://127.0.0.1:4711",
	} {
		if got := f.get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	f = newFurnished(t, "GIT_CONFIG_COUNT=x")
	f.through("http://127.0.0.1:4711")
	if got := f.get("GIT_CONFIG_COUNT"); got != "x" {
		t.Errorf("git's own complaint is taken away: %q", got)
	}
}

func TestWarnings(t *testing.T) {
	for _, row := range []struct {
		name string
		vars []string
		do   func(f *furnished)
		says string
	}{
		{"another proxy", []string{"http_proxy=http://u:secret@corp:3128"}, func(f *furnished) { f.warnOfProxy() }, "proxy=http://u:xxxxx@corp:3128"},
		{"an odd one", []string{"HTTPS_PROXY=:secret"}, func(f *furnished) { f.warnOfProxy() }, "(unreadable)"},
		{"no proxy", []string{"HTTPS_PROXY=", "NO_PROXY=secret"}, func(f *furnished) { f.warnOfProxy() }, ""},
		{"CGI", []string{"REQUEST_METHOD=GET"}, func(f *furnished) { f.through("http://127.0.0.1:1") }, "REQUEST_METHOD"},
		{"a bundle that is not there", []string{"SSL_CERT_FILE=/nonexistent/ca.pem"}, (*furnished).trustRoot, "/nonexistent/ca.pem"},
		{"a trust store of Java's", []string{"JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore=/x"}, (*furnished).trustRoot, "trust store of its own"},
	} {
		t.Run(row.name, func(t *testing.T) {
			f := newFurnished(t, row.vars...)
			row.do(f)
			said := f.said.String()
			if !strings.Contains(said, row.says) || row.says == "" && said != "" || strings.Count(said, "\n") > 1 {
				t.Errorf("it says %q, want one line with %q", said, row.says)
			}
			if strings.Contains(said, "secret") {
				t.Errorf("it tells a secret: %s", said)
			}
		})
	}
}

// What each variable named before is still trusted, and the root is besides.
func TestTrust(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	of := map[string][][]byte{}
	for i, name := range []string{"ssl", "curl", "node", "git", "wget", "pip"} {
		of[name] = pemFile(t, file(name), i+1)
	}
	if err := os.WriteFile(file("wgetrc"), []byte("timeout=7\nCA-Certificate = "+file("wget")), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFurnished(t, "SSL_CERT_FILE="+file("ssl"), "CURL_CA_BUNDLE="+file("curl"), "NODE_EXTRA_CA_CERTS="+file("node"),
		"GIT_SSL_CAINFO="+file("git"), "PIP_CERT="+file("pip"), "npm_config_cafile="+file("node"), "WGETRC="+file("wgetrc"), "PHP_INI_SCAN_DIR=/etc/php", "JAVA_HOME=/nonexistent")
	f.trustRoot()
	root, _ := pem.Decode(f.root)
	for name, had := range map[string][][]byte{
		"SSL_CERT_FILE": of["ssl"], "CURL_CA_BUNDLE": of["curl"], "REQUESTS_CA_BUNDLE": of["curl"], "GIT_SSL_CAINFO": of["git"],
		"NODE_EXTRA_CA_CERTS": of["node"], "AWS_CA_BUNDLE": of["ssl"], "PIP_CERT": of["pip"], "npm_config_cafile": of["node"], "DENO_CERT": nil,
	} {
		want := slices.Concat(had, [][]byte{root.Bytes})
		if got := f.certificatesOf(name); !slices.EqualFunc(got, want, bytes.Equal) {
			t.Errorf("%s names a file with %d certificates, want %d", name, len(got), len(want))
		}
	}
	if _, set := f.lookup("NIX_SSL_CERT_FILE"); set {
		t.Error("a variable that was not there is set")
	}
	text, _ := os.ReadFile(f.get("WGETRC"))
	if !strings.HasPrefix(string(text), "timeout=7\n") || len(certificatesOf(t, wgetSetting(text, "cacertificate"))) != len(of["wget"])+1 {
		t.Errorf("wgetrc is\n%s", text)
	}
	ini := strings.TrimPrefix(f.get("PHP_INI_SCAN_DIR"), "/etc/php:")
	text, _ = os.ReadFile(filepath.Join(ini, "mulligan.ini"))
	if path := f.get("SSL_CERT_FILE"); string(text) != "curl.cainfo=\""+path+"\"\nopenssl.cafile=\""+path+"\"\n" {
		t.Errorf("PHP's settings, of %q, are\n%s", f.get("PHP_INI_SCAN_DIR"), text)
	}
	store, err := readTrustStore(mustRead(t, filepath.Join(f.dir.path, "java.jks")))
	if err != nil || len(store) != len(of["ssl"])+1 {
		t.Errorf("Java's trust store has %d certificates (%v)", len(store), err)
	}
	// A command may give up root before it reads them; what was copied stays as
	// private as it was.
	for entry, mode := range map[string]os.FileMode{"java.jks": 0o644, "ca.pem": 0o644, "wgetrc": 0o600, "php": 0o755, "php/mulligan.ini": 0o644} {
		if got := modeOf(t, filepath.Join(f.dir.path, entry)); got != mode {
			t.Errorf("%s has the mode %04o, want %04o", entry, got, mode)
		}
	}
}

// TestOthersCannotList: the directory's names are no secret to the command, but to
// others they are.
func TestOthersCannotList(t *testing.T) {
	dir, err := newPrivateDir()
	if err != nil {
		t.Fatal(err)
	}
	defer dir.remove(slog.Default())
	if mode := modeOf(t, dir.path); mode != 0o711 {
		t.Errorf("it has the mode %04o", mode)
	}
}

func modeOf(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A directory has each certificate under more than one name, and other files.
func TestTrustOfDirectory(t *testing.T) {
	dir, ssl := t.TempDir(), filepath.Join(t.TempDir(), "ssl.pem")
	first, second := pemFile(t, filepath.Join(dir, "a.pem"), 1), pemFile(t, ssl, 1)
	for _, err := range []error{
		os.Symlink("a.pem", filepath.Join(dir, "0badcafe.0")), os.Symlink("nowhere", filepath.Join(dir, "dangling")),
		os.Mkdir(filepath.Join(dir, "more"), 0o700), os.WriteFile(filepath.Join(dir, "README"), []byte("certificates are here"), 0o600),
		os.WriteFile(filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("secret")}), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	f := newFurnished(t, "SSL_CERT_FILE="+ssl, "SSL_CERT_DIR="+dir+":/nonexistent-is-warned-of")
	f.trustRoot()
	root, _ := pem.Decode(f.root)
	if got := f.certificatesOf("CURL_CA_BUNDLE"); !slices.EqualFunc(got, [][]byte{second[0], first[0], root.Bytes}, bytes.Equal) {
		t.Errorf("%d certificates, want 3", len(got))
	}
	if got := f.get("SSL_CERT_DIR"); !strings.HasPrefix(got, dir) {
		t.Errorf("SSL_CERT_DIR is %q", got)
	}
}

// The usual places: what is there is trusted still.
func TestTrustOfSystem(t *testing.T) {
	places := systemRoots()
	if len(places) == 0 {
		t.Skip("no certificates in the usual places of this system")
	}
	f := newFurnished(t)
	f.trustRoot()
	if got := f.certificatesOf("SSL_CERT_FILE"); len(got) < 2 {
		t.Errorf("%d certificates of %q", len(got), places)
	}
}

func TestPHPScanDir(t *testing.T) {
	for _, row := range []struct {
		vars []string
		want string
	}{{nil, ":"}, {[]string{"PHP_INI_SCAN_DIR="}, ""}, {[]string{"PHP_INI_SCAN_DIR=/a:/b"}, "/a:/b:"}} {
		f := newFurnished(t, row.vars...)
		f.trustRoot()
		if got := f.get("PHP_INI_SCAN_DIR"); got != row.want+filepath.Join(f.dir.path, "php") {
			t.Errorf("%q: %q", row.vars, got)
		}
	}
}

func TestQuoting(t *testing.T) {
	for _, row := range []struct{ word, node, java string }{
		{"/tmp/x", "/tmp/x", "/tmp/x"},
		{"/tmp/a b", `"/tmp/a b"`, `"/tmp/a b"`},
		{`/tmp/a"b`, `"/tmp/a\"b"`, `'/tmp/a"b'`},
		{`C:\x y`, `"C:\\x y"`, `"C:\x y"`},
		{"/tmp/it's", "/tmp/it's", `"/tmp/it's"`},
	} {
		if got := nodeQuoted(row.word); got != row.node {
			t.Errorf("NODE_OPTIONS: %s is written %s, want %s", row.word, got, row.node)
		}
		if got := javaQuoted(row.word); got != row.java {
			t.Errorf("JAVA_TOOL_OPTIONS: %s is written %s, want %s", row.word, got, row.java)
		}
	}
}

func TestReachable(t *testing.T) {
	for listening, want := range map[string]string{
		"127.0.0.1:1": "127.0.0.1:1", "0.0.0.0:2": "127.0.0.1:2", "[::]:3": "[::1]:3", "[::1]:4": "[::1]:4", "192.0.2.1:5": "192.0.2.1:5",
	} {
		if got := reachable(listening); got != want {
			t.Errorf("%s is called at %s, want %s", listening, got, want)
		}
	}
}
