package certs

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"

	"github.com/caddyserver/certmagic"
)

// issuer is an authority as certmagic's issuer. What it cannot sign it never
// will: its errors end certmagic's retries.
type issuer struct{ *Authority }

var _ certmagic.Issuer = issuer{}

// IssuerKey names the root: certmagic stores certificates under it, and those of
// a root that was replaced are not found again.
func (i issuer) IssuerKey() string { return "local-" + i.Fingerprint() }

// Issue signs for the one name of the request.
func (i issuer) Issue(_ context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	der, err := i.answer(csr)
	if err != nil {
		return nil, certmagic.ErrNoRetry{Err: err}
	}
	return &certmagic.IssuedCertificate{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

func (i issuer) answer(csr *x509.CertificateRequest) ([]byte, error) {
	names := append([]string(nil), csr.DNSNames...)
	for _, ip := range csr.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) != 1 {
		return nil, errors.New("the local CA signs for one name at a time")
	}
	name, addr, err := i.check(names[0])
	if err != nil {
		return nil, err
	}
	key, ok := csr.PublicKey.(*ecdsa.PublicKey)
	if !ok {
		return nil, errors.New("the local CA signs ECDSA keys only")
	}
	id, err := keyID(key)
	if err != nil {
		return nil, err
	}
	return i.sign(name, addr, key, id)
}

// fromAuthority is Listener for the local CA. Its certificates are made at once,
// or taken from the storage, and renewed by certmagic.
func fromAuthority(ctx context.Context, cfg Config) (*Managed, error) {
	if len(cfg.Names) == 0 {
		cfg.Names = ownNames()
	}
	m, err := newManager(cfg, "internal")
	if err != nil {
		return nil, err
	}
	m.config.Issuers = []certmagic.Issuer{issuer{cfg.Internal}}
	m.obtain, m.renew = m.config.ObtainCertSync, m.config.RenewCertSync
	for _, name := range m.names {
		if err := m.ensure(ctx, name); err != nil {
			m.close()
			return nil, err
		}
	}
	return &Managed{tls: server(cfg, m.certificate), stop: m.close}, nil
}
