package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
)

// TestInternal: the local CA signs the listener's certificates, for the names
// that it was given and, without SNI, for the address that was called.
func TestInternal(t *testing.T) {
	a := newTestAuthority(t)
	names := []string{"Proxy.test.", "my_service", "ab--cd.test", "bücher.test", "127.0.0.1", "proxy.test"}
	m, log := start(t, Config{Internal: a, Storage: t.TempDir(), Names: names, NextProtos: []string{"h2", "http/1.1"}})
	addr := serve(listen(t, "127.0.0.1:0"), m.TLS())
	for _, name := range []string{"proxy.test", "PROXY.test", "my_service", "ab--cd.test", "xn--bcher-kva.test", "127.0.0.1"} {
		state, err := dial(addr, &tls.Config{RootCAs: pool(a), ServerName: name, NextProtos: []string{"h2"}})
		if err != nil || state.NegotiatedProtocol != "h2" {
			t.Errorf("%s: %q, %v", name, state.NegotiatedProtocol, err)
		}
	}
	for _, name := range []string{"other.test", "o_ther.test", "cd--ef.test"} { // a certificate all the same, by which the client can tell
		_, err := dial(addr, &tls.Config{RootCAs: pool(a), ServerName: name})
		if wrong, ok := errors.AsType[x509.HostnameError](err); !ok || wrong.Certificate.DNSNames[0] != "proxy.test" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if log.count("level=INFO") != 5 || log.count("level=WARN")+log.count("level=ERROR") != 0 {
		t.Error("logged:", log)
	}
}

// TestInternalNames: without names, what a listener is called by on its machine.
func TestInternalNames(t *testing.T) {
	a := newTestAuthority(t)
	m, _ := start(t, Config{Internal: a, Storage: t.TempDir()})
	want := []string{"localhost", "127.0.0.1", "::1"}
	if host, err := os.Hostname(); err == nil {
		if name, _, err := canonical(host); err == nil {
			want = append(want, name)
		}
	}
	for _, name := range want {
		c, err := m.TLS().GetCertificate(&tls.ClientHelloInfo{ServerName: name})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Leaf.VerifyHostname(bracketed(name)); err != nil {
			t.Error(err)
		}
	}
}

// TestInternalStored: a certificate is used again, but never one of a root that
// was replaced.
func TestInternalStored(t *testing.T) {
	a, dir := newTestAuthority(t), t.TempDir()
	serial := func(a *Authority) string {
		m, _ := start(t, Config{Internal: a, Storage: dir, Names: []string{"proxy.test"}})
		defer m.Close()
		c, err := m.TLS().GetCertificate(&tls.ClientHelloInfo{ServerName: "proxy.test"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Leaf.Verify(x509.VerifyOptions{Roots: pool(a), DNSName: "proxy.test"}); err != nil {
			t.Error(err)
		}
		return c.Leaf.SerialNumber.String()
	}
	first := serial(a)
	if serial(a) != first {
		t.Error("made anew")
	}
	if serial(newTestAuthority(t)) == first {
		t.Error("another root's certificate")
	}
	if serial(a) != first {
		t.Error("made anew")
	}
	err := filepath.WalkDir(filepath.Join(dir, "internal"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if mode := modeOfFile(t, path); mode&0o077 != 0 {
			t.Errorf("%s has %04o", path, mode)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestInternalDamaged: files that do not fit, as a process leaves them that is
// killed while it writes, are no reason not to start.
func TestInternalDamaged(t *testing.T) {
	a, other := newTestAuthority(t), newTestAuthority(t)
	for _, damage := range []struct {
		ext  string
		text []byte // nil: no file
	}{{".key", keyPEM(t, other.leafKey)}, {".crt", encode(other.root)}, {".crt", []byte("junk")}, {".json", []byte("{")}, {".key", nil}, {".crt", nil}, {".json", nil}} {
		dir := t.TempDir()
		m, _ := start(t, Config{Internal: a, Storage: dir, Names: []string{"proxy.test"}})
		m.Close()
		files, _ := filepath.Glob(filepath.Join(dir, "internal", "certificates", "*", "proxy.test", "proxy.test"+damage.ext))
		if len(files) != 1 {
			t.Fatal("where is it stored?", files)
		}
		os.Remove(files[0])
		if damage.text != nil {
			os.WriteFile(files[0], damage.text, 0o600)
		}
		m, _ = start(t, Config{Internal: a, Storage: dir, Names: []string{"proxy.test"}})
		if _, err := dial(serve(listen(t, "127.0.0.1:0"), m.TLS()), &tls.Config{RootCAs: pool(a), ServerName: "proxy.test"}); err != nil {
			t.Errorf("%s %q: %v", damage.ext, damage.text, err)
		}
	}
}

// TestInternalRenews: the listener shows a new certificate, without a restart.
// Here each is due at once.
func TestInternalRenews(t *testing.T) {
	a, name := newTestAuthority(t), ownName()
	m, log := start(t, Config{
		Internal: a, Storage: t.TempDir(), Names: []string{name},
		magic: tuning{renewEvery: 50 * time.Millisecond, renewRatio: 0.99, stopWithin: patience},
	})
	addr := serve(listen(t, "127.0.0.1:0"), m.TLS())
	serial := func() string {
		state, err := dial(addr, &tls.Config{RootCAs: pool(a), ServerName: name})
		if err != nil {
			t.Fatal(err)
		}
		return state.PeerCertificates[0].SerialNumber.String()
	}
	first := serial()
	until(t, "another certificate", func() bool { return serial() != first })
	if log.count("renewal=true") == 0 {
		t.Error("not logged:", log)
	}
}

// TestStorageClosed: certmagic's goroutines, which cannot be waited for, leave
// nothing behind once a listener has been closed, but whoever holds a lock may
// finish, and is waited for.
func TestStorageClosed(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	s := newStorage(dir)
	for _, name := range []string{"a", "b"} {
		if err := s.Lock(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	if mode, err := modeOf(filepath.Join(dir, "locks", "a.lock")); err != nil || mode != 0o600 {
		t.Errorf("a lock's file has the mode %04o, %v", mode, err)
	}
	done := s.close()
	if err := s.Store(ctx, "certificates/own", nil); err != nil {
		t.Error("the holder of a lock cannot finish:", err)
	}
	for i, name := range []string{"a", "b"} {
		select {
		case <-done:
			t.Error("not waited for, locks given back:", i)
		default:
		}
		if err := s.Unlock(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-done:
	default:
		t.Error("the last lock's end is not told")
	}
	if err := s.Store(ctx, "late/write", nil); !errors.Is(err, context.Canceled) {
		t.Error("a write after the end:", err)
	}
	if err := s.Lock(ctx, "late"); !errors.Is(err, context.Canceled) {
		t.Error("a lock after the end:", err)
	}
	if ok, err := s.TryLock(ctx, "late"); ok || !errors.Is(err, context.Canceled) {
		t.Error("a lock after the end:", ok, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 || entries[0].Name() != "certificates" || entries[1].Name() != "locks" {
		t.Error("left behind:", entries, err)
	}
}

// TestInternalStoredOld: one that is due when mulligan starts is renewed before
// it is served.
func TestInternalStoredOld(t *testing.T) {
	a, dir := newTestAuthority(t), t.TempDir()
	cfg := Config{Internal: a, Storage: dir, Names: []string{"proxy.test"}}
	serial := func(cfg Config) string {
		m, _ := start(t, cfg)
		defer m.Close()
		c, err := m.TLS().GetCertificate(&tls.ClientHelloInfo{ServerName: "proxy.test"})
		if err != nil {
			t.Fatal(err)
		}
		return c.Leaf.SerialNumber.String()
	}
	first := serial(cfg)
	cfg.magic.renewRatio = 0.99
	if serial(cfg) == first {
		t.Error("the old one is served")
	}
}

// TestInternalMistakes: at the start.
func TestInternalMistakes(t *testing.T) {
	constrained, err := New([]string{"api.test"})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var name *NameError
	var storage *StorageError
	for _, test := range []struct {
		cfg  Config
		want any
	}{
		{Config{Internal: newTestAuthority(t), Names: []string{"*.test"}, Storage: t.TempDir()}, &name},
		{Config{Internal: constrained, Names: []string{"other.test"}, Storage: t.TempDir()}, &name},
		{Config{Internal: newTestAuthority(t), Storage: file}, &storage},
	} {
		test.cfg.Log = new(logBuffer).logger()
		if _, err := Listener(t.Context(), test.cfg); err == nil || !errors.As(err, test.want) {
			t.Errorf("%T: %v", err, err)
		}
	}
}

// lookingIssuer tells whether certmagic holds the lock that discardTorn takes.
type lookingIssuer struct {
	issuer
	store certmagic.Storage
	name  string
	free  chan bool
}

func (l lookingIssuer) Issue(ctx context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	probe, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	free, _ := l.store.(certmagic.TryLocker).TryLock(probe, lockOf(l.name))
	l.free <- free
	return l.issuer.Issue(ctx, csr)
}

// TestLockName pins the name of certmagic's lock, which it does not export.
func TestLockName(t *testing.T) {
	m, err := newManager(Config{Names: []string{"proxy.test"}, Storage: t.TempDir(), Log: new(logBuffer).logger()}, "internal")
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	looking := lookingIssuer{issuer{newTestAuthority(t)}, &m.store.FileStorage, "proxy.test", make(chan bool, 1)}
	m.config.Issuers = []certmagic.Issuer{looking}
	m.obtain = m.config.ObtainCertSync
	if err := m.ensure(t.Context(), "proxy.test"); err != nil {
		t.Fatal(err)
	}
	if <-looking.free {
		t.Error("certmagic locks something else while it gets a certificate")
	}
}

// TestIssuerKey: the root's fingerprint is in it.
func TestIssuerKey(t *testing.T) {
	a := newTestAuthority(t)
	if key := (issuer{a}).IssuerKey(); !strings.Contains(key, a.Fingerprint()) {
		t.Error(key)
	}
}
