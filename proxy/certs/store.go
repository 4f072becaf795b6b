package certs

import (
	"bytes"
	"context"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/caddyserver/certmagic"
)

// Where the root is kept, below the data directory. The key's file has the
// certificate too: one file is written whole or not at all, so no crash leaves
// half a root. The certificate's own file is for people.
const (
	caDir    = "ca"
	keyFile  = "root.key"
	certFile = "root.crt"
	caLock   = "root"
)

// errNoRoot: nothing is kept yet.
var errNoRoot = errors.New("there is no root")

// rootStore is the root in certmagic's storage.
type rootStore struct {
	files
	made bool // by this process
}

// Load returns the authority that is kept in the data directory dir, and makes
// it when there is none. Processes that start at once end with the same one:
// it is made under a lock, for which another process may have to be waited; one
// that was killed holds it for ten seconds more.
//
// A root that cannot be used (unreadable, not a CA, with another's key, expired
// or with less than a day left) is never replaced: clients trust it. The error is
// a *StorageError then, which names the file and says what to do. The key is
// closed to other users, and refused if that is not possible.
func Load(ctx context.Context, dir string) (*Authority, error) {
	place, err := makePrivate(dir, caDir)
	if err != nil {
		return nil, err
	}
	s := &rootStore{files: files{certmagic.FileStorage{Path: place}}}
	root, key, err := s.read(ctx)
	if errors.Is(err, errNoRoot) {
		root, key, err = s.make(ctx)
	}
	if err != nil {
		return nil, err
	}
	a, err := newAuthority(root, key, nil)
	if err == nil {
		a.made = s.made
	}
	return a, err
}

// make makes the root, unless another process has done so meanwhile: while it
// waits for the lock it looks for that, for the lock goes to one after the other,
// a second apart.
func (s *rootStore) make(ctx context.Context) (*x509.Certificate, crypto.Signer, error) {
	if _, err := makePrivate(s.Path, "locks"); err != nil {
		return nil, nil, err
	}
	lockCtx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	locked := make(chan error, 1)
	go func() { locked <- s.Lock(lockCtx, caLock) }()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case err := <-locked:
			return s.makeLocked(ctx, err)
		case <-ticker.C:
		}
		if root, key, err := s.read(ctx); !errors.Is(err, errNoRoot) {
			giveUp()
			if <-locked == nil {
				s.Unlock(context.WithoutCancel(ctx), caLock)
			}
			return root, key, err
		}
	}
}

// makeLocked makes the root once the lock was asked for, with this result.
func (s *rootStore) makeLocked(ctx context.Context, err error) (*x509.Certificate, crypto.Signer, error) {
	if err != nil {
		file := s.Filename(filepath.Join("locks", caLock+".lock"))
		return nil, nil, &StorageError{file, "the lock cannot be taken", "let mulligan write there; where a crash left the file, remove it", err}
	}
	defer s.Unlock(context.WithoutCancel(ctx), caLock)
	root, key, err := s.read(ctx)
	if !errors.Is(err, errNoRoot) {
		return root, key, err
	}
	if s.Exists(ctx, certFile) {
		return nil, nil, &StorageError{s.Filename(keyFile), "there is no such file, but " + certFile + " is there", s.startAnew("put it back"), nil}
	}
	if root, key, err = newRoot(nil); err != nil {
		return nil, nil, err
	}
	s.made = true
	return root, key, s.save(ctx, root, key)
}

// save writes the key's file, then the certificate's.
func (s *rootStore) save(ctx context.Context, root *x509.Certificate, key crypto.Signer) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encoding the root's key: %w", err)
	}
	certPEM := encode(root)
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	if err := s.Store(ctx, keyFile, append(keyPEM, certPEM...)); err != nil {
		return s.unwritable(keyFile, err)
	}
	if err := closeToOthers(s.Filename(keyFile)); err != nil {
		return err
	}
	if err := s.Store(ctx, certFile, certPEM); err != nil {
		return s.unwritable(certFile, err)
	}
	return nil
}

