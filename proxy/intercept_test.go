package proxy_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mulligan/policy"
)

func get(t testing.TB, c *http.Client, url string) (*http.Response, string) {
	t.Helper()
	resp, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// TestInterceptedRetry: a 503 inside an intercepted tunnel is retried.
func TestInterceptedRetry(t *testing.T) {
	bothWays(t, func(t *testing.T, client2, upstream2 bool) {
		var calls atomic.Int32
		i := intercept(t, upstream2, func(w http.ResponseWriter, r *http.Request) {
			if (r.ProtoMajor == 2) != upstream2 {
				t.Errorf("the upstream was called with %s", r.Proto)
			}
			if calls.Add(1) == 1 {
				http.Error(w, "busy", http.StatusServiceUnavailable)
				return
			}
			fmt.Fprintf(w, "%s %s %s", r.Method, r.Host, r.RequestURI)
		}, nil)
		resp, body := get(t, i.client(t, client2), "https://"+i.host+"/a?b=c")
		if want := "GET " + i.host + " /a?b=c"; resp.StatusCode != 200 || body != want {
			t.Errorf("%d %q, want %q", resp.StatusCode, body, want)
		}
		if (resp.ProtoMajor == 2) != client2 {
			t.Errorf("answered with %s", resp.Proto)
		}
		if got, want := resp.Header.Get("Proxy-Status"), "mulligan; attempts=2; stop=success; received-status=200"; got != want {
			t.Errorf("Proxy-Status %q, want %q", got, want)
		}
		if n := counter(t, i.reg, "mulligan_requests_total", "upstream=api", "outcome=success_after_retry"); n != 1 {
			t.Errorf("%v saved requests", n)
		}
		if n := counter(t, i.reg, "mulligan_tunnels_total"); n != 0 {
			t.Errorf("%v tunnels", n)
		}
	})
}

// TestInterceptedBodies: bodies of every length and framing arrive as they were
// sent, both ways, with their trailers.
func TestInterceptedBodies(t *testing.T) {
	bothWays(t, func(t *testing.T, client2, upstream2 bool) {
		i := intercept(t, upstream2, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			w.Header().Set("Got-Trailer", r.Trailer.Get("Sum"))
			w.Header().Set("Got-Length", fmt.Sprint(r.ContentLength))
			w.Header().Set("Trailer", "End")
			if r.URL.Path == "/length" {
				w.Header().Del("Trailer")
				w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			}
			w.Write(body)
			if r.URL.Path != "/length" {
				w.Header().Set("End", "reached")
			}
		}, nil)
		c := i.client(t, client2)
		for _, size := range []int{0, 1, 100, 16 << 10, 100_000, 3 << 20} {
			for _, path := range []string{"/length", "/open"} {
				sent := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
				var body io.Reader = bytes.NewReader(sent)
				if path == "/open" {
					body = struct{ io.Reader }{body} // no length
				}
				req, _ := http.NewRequest("POST", "https://"+i.host+path, body)
				if path == "/open" {
					req.Trailer = http.Header{"Sum": {"42"}}
				}
				resp, err := c.Do(req)
				if err != nil {
					t.Fatal(size, path, err)
				}
				got, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || !bytes.Equal(got, sent) {
					t.Fatalf("%s %d: %d bytes came back, %v", path, size, len(got), err)
				}
				if path == "/length" {
					if resp.ContentLength != int64(size) || resp.Header.Get("Got-Length") != fmt.Sprint(size) {
						t.Errorf("%s %d: lengths %d and %s", path, size, resp.ContentLength, resp.Header.Get("Got-Length"))
					}
					continue
				}
				if resp.Trailer.Get("End") != "reached" || resp.Header.Get("Got-Trailer") != "42" {
					t.Errorf("%s %d: trailers %v and %q", path, size, resp.Trailer, resp.Header.Get("Got-Trailer"))
				}
			}
		}
	})
}

