package certs

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestMain lets a test run this binary as another process: see helperProcess.
func TestMain(m *testing.M) {
	switch os.Getenv("CERTS_TEST_PROCESS") {
	case "load":
		loadProcess()
	case "acme":
		acmeProcess()
	}
	os.Exit(m.Run())
}

// helperProcess is this test's binary as another process of the given kind.
func helperProcess(t *testing.T, kind string, env ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), "CERTS_TEST_PROCESS="+kind)
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// loadProcess loads the authority when its standard input ends, and prints its
// fingerprint.
func loadProcess() {
	fmt.Println("ready")
	os.Stdin.Read(make([]byte, 1))
	a, err := Load(context.Background(), os.Getenv("CERTS_TEST_DIR"))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(a.Fingerprint())
	os.Exit(0)
}

func mustLoad(t *testing.T, dir string) *Authority {
	t.Helper()
	a, err := Load(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestLoad: made once, the same ever after, and it signs.
func TestLoad(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "some", "data")
	a := mustLoad(t, dir)
	again := mustLoad(t, dir)
	if !a.Made() || again.Made() {
		t.Error("made:", a.Made(), again.Made())
	}
	if a.Fingerprint() != again.Fingerprint() || !bytes.Equal(a.RootPEM(), again.RootPEM()) {
		t.Error("another root")
	}
	for _, host := range []string{"api.test", "127.0.0.1"} {
		if _, err := mustLeaf(t, again, host).Leaf.Verify(x509.VerifyOptions{Roots: pool(a), DNSName: bracketed(host)}); err != nil {
			t.Error(err)
		}
	}
	onDisk, err := os.ReadFile(filepath.Join(dir, caDir, certFile))
	if err != nil || !bytes.Equal(onDisk, a.RootPEM()) {
		t.Errorf("%s: %q, %v", certFile, onDisk, err)
	}
	if left, _ := os.ReadDir(filepath.Join(dir, caDir, "locks")); len(left) != 0 {
		t.Error("a lock is left:", left)
	}
}

// TestLoadAtOnceInProcess: as TestLoadAtOnce, with goroutines.
func TestLoadAtOnceInProcess(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	got := make([]string, 16)
	for i := range got {
		all.Go(func() {
			if a, err := Load(t.Context(), dir); err != nil {
				t.Error(err)
			} else {
				got[i] = a.Fingerprint()
			}
		})
	}
	all.Wait()
	for _, fingerprint := range got {
		if fingerprint != got[0] {
			t.Fatal("two roots")
		}
	}
}

// TestLoadAtOnce: processes that start at once have one root.
func TestLoadAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	gate, open, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	var processes []*exec.Cmd
	outputs := make([]logBuffer, 4)
	for i := range outputs {
		cmd := helperProcess(t, "load", "CERTS_TEST_DIR="+dir)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = gate, &outputs[i], &outputs[i]
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		processes = append(processes, cmd)
	}
	for i := range outputs {
		until(t, "a process is ready", func() bool { return outputs[i].count("ready") == 1 })
	}
	open.Close()
	for _, cmd := range processes {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	want := "ready\n" + mustLoad(t, dir).Fingerprint() + "\n"
	for i := range outputs {
		if got := outputs[i].String(); got != want {
			t.Errorf("a process has %q, want %q", got, want)
		}
	}
}

func modeOfFile(t *testing.T, path string) fs.FileMode {
	t.Helper()
	mode, err := modeOf(path)
	if err != nil {
		t.Fatal(err)
	}
	return mode
}

// TestLoadModes: private whatever the umask says, and where the directories were
// there before.
func TestLoadModes(t *testing.T) {
	for _, umask := range []int{0o000, 0o022, 0o277, 0o777} {
		dir := filepath.Join(t.TempDir(), "a", "data")
		func() {
			defer syscall.Umask(syscall.Umask(umask))
			mustLoad(t, dir)
		}()
		for _, name := range []string{"", caDir, caDir + "/locks"} {
			if mode := modeOfFile(t, filepath.Join(dir, name)); mode != 0o700 {
				t.Errorf("umask %04o: %s/ has %04o", umask, name, mode)
			}
		}
		for _, name := range []string{keyFile, certFile} {
			if mode := modeOfFile(t, filepath.Join(dir, caDir, name)); mode != 0o600 {
				t.Errorf("umask %04o: %s has %04o", umask, name, mode)
			}
		}
	}
}

// TestLoadTightens: what others may use is closed to them, but for the data
// directory itself, which is the user's.
func TestLoadTightens(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, caDir), 0o777); err != nil {
		t.Fatal(err)
	}
	a := mustLoad(t, dir)
	key := filepath.Join(dir, caDir, keyFile)
	if err := errors.Join(os.Chmod(key, 0o664), os.Chmod(filepath.Dir(key), 0o775)); err != nil {
		t.Fatal(err)
	}
	if mustLoad(t, dir).Fingerprint() != a.Fingerprint() {
		t.Error("another root")
	}
	for path, want := range map[string]fs.FileMode{dir: 0o755, filepath.Dir(key): 0o700, key: 0o600} {
		if mode := modeOfFile(t, path); mode != want {
			t.Errorf("%s has %04o, want %04o", path, mode, want)
		}
	}
}

