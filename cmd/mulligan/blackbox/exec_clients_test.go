package blackbox

import (
	"crypto/tls"
	"fmt"
	"mime"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The programs that people use, as they are: each calls an https:// upstream that
// answers 503 and then 200, and gets the 200. None is told of the proxy, or of
// whom to trust, but by its environment.

// secretHost is the upstream's name: one that no client takes for loopback, and
// that mulligan knows without a resolver (RFC 6761 6.3).
const secretHost = "api.localhost"

// secret is an https:// upstream whose TLS mulligan ends.
type secret struct {
	*upstream
	config string
}

// newSecret starts one that gives these answers.
func newSecret(t *testing.T, list ...answer) *secret {
	t.Helper()
	ca := newAuthority(t)
	u := ca.upstreamWith(t, &tls.Config{Certificates: []tls.Certificate{ca.leaf(time.Now().Add(time.Hour), secretHost)}}, list...)
	return &secret{u, fmt.Sprintf(`
defaults: {%s, retry: {%s}}
upstreams:
  api:
    hosts: [%s]
    tls: {intercept: true, ca_file: %s}
`, unhurried, quick, secretHost, ca.file)}
}

func (s *secret) url(path string) string {
	return fmt.Sprintf("https://%s:%d%s", secretHost, s.port(), path)
}

// saved runs a command and checks that it got what it wanted after a retry that
// it knows nothing of.
func (s *secret) saved(h how, command ...string) {
	s.t.Helper()
	h.config = s.config
	code, stdout, stderr := runExec(s.t, h, command...)
	want(s.t, "exit status", code, 0)
	want(s.t, "standard output", strings.TrimSpace(stdout), "saved")
	want(s.t, "requests seen by the upstream", s.count(), 2)
	contains(s.t, "standard error", stderr, "mulligan: 1 request, 1 retried, 1 saved, 0 failed\n")
	if s.t.Failed() {
		s.t.Log(stderr)
	}
}

// flaky is what the upstream answers mostly here.
func flaky() []answer { return []answer{text(503, "not yet"), text(200, "saved")} }

func TestExecCurl(t *testing.T) {
	t.Parallel()
	curl := need(t, "curl")
	for _, version := range []string{"--http1.1", "--http2"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			s := newSecret(t, flaky()...)
			s.saved(how{}, curl, "-sS", version, s.url("/"))
		})
	}
	t.Run("its own bundle", func(t *testing.T) {
		t.Parallel()
		s := newSecret(t, flaky()...)
		s.saved(how{env: []string{"CURL_CA_BUNDLE=" + newAuthority(t).file}}, curl, "-sS", s.url("/"))
	})
}

func TestExecWget(t *testing.T) {
	t.Parallel()
	wget := need(t, "wget")
	s := newSecret(t, flaky()...)
	s.saved(how{}, wget, "-q", "-t", "1", "-O", "-", s.url("/"))
	// What the user's own file says still holds.
	home := t.TempDir()
	writeFile(t, home+"/.wgetrc", "user_agent = mine\n")
	s = newSecret(t, flaky()...)
	s.saved(how{env: []string{"HOME=" + home}}, wget, "-q", "-t", "1", "-O", "-", s.url("/"))
	want(t, "User-Agent", request2(s).get("User-Agent"), "mine")
}

func request2(s *secret) message { return s.request(2).message }

// git clones over HTTP as it can be had from files alone.
func TestExecGit(t *testing.T) {
	t.Parallel()
	git, repo := need(t, "git"), newRepository(t)
	files := servingFiles(repo)
	s := newSecret(t, text(503, "not yet"), files)
	code, stdout, stderr := runExec(t, how{config: s.config}, "sh", "-c", git+" clone -q "+s.url("/repo.git")+" clone && cat clone/file")
	want(t, "exit status", code, 0)
	want(t, "the file", stdout, "saved\n")
	contains(t, "standard error", stderr, " 1 retried, 1 saved, 0 failed\n")
}

