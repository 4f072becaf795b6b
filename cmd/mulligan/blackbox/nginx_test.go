package blackbox

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// nginx is a real web server whose answers fail now and then, some with a 503 and
// some with a connection closed without an answer. Which ones follows from its
// count of connections and of requests on each, not from chance, so that no run of
// failures is longer than three: the failed request itself, the next on a new
// connection, and one more where that begins with a 503.
type nginx struct {
	t         *testing.T
	dir       string
	http, tls string // addresses
	ca        *authority
	log       output
}

// need skips a test that lacks a program, but not in CI: there all are installed.
func need(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		for _, dir := range []string{"/usr/sbin/", "/usr/local/sbin/"} {
			if _, err := os.Stat(dir + program); err == nil {
				return dir + program
			}
		}
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is missing", program)
		}
		t.Skipf("%s is missing (make test installs it)", program)
	}
	return path
}

// startNginx runs nginx in the foreground with a prefix of its own.
func startNginx(t *testing.T) *nginx {
	t.Helper()
	program := need(t, "nginx")
	n := &nginx{t: t, dir: t.TempDir(), http: freeAddr(t), tls: freeAddr(t), ca: newAuthority(t)}
	n.writeFiles()
	cmd := exec.Command(program, "-p", n.dir, "-c", "nginx.conf", "-e", "error.log")
	cmd.Stdout, cmd.Stderr = &n.log, &n.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-done:
		case <-time.After(patience):
			_ = cmd.Process.Kill()
			<-done
		}
		if t.Failed() {
			t.Logf("nginx wrote: %s\n%s", n.log.String(), tail(readFile(t, filepath.Join(n.dir, "error.log")), 2000))
		}
	})
	eventually(t, "nginx to answer", func() bool { return probe(n.http, "", "/steady/page.txt") == 200 })
	return n
}

func (n *nginx) writeFiles() {
	n.t.Helper()
	for _, dir := range []string{"html/steady", "html/flaky", "tmp"} {
		if err := os.MkdirAll(filepath.Join(n.dir, dir), 0o755); err != nil {
			n.t.Fatal(err)
		}
	}
	for _, place := range []string{"steady", "flaky"} {
		writeFile(n.t, filepath.Join(n.dir, "html", place, "page.txt"), "a page of nginx\n")
		writeFile(n.t, filepath.Join(n.dir, "html", place, "big.bin"), pattern(2_000_000))
	}
	cert := n.ca.leaf(time.Now().Add(time.Hour), "127.0.0.1", "localhost")
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		n.t.Fatal(err)
	}
	writeFile(n.t, filepath.Join(n.dir, "cert.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})))
	writeFile(n.t, filepath.Join(n.dir, "key.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
	writeFile(n.t, filepath.Join(n.dir, "nginx.conf"), fmt.Sprintf(`
daemon off;
master_process off;
pid nginx.pid;
events { worker_connections 512; }
http {
  types { text/plain txt; }
  client_body_temp_path tmp/body;
  proxy_temp_path tmp/proxy;
  fastcgi_temp_path tmp/fastcgi;
  uwsgi_temp_path tmp/uwsgi;
  scgi_temp_path tmp/scgi;
  client_max_body_size 20m;
  log_format short '$request_method $status $uri';
  access_log access.log short;
  map "$connection:$connection_requests" $busy { "~[147]:1$" 1; "~:[0-9]*[37]$" 1; default ""; }
  map "$connection_requests" $gone { "~5$" 1; default ""; }
  server {
    listen %s;
    listen %s ssl;
    ssl_certificate cert.pem;
    ssl_certificate_key key.pem;
    root html;
    location /steady/ { }
    location /flaky/ {
      if ($busy) { return 503 "busy\n"; }
      if ($gone) { return 444; }
    }
    location /flaky/put {
      if ($busy) { return 503 "busy\n"; }
      return 200 "stored\n";
    }
  }
}
`, n.http, n.tls))
}

// served counts the lines of nginx's access log that begin so ("GET 503").
func (n *nginx) served(prefix string) int {
	n.t.Helper()
	count := 0
	for _, line := range strings.Split(readFile(n.t, filepath.Join(n.dir, "access.log")), "\n") {
		if strings.HasPrefix(line, prefix) && !strings.Contains(line, "/steady/") && line != "" {
			count++
		}
	}
	return count
}
