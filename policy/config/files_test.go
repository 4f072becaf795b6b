package config_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// writeCertificates fills a directory with the files that the tests name:
// ca.pem, client.pem with client.key, server.pem with server.key, and keys and certificates that are no use.
func writeCertificates(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	certificate, key := selfSigned(t)
	_, other := selfSigned(t)
	server, serverKey := selfSigned(t)
	files := map[string][]byte{
		"ca.pem":        certificate,
		"client.pem":    certificate,
		"client.key":    key,
		"other.key":     other,
		"server.pem":    server,
		"server.key":    serverKey,
		"encrypted.key": pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("x")}),
		"broken.pem":    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}),
		"huge.pem":      make([]byte, 2<<20),
		"empty.pem":     nil,
		"client.der":    decoded(certificate),
		"mixed.pem":     append(slices.Clone(certificate), pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("x")})...),
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// decoded is a PEM text's first block.
func decoded(text []byte) []byte {
	block, _ := pem.Decode(text)
	return block.Bytes
}

// selfSigned returns a certificate and its key in PEM form.
func selfSigned(t testing.TB) (certificate, key []byte) {
	t.Helper()
	return validFor(t, time.Time{}, time.Now().Add(time.Hour))
}

func validFor(t testing.TB, from, until time.Time) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "mulligan test"},
		NotBefore:    from,
		NotAfter:     until,
		IsCA:         true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}

// TestOutdatedCertificates: whoever has one would hear of it from clients only.
func TestOutdatedCertificates(t *testing.T) {
	hour := time.Hour
	for _, test := range []struct {
		from, until time.Duration
		warning     string
	}{
		{-hour, hour, ""},
		{-2 * hour, -hour, "has expired"},
		{hour, 2 * hour, "is not valid yet"},
	} {
		dir, now := t.TempDir(), time.Now()
		certificate, key := validFor(t, now.Add(test.from), now.Add(test.until))
		for name, data := range map[string][]byte{"c.pem": slices.Concat(key, certificate), "k.pem": key} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c := parse(t, "listen: {proxy: {address: 127.0.0.1:7080, tls: {cert_file: "+dir+"/c.pem, key_file: "+dir+"/k.pem}}}", lookup(nil))
		said := strings.Join(c.Warnings, "\n")
		if test.warning == "" && said != "" || !strings.Contains(said, test.warning) {
			t.Errorf("from %v until %v: warnings %q, want %q", test.from, test.until, said, test.warning)
		}
	}
}