// TestInterceptedHeads: statuses without a body, fields that repeat, and 1xx pass.
func TestInterceptedHeads(t *testing.T) {
	bothWays(t, func(t *testing.T, client2, upstream2 bool) {
		i := intercept(t, upstream2, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Add("Set-Cookie", "a=1; Secure")
			w.Header().Add("Set-Cookie", "b=2; Secure")
			w.Header().Set("Got-Cookie", strings.Join(r.Header["Cookie"], "|"))
			w.Header().Set("Got-Connection", strings.Join(r.Header["Connection"], "|"))
			switch r.URL.Path {
			case "/204":
				w.WriteHeader(204)
			case "/304":
				w.WriteHeader(304)
			case "/hints":
				w.Header().Set("Link", "</style>")
				w.WriteHeader(103)
				w.WriteHeader(200)
			default:
				w.Header().Set("Content-Length", "5")
				io.WriteString(w, "hello")
			}
		}, nil)
		c := i.client(t, client2)
		for _, test := range []struct {
			method, path string
			status       int
			body         string
			length       int64
		}{
			{"GET", "/204", 204, "", 0}, {"GET", "/304", 304, "", -1}, {"HEAD", "/", 200, "", 5}, {"GET", "/", 200, "hello", 5}, {"POST", "/", 200, "hello", 5},
			{"GET", "/hints", 200, "", -2},
		} {
			var early []int
			req, _ := http.NewRequest(test.method, "https://"+i.host+test.path, nil)
			req.Header["Cookie"] = []string{"a=1; b=2", "c=3"}
			req = req.WithContext(httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
				Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
					if h.Get("Link") != "</style>" {
						t.Errorf("1xx with %v", h)
					}
					early = append(early, code)
					return nil
				},
			}))
			resp, err := c.Do(req)
			if err != nil {
				t.Fatal(test, err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != test.status || string(body) != test.body {
				t.Errorf("%v: %d %q %v", test, resp.StatusCode, body, err)
			}
			if test.length >= 0 && resp.ContentLength != test.length {
				t.Errorf("%v: length %d", test, resp.ContentLength)
			}
			if got := resp.Header["Set-Cookie"]; len(got) != 2 || got[0] != "a=1; Secure" || got[1] != "b=2; Secure" {
				t.Errorf("%v: Set-Cookie %q", test, got)
			}
			if got := strings.ReplaceAll(resp.Header.Get("Got-Cookie"), "|", "; "); got != "a=1; b=2; c=3" {
				t.Errorf("%v: Cookie %q", test, got)
			}
			if client2 && resp.Header.Get("Got-Cookie") != "a=1; b=2; c=3" {
				t.Errorf("%v: crumbs of HTTP/2 were not joined: %q", test, resp.Header.Get("Got-Cookie"))
			}
			if got := len(early); (test.path == "/hints") != (got == 1) {
				t.Errorf("%v: %d early answers", test, got)
			}
		}
	})
}

// TestInterceptedReset: a response that breaks off is one at the client, too.
func TestInterceptedReset(t *testing.T) {
	bothWays(t, func(t *testing.T, client2, upstream2 bool) {
		i := intercept(t, upstream2, func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, strings.Repeat("x", 100_000))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, nil)
		resp, err := i.client(t, client2).Get("https://" + i.host + "/")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if n, err := io.Copy(io.Discard, resp.Body); err == nil {
			t.Errorf("%d bytes that look whole", n)
		}
	})
}

// TestInterceptedClientGone: a client that gives up ends the upstream's work, and
// no other stream's.
func TestInterceptedClientGone(t *testing.T) {
	bothWays(t, func(t *testing.T, client2, upstream2 bool) {
		began, ended := make(chan bool), make(chan bool)
		i := intercept(t, upstream2, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				began <- true
				<-r.Context().Done()
				ended <- true
				return
			}
			io.WriteString(w, "fine")
		}, nil)
		c := i.client(t, client2)
		ctx, cancel := context.WithCancel(context.Background())
		req, _ := http.NewRequestWithContext(ctx, "GET", "https://"+i.host+"/slow", nil)
		failed := make(chan error, 1)
		go func() {
			resp, err := c.Do(req)
			if err == nil {
				resp.Body.Close()
			}
			failed <- err
		}()
		<-began
		cancel()
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			t.Fatal("the upstream works on")
		}
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if _, body := get(t, c, "https://"+i.host+"/"); body != "fine" {
			t.Errorf("then: %q", body)
		}
		if !eventually(func() bool { return counter(t, i.reg, "mulligan_requests_total", "outcome=client_gone") == 1 }) {
			t.Error("not counted as gone")
		}
	})
}

// TestForeignAuthority: what is for another host than the tunnel's gets 421.
func TestForeignAuthority(t *testing.T) {
	for _, client2 := range []bool{false, true} {
		i := intercept(t, true, func(w http.ResponseWriter, r *http.Request) { t.Error("called with", r.Host) }, nil)
		c := i.client(t, client2)
		for _, host := range []string{"other.localhost", "api.localhost:1", "api.localhost"} {
			req, _ := http.NewRequest("GET", "https://"+i.host+"/", nil)
			req.Host = host
			resp, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != 421 {
				t.Errorf("%s: %d", host, resp.StatusCode)
			}
		}
	}
}

