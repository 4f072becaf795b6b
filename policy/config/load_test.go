package config_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"mulligan/policy/config"
)

func TestLoadMissing(t *testing.T) {
	for _, path := range []string{"testdata/none.yaml", "testdata"} {
		_, err := config.Load(path, lookup(nil))
		var all *config.Errors
		if !errors.As(err, &all) || len(all.All) != 1 || all.All[0].Line != 0 {
			t.Fatalf("got %v", err)
		}
		if path == "testdata/none.yaml" {
			if want := "testdata/none.yaml: no such file or directory"; err.Error() != want || !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("got %q, want %q", err, want)
			}
		}
	}
}

// TestUnchanged: an upstream is the same while its policy and its files are.
func TestUnchanged(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "mulligan.yaml")
	first, _ := selfSigned(t)
	second, _ := selfSigned(t)
	write(t, filepath.Join(dir, "ca.pem"), first)
	load := func(text string) *config.Config {
		t.Helper()
		write(t, path, []byte(text))
		c, err := config.Load(path, lookup(nil))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const text = "upstreams:\n  a: {hosts: [a.example]}\n  b: {hosts: [b.example], endpoints: [https://b.example], tls: {ca_file: ca.pem}}\n"
	old := load(text)
	if got := old.Files(); len(got) != 2 || got[0] != path || got[1] != filepath.Join(dir, "ca.pem") {
		t.Errorf("files %q", got)
	}
	check := func(what string, c *config.Config, name string, want bool) {
		t.Helper()
		if got := c.Unchanged(old, name); got != want {
			t.Errorf("%s: %s unchanged: %v", what, name, got)
		}
	}
	same := load("# a comment\n" + text + "  c: {hosts: [c.example]}\n")
	for name, want := range map[string]bool{"a": true, "b": true, "default": true, "c": false, "d": false} {
		check("one more", same, name, want)
	}
	other := load("upstreams:\n  a: {hosts: [a.example], retry: {mode: off}}\n")
	for name, want := range map[string]bool{"a": false, "b": false, "default": true} {
		check("another policy", other, name, want)
	}
	defaults := load(text + "defaults: {buffer: {request: 2MiB}}\n")
	for _, name := range []string{"a", "b", "default"} {
		check("another default", defaults, name, false)
	}
	write(t, filepath.Join(dir, "ca.pem"), second)
	rotated := load(text)
	check("another certificate", rotated, "a", true)
	check("another certificate", rotated, "b", false)
}

// TestRenewedListener: new files for a listener are looked at with the
// configuration, but are no change of its upstream.
func TestRenewedListener(t *testing.T) {
	dir := t.TempDir()
	const text = `
listen: {proxy: {address: "127.0.0.1:0", tls: {cert_file: cert.pem, key_file: key.pem}}}
upstreams: {a: {endpoints: [http://a.example], listen: {address: "127.0.0.1:0", tls: {cert_file: cert.pem, key_file: key.pem}}}}
`
	load := func() (*config.Config, error) {
		return config.Parse(filepath.Join(dir, "mulligan.yaml"), []byte(text), lookup(nil))
	}
	renew := func(certificate, key []byte) {
		write(t, filepath.Join(dir, "cert.pem"), certificate)
		write(t, filepath.Join(dir, "key.pem"), key)
	}
	renew(selfSigned(t))
	old, err := load()
	if err != nil {
		t.Fatal(err)
	}
	if files := old.Files(); len(files) != 3 || files[1] != filepath.Join(dir, "cert.pem") || files[2] != filepath.Join(dir, "key.pem") {
		t.Errorf("files %q", files)
	}
	certificate, key := selfSigned(t)
	renew(certificate, key)
	renewed, err := load()
	if err != nil {
		t.Fatal(err)
	}
	if !renewed.Unchanged(old, "a") || !reflect.DeepEqual(renewed.ProxyTLS, old.ProxyTLS) {
		t.Error("a renewed certificate is a change")
	}
	_, key = selfSigned(t)
	renew(certificate, key)
	if _, err := load(); err == nil {
		t.Error("a key that does not fit was accepted")
	}
}

// TestWritten tells what a file has from the defaults it may equal.
func TestWritten(t *testing.T) {
	c := parse(t, "listen: {proxy: 127.0.0.1:7080}\n", lookup(nil))
	if !c.ProxyWritten || c.AdminWritten || c.DataDirWritten {
		t.Errorf("proxy %v, admin %v, data_dir %v", c.ProxyWritten, c.AdminWritten, c.DataDirWritten)
	}
	c = parse(t, "listen: {admin: {address: 127.0.0.1:7081}}\ndata_dir: ./mulligan-data\n", lookup(nil))
	if c.ProxyWritten || !c.AdminWritten || !c.DataDirWritten {
		t.Errorf("proxy %v, admin %v, data_dir %v", c.ProxyWritten, c.AdminWritten, c.DataDirWritten)
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