// TestLoadRefuses: what belongs to somebody else, who lets others in, cannot be
// closed, and is not used.
func TestLoadRefuses(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	dir, err := os.MkdirTemp("", "certs") // t.TempDir lets nobody else in
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	mustLoad(t, dir)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, "test")
	err = errors.Join(
		os.WriteFile(copied, program, 0o755), os.Chmod(dir, 0o755),
		os.Chmod(filepath.Join(dir, caDir), 0o755), os.Chmod(filepath.Join(dir, caDir, keyFile), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	cmd := helperProcess(t, "load", "CERTS_TEST_DIR="+dir)
	cmd.Path, cmd.Dir = copied, dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 ||
		!strings.Contains(string(out), caDir+": others may use it (mode 0755), and its mode cannot be changed: operation not permitted") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestLoadAfterCrash: no moment at which a process dies leaves what the next
// cannot use: the key's file is written before the certificate's, both whole.
func TestLoadAfterCrash(t *testing.T) {
	dir := t.TempDir()
	a := mustLoad(t, dir)
	if err := os.Remove(filepath.Join(dir, caDir, certFile)); err != nil {
		t.Fatal(err)
	}
	if mustLoad(t, dir).Fingerprint() != a.Fingerprint() {
		t.Error("another root")
	}
	if written, _ := os.ReadFile(filepath.Join(dir, caDir, certFile)); !bytes.Equal(written, a.RootPEM()) {
		t.Error("the certificate's file is not written again")
	}
}

// TestLoadOwnRoot: a root made with other tools, its key in a file of its own.
func TestLoadOwnRoot(t *testing.T) {
	dir := t.TempDir()
	mustLoad(t, dir)
	root, key, err := newRoot(nil)
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, keyFile, keyPEM(t, key.(*ecdsa.PrivateKey)))
	write(t, dir, certFile, encode(root))
	if got := mustLoad(t, dir).Root(); !got.Equal(root) {
		t.Error("another root:", got.Subject)
	}
}

func write(t *testing.T, dir, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, caDir, name), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func keyPEM(t *testing.T, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

// root makes a self-signed certificate, changed before it is signed.
func madeRoot(t *testing.T, change func(*x509.Certificate)) (certPEM, key []byte) {
	t.Helper()
	root, signer, err := newRoot(nil)
	if err != nil {
		t.Fatal(err)
	}
	root.Raw = nil
	change(root)
	der, err := x509.CreateCertificate(rand.Reader, root, root, signer.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), keyPEM(t, signer.(*ecdsa.PrivateKey))
}

// TestLoadMistakes: what cannot be used is said with the file's name and what to
// do, and stays as it is.
func TestLoadMistakes(t *testing.T) {
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	replace := func(change func(*x509.Certificate)) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			certPEM, key := madeRoot(t, change)
			write(t, dir, certFile, certPEM)
			write(t, dir, keyFile, append(key, certPEM...))
		}
	}
	for _, test := range []struct {
		name     string
		break_   func(t *testing.T, dir string)
		file     string
		problem  string
		mentions string // in the hint
	}{
		{"no key", func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, caDir, keyFile)) }, keyFile, "root.crt is there", "put it back"},
		{"empty key", func(t *testing.T, dir string) { write(t, dir, keyFile, nil) }, keyFile, "no private key", "remove root.key and root.crt"},
		{"junk key", func(t *testing.T, dir string) { write(t, dir, keyFile, []byte("junk\n")) }, keyFile, "no private key", "remove"},
		{"junk in the key", func(t *testing.T, dir string) {
			write(t, dir, keyFile, []byte("-----BEGIN PRIVATE KEY-----\naGVsbG8=\n-----END PRIVATE KEY-----\n"))
		}, keyFile, "no private key", "remove"},
		{"another key", func(t *testing.T, dir string) { write(t, dir, keyFile, keyPEM(t, other)) }, keyFile, "not that of the certificate", "remove"},
		{"another certificate", func(t *testing.T, dir string) {
			certPEM, _ := madeRoot(t, func(*x509.Certificate) {})
			write(t, dir, certFile, certPEM)
		}, certFile, "not the certificate that root.key has", "remove"},
		{"junk certificate", func(t *testing.T, dir string) { write(t, dir, certFile, []byte("junk")) }, certFile, "no certificate", "remove"},
		{"no certificate at all", func(t *testing.T, dir string) {
			write(t, dir, keyFile, keyPEM(t, other))
			os.Remove(filepath.Join(dir, caDir, certFile))
		}, certFile, "cannot be read", ""},
		{"not a CA", replace(func(c *x509.Certificate) { c.IsCA, c.MaxPathLenZero = false, false }), certFile, "not the certificate of a CA", "remove"},
		{"expired", replace(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) }), certFile, "has expired on 20", "remove"},
		{"nearly expired", replace(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(23 * time.Hour) }), certFile, "less than a day", "remove"},
		{"not yet valid", replace(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }), certFile, "valid only from", "clock"},
		{"a directory as key", func(t *testing.T, dir string) {
			os.Remove(filepath.Join(dir, caDir, keyFile))
			os.Mkdir(filepath.Join(dir, caDir, keyFile), 0o700)
		}, keyFile, "cannot be read: is a directory", "read it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			mustLoad(t, dir)
			test.break_(t, dir)
			before := contents(t, dir)
			_, err := Load(t.Context(), dir)
			e, ok := errors.AsType[*StorageError](err)
			if !ok {
				t.Fatalf("%T: %v", err, err)
			}
			if e.File != filepath.Join(dir, caDir, test.file) || !strings.HasPrefix(e.Error(), e.File+": ") {
				t.Error("file:", e.File, "in", e)
			}
			if !strings.Contains(e.Error(), test.problem) || !strings.Contains(e.Hint, test.mentions) {
				t.Errorf("%v (%s)", e, e.Hint)
			}
			if contents(t, dir) != before {
				t.Error("something was changed")
			}
		})
	}
}

