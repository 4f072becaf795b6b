package main

import (
	"log/slog"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// environment is what a command will find in its environment.
type environment struct {
	vars []string
	log  *slog.Logger
}

// lookup returns a variable's value, the last where it is there more than once.
func (e *environment) lookup(name string) (string, bool) {
	for _, v := range slices.Backward(e.vars) {
		if key, value, ok := strings.Cut(v, "="); ok && sameName(key, name) {
			return value, true
		}
	}
	return "", false
}

func (e *environment) get(name string) string {
	value, _ := e.lookup(name)
	return value
}

func (e *environment) unset(name string) {
	e.vars = slices.DeleteFunc(e.vars, func(v string) bool {
		key, _, ok := strings.Cut(v, "=")
		return ok && sameName(key, name)
	})
}

func (e *environment) set(name, value string) {
	e.unset(name)
	e.vars = append(e.vars, name+"="+value)
}

// add puts words after those that a variable has.
func (e *environment) add(name string, words ...string) {
	if had := e.get(name); had != "" {
		words = slices.Insert(words, 0, had)
	}
	e.set(name, strings.Join(words, " "))
}

// sameName compares names of variables as the system does.
func sameName(a, b string) bool {
	if runtime.GOOS == "windows" {
		return strings.EqualFold(a, b)
	}
	return a == b
}

// warnOfProxy says that a proxy which the environment names is passed by.
func (e *environment) warnOfProxy() {
	for _, name := range []string{"https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"} {
		value := e.get(name)
		if value == "" {
			continue
		}
		shown := "(unreadable)"
		if u, err := url.Parse(value); err == nil {
			shown = u.Redacted()
		}
		e.log.Warn("the environment names a proxy, which is passed by: `parent_proxy:` in the configuration lets mulligan go through it",
			slog.String("variable", name), slog.String("proxy", shown))
		return
	}
}

// proxyThrough makes HTTP clients use the proxy.
//
// Most read one of these two names in lower case, or in either; some, for
// http://, lower case only, since a CGI program's HTTP_PROXY is a header field of
// the request. What NO_PROXY has was for another proxy: here all are to go
// through. ALL_PROXY stays as it is: what it is for, besides HTTP, is not ours,
// and who reads all three prefers the others.
func (e *environment) proxyThrough(proxy *url.URL) {
	for _, name := range []string{"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"} {
		e.set(name, proxy.String())
	}
	e.unset("no_proxy")
	e.unset("NO_PROXY")
	e.set("NODE_USE_ENV_PROXY", "1") // Node 22.21 and 24
	e.configureGit("http.proxy", proxy.String())
	e.add("JAVA_TOOL_OPTIONS",
		"-Dhttp.proxyHost="+proxy.Hostname(), "-Dhttp.proxyPort="+proxy.Port(),
		"-Dhttps.proxyHost="+proxy.Hostname(), "-Dhttps.proxyPort="+proxy.Port(),
		"-Dhttp.nonProxyHosts=") // not even localhost
	if _, cgi := e.lookup("REQUEST_METHOD"); cgi {
		e.log.Warn("REQUEST_METHOD is in the environment: Go and Python programs take themselves for CGI programs then, and ignore HTTP_PROXY")
	}
}

// configureGit sets a key of git's configuration, which git prefers to the
// variables that others read (git-config, GIT_CONFIG_COUNT).
func (e *environment) configureGit(key, value string) {
	n := 0
	if had := e.get("GIT_CONFIG_COUNT"); had != "" {
		var err error
		if n, err = strconv.Atoi(had); err != nil || n < 0 {
			return // git says what is wrong with it
		}
	}
	e.set("GIT_CONFIG_KEY_"+strconv.Itoa(n), key)
	e.set("GIT_CONFIG_VALUE_"+strconv.Itoa(n), value)
	e.set("GIT_CONFIG_COUNT", strconv.Itoa(n+1))
}

// preloadNode makes Node 20 and others that know no proxy use it.
func (e *environment) preloadNode(dir *privateDir) error {
	path, err := dir.write("node.cjs", nodePreload)
	if err != nil {
		return err
	}
	e.add("NODE_OPTIONS", "--require", nodeQuoted(path))
	return nil
}

// nodeQuoted writes a word as NODE_OPTIONS wants it.
func nodeQuoted(word string) string {
	if !strings.ContainsAny(word, ` "\`) {
		return word
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(word) + `"`
}

// javaQuoted writes a word as JAVA_TOOL_OPTIONS wants it: there are two kinds of
// quotes, and nothing to escape one with.
func javaQuoted(word string) string {
	switch {
	case !strings.ContainsAny(word, " \t'\""):
		return word
	case strings.Contains(word, `"`):
		return "'" + word + "'"
	}
	return `"` + word + `"`
}

// trust makes TLS clients trust the root besides what they trusted before.
//
// SSL_CERT_DIR, which OpenSSL and Go read besides the file, stays as it is.
func (e *environment) trust(dir *privateDir, root []byte) error {
	b := &bundles{dir: dir, root: root, log: e.log, written: map[string]string{}, warned: map[string]bool{}}
	usual := e.usualRoots()
	if len(usual) == 0 {
		e.log.Warn("this system has no certificates in the usual places: most programs will trust what is intercepted, and nothing else",
			slog.String("hint", "install ca-certificates, or let SSL_CERT_FILE name a bundle, such as the one that `python -m certifi` prints"))
	}
	before := func(names ...string) []string {
		for _, name := range names {
			if path := e.get(name); path != "" {
				return []string{path}
			}
		}
		return usual
	}
	for _, v := range []struct {
		name string
		had  []string
	}{
		{"CURL_CA_BUNDLE", before("CURL_CA_BUNDLE")},
		{"SSL_CERT_FILE", usual},
		{"REQUESTS_CA_BUNDLE", before("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")},
		{"GIT_SSL_CAINFO", before("GIT_SSL_CAINFO")},
		{"AWS_CA_BUNDLE", before("AWS_CA_BUNDLE")},
		{"CARGO_HTTP_CAINFO", before("CARGO_HTTP_CAINFO")},
		{"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", before("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH")},
		{"NODE_EXTRA_CA_CERTS", e.only("NODE_EXTRA_CA_CERTS")},
		{"DENO_CERT", e.only("DENO_CERT")},
	} {
		if err := e.point(v.name, b, v.had); err != nil {
			return err
		}
	}
	for _, name := range []string{
		"NIX_SSL_CERT_FILE", "PIP_CERT", "HTTPLIB2_CA_CERTS",
		"npm_config_cafile", "NPM_CONFIG_CAFILE", "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
	} {
		if had := e.only(name); had != nil { // else they read one of the others
			if err := e.point(name, b, had); err != nil {
				return err
			}
		}
	}
	return e.trustByFile(b, usual)
}

// point makes a variable name a file with what it had, and the root.
func (e *environment) point(name string, b *bundles, had []string) error {
	path, err := b.file(had)
	if err == nil {
		e.set(name, path)
	}
	return err
}

// only is what a variable names whose file comes on top of the program's own.
func (e *environment) only(name string) []string {
	if path := e.get(name); path != "" {
		return []string{path}
	}
	return nil
}

// usualRoots are the files and directories with what programs trust here unless
// a variable of their own says otherwise.
func (e *environment) usualRoots() []string {
	roots := e.only("SSL_CERT_FILE")
	if len(roots) == 0 {
		roots = systemRoots()
	}
	for _, path := range strings.Split(e.get("SSL_CERT_DIR"), string(os.PathListSeparator)) {
		if path != "" {
			roots = append(roots, path)
		}
	}
	return roots
}

// trustByFile is trust for programs that ask for more than a variable with a name.
func (e *environment) trustByFile(b *bundles, usual []string) error {
	if err := e.trustOfWget(b, usual); err != nil {
		return err
	}
	if err := e.trustOfPHP(b, usual); err != nil {
		return err
	}
	return e.trustOfJava(b, usual)
}
