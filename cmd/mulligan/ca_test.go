package main

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestCAIsTheOneThatSigns: what `mulligan ca` prints is the root of the CA that
// is loaded from the same directory.
func TestCAIsTheOneThatSigns(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "m.yaml")
	if err := os.WriteFile(file, []byte("data_dir: "+filepath.Join(dir, "data")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	env := func(string) (string, bool) { return "", false }
	if status := run([]string{"ca", "--config", file}, terminal{out: &out, err: io.Discard, env: env}); status != exitDone {
		t.Fatal("exit status", status)
	}
	block, rest := pem.Decode(out.Bytes())
	if block == nil || len(rest) != 0 {
		t.Fatalf("not one PEM block: %q", out.String())
	}
	root, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := loadCA(t.Context(), filepath.Join(dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := ca.Leaf("api.test")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(root)
	if _, err := leaf.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "api.test"}); err != nil {
		t.Error(err)
	}
}
