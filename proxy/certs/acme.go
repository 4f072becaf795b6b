package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/caddyserver/certmagic"
)

// ACME is a certificate authority that is asked by ACME (RFC 8555). Whoever
// gives one agrees to its terms.
type ACME struct {
	Email     string // for the CA's account; may be empty
	Directory string // URL; empty: Let's Encrypt
	CAFile    string // PEM roots to trust the directory by, instead of the system's

	// The ports on which challenges are answered, if not 80 (HTTP-01) and 443
	// (TLS-ALPN-01): whoever calls those has to be passed on to these. Negative:
	// that challenge is not used. They are open only while the CA looks; one on
	// which this process's listener has been opened answers itself.
	HTTPPort, TLSALPNPort int

	ChallengeHost string // the address for those ports; empty: all
}

// alpnProto is the protocol by which a TLS-ALPN-01 challenge is known (RFC 8737
// section 6.2).
const alpnProto = "acme-tls/1"

// retryStart is the wait after an error that certmagic does not retry itself,
// such as a full disk.
const retryStart = time.Minute

// noProxy keeps certmagic from HTTP_PROXY, which may lead to this process.
func noProxy(*http.Request) (*url.URL, error) { return nil, nil }

// fromACME is Listener for ACME. What is stored is served at once, the rest once
// it has been obtained.
func fromACME(ctx context.Context, cfg Config) (*Managed, error) {
	if len(cfg.Names) == 0 {
		return nil, errors.New("acme needs the names of the certificates")
	}
	template, err := cfg.ACME.template(cfg)
	if err != nil {
		return nil, err
	}
	m, err := newManager(cfg, "acme")
	if err != nil {
		return nil, err
	}
	template.Logger = m.config.Logger
	m.config.Issuers = []certmagic.Issuer{certmagic.NewACMEIssuer(m.config, template)}
	m.obtain, m.renew = m.config.ObtainCertAsync, m.config.RenewCertAsync
	for _, name := range m.names {
		m.config.CacheManagedCertificate(ctx, name) // an error is found again, and told, by keep
	}
	own, quit := context.WithCancel(context.WithoutCancel(ctx))
	m.quit = quit
	for _, name := range m.names {
		m.working.Go(func() { m.keep(own, name) })
	}
	config := server(cfg, m.certificate)
	config.GetConfigForClient = m.challenges()
	return &Managed{tls: config, stop: m.close}, nil
}

// keep has the name's certificate obtained. From then on certmagic renews it.
func (m *manager) keep(ctx context.Context, name string) {
	for {
		err := m.ensure(ctx, name)
		if err == nil || ctx.Err() != nil {
			return
		}
		m.log.Error("certificate: not obtained, will be tried again", "name", name, "error", err, "in", retryStart)
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryStart):
		}
	}
}

// challenges answers TLS-ALPN-01 with a configuration of its own: its protocol
// among the listener's would make those the only ones that clients may offer.
func (m *manager) challenges() func(*tls.ClientHelloInfo) (*tls.Config, error) {
	answer := &tls.Config{
		GetCertificate: m.config.GetCertificate,
		NextProtos:     []string{alpnProto},
		MinVersion:     tls.VersionTLS12,
	}
	return func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if len(hello.SupportedProtos) == 1 && hello.SupportedProtos[0] == alpnProto {
			return answer, nil
		}
		return nil, nil
	}
}

// template is what certmagic's ACME client is made from.
func (a *ACME) template(cfg Config) (certmagic.ACMEIssuer, error) {
	t := certmagic.ACMEIssuer{
		CA: certmagic.LetsEncryptProductionCA, Email: a.Email, Agreed: true,
		ListenHost: a.ChallengeHost, AltHTTPPort: a.HTTPPort, AltTLSALPNPort: a.TLSALPNPort,
		HTTPProxy: noProxy, Resolver: cfg.magic.resolver,
	}
	if a.Directory != "" {
		t.CA = a.Directory
		if u, err := url.Parse(t.CA); err != nil || u.Host == "" || u.Scheme != "https" && !certmagic.SubjectIsInternal(u.Hostname()) {
			return t, fmt.Errorf("the ACME directory %q is no https:// URL", t.CA)
		}
	}
	if a.CAFile != "" {
		roots, err := readRoots(a.CAFile)
		if err != nil {
			return t, err
		}
		t.TrustedRoots = roots
	}
	noHTTP := a.cannotAnswer(a.HTTPPort, certmagic.HTTPChallengePort)
	noALPN := a.cannotAnswer(a.TLSALPNPort, certmagic.TLSALPNChallengePort)
	t.DisableHTTPChallenge, t.DisableTLSALPNChallenge = noHTTP != nil, noALPN != nil
	if noHTTP != nil && noALPN != nil {
		return t, &ChallengeError{HTTP01: noHTTP, TLSALPN01: noALPN}
	}
	for challenge, err := range map[string]error{"HTTP-01": noHTTP, "TLS-ALPN-01": noALPN} {
		if err != nil && !errors.Is(err, errTurnedOff) {
			cfg.Log.Warn("certificate: a challenge is not used", "challenge", challenge, "error", err)
		}
	}
	return t, nil
}

// ChallengeError says that a CA could not check that the names lead here: why
// neither challenge can be answered.
type ChallengeError struct{ HTTP01, TLSALPN01 error }

func (e *ChallengeError) Error() string {
	return fmt.Sprintf("no ACME challenge can be answered: HTTP-01: %v; TLS-ALPN-01: %v", e.HTTP01, e.TLSALPN01)
}

// Unwrap returns both reasons.
func (e *ChallengeError) Unwrap() []error { return []error{e.HTTP01, e.TLSALPN01} }

var errTurnedOff = errors.New("turned off")

// cannotAnswer says why challenges on the port cannot be answered, or nil. The
// ACME client would not try the other challenge where its port cannot be opened.
// A port that is taken may be our own listener's.
func (a *ACME) cannotAnswer(port, usual int) error {
	if port < 0 {
		return errTurnedOff
	}
	if port == 0 {
		port = usual
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(a.ChallengeHost, strconv.Itoa(port)))
	if err == nil {
		return ln.Close()
	}
	if errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

// readRoots reads the certificates to trust.
func readRoots(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, unreadable(file, err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, &StorageError{file, "it holds no certificate", "it has to be PEM", nil}
	}
	return roots, nil
}
