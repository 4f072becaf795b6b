package proxy_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mulligan/metrics"
	"mulligan/policy"
	"mulligan/proxy"
)

// testCA signs for whoever asks, and remembers for whom.
type testCA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey

	mu     sync.Mutex
	signed []string
}

func newTestCA(t testing.TB) *testCA {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &testCA{cert: cert, key: key}
}

func (ca *testCA) Leaf(name string) (*tls.Certificate, error) {
	ca.mu.Lock()
	ca.signed = append(ca.signed, name)
	ca.mu.Unlock()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	if ip := net.ParseIP(name); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, &ca.key.PublicKey, ca.key)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: ca.key}, err
}

func (ca *testCA) names() []string {
	ca.mu.Lock()
	defer ca.mu.Unlock()
	return append([]string(nil), ca.signed...)
}

func (ca *testCA) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	return pool
}

// file writes the root where a configuration can name it.
func (ca *testCA) file(t testing.TB) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// intercepted is a proxy between a client that trusts its CA and a TLS upstream
// at api.localhost.
type intercepted struct {
	srv    *proxy.Server
	reg    *prometheus.Registry
	ca     *testCA // the proxy's
	server *httptest.Server
	host   string // api.localhost:port
	log    *syncBuffer
}

// intercept starts an upstream that speaks HTTP/2 or not, and a proxy that
// intercepts it.
func intercept(t testing.TB, http2 bool, h http.HandlerFunc, change func(*policy.Upstream)) *intercepted {
	t.Helper()
	theirs := newTestCA(t)
	up := httptest.NewUnstartedServer(h)
	leaf, err := theirs.Leaf("api.localhost")
	if err != nil {
		t.Fatal(err)
	}
	up.TLS = &tls.Config{Certificates: []tls.Certificate{*leaf}}
	up.EnableHTTP2 = http2
	up.Config.ErrorLog = slog.NewLogLogger(slog.NewTextHandler(io.Discard, nil), slog.LevelError)
	up.StartTLS()
	t.Cleanup(up.Close)
	return interceptAt(t, up.Listener.Addr(), theirs.file(t), up, change)
}

func interceptAt(t testing.TB, addr net.Addr, caFile string, up *httptest.Server, change func(*policy.Upstream)) *intercepted {
	t.Helper()
	u := upstream("api")
	u.Hosts = []policy.HostPattern{{Name: "api.localhost"}}
	u.TLS.Intercept = true
	u.TLS.CAFile = caFile
	if change != nil {
		change(u)
	}
	i := &intercepted{ca: newTestCA(t), reg: prometheus.NewRegistry(), server: up, log: &syncBuffer{},
		host: net.JoinHostPort("api.localhost", strconv.Itoa(addr.(*net.TCPAddr).Port))}
	srv, err := proxy.New(proxy.Options{
		Proxy: "127.0.0.1:0", Metrics: metrics.New(i.reg), Log: slog.New(slog.NewTextHandler(i.log, nil)),
		Signer: func() (proxy.Signer, error) { return i.ca, nil },
	}, unhurried(settings(u)))
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(srv.Close)
	i.srv = srv
	return i
}

// client makes one that speaks HTTP/2 to the proxy, or does not.
func (i *intercepted) client(t testing.TB, http2 bool) *http.Client {
	t.Helper()
	u := &url.URL{Scheme: "http", Host: i.srv.Addr().String()}
	tr := &http.Transport{Proxy: http.ProxyURL(u), TLSClientConfig: &tls.Config{RootCAs: i.ca.pool()}, ForceAttemptHTTP2: http2}
	if !http2 {
		tr.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 30 * time.Second}
}

// bothWays runs a test for each version of HTTP on either side.
func bothWays(t *testing.T, test func(t *testing.T, client2, upstream2 bool)) {
	for _, c := range []bool{false, true} {
		for _, u := range []bool{false, true} {
			name := map[bool]string{false: "1", true: "2"}
			t.Run("client HTTP "+name[c]+", upstream HTTP "+name[u], func(t *testing.T) { test(t, c, u) })
		}
	}
}
