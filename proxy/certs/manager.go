package certs

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/certmagic"
)

// tuning is what tests change. Zero values are certmagic's.
type tuning struct {
	renewEvery time.Duration // between looks for certificates to renew
	renewRatio float64       // of the life that is left then
	resolver   string        // DNS server of the ACME client
	stopWithin time.Duration // for Close, behind which a test removes the storage
}

// stopWithin bounds the wait for certmagic, which may be in a request to the CA.
const stopWithin = 2 * time.Second

// manager is certmagic for one listener.
type manager struct {
	names  []string // canonical; the first is for clients that name none of them
	config *certmagic.Config
	cache  *certmagic.Cache
	store  *storage
	log    *slog.Logger
	said   atomic.Int64 // when a refused handshake was logged last, Unix time

	// How a certificate is had for a name that has none, and instead of an old
	// one.
	obtain func(ctx context.Context, name string) error
	renew  func(ctx context.Context, name string, force bool) error

	quit       context.CancelFunc
	working    sync.WaitGroup
	stopWithin time.Duration
}

// newManager makes a manager, which has no issuer yet. Each kind has a storage
// of its own: certmagic's lock of a name does not tell issuers apart, and ACME
// holds it until the CA is there.
func newManager(cfg Config, kind string) (*manager, error) {
	m := &manager{log: cfg.Log, quit: func() {}, stopWithin: cmp.Or(cfg.magic.stopWithin, stopWithin)}
	for _, given := range cfg.Names {
		name, _, err := canonical(given)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(m.names, name) {
			m.names = append(m.names, name)
		}
	}
	place, err := makePrivate(cfg.Storage, kind)
	if err != nil {
		return nil, err
	}
	m.store = newStorage(place)
	logger := zapLogger(cfg.Log)
	m.cache = certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert:   func(certmagic.Certificate) (*certmagic.Config, error) { return m.config, nil },
		RenewCheckInterval: cfg.magic.renewEvery,
		Logger:             logger,
	})
	m.config = certmagic.New(m.cache, certmagic.Config{
		Storage:            m.store,
		KeySource:          certmagic.StandardKeyGenerator{KeyType: certmagic.P256},
		RenewalWindowRatio: cfg.magic.renewRatio,
		Logger:             logger,
		OnEvent:            m.logEvent,
		ShouldEmitFunc:     func(event string) bool { return event == obtained },
		// A responder that is away would hold up the start; CAs are giving it up.
		OCSP: certmagic.OCSPConfig{DisableStapling: true, HTTPProxy: noProxy},
	})
	return m, nil
}

const obtained = "cert_obtained" // certmagic's event

// logEvent says what certmagic has done.
func (m *manager) logEvent(_ context.Context, event string, data map[string]any) error {
	if event == obtained {
		m.log.Info("certificate: obtained", "name", data["identifier"], "issuer", data["issuer"], "renewal", data["renewal"])
	}
	return nil
}

// ensure has the name's certificate loaded, and before that obtained or renewed
// where needed.
func (m *manager) ensure(ctx context.Context, name string) error {
	if err := m.discardTorn(ctx, name); err != nil {
		return err
	}
	old, err := m.config.CacheManagedCertificate(ctx, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = m.obtain(ctx, name)
	case err == nil && !old.NeedsRenewal(m.config):
		return nil
	case err == nil:
		err = m.renew(ctx, name, false)
	}
	if err != nil {
		return fmt.Errorf("getting a certificate for %s: %w", name, err)
	}
	renewed, err := m.config.CacheManagedCertificate(ctx, name)
	if err != nil {
		return fmt.Errorf("getting a certificate for %s: %w", name, err)
	}
	if !old.Empty() && old.Hash() != renewed.Hash() {
		m.cache.Remove([]string{old.Hash()})
	}
	return nil
}

// discardTorn deletes a stored certificate whose files do not fit together.
// Certmagic writes one after the other: what a process leaves that is killed
// between them would be an error for ever. Whoever is just writing them has the
// lock.
func (m *manager) discardTorn(ctx context.Context, name string) error {
	if !m.torn(ctx, name) {
		return nil
	}
	lock := lockOf(name)
	if err := m.store.Lock(ctx, lock); err != nil {
		return fmt.Errorf("waiting for the stored certificate of %s: %w", name, err)
	}
	defer m.store.Unlock(context.WithoutCancel(ctx), lock)
	if !m.torn(ctx, name) {
		return nil
	}
	site := certmagic.StorageKeys.CertsSitePrefix(m.issuerKey(), name)
	m.log.Warn("certificate: the stored one is damaged and is got anew", "name", name, "stored", site)
	return m.store.Delete(ctx, site)
}

// lockOf is the lock that certmagic holds while it gets a certificate.
func lockOf(name string) string { return "issue_cert_" + name }

// torn reports whether all of a certificate's files are there, but cannot be
// used.
func (m *manager) torn(ctx context.Context, name string) bool {
	keys := certmagic.StorageKeys
	cert, err1 := m.store.Load(ctx, keys.SiteCert(m.issuerKey(), name))
	key, err2 := m.store.Load(ctx, keys.SitePrivateKey(m.issuerKey(), name))
	meta, err3 := m.store.Load(ctx, keys.SiteMeta(m.issuerKey(), name))
	if err1 != nil || err2 != nil || err3 != nil {
		return false
	}
	_, err := tls.X509KeyPair(cert, key)
	return err != nil || !json.Valid(meta)
}

func (m *manager) issuerKey() string { return m.config.Issuers[0].IssuerKey() }

// certificate is for tls.Config.GetCertificate. Certmagic is asked only for
// names that it manages: it stumbles over others that are no registered names.
func (m *manager) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	asked := *hello
	asked.ServerName = m.nameFor(hello)
	cert, err := m.config.GetCertificate(&asked)
	if err == nil {
		return cert, nil
	}
	said, now := m.said.Load(), time.Now().Unix()
	if now-said >= 60 && m.said.CompareAndSwap(said, now) {
		m.log.Warn("certificate: handshakes fail until there is one", "name", asked.ServerName, "error", err)
	}
	return nil, err
}

// nameFor returns the name of the certificate for a client: what it asks for,
// else the address that it called, else the first. With a certificate for
// another name it can say what is wrong; with none it could not.
func (m *manager) nameFor(hello *tls.ClientHelloInfo) string {
	if name, _, err := canonical(hello.ServerName); err == nil && slices.Contains(m.names, name) {
		return name
	}
	if hello.ServerName == "" && hello.Conn != nil {
		if local, _, err := net.SplitHostPort(hello.Conn.LocalAddr().String()); err == nil && slices.Contains(m.names, local) {
			return local
		}
	}
	return m.names[0]
}

// close ends the manager, and waits for what is being done.
func (m *manager) close() {
	m.quit()
	m.working.Wait()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		m.cache.Stop()
		<-m.store.close()
	}()
	select {
	case <-stopped:
	case <-time.After(m.stopWithin):
	}
}

// ownNames are the names of a listener that was given none.
func ownNames() []string {
	names := []string{"localhost", "127.0.0.1", "::1"}
	if host, err := os.Hostname(); err == nil {
		if name, _, err := canonical(host); err == nil {
			names = append(names, name)
		}
	}
	return names
}
