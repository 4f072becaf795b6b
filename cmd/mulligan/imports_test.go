package main_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// rule says what the packages of one path may import, and why no more. A path
// or an import that ends in /... stands for what is below it too.
type rule struct {
	path    string
	imports []string // besides the standard library
	not     []string // of the standard library
	because string
}

// rules are the import rules of the repository; the first that fits counts.
var rules = []rule{
	{
		path: "mulligan/policy", not: []string{"net/...", "os/...", "log/..."},
		because: "policy only decides: proxy, command line and virtual time get the same decisions from it, " +
			"so it never dials, reads files or logs, and takes time and randomness as arguments",
	},
	{
		path: "mulligan/policy/config", imports: []string{"mulligan/policy", "gopkg.in/yaml.v3"},
		because: "the configuration is schema and checks, without behaviour",
	},
	{
		path: "mulligan/metrics", imports: []string{"github.com/prometheus/..."},
		because: "metrics is a leaf: labels arrive as strings",
	},
	{
		path:    "mulligan/metrics/dashboard",
		imports: []string{"mulligan/metrics", "mulligan/policy", "github.com/prometheus/..."},
		because: "the admin port asks for status through interfaces that it declares",
	},
	{
		path: "mulligan/proxy/h1/...", imports: []string{"mulligan/proxy/h1/...", "golang.org/x/net/..."},
		because: "the wire knows neither policy nor metrics",
	},
	{
		path: "mulligan/proxy/h2", imports: []string{"mulligan/proxy/h1", "golang.org/x/net/..."},
		because: "it is HTTP/2 in the shapes of h1, and the wire knows neither policy nor metrics",
	},
	{
		path: "mulligan/proxy/sse", not: []string{"net/...", "os/...", "time"},
		because: "it only reads bytes that it is given",
	},
	{
		path:    "mulligan/proxy/certs",
		imports: []string{"github.com/caddyserver/certmagic", "go.uber.org/zap/...", "golang.org/x/net/..."},
		because: "certificates are made for whoever asks: who may ask, the proxy knows",
	},
	{
		path: "mulligan/proxy", imports: []string{"mulligan/policy", "mulligan/metrics", "mulligan/proxy/...", "golang.org/x/time/rate"},
		because: "the proxy gets its configuration and its admin port from cmd, where parts meet",
	},
	{
		path: "mulligan/cmd/...", imports: []string{"mulligan/...", "github.com/prometheus/..."},
		because: "commands bring the parts together; what they need beyond them belongs into a part",
	},
}

// broken returns why the package at path may not import what it imports, or "".
func broken(path string, imports []string) string {
	for _, r := range rules {
		if !fits(r.path, path) {
			continue
		}
		for _, imported := range imports {
			if !r.allows(imported) {
				return fmt.Sprintf("%s imports %s, but %s", path, imported, r.because)
			}
		}
		return ""
	}
	return path + " has no import rule: decide what it may import, and say why"
}

// allows reports whether the rule lets its packages import the package.
func (r rule) allows(imported string) bool {
	if standard(imported) {
		return !anyFits(r.not, imported)
	}
	return anyFits(r.imports, imported)
}

// standard reports whether the package is of the standard library: no domain,
// no module of ours, and not cgo, which would end the static binary.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".") && first != "mulligan" && path != "C"
}

// anyFits reports whether the path fits one of the patterns.
func anyFits(patterns []string, path string) bool {
	for _, pattern := range patterns {
		if fits(pattern, path) {
			return true
		}
	}
	return false
}

// fits reports whether the path is the pattern, or below a pattern that ends
// in /... .
func fits(pattern, path string) bool {
	base, tree := strings.CutSuffix(pattern, "/...")
	return path == base || tree && strings.HasPrefix(path, base+"/")
}

// TestImports holds the rules over the packages as they are. Test files are
// free: they may look at a part through others.
func TestImports(t *testing.T) {
	list := exec.Command("go", "list", "-e", "-json=ImportPath,Imports", "mulligan/...")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for packages := 0; ; packages++ {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) && packages > 0 {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		if reason := broken(p.ImportPath, p.Imports); reason != "" {
			t.Error(reason)
		}
	}
}

// TestImportRules: the rules say no where they should.
func TestImportRules(t *testing.T) {
	for _, test := range []struct {
		path, imported string
		ok             bool
	}{
		{"mulligan/policy", "time", true},
		{"mulligan/policy", "math/bits", true},
		{"mulligan/policy", "net", false},
		{"mulligan/policy", "net/http", false},
		{"mulligan/policy", "net/netip", false},
		{"mulligan/policy", "os", false},
		{"mulligan/policy", "os/signal", false},
		{"mulligan/policy", "log/slog", false},
		{"mulligan/policy", "mulligan/metrics", false},
		{"mulligan/policy", "github.com/prometheus/client_golang/prometheus", false},
		{"mulligan/policy/config", "net/netip", true},
		{"mulligan/policy/config", "mulligan/policy", true},
		{"mulligan/policy/config", "mulligan/proxy", false},
		{"mulligan/metrics", "github.com/prometheus/client_golang/prometheus", true},
		{"mulligan/metrics", "mulligan/policy", false},
		{"mulligan/metrics/dashboard", "mulligan/policy", true},
		{"mulligan/metrics/dashboard", "mulligan/proxy", false},
		{"mulligan/proxy/h1", "golang.org/x/net/http/httpguts", true},
		{"mulligan/proxy/h1", "mulligan/policy", false},
		{"mulligan/proxy/h1", "mulligan/metrics", false},
		{"mulligan/proxy/h1", "C", false},
		{"mulligan/proxy/h1", "mulligan/proxy/h2", false},
		{"mulligan/proxy/h2", "mulligan/proxy/h1", true},
		{"mulligan/proxy/h2", "golang.org/x/net/http2/hpack", true},
		{"mulligan/proxy/h2", "mulligan/proxy", false},
		{"mulligan/proxy/h2", "mulligan/policy", false},
		{"mulligan/proxy/certs", "github.com/caddyserver/certmagic", true},
		{"mulligan/proxy/certs", "mulligan/policy", false},
		{"mulligan/proxy", "mulligan/proxy/certs", true},
		{"mulligan/proxy", "golang.org/x/net/http2", false},
		{"mulligan/proxy", "golang.org/x/time/rate", true},
		{"mulligan/policy", "golang.org/x/time/rate", false},
		{"mulligan/proxy", "mulligan/proxy/h1", true},
		{"mulligan/proxy", "mulligan/policy", true},
		{"mulligan/proxy", "mulligan/policy/config", false},
		{"mulligan/proxy", "mulligan/metrics/dashboard", false},
		{"mulligan/proxy", "mulligan/cmd/mulligan", false},
		{"mulligan/cmd/mulligan", "mulligan/policy/config", true},
		{"mulligan/cmd/mulligan", "example.com/cobra", false},
		{"mulligan/elsewhere", "time", false},
	} {
		if reason := broken(test.path, []string{test.imported}); (reason == "") != test.ok {
			t.Errorf("%s imports %s: %q, want allowed %v", test.path, test.imported, reason, test.ok)
		}
	}
}