// TestOnlyInterceptedNamesAreSigned: what a client asks for in TLS has to belong
// to the upstream that its tunnel leads to.
func TestOnlyInterceptedNamesAreSigned(t *testing.T) {
	i := intercept(t, false, func(w http.ResponseWriter, r *http.Request) {}, nil)
	for _, test := range []struct {
		name string
		ok   bool
	}{{"api.localhost", true}, {"API.localhost", true}, {"", true}, {"other.localhost", false}, {"api.localhost.evil.test", false}} {
		conn, r := call(t, i.srv)
		fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", i.host, i.host)
		if head := readHead(r); !strings.HasPrefix(head, "HTTP/1.1 200") {
			t.Fatal(head)
		}
		tc := tls.Client(conn, &tls.Config{ServerName: test.name, InsecureSkipVerify: true})
		err := tc.Handshake()
		if (err == nil) != test.ok {
			t.Errorf("%q: %v", test.name, err)
		}
		conn.Close()
	}
	for _, name := range i.ca.names() {
		if !strings.EqualFold(name, "api.localhost") {
			t.Errorf("signed %q", name)
		}
	}
}

// TestUntrustingClient: one hint for the host, no attempt, no retry.
func TestUntrustingClient(t *testing.T) {
	i := intercept(t, true, func(w http.ResponseWriter, r *http.Request) { t.Error("called") }, nil)
	for range 3 {
		conn, r := call(t, i.srv)
		fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", i.host, i.host)
		readHead(r)
		if err := tls.Client(conn, &tls.Config{ServerName: "api.localhost"}).Handshake(); err == nil {
			t.Fatal("trusted")
		}
		conn.Close()
	}
	if !eventually(func() bool { return strings.Contains(i.log.String(), "mulligan ca") }) {
		t.Fatal("no hint:", i.log.String())
	}
	if n := strings.Count(i.log.String(), "level=WARN"); n != 1 {
		t.Errorf("%d hints:\n%s", n, i.log.String())
	}
	if n := counter(t, i.reg, "mulligan_attempts_total"); n != 0 {
		t.Errorf("%v attempts", n)
	}
}

// TestNeitherTLSNorHTTP: what speaks something else in an intercepted tunnel is
// closed.
func TestNeitherTLSNorHTTP(t *testing.T) {
	i := intercept(t, true, func(w http.ResponseWriter, r *http.Request) { t.Error("called") }, nil)
	for _, sent := range []string{"SSH-2.0-OpenSSH_9\r\n", "\x00\x01\x02", "\x16\x03\x01\xff\xff" + strings.Repeat("x", 100), "EHLO there\r\n", "\x16\x02\x00\x00\x05hello"} {
		conn, r := call(t, i.srv)
		fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n%s", i.host, i.host, sent)
		readHead(r)
		if rest, err := io.ReadAll(r); len(rest) > 7 { // an alert at most
			t.Errorf("%q got %q, %v", sent, rest, err)
		}
	}
	if n := counter(t, i.reg, "mulligan_attempts_total"); n != 0 {
		t.Errorf("%v attempts", n)
	}
}

// TestPlainHTTPInInterceptedTunnel: requests that are not encrypted are requests
// all the same, to the same host.
func TestPlainHTTPInInterceptedTunnel(t *testing.T) {
	up := serve(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "plain "+r.RequestURI) })
	i := interceptAt(t, up.Listener.Addr(), newTestCA(t).file(t), up, nil)
	conn, r := call(t, i.srv)
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\nGET /p HTTP/1.1\r\nHost: x\r\n\r\n", i.host, i.host)
	readHead(r)
	resp := readResponse(t, r)
	if body, _ := io.ReadAll(resp.Body); string(body) != "plain /p" {
		t.Errorf("%q", body)
	}
}