// contents are the files of the CA, as one text.
func contents(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	for _, name := range []string{keyFile, certFile} {
		text, err := os.ReadFile(filepath.Join(dir, caDir, name))
		fmt.Fprintln(&b, name, string(text), errors.Is(err, fs.ErrNotExist))
	}
	return b.String()
}

// TestLoadNowhere: a data directory that cannot be.
func TestLoadNowhere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below")} {
		_, err := Load(t.Context(), dir)
		if e, ok := errors.AsType[*StorageError](err); !ok || e.Hint == "" || !strings.Contains(e.File, file) {
			t.Errorf("%T: %v", err, err)
		}
	}
}

// TestLoadStaleLock: what a process has left that was killed holds up nobody, and
// is no reason for a message of certmagic's own on standard error.
func TestLoadStaleLock(t *testing.T) {
	dir := t.TempDir()
	locks, err := makePrivate(filepath.Join(dir, caDir), "locks")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(locks, caLock+".lock"), []byte(`{"created":"2020-01-01T00:00:00Z"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := helperProcess(t, "load", "CERTS_TEST_DIR="+dir).CombinedOutput()
	if want := "ready\n" + mustLoad(t, dir).Fingerprint() + "\n"; err != nil || string(out) != want {
		t.Errorf("%v: %q, want %q", err, out, want)
	}
}

// TestLoadWaitsForTheLock: no longer than its context allows, and it says what
// it waits for.
func TestLoadWaitsForTheLock(t *testing.T) {
	dir := t.TempDir()
	locks, err := makePrivate(filepath.Join(dir, caDir), "locks")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Add(time.Hour).Format(time.RFC3339) // fresh for a while
	if err := os.WriteFile(filepath.Join(locks, caLock+".lock"), []byte(`{"created":"`+now+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = Load(ctx, dir)
	if e, ok := errors.AsType[*StorageError](err); !ok || !errors.Is(err, context.DeadlineExceeded) || !strings.HasSuffix(e.File, caLock+".lock") {
		t.Errorf("%T: %v", err, err)
	}
}
