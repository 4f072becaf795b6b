package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"mulligan/policy"
	"mulligan/policy/config"
	"mulligan/proxy"
	"mulligan/proxy/certs"
)

// secured are the listeners with TLS, by their addresses as configured. Their
// certificates are renewed until close.
type secured map[string]*certs.Managed

// secureWithin bounds what the start waits for other processes that use the same
// data_dir.
const secureWithin = time.Minute

// secure prepares TLS for the listeners that the configuration wants it on. They
// have to be open by then: a certificate authority may want to look at once.
func secure(cfg *config.Config, log *slog.Logger) (_ secured, err error) {
	all := secured{}
	defer func() {
		if err != nil {
			all.close()
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), secureWithin)
	defer cancel()
	for key, l := range listenersWithTLS(cfg) {
		managed, err := manage(ctx, cfg, l.tls, log)
		if err != nil {
			return all, failure(err, hintOf(err), "%s.tls: %s", key, err)
		}
		all[l.address] = managed
	}
	return all, nil
}

// listenerWithTLS is one of them.
type listenerWithTLS struct {
	address string
	tls     *policy.ListenerTLS
}

// listenersWithTLS returns them by the keys under which they are configured.
func listenersWithTLS(cfg *config.Config) map[string]listenerWithTLS {
	all := map[string]listenerWithTLS{}
	add := func(key, address string, t *policy.ListenerTLS) {
		if t != nil {
			all[key] = listenerWithTLS{address, t}
		}
	}
	add("listen.proxy", cfg.Proxy, cfg.ProxyTLS)
	add("listen.admin", cfg.Admin, cfg.AdminTLS)
	for _, u := range cfg.Upstreams {
		add("upstreams."+u.Name+".listen", u.Listen, u.ListenTLS)
	}
	return all
}

// manage has a listener's certificate made, fetched or read.
func manage(ctx context.Context, cfg *config.Config, l *policy.ListenerTLS, log *slog.Logger) (*certs.Managed, error) {
	wanted := certs.Config{CertFile: l.CertFile, KeyFile: l.KeyFile, Names: l.Names, Storage: cfg.DataDir, Log: log}
	if l.CertFile != "" {
		wanted.Names = nil // they are in the file
	}
	if a := l.ACME; a != nil {
		wanted.ACME = &certs.ACME{Email: a.Email, Directory: a.Directory, CAFile: a.CAFile, HTTPPort: a.HTTPPort, TLSALPNPort: a.TLSALPNPort}
	}
	if l.Internal {
		ca, err := loadCA(ctx, cfg.DataDir)
		if err != nil {
			return nil, err
		}
		wanted.Internal = ca
	}
	return certs.Listener(ctx, wanted)
}

// hintOf returns what the error says to do.
func hintOf(err error) string {
	if ours, ok := errors.AsType[*mistake](err); ok {
		return ours.hint
	}
	if wrong, ok := errors.AsType[*certs.StorageError](err); ok {
		return wrong.Hint
	}
	if _, ok := errors.AsType[*certs.ChallengeError](err); ok {
		return "set acme.http_port and acme.tls_alpn_port to ports that it may open, and have 80 and 443 lead there; " +
			"or give it the privilege for ports below 1024"
	}
	return ""
}

// config is the TLS of one listener; nil: it has none.
func (s secured) config(address string) *tls.Config {
	if managed := s[address]; managed != nil {
		return managed.TLS()
	}
	return nil
}

func (s secured) close() {
	for _, managed := range s {
		managed.Close()
	}
}

// keptCA returns the local CA that data_dir keeps, once somebody needs it.
func keptCA(cfg *config.Config) func() (proxy.Signer, error) {
	return func() (proxy.Signer, error) {
		ctx, cancel := context.WithTimeout(context.Background(), secureWithin)
		defer cancel()
		ca, err := loadCA(ctx, cfg.DataDir)
		if err != nil {
			return nil, fmt.Errorf("tls.intercept: %w", err)
		}
		return ca, nil
	}
}