// TestInterceptedUpgrade: an upgrade goes onto a connection of its own, whatever
// the server likes better.
func TestInterceptedUpgrade(t *testing.T) {
	i := intercept(t, true, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			io.WriteString(w, r.Proto)
			return
		}
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		line, _ := rw.ReadString('\n')
		io.WriteString(conn, line)
	}, nil)
	c := i.client(t, false)
	if _, body := get(t, c, "https://"+i.host+"/"); body != "HTTP/2.0" {
		t.Fatal(body)
	}
	req, _ := http.NewRequest("GET", "https://"+i.host+"/", nil)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "echo")
	resp, err := c.Transport.RoundTrip(req) // a Client with a timeout hides that the body can be written to
	if err != nil {
		t.Fatal(err)
	}
	rw, ok := resp.Body.(io.ReadWriteCloser)
	if resp.StatusCode != 101 || !ok {
		t.Fatal(resp.StatusCode)
	}
	defer rw.Close()
	io.WriteString(rw, "hello\n")
	if got, err := io.ReadAll(rw); string(got) != "hello\n" {
		t.Errorf("%q %v", got, err)
	}
}

// TestSharedConnection: requests to an HTTP/2 upstream share a connection, and
// never exceed what it allows at a time.
func TestSharedConnection(t *testing.T) {
	var now, most atomic.Int32
	addrs := make(chan string, 100)
	i := intercept(t, true, func(w http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		addrs <- r.RemoteAddr
		if n < 10 {
			time.Sleep(time.Millisecond) // an upstream's slowness: so that requests overlap
		}
	}, func(u *policy.Upstream) { u.Connections.MaxPerEndpoint = 1 })
	c := i.client(t, true)
	get(t, c, "https://"+i.host+"/")
	done := make(chan int)
	for range 50 {
		go func() {
			resp, err := c.Get("https://" + i.host + "/")
			if err != nil {
				t.Error(err)
				done <- 0
				return
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			done <- resp.StatusCode
		}()
	}
	for range 50 {
		if s := <-done; s != 200 {
			t.Errorf("status %d", s)
		}
	}
	close(addrs)
	seen := map[string]bool{}
	for a := range addrs {
		seen[a] = true
	}
	if len(seen) != 1 {
		t.Errorf("%d connections", len(seen))
	}
}

// TestInterceptedConnectIsHeeded: what the CONNECT of an intercepted tunnel asks for
// holds for what is inside, and one that has come through here goes no further.
func TestInterceptedConnectIsHeeded(t *testing.T) {
	var calls atomic.Int32
	i := intercept(t, true, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mulligan-Policy") != "" {
			t.Error("Mulligan-Policy was sent on")
		}
		calls.Add(1)
		w.WriteHeader(503)
	}, nil)
	for _, client2 := range []bool{false, true} {
		calls.Store(0)
		c := i.client(t, client2)
		c.Transport.(*http.Transport).ProxyConnectHeader = http.Header{"Mulligan-Policy": {"max-attempts=2"}}
		resp, _ := get(t, c, "https://"+i.host+"/")
		if resp.StatusCode != 503 || calls.Load() != 2 {
			t.Errorf("%d after %d attempts", resp.StatusCode, calls.Load())
		}
	}
	resp, _ := get(t, i.client(t, false), "https://"+i.host+"/")
	c := i.client(t, false)
	c.Transport.(*http.Transport).ProxyConnectHeader = http.Header{"Via": {strings.Replace(resp.Header.Get("Via"), "2.0", "1.1", 1)}}
	if _, err := c.Get("https://" + i.host + "/"); err == nil || !strings.Contains(err.Error(), "Bad Gateway") {
		t.Errorf("a loop: %v", err)
	}
}

// TestUploadBehindItsAnswer: of a body that is kept for nothing but an upstream's
// refusal, nothing is kept once the answer goes to the client.
func TestUploadBehindItsAnswer(t *testing.T) {
	got := make(chan int64, 1)
	i := intercept(t, true, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		n, _ := io.CopyN(io.Discard, r.Body, 500<<10)
		got <- n
		io.Copy(io.Discard, r.Body)
	}, func(u *policy.Upstream) {
		if err := u.Default.Retry.RetryOn.Add("refused_stream"); err != nil {
			t.Fatal(err)
		}
	})
	from, to := io.Pipe()
	req, _ := http.NewRequest("POST", "https://"+i.host+"/", from)
	resp, err := i.client(t, true).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	to.Write(make([]byte, 500<<10))
	if n := <-got; n != 500<<10 {
		t.Fatalf("%d bytes arrived", n)
	}
	if !eventually(func() bool { return gauge(t, i.reg, "mulligan_buffered_bytes", "") == 0 }) {
		t.Errorf("%v bytes are kept", gauge(t, i.reg, "mulligan_buffered_bytes", ""))
	}
	to.Close()
}