// newRepository makes a bare repository with one file in it and returns the
// directory that it is in.
func newRepository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("sh", "-ec", `
		git init -q work; cd work; echo saved > file; git add file
		git -c user.name=t -c user.email=t@example.test commit -q -m one; cd ..
		git clone -q --bare work repo.git; git -C repo.git update-server-info`)
	cmd.Dir = dir
	cmd.Env = append(environment(), "HOME="+dir, "GIT_CONFIG_NOSYSTEM=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// servingFiles answers with the files of a directory.
func servingFiles(dir string) answer {
	return func(p *peer, r *request) bool {
		name, _, _ := strings.Cut(r.Target, "?")
		data, err := os.ReadFile(filepath.Join(dir, path.Clean(name)))
		if err != nil {
			return text(404, "")(p, r)
		}
		kind := mime.TypeByExtension(path.Ext(name))
		if kind == "" {
			kind = "text/plain"
		}
		return text(200, string(data), "Content-Type: "+kind)(p, r)
	}
}

func TestExecPython(t *testing.T) {
	t.Parallel()
	python := need(t, "python3")
	for name, program := range map[string]string{
		"requests": "import sys, requests; r = requests.get(sys.argv[1], timeout=30); print(r.text)",
		"urllib":   "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=30).read().decode())",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := exec.Command(python, "-c", "import requests").Run(); err != nil && name == "requests" {
				if os.Getenv("CI") != "" {
					t.Fatal("Python's requests is missing")
				}
				t.Skip("Python's requests is missing (make test installs it)")
			}
			s := newSecret(t, flaky()...)
			s.saved(how{}, python, "-c", program, s.url("/"))
		})
	}
}

func TestExecGo(t *testing.T) {
	t.Parallel()
	s := newSecret(t, text(503, "not yet"), text(200, "aved"))
	h, command := act("get", s.url("/"))
	h.config = s.config
	code, stdout, stderr := runExec(t, h, command...)
	want(t, "exit status", code, 0)
	want(t, "standard output", stdout, "200 aved\n")
	contains(t, "standard error", stderr, "mulligan: 1 request, 1 retried, 1 saved, 0 failed\n")
}

// Node has fetch and two modules, with agents of their own or a program's.
func TestExecNode(t *testing.T) {
	t.Parallel()
	node := need(t, "node")
	for name, program := range map[string]string{
		"fetch":     `fetch(url).then((r) => r.text()).then(console.log)`,
		"https":     `require('https').get(url, print)`,
		"https own": `const https = require('https'); https.get(url, { agent: new https.Agent({ keepAlive: true }) }, print)`,
		"no agent":  `require('https').get(url, { agent: false }, print)`,
		"a module":  `import('node:https').then((https) => https.get(url, print))`,
		"a worker":  `new (require('worker_threads').Worker)(PRINT + 'fetch("' + url + '").then((r) => r.text()).then(console.log)', { eval: true })`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSecret(t, flaky()...)
			s.saved(how{}, node, "-e", `
				const PRINT = ''; const url = process.argv[1];
				const print = (r) => { let s = ''; r.on('data', (d) => s += d); r.on('end', () => console.log(s)) };
				`+program, s.url("/"))
		})
	}
}

func TestExecJava(t *testing.T) {
	t.Parallel()
	javac, java := need(t, "javac"), need(t, "java")
	dir := t.TempDir()
	writeFile(t, dir+"/Get.java", javaClient)
	if out, err := exec.Command(javac, "-d", dir, dir+"/Get.java").CombinedOutput(); err != nil {
		t.Fatalf("javac: %v\n%s", err, out)
	}
	for _, client := range []string{"HttpClient", "HttpURLConnection"} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			s := newSecret(t, flaky()...)
			s.saved(how{}, java, "-cp", dir, "Get", client, s.url("/"))
		})
	}
}

const javaClient = `
import java.net.*;
import java.net.http.*;

public class Get {
	public static void main(String[] args) throws Exception {
		URI url = URI.create(args[1]);
		if (args[0].equals("HttpClient")) {
			HttpRequest request = HttpRequest.newBuilder(url).build();
			System.out.println(HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body());
		} else {
			System.out.println(new String(url.toURL().openStream().readAllBytes()));
		}
	}
}
`
