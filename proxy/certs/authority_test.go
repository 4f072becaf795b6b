package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// hosts are names of all kinds that clients call.
func hosts() []string {
	label63 := strings.Repeat("a", 63)
	return []string{
		"api.test", "localhost", "a_b.test", "ab--cd.test", "xn--bcher-kva.test", "1.test",
		label63 + ".test", strings.Join([]string{label63, label63, label63, strings.Repeat("b", 61)}, "."),
		strings.Repeat("c", 59) + ".test", // a common name of exactly 64
		"127.0.0.1", "::1", "2001:db8::1",
	}
}

func TestRoot(t *testing.T) {
	a := newTestAuthority(t)
	root := a.Root()
	key, ok := root.PublicKey.(*ecdsa.PublicKey)
	switch {
	case !ok || key.Curve != elliptic.P256():
		t.Error("the key is not ECDSA P-256")
	case !root.IsCA || !root.BasicConstraintsValid || root.MaxPathLen != 0 || !root.MaxPathLenZero:
		t.Error("not a CA with a path length of 0")
	case root.KeyUsage != x509.KeyUsageCertSign|x509.KeyUsageCRLSign:
		t.Error("key usage:", root.KeyUsage)
	case !regexp.MustCompile(`^mulligan local CA [0-9a-f]{8}$`).MatchString(root.Subject.CommonName):
		t.Error("subject:", root.Subject)
	case len(root.SubjectKeyId) == 0:
		t.Error("no subject key identifier")
	case root.SerialNumber.BitLen() < 64 || root.SerialNumber.BitLen() > 128:
		t.Error("serial:", root.SerialNumber)
	case time.Until(root.NotAfter) < 9*365*24*time.Hour || !root.NotBefore.Before(time.Now().Add(-time.Minute)):
		t.Error("valid from", root.NotBefore, "to", root.NotAfter)
	}
	block, rest := pem.Decode(a.RootPEM())
	if block == nil || len(rest) != 0 || !bytes.Equal(block.Bytes, root.Raw) {
		t.Error("RootPEM is not the root alone")
	}
	sum := sha256.Sum256(root.Raw)
	if a.Fingerprint() != hex.EncodeToString(sum[:]) {
		t.Error("fingerprint:", a.Fingerprint())
	}
	if other := newTestAuthority(t).Root(); other.Subject.CommonName == root.Subject.CommonName {
		t.Error("two roots of one name")
	}
}

// TestLeafs: what a leaf says, and that Go's client takes it.
func TestLeafs(t *testing.T) {
	a := newTestAuthority(t)
	for _, host := range hosts() {
		c := mustLeaf(t, a, host)
		if len(c.Certificate) != 1 || !bytes.Equal(c.Certificate[0], c.Leaf.Raw) {
			t.Errorf("%s: the chain is not the leaf alone", host)
		}
		leaf := c.Leaf
		life := time.Until(leaf.NotAfter)
		switch {
		case leaf.IsCA || leaf.KeyUsage != x509.KeyUsageDigitalSignature || len(leaf.ExtKeyUsage) != 1:
			t.Errorf("%s: may do what it need not", host)
		case !bytes.Equal(leaf.AuthorityKeyId, a.Root().SubjectKeyId) || len(leaf.SubjectKeyId) == 0:
			t.Errorf("%s: key identifiers", host)
		case life > 24*time.Hour || life < 23*time.Hour || time.Since(leaf.NotBefore) < 30*time.Minute:
			t.Errorf("%s: valid from %s to %s", host, leaf.NotBefore, leaf.NotAfter)
		case len(leaf.Subject.CommonName) > 64:
			t.Errorf("%s: common name too long", host)
		case net.ParseIP(host) == nil && len(host) <= 64 && leaf.Subject.CommonName != host:
			t.Errorf("%s: common name %q", host, leaf.Subject.CommonName)
		}
		handshake(t, c, &tls.Config{RootCAs: pool(a), ServerName: host})
	}
}

// handshake has Go's client and server agree on the certificate.
func handshake(t *testing.T, c *tls.Certificate, client *tls.Config) {
	t.Helper()
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	server := tls.Server(there, &tls.Config{Certificates: []tls.Certificate{*c}})
	done := make(chan error, 1)
	go func() { done <- server.Handshake() }()
	if err := tls.Client(here, client).Handshake(); err != nil {
		t.Errorf("%s: client: %v", client.ServerName, err)
		here.Close()
	}
	if err := <-done; err != nil {
		t.Errorf("%s: server: %v", client.ServerName, err)
	}
}

