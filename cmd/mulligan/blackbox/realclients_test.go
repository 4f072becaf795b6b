package blackbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Issue: tried as a new user would, with curl, wget and Python's requests
// through the proxy at a real nginx whose answers fail now and then.

// persistent is a policy under which none of nginx's failures shows.
const persistent = `defaults: {retry: {max_attempts: 10, ` + quick + `}}`

// client runs a real client with the proxy in its environment.
func (p *mulligan) client(program string, args ...string) (string, error) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = p.t.TempDir()
	proxy := "http://" + p.proxy
	cmd.Env = append(os.Environ(), "http_proxy="+proxy, "https_proxy="+proxy, "HTTP_PROXY="+proxy, "HTTPS_PROXY="+proxy, "no_proxy=", "NO_PROXY=")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// reconcile checks that nginx saw as many attempts as were counted. (It logs a
// request whose connection lingers only when that is over.)
func (p *mulligan) reconcile(n *nginx) {
	p.t.Helper()
	agree := func() bool {
		attempts, _ := p.metric("mulligan_attempts_total")
		failed, _ := p.metric("mulligan_attempts_total", "result=5xx")
		return attempts == float64(n.served("")) && failed == float64(n.served("GET 503")+n.served("POST 503")+n.served("PUT 503"))
	}
	for deadline := time.Now().Add(patience); !agree(); linger(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Errorf("nginx saw %d attempts; counted were %v", n.served(""), p.allOf("mulligan_attempts_total"))
			return
		}
	}
	p.wantMetric(0, "mulligan_requests_total", "outcome=failed")
	if retried, _ := p.metric("mulligan_retries_total"); retried == 0 {
		p.t.Errorf("%d attempts and no retry: nginx did not fail at all", n.served(""))
	}
}

func TestCurlAtNginx(t *testing.T) {
	t.Parallel()
	curl, n := need(t, "curl"), startNginx(t)
	p := start(t, persistent)
	for i := range 20 {
		out, err := p.client(curl, "-sS", "--fail-with-body", fmt.Sprintf("http://%s/flaky/page.txt?%d", n.http, i))
		if err != nil || out != "a page of nginx\n" {
			t.Errorf("curl %d: %v, %q", i, err, out)
		}
	}
	// One connection for many URLs.
	args := []string{"-sS", "--fail-with-body"}
	for range 20 {
		args = append(args, "http://"+n.http+"/flaky/page.txt")
	}
	out, err := p.client(curl, args...)
	if err != nil || out != strings.Repeat("a page of nginx\n", 20) {
		t.Errorf("curl with 20 URLs: %v, %q", err, tail(out, 500))
	}
	p.reconcile(n)
}

func TestCurlUploadsAtNginx(t *testing.T) {
	t.Parallel()
	curl, n := need(t, "curl"), startNginx(t)
	p := start(t, `defaults: {buffer: {request: 4MiB}, retry: {max_attempts: 10, `+quick+`}}`)
	file := filepath.Join(t.TempDir(), "upload.bin")
	writeFile(t, file, pattern(1_500_000)) // big enough for curl to expect a 100
	url := "http://" + n.http + "/flaky/put"
	for i, args := range [][]string{
		{"-T", file, url},
		{"-T", file, "-H", "Transfer-Encoding: chunked", url},
		{"-d", "small", "-H", "Idempotency-Key: k", url},
		{"--data-binary", "@" + file, "-H", "Idempotency-Key: k", url},
	} {
		for range 6 {
			out, err := p.client(curl, append([]string{"-sS", "--fail-with-body"}, args...)...)
			if err != nil || out != "stored\n" {
				t.Errorf("curl upload %d: %v, %q", i, err, tail(out, 500))
			}
		}
	}
	p.reconcile(n)
}