// read reads the root and tries it.
func (s *rootStore) read(ctx context.Context) (*x509.Certificate, crypto.Signer, error) {
	keyPEM, err := s.Load(ctx, keyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, errNoRoot
	}
	if err != nil {
		return nil, nil, unreadable(s.Filename(keyFile), err)
	}
	if err := closeToOthers(s.Filename(keyFile)); err != nil {
		return nil, nil, err
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, nil, s.broken(keyFile, "it holds no private key that can be used", err)
	}
	root, err := s.readCert(ctx, keyPEM)
	if err != nil {
		return nil, nil, err
	}
	if public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool }); !ok || !public.Equal(root.PublicKey) {
		return nil, nil, s.broken(keyFile, "the key is not that of the certificate", nil)
	}
	return root, key, s.try(root)
}

// readCert reads the certificate: from the key's file, and from its own, which
// has to have the same and is written again where it is missing.
func (s *rootStore) readCert(ctx context.Context, keyPEM []byte) (*x509.Certificate, error) {
	inKey, err := parseCert(keyPEM)
	if err != nil {
		return nil, s.broken(keyFile, "its certificate cannot be used", err)
	}
	certPEM, err := s.Load(ctx, certFile)
	switch {
	case errors.Is(err, fs.ErrNotExist) && inKey != nil:
		_ = s.Store(ctx, certFile, encode(inKey)) // which a read-only directory need not have
		return inKey, nil
	case err != nil:
		return nil, unreadable(s.Filename(certFile), err)
	}
	own, err := parseCert(certPEM)
	switch {
	case err != nil || own == nil:
		return nil, s.broken(certFile, "it holds no certificate that can be used", err)
	case inKey != nil && !bytes.Equal(inKey.Raw, own.Raw):
		return nil, s.broken(certFile, "it is not the certificate that "+keyFile+" has", nil)
	}
	return own, nil
}

// try says what a root cannot do. A leaf is valid for a day: what is left of the
// root has to be as much.
func (s *rootStore) try(root *x509.Certificate) error {
	now := time.Now()
	switch {
	case !root.IsCA || root.KeyUsage != 0 && root.KeyUsage&x509.KeyUsageCertSign == 0:
		return s.broken(certFile, "it is not the certificate of a CA", nil)
	case now.Before(root.NotBefore):
		return &StorageError{s.Filename(certFile), "the root is valid only from " + date(root.NotBefore), "set this machine's clock", nil}
	case now.After(root.NotAfter):
		return s.broken(certFile, "the root has expired on "+date(root.NotAfter), nil)
	case now.Add(leafLife).After(root.NotAfter):
		return s.broken(certFile, "the root expires on "+date(root.NotAfter)+", in less than a day", nil)
	}
	return nil
}

func (s *rootStore) broken(name, problem string, err error) error {
	return &StorageError{s.Filename(name), problem, s.startAnew("put back what was there"), err}
}

func (s *rootStore) startAnew(first string) string {
	return fmt.Sprintf("%s, or remove %s and %s in %s: mulligan makes a new root then, which clients have to trust anew", first, keyFile, certFile, s.Path)
}

func (s *rootStore) unwritable(name string, err error) error {
	return &StorageError{s.Filename(name), "it cannot be written", "let data_dir name a directory that mulligan may write", err}
}

func encode(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

// parseCert returns the first certificate in PEM, or nil where there is none.
func parseCert(text []byte) (*x509.Certificate, error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			return x509.ParseCertificate(block.Bytes)
		}
	}
	return nil, nil
}

// parseKey returns the first private key in PEM, in the form of mulligan or in
// those of OpenSSL.
func parseKey(text []byte) (crypto.Signer, error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		var key any
		var err error
		switch block.Type {
		case "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(block.Bytes)
		case "RSA PRIVATE KEY":
			key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		default:
			continue
		}
		if err != nil {
			return nil, err
		}
		if signer, ok := key.(crypto.Signer); ok {
			return signer, nil
		}
	}
	return nil, errors.New("no PEM block of a private key")
}
