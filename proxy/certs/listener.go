package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"sync"
)

// Config says where a TLS listener's certificate comes from: exactly one of
// Internal, CertFile with KeyFile, and ACME.
type Config struct {
	Internal          *Authority // the local CA signs it
	CertFile, KeyFile string     // PEM; the chain, and the leaf's key
	ACME              *ACME

	// Names are what clients call the listener by. ACME needs them; with Internal
	// none stands for localhost, 127.0.0.1, ::1 and this machine's host name.
	Names   []string
	Storage string // the data directory, for Internal and ACME
	Log     *slog.Logger

	// NextProtos are the protocols offered in the handshake (ALPN), the best
	// first.
	NextProtos []string

	magic tuning
}

// Managed is the TLS side of a listener, whose certificates are renewed while
// it is served.
type Managed struct {
	tls  *tls.Config
	stop func()
	once sync.Once
}

// Listener prepares the TLS of a listener.
//
// What can be wrong at once is an error: files that cannot be read or do not
// fit, names that are none, a storage that cannot be written. A certificate from
// ACME is fetched in the background, for as long as it takes; until then
// handshakes fail and the log says why. Open the listener's socket first where it
// is to answer TLS-ALPN-01 itself, so that nothing else is opened for that.
//
// ctx is for the start alone. Close ends what runs in the background.
func Listener(ctx context.Context, cfg Config) (*Managed, error) {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	files := cfg.CertFile != "" || cfg.KeyFile != ""
	switch {
	case files && cfg.Internal == nil && cfg.ACME == nil:
		return fromFiles(cfg)
	case cfg.Internal != nil && !files && cfg.ACME == nil:
		return fromAuthority(ctx, cfg)
	case cfg.ACME != nil && !files && cfg.Internal == nil:
		return fromACME(ctx, cfg)
	}
	return nil, errors.New("a TLS listener has one source of its certificate: files, the local CA, or ACME")
}

// TLS returns a configuration to serve with. It is the caller's.
func (m *Managed) TLS() *tls.Config { return m.tls.Clone() }

// Close ends renewals. Connections, and configurations from TLS, stay usable
// with the certificates that were there last.
func (m *Managed) Close() { m.once.Do(m.stop) }

// server is what all listeners have in common.
func server(cfg Config, get func(*tls.ClientHelloInfo) (*tls.Certificate, error)) *tls.Config {
	return &tls.Config{GetCertificate: get, NextProtos: cfg.NextProtos, MinVersion: tls.VersionTLS12}
}