// TestPermitted: New's authority signs what it was made for only, and its root
// forbids the rest to clients.
func TestPermitted(t *testing.T) {
	a, err := New([]string{"Exact.test", "*.below.test", "*.api.exact.test", "192.0.2.7", "2001:db8::7"})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		host   string
		signed bool
		client bool // what the constraints can tell
	}{
		{"exact.test", true, true},
		{"a.exact.test", false, true},
		{"a.api.exact.test", true, true},
		{"a.below.test", true, true},
		{"b.a.below.test", true, true},
		{"below.test", false, true},
		{"192.0.2.7", true, true},
		{"2001:db8::7", true, true},
		{"other.test", false, false},
		{"xbelow.test", false, false},
		{"192.0.2.8", false, false},
		{"2001:db8::8", false, false},
	} {
		checkPermitted(t, a, test.host, test.signed, test.client)
	}
}

// TestPermittedKinds: a kind of name of which none is permitted is forbidden
// too.
func TestPermittedKinds(t *testing.T) {
	for _, test := range []struct {
		permitted, allowed, forbidden []string
	}{
		{[]string{"a.test"}, []string{"a.test"}, []string{"127.0.0.1", "::1", "b.test"}},
		{[]string{"127.0.0.1"}, []string{"127.0.0.1"}, []string{"a.test", "localhost", "127.0.0.2", "::1"}},
		{[]string{"::1"}, []string{"::1"}, []string{"a.test", "127.0.0.1", "::2"}},
		{nil, nil, []string{"a.test", "localhost", "127.0.0.1", "::1"}},
	} {
		a, err := New(test.permitted)
		if err != nil {
			t.Fatal(err)
		}
		for _, host := range test.allowed {
			checkPermitted(t, a, host, true, true)
		}
		for _, host := range test.forbidden {
			checkPermitted(t, a, host, false, false)
		}
	}
}

// checkPermitted tries what Leaf says, and what Go and OpenSSL say of a leaf that
// is signed all the same.
func checkPermitted(t *testing.T, a *Authority, host string, signed, client bool) {
	t.Helper()
	_, err := a.Leaf(host)
	if _, is := errors.AsType[*NameError](err); (err == nil) != signed || err != nil && !is {
		t.Errorf("%s: Leaf: %v, want signed %v", host, err, signed)
	}
	name, addr, _ := canonical(host)
	c, err := a.newLeaf(name, addr)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Leaf.Verify(x509.VerifyOptions{Roots: pool(a), DNSName: bracketed(host)})
	if (err == nil) != client {
		t.Errorf("%s: Go: %v, want trusted %v", host, err, client)
	}
	if out, err := opensslVerify(t, a, c, host); (err == nil) != client {
		t.Errorf("%s: OpenSSL: %s, want trusted %v", host, out, client)
	}
}

// bracketed is how x509 wants an address.
func bracketed(host string) string {
	if net.ParseIP(host) != nil {
		return "[" + host + "]"
	}
	return host
}

func TestPermittedMistakes(t *testing.T) {
	for _, name := range []string{"", "*", "*.", "a.*.test", "**.test", "*.127.0.0.1", "*.::1", "a b.test", "a.test:443", "10.0.0.0/8"} {
		_, err := New([]string{"a.test", name})
		if _, is := errors.AsType[*NameError](err); !is {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestOpenSSL: the names of all kinds, as strictly as OpenSSL can.
func TestOpenSSL(t *testing.T) {
	a := newTestAuthority(t)
	constrained, err := New(hosts())
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range hosts() {
		for _, a := range []*Authority{a, constrained} {
			if out, err := opensslVerify(t, a, mustLeaf(t, a, host), host); err != nil {
				t.Errorf("%s: %s", host, out)
			}
		}
	}
	if out, err := opensslVerify(t, a, mustLeaf(t, a, "a.test"), "b.test"); err == nil {
		t.Error("another's name is taken:", out)
	}
}

// opensslVerify has openssl verify the leaf for the host.
func opensslVerify(t *testing.T, a *Authority, c *tls.Certificate, host string) (string, error) {
	t.Helper()
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("there is no openssl")
	}
	dir := t.TempDir()
	root, leaf := filepath.Join(dir, "root.pem"), filepath.Join(dir, "leaf.pem")
	if err := errors.Join(os.WriteFile(root, a.RootPEM(), 0o600), os.WriteFile(leaf, encode(c.Leaf), 0o600)); err != nil {
		t.Fatal(err)
	}
	kind := "-verify_hostname"
	if net.ParseIP(host) != nil {
		kind = "-verify_ip"
	}
	out, err := exec.Command(openssl, "verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", root, kind, host, leaf).CombinedOutput()
	return string(out), err
}
