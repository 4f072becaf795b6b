package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"mulligan/policy"
)

// peerTLS is how an upstream's https endpoints are spoken to, with its files
// read. It is made at load, so that a bad file is an error before anything runs.
type peerTLS struct {
	from  policy.TLS
	files string // what the files held: a renewed certificate is a change
	base  *tls.Config
}

// sessionCache is how many TLS sessions are kept for resumption per upstream.
const sessionCache = 64

func newPeerTLS(t policy.TLS) (*peerTLS, error) {
	p := &peerTLS{from: t, base: &tls.Config{
		MinVersion:         tls.VersionTLS12,
		NextProtos:         []string{alpnHTTP2, alpnHTTP1},
		ClientSessionCache: tls.NewLRUClientSessionCache(sessionCache),
	}}
	if t.MinVersion == "1.3" {
		p.base.MinVersion = tls.VersionTLS13
	}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, err
		}
		p.base.RootCAs = x509.NewCertPool()
		if !p.base.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: no certificate in PEM form", t.CAFile)
		}
		p.files += string(pem)
	}
	if t.ClientCertFile != "" {
		cert, err := tls.LoadX509KeyPair(t.ClientCertFile, t.ClientKeyFile)
		if err != nil {
			return nil, err
		}
		p.base.Certificates = []tls.Certificate{cert}
		for _, der := range cert.Certificate {
			p.files += string(der)
		}
	}
	return p, nil
}

// same reports whether connections made under p are as good as ones made under q.
func (p *peerTLS) same(q *peerTLS) bool {
	return p != nil && q != nil && p.from == q.from && p.files == q.files
}

// config returns the configuration for one host.
func (p *peerTLS) config(host string) *tls.Config {
	c := p.base.Clone()
	c.ServerName = host
	if ip, ok := legacyIPv4(host); ok {
		c.ServerName = ip.String() // no name, and sent as none
	}
	if p.from.ServerName != "" {
		c.ServerName = p.from.ServerName
	}
	return c
}
