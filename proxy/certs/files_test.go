package certs

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// writePair writes a new certificate for a name, and its key, into the directory.
func writePair(t *testing.T, a *Authority, dir, name string) (cert, key string) {
	t.Helper()
	c := mustLeaf(t, a, name)
	cert, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	if err := os.WriteFile(cert, encode(c.Leaf), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(key, keyPEM(t, c.PrivateKey.(*ecdsa.PrivateKey)), 0o600); err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// served is the name on the certificate that the listener shows now.
func served(t *testing.T, m *Managed) string {
	t.Helper()
	c, err := m.TLS().GetCertificate(&tls.ClientHelloInfo{})
	if err != nil {
		t.Fatal(err)
	}
	return c.Leaf.Subject.CommonName
}

func TestFiles(t *testing.T) {
	a := newTestAuthority(t)
	cert, key := writePair(t, a, t.TempDir(), "files.test")
	m, _ := start(t, Config{CertFile: cert, KeyFile: key, NextProtos: []string{"h2", "http/1.1"}})
	addr := serve(listen(t, "127.0.0.1:0"), m.TLS())
	for proto, want := range map[string]string{"h2": "h2", "http/1.1": "http/1.1"} {
		state, err := dial(addr, &tls.Config{RootCAs: pool(a), ServerName: "files.test", NextProtos: []string{proto}})
		if err != nil || state.NegotiatedProtocol != want {
			t.Errorf("%s: %q, %v", proto, state.NegotiatedProtocol, err)
		}
	}
}

// TestFilesChange: in all ways in which files are replaced, without a restart.
func TestFilesChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newTestAuthority(t), newTestAuthority(t) // whose leaves have different keys
		dir := t.TempDir()
		cert, key := writePair(t, a, dir, "first.test")
		for _, name := range []string{cert, key} { // long ago: on some systems files of the same moment look alike
			if err := os.Chtimes(name, time.Time{}, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		m, log := start(t, Config{CertFile: cert, KeyFile: key})
		expect := func(want string) {
			t.Helper()
			time.Sleep(lookEvery)
			synctest.Wait()
			if got := served(t, m); got != want {
				t.Errorf("served: %s, want %s", got, want)
			}
		}
		expect("first.test")
		if log.String() != "" {
			t.Error("without a change:", log)
		}

		writePair(t, b, dir, "second.test") // in place
		expect("second.test")
		if log.count("level=INFO") != 1 {
			t.Error("not logged:", log)
		}

		other := t.TempDir() // by renames
		c, k := writePair(t, a, other, "third.test")
		if err := errors.Join(os.Rename(c, cert), os.Rename(k, key)); err != nil {
			t.Fatal(err)
		}
		expect("third.test")
	})
}

// TestFilesBadPair: what cannot be used leaves the old one, and is logged once;
// not at all when it was replaced a moment later.
func TestFilesBadPair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newTestAuthority(t), newTestAuthority(t)
		dir, other := t.TempDir(), t.TempDir()
		cert, key := writePair(t, a, dir, "first.test")
		m, log := start(t, Config{CertFile: cert, KeyFile: key})
		c, k := writePair(t, b, other, "second.test")

		if err := os.Rename(c, cert); err != nil { // the new key comes later
			t.Fatal(err)
		}
		time.Sleep(lookEvery)
		synctest.Wait()
		if served(t, m) != "first.test" || log.String() != "" {
			t.Error("served:", served(t, m), "logged:", log)
		}
		time.Sleep(10 * lookEvery)
		synctest.Wait()
		if served(t, m) != "first.test" || log.count("level=ERROR") != 1 {
			t.Error("served:", served(t, m), "logged:", log)
		}
		if err := os.Rename(k, key); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lookEvery)
		synctest.Wait()
		if served(t, m) != "second.test" || log.count("level=INFO") != 1 {
			t.Error("served:", served(t, m), "logged:", log)
		}

		if err := os.Remove(key); err != nil { // gone, then back
			t.Fatal(err)
		}
		time.Sleep(3 * lookEvery)
		synctest.Wait()
		if served(t, m) != "second.test" || log.count("level=ERROR") != 2 {
			t.Error("served:", served(t, m), "logged:", log)
		}
	})
}

