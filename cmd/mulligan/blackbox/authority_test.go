package blackbox

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// authority is a CA of a test's own, with its root in a file.
type authority struct {
	t    *testing.T
	dir  string
	file string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "blackbox root"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	var der []byte
	a.cert, a.key, der = a.sign(template, nil, nil)
	a.file = filepath.Join(a.dir, "ca.pem")
	writeFile(t, a.file, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	return a
}

// sign makes a key and a certificate for it; without a parent it signs itself.
func (a *authority) sign(template, parent *x509.Certificate, by *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, []byte) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	if parent == nil {
		parent, by = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key, der
}

// leaf is a certificate for names and addresses, valid until a time.
func (a *authority) leaf(until time.Time, names ...string) tls.Certificate {
	a.t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "blackbox"},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: until,
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	_, key, der := a.sign(template, a.cert, a.key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// write puts a certificate and its key into files.
func (a *authority) write(cert tls.Certificate) (certFile, keyFile string) {
	a.t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		a.t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(a.dir, "client.pem"), filepath.Join(a.dir, "client-key.pem")
	writeFile(a.t, certFile, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})))
	writeFile(a.t, keyFile, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
	return certFile, keyFile
}

// upstream speaks TLS with a certificate for 127.0.0.1 and localhost.
func (a *authority) upstream(t *testing.T, list ...answer) *upstream {
	t.Helper()
	return a.upstreamWith(t, rightConfig(a), list...)
}

// rightConfig is a server's configuration in which nothing is wrong.
func rightConfig(a *authority) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{a.leaf(time.Now().Add(time.Hour), "127.0.0.1", "localhost")}}
}

func (a *authority) upstreamWith(t *testing.T, config *tls.Config, list ...answer) *upstream {
	t.Helper()
	return upstreamOn(t, tls.NewListener(listen(t, "127.0.0.1:0"), config), answering(list...))
}

// config names one upstream with a host and an https endpoint that trusts this
// CA; extra is more of its mapping, each line indented by four.
func (a *authority) config(host, addr, extra string) string {
	return fmt.Sprintf(`
defaults: {%s, retry: {%s}}
upstreams:
  secure:
    hosts: [%s]
    endpoints: ["https://%s"]
    tls: {ca_file: %s}
%s`, unhurried, quick, host, addr, a.file, extra)
}
