package certs

import (
	"crypto/tls"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// lookEvery is how often files are looked at.
const lookEvery = 2 * time.Second

// pair is a certificate and its key in two files, read again when they change:
// by a write, a rename, or by a symbolic link that leads elsewhere (Kubernetes).
type pair struct {
	cert, key string
	log       *slog.Logger
	current   atomic.Pointer[tls.Certificate]
	seen      stamp  // of what current was read from
	failed    bool   // the last look found a pair that cannot be used
	said      string // what was logged about it
}

// stamp tells one state of the two files from another. Links are followed.
type stamp struct{ cert, key fs.FileInfo }

// fromFiles is Listener for files.
func fromFiles(cfg Config) (*Managed, error) {
	if cfg.CertFile == "" || cfg.KeyFile == "" {
		return nil, errors.New("a certificate needs its key, and a key its certificate: both files have to be named")
	}
	p := &pair{cert: cfg.CertFile, key: cfg.KeyFile, log: cfg.Log}
	if err := p.read(); err != nil {
		return nil, err
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() { defer close(done); p.watch(quit) }()
	get := func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return p.current.Load(), nil }
	return &Managed{tls: server(cfg, get), stop: func() { close(quit); <-done }}, nil
}

// watch looks at the files until quit is closed.
func (p *pair) watch(quit <-chan struct{}) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-quit:
			return
		case <-ticker.C:
			p.look()
		}
	}
}

// look reads the files if they have changed. What cannot be used leaves the
// certificate as it was, and is tried again at the next look; only then it is
// logged, for files are often replaced one after the other.
func (p *pair) look() {
	if !p.failed && p.stamp().same(p.seen) {
		return
	}
	err := p.read()
	if err == nil {
		p.failed, p.said = false, ""
		p.log.Info("certificate: read again", "file", p.cert, "valid_until", p.current.Load().Leaf.NotAfter)
		return
	}
	if p.failed && p.said != err.Error() {
		p.said = err.Error()
		p.log.Error("certificate: what is in the files now cannot be used, and what was read before stays", "error", err)
	}
	p.failed = true
}

// read reads the files and takes what they hold, if it can be used.
func (p *pair) read() error {
	before := p.stamp()
	cert, err := p.load()
	if err != nil {
		return err
	}
	if now := time.Now(); now.After(cert.Leaf.NotAfter) || now.Before(cert.Leaf.NotBefore) {
		p.log.Warn("certificate: not valid now", "file", p.cert, "from", cert.Leaf.NotBefore, "until", cert.Leaf.NotAfter)
	}
	p.seen = before
	p.current.Store(cert)
	return nil
}

func (p *pair) load() (*tls.Certificate, error) {
	certPEM, err := os.ReadFile(p.cert)
	if err != nil {
		return nil, unreadable(p.cert, err)
	}
	keyPEM, err := os.ReadFile(p.key)
	if err != nil {
		return nil, unreadable(p.key, err)
	}
	if c, err := parseCert(certPEM); err != nil || c == nil {
		return nil, &StorageError{p.cert, "it holds no certificate that can be used", "it has to be PEM: the leaf, then the certificates between it and the root", err}
	}
	if _, err := parseKey(keyPEM); err != nil {
		return nil, &StorageError{p.key, "it holds no private key that can be used", "it has to be PEM, and not encrypted", err}
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, &StorageError{p.key, "it does not fit the certificate in " + p.cert, "the first certificate in the file has to be the key's", err}
	}
	return &cert, nil
}

// stamp looks at the files. A file that is not there has none.
func (p *pair) stamp() (s stamp) {
	s.cert, _ = os.Stat(p.cert)
	s.key, _ = os.Stat(p.key)
	return s
}

func (s stamp) same(o stamp) bool { return sameFile(s.cert, o.cert) && sameFile(s.key, o.key) }

func sameFile(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
