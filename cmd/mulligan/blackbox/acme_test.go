package blackbox

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// pebble is a real ACME server on loopback, with a DNS server for which every
// name is 127.0.0.1.
type pebble struct {
	t         *testing.T
	directory string // URL of
	manage    string // address of its management
	ca        *authority
}

// goTool finds a program that `go install` has put into its own place.
func goTool(t *testing.T, name string) string {
	t.Helper()
	if out, err := exec.Command("go", "env", "GOPATH").Output(); err == nil {
		path := filepath.Join(strings.TrimSpace(string(out)), "bin", name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return need(t, name)
}

// startPebble starts one that looks for challenges on these ports.
func startPebble(t *testing.T, httpPort, tlsPort int) *pebble {
	t.Helper()
	server, names := goTool(t, "pebble"), goTool(t, "pebble-challtestsrv")
	b := &pebble{t: t, ca: newAuthority(t), manage: freeAddr(t)}
	certFile, keyFile := b.ca.write(b.ca.leaf(time.Now().Add(time.Hour), "127.0.0.1"))
	dns, addr := freeAddr(t), freeAddr(t)
	b.directory = "https://" + addr + "/dir"
	config, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": addr, "managementListenAddress": b.manage, "certificate": certFile, "privateKey": keyFile,
		"httpPort": httpPort, "tlsPort": tlsPort, "keyAlgorithm": "ecdsa",
		"profiles": map[string]any{"default": map[string]any{"description": "an hour", "validityPeriod": 3600}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "pebble.json")
	writeFile(t, file, string(config))
	b.run(names, "-defaultIPv4", "127.0.0.1", "-defaultIPv6", "", "-dnsserver", dns, "-management", freeAddr(t),
		"-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", "")
	b.run(server, "-config", file, "-dnsserver", dns)
	eventually(t, "pebble to be there", func() bool { _, err := b.get(b.directory); return err == nil })
	return b
}

// run runs a program until the test ends.
func (b *pebble) run(program string, args ...string) {
	b.t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = append(environment(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=0")
	log := new(output)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if b.t.Failed() {
			b.t.Logf("%s wrote:\n%s", filepath.Base(program), tail(log.String(), 5000))
		}
	})
}

func (b *pebble) get(url string) (string, error) {
	roots := x509.NewCertPool()
	roots.AddCert(b.ca.cert)
	c := http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}}
	resp, err := c.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	return string(all), err
}

// A listener gets its certificate from an ACME server: on its own port
// (TLS-ALPN-01), or on another in the clear (HTTP-01). The proxy's environment
// names the proxy itself, which its ACME client must not follow.
func TestTLSListenerByACME(t *testing.T) {
	t.Parallel()
	for name, tlsALPN := range map[string]bool{"TLS-ALPN-01": true, "HTTP-01": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := answers(t, text(200, "fine"))
			port, httpPort, alpnPort := freePort(t), freePort(t), freePort(t)
			door := "127.0.0.1:" + strconv.Itoa(port)
			if tlsALPN {
				alpnPort = port // the listener answers it itself
			}
			// Only one of the ports is where the server looks.
			looks := map[bool][2]int{true: {freePort(t), alpnPort}, false: {httpPort, freePort(t)}}[tlsALPN]
			b := startPebble(t, looks[0], looks[1])
			p := prepare(t, fmt.Sprintf(`
upstreams:
  svc:
    endpoints: ["%s"]
    listen:
      address: "%s"
      tls: {acme: {email: ops@svc.test, directory: "%s", ca_file: %s, http_port: %d, tls_alpn_port: %d}, names: [svc.test]}
`, u.url(""), door, b.directory, b.ca.file, httpPort, alpnPort))
			self := "http://" + p.proxy
			p.run(launch{env: []string{"HTTP_PROXY=" + self, "HTTPS_PROXY=" + self, "http_proxy=" + self, "https_proxy=" + self}})
			p.awaitReady("")
			root, err := b.get("https://" + b.manage + "/roots/0")
			if err != nil {
				t.Fatal(err)
			}
			block, _ := pem.Decode([]byte(root))
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			roots := x509.NewCertPool()
			roots.AddCert(cert)
			config := &tls.Config{RootCAs: roots, ServerName: "svc.test", NextProtos: []string{"h2"}}
			eventually(t, "the certificate", func() bool {
				s, err := tls.Dial("tcp", door, config)
				if err == nil {
					s.Close()
				}
				return err == nil
			})
			s, err := tls.Dial("tcp", door, config)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			want(t, "an answer over HTTP/2", askOver(t, s, "svc.test"), 200)
			ownersOnly(t, filepath.Join(filepath.Dir(p.file), "mulligan-data"))
			p.wantMetric(0, "mulligan_tunnels_total") // nothing of it went through the proxy
			p.wantMetric(1, "mulligan_requests_total")
		})
	}
}