func TestCurlThroughTunnel(t *testing.T) {
	t.Parallel()
	curl, n := need(t, "curl"), startNginx(t)
	p := start(t, persistent)
	out, err := p.client(curl, "-sS", "--fail-with-body", "--cacert", n.ca.file, "https://"+n.tls+"/steady/page.txt")
	if err != nil || out != "a page of nginx\n" {
		t.Errorf("curl over https: %v, %q", err, out)
	}
	p.wantMetric(1, "mulligan_tunnels_total", "result=established")
	out, err = p.client(curl, "-sS", "--fail-with-body", "--proxytunnel", "http://"+n.http+"/flaky/page.txt") // plain HTTP inside
	if err != nil || out != "a page of nginx\n" {
		t.Errorf("curl --proxytunnel: %v, %q", err, out)
	}
	out, err = p.client(curl, "-sS", "-o", "/dev/null", "-w", "%{http_code}", "http://"+closedAddr(t)+"/")
	if err != nil || out != "502" {
		t.Errorf("curl at a closed port: %v, %q", err, out)
	}
}

func TestCurlDownloads(t *testing.T) {
	t.Parallel()
	curl, n := need(t, "curl"), startNginx(t)
	p := start(t, persistent)
	url := "http://" + n.http + "/flaky/big.bin"
	for _, args := range [][]string{{url}, {"--http1.0", url}, {"--limit-rate", "4M", url}} {
		out, err := p.client(curl, append([]string{"-sS", "--fail-with-body"}, args...)...)
		if err != nil || out != pattern(2_000_000) {
			t.Errorf("curl %q: %v, %d bytes", args, err, len(out))
		}
	}
	out, err := p.client(curl, "-sS", "--fail-with-body", "-r", "100-199", url)
	if err != nil || out != pattern(2_000_000)[100:200] {
		t.Errorf("a range: %v, %q", err, out)
	}
	out, err = p.client(curl, "-sSI", "--fail-with-body", url)
	if err != nil || !strings.Contains(out, "Content-Length: 2000000") {
		t.Errorf("curl -I: %v, %q", err, out)
	}
	p.wantMetric(0, "mulligan_requests_total", "outcome=failed")
}

func TestWgetAtNginx(t *testing.T) {
	t.Parallel()
	wget, n := need(t, "wget"), startNginx(t)
	p := start(t, persistent)
	for i := range 15 {
		out, err := p.client(wget, "-q", "-t", "1", "-O", "-", fmt.Sprintf("http://%s/flaky/page.txt?%d", n.http, i))
		if err != nil || out != "a page of nginx\n" {
			t.Errorf("wget %d: %v, %q", i, err, out)
		}
	}
	p.reconcile(n)
	out, err := p.client(wget, "-q", "-t", "1", "-O", "-", "--ca-certificate="+n.ca.file, "https://"+n.tls+"/steady/page.txt")
	if err != nil || out != "a page of nginx\n" {
		t.Errorf("wget over https: %v, %q", err, out)
	}
}

// script is what Python's requests does here.
const script = `
import sys, requests
http, https, ca = sys.argv[1:4]
s = requests.Session()
for i in range(20):
    r = s.get(f"http://{http}/flaky/page.txt", params={"i": i}, timeout=30)
    assert r.status_code == 200 and r.text == "a page of nginx\n", (i, r.status_code, r.text)
def body():
    for i in range(50):
        yield b"x" * 1000
for i in range(5):
    r = s.put(f"http://{http}/flaky/put", data=body(), timeout=30)
    assert r.status_code == 200 and r.text == "stored\n", (i, r.status_code, r.text)
    r = s.post(f"http://{http}/flaky/put", json={"a": 1}, headers={"Idempotency-Key": str(i)}, timeout=30)
    assert r.status_code == 200, r.status_code
r = s.get(f"https://{https}/steady/page.txt", verify=ca, timeout=30)
assert r.text == "a page of nginx\n"
with s.get(f"http://{http}/flaky/big.bin", stream=True, timeout=30) as r:
    assert sum(len(c) for c in r.iter_content(65536)) == 2000000
print("all fine")
`

func TestPythonRequestsAtNginx(t *testing.T) {
	t.Parallel()
	python, n := need(t, "python3"), startNginx(t)
	if err := exec.Command(python, "-c", "import requests").Run(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("Python's requests is missing")
		}
		t.Skip("Python's requests is missing (make test installs it)")
	}
	p := start(t, persistent)
	out, err := p.client(python, "-c", script, n.http, n.tls, n.ca.file)
	if err != nil || strings.TrimSpace(out) != "all fine" {
		t.Errorf("requests: %v\n%s", err, out)
	}
	p.wantMetric(0, "mulligan_requests_total", "outcome=failed")
}