// TestFilesSymlinks: as Kubernetes mounts a secret, where the files are links
// through a link to a directory, which is replaced.
func TestFilesSymlinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newTestAuthority(t), newTestAuthority(t)
		dir := t.TempDir()
		for name, authority := range map[string]*Authority{"one": a, "two": b} {
			if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
				t.Fatal(err)
			}
			writePair(t, authority, filepath.Join(dir, name), name+".test")
		}
		cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
		err := errors.Join(
			os.Symlink("one", filepath.Join(dir, "..data")),
			os.Symlink("..data/tls.crt", cert), os.Symlink("..data/tls.key", key))
		if err != nil {
			t.Fatal(err)
		}
		m, _ := start(t, Config{CertFile: cert, KeyFile: key})
		if served(t, m) != "one.test" {
			t.Fatal("served:", served(t, m))
		}
		err = errors.Join(
			os.Symlink("two", filepath.Join(dir, "..data_tmp")),
			os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(lookEvery)
		synctest.Wait()
		if served(t, m) != "two.test" {
			t.Error("served:", served(t, m))
		}
	})
}

// TestFilesExpired: served, since it may be what there is, and said.
func TestFilesExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cert, key := writePair(t, newTestAuthority(t), t.TempDir(), "old.test")
		time.Sleep(48 * time.Hour)
		m, log := start(t, Config{CertFile: cert, KeyFile: key})
		if served(t, m) != "old.test" || log.count("level=WARN") != 1 {
			t.Error("logged:", log)
		}
	})
}

// TestFilesMistakes: an error at the start, with the file's name and a hint.
func TestFilesMistakes(t *testing.T) {
	a, b := newTestAuthority(t), newTestAuthority(t)
	dir := t.TempDir()
	cert, key := writePair(t, a, dir, "a.test")
	_, otherKey := writePair(t, b, t.TempDir(), "b.test")
	junk := filepath.Join(dir, "junk")
	if err := os.WriteFile(junk, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "missing")
	for _, test := range []struct{ cert, key, file, problem string }{
		{missing, key, missing, "no such file"},
		{cert, missing, missing, "no such file"},
		{junk, key, junk, "no certificate"},
		{cert, junk, junk, "no private key"},
		{key, cert, key, "no certificate"},
		{cert, otherKey, otherKey, "does not fit"},
		{dir, key, dir, "is a directory"},
	} {
		_, err := Listener(t.Context(), Config{CertFile: test.cert, KeyFile: test.key, Log: slog.New(slog.DiscardHandler)})
		e, ok := errors.AsType[*StorageError](err)
		if !ok || e.File != test.file || !strings.Contains(e.Error(), test.problem) || e.Hint == "" {
			t.Errorf("%s, %s: %T: %v", test.cert, test.key, err, err)
		}
	}
	for _, cfg := range []Config{
		{CertFile: cert}, {KeyFile: key}, {},
		{CertFile: cert, KeyFile: key, Internal: a},
		{CertFile: cert, KeyFile: key, ACME: &ACME{}},
		{Internal: a, ACME: &ACME{}},
	} {
		if _, err := Listener(t.Context(), cfg); err == nil {
			t.Errorf("no error: %+v", cfg)
		}
	}
}

// TestCloseOfFiles: closed twice, and served on.
func TestCloseOfFiles(t *testing.T) {
	a := newTestAuthority(t)
	cert, key := writePair(t, a, t.TempDir(), "files.test")
	m, _ := start(t, Config{CertFile: cert, KeyFile: key})
	m.Close()
	m.Close()
	c, err := m.TLS().GetCertificate(&tls.ClientHelloInfo{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Leaf.Verify(x509.VerifyOptions{Roots: pool(a), DNSName: "files.test"}); err != nil {
		t.Error(err)
	}
}
