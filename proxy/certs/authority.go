package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"time"
)

// How long certificates are valid. They begin to be so an hour before they are
// made: clocks of clients, in containers and virtual machines, may be behind.
const (
	rootLife = 10 * 365 * 24 * time.Hour
	leafLife = 24 * time.Hour
	skew     = time.Hour
)

// maxCommonName is X.520's limit, which OpenSSL enforces (RFC 5280 appendix A.1,
// ub-common-name). Clients look at the subject alternative name.
const maxCommonName = 64

// Authority is a local certificate authority: a root whose key is on this
// machine, or in this process only, and the leaves signed with it. Clients that
// trust the root trust the leaves. It is safe for concurrent use.
type Authority struct {
	root        *x509.Certificate
	key         crypto.Signer
	pem         []byte
	fingerprint string
	made        bool
	permitted   *permitted // nil: any name

	// leafKey is the key of all leaves from the LRU. They all stand for this one
	// process, which holds the root's key as well: a key for each would protect
	// nothing, and cost as much again as the signature.
	leafKey   *ecdsa.PrivateKey
	leafKeyID []byte
	leaves    leaves
}

// New makes an authority whose key never leaves this process's memory. It may
// sign only the permitted names, which its root says in critical name
// constraints: exact DNS names, *.example.com for the names below example.com,
// and IP addresses. With none it signs nothing. A name that is no name is a
// *NameError.
func New(names []string) (*Authority, error) {
	p, err := newPermitted(names)
	if err != nil {
		return nil, err
	}
	root, key, err := newRoot(p)
	if err != nil {
		return nil, err
	}
	return newAuthority(root, key, p)
}

// newAuthority puts an authority together.
func newAuthority(root *x509.Certificate, key crypto.Signer, p *permitted) (*Authority, error) {
	leafKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the key of leaves: %w", err)
	}
	id, err := keyID(&leafKey.PublicKey)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(root.Raw)
	return &Authority{
		root: root, key: key, permitted: p, leafKey: leafKey, leafKeyID: id,
		pem:         pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Raw}),
		fingerprint: hex.EncodeToString(sum[:]),
	}, nil
}

// Root is the root's certificate, which clients have to trust. It is not to be
// changed.
func (a *Authority) Root() *x509.Certificate { return a.root }

// RootPEM is Root as one PEM block.
func (a *Authority) RootPEM() []byte { return append([]byte(nil), a.pem...) }

// Fingerprint is the SHA-256 of the root's certificate in DER, in hex.
func (a *Authority) Fingerprint() string { return a.fingerprint }

// Made reports whether Load has made the root just now: no client trusts it yet.
func (a *Authority) Made() bool { return a.made }

// newRoot makes a root and its key. Its name tells it from roots made before:
// clients look for the issuer by name, and some take two roots of one name for
// one.
func newRoot(p *permitted) (*x509.Certificate, crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making the root's key: %w", err)
	}
	id, err := keyID(&key.PublicKey)
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          newSerial(),
		Subject:               pkix.Name{CommonName: "mulligan local CA " + hex.EncodeToString(id[:4])},
		SubjectKeyId:          id,
		NotBefore:             now.Add(-skew),
		NotAfter:              now.Add(rootLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	p.constrain(template)
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, fmt.Errorf("making the root: %w", err)
	}
	root, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, fmt.Errorf("making the root: %w", err)
	}
	return root, key, nil
}

// sign makes the certificate of a server, for one canonical name.
func (a *Authority) sign(name string, addr netip.Addr, public crypto.PublicKey, id []byte) ([]byte, error) {
	now := time.Now()
	if !now.Before(a.root.NotAfter) {
		return nil, fmt.Errorf("the root %q has expired on %s", a.root.Subject.CommonName, date(a.root.NotAfter))
	}
	template := &x509.Certificate{
		SerialNumber:          newSerial(),
		Subject:               pkix.Name{Organization: []string{"mulligan"}},
		SubjectKeyId:          id,
		NotBefore:             now.Add(-skew),
		NotAfter:              earlier(now.Add(leafLife), a.root.NotAfter),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	if addr.IsValid() {
		// No common name: OpenSSL would hold it against the root's DNS constraints.
		template.IPAddresses = []net.IP{addr.AsSlice()}
	} else {
		template.DNSNames = []string{name}
		if len(name) <= maxCommonName {
			template.Subject.CommonName = name
		}
	}
	return x509.CreateCertificate(rand.Reader, template, a.root, public, a.key)
}

// check returns the canonical name if it may be signed.
func (a *Authority) check(given string) (string, netip.Addr, error) {
	name, addr, err := canonical(given)
	if err == nil && !a.permitted.allows(name) {
		err = &NameError{given, "the local CA was made for other names"}
	}
	return name, addr, err
}

// newSerial returns 128 random bits.
func newSerial() *big.Int {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return new(big.Int).SetBytes(b[:])
}

// keyID names a public key: the SHA-1 of its bits (RFC 5280 section 4.2.1.2,
// method 1), which protects nothing.
func keyID(key *ecdsa.PublicKey) ([]byte, error) {
	bits, err := key.Bytes()
	if err != nil {
		return nil, fmt.Errorf("encoding a public key: %w", err)
	}
	sum := sha1.Sum(bits)
	return sum[:], nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func date(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }
