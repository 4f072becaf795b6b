package blackbox

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Issue, "Bad input": what is no TLS, or no HTTP in it, is closed within the
// header timeout; nothing leaks, nothing is retried, other clients go on.

// closes is how long mulligan may keep what says nothing sensible: its header
// timeout of 10 s, and time for a busy machine.
const closes = 10*time.Second + patience

// weight is what a process has in use.
type weight struct{ goroutines, descriptors int }

// weigh counts the goroutines and descriptors of the process.
func (p *mulligan) weigh() weight {
	p.t.Helper()
	n, _ := p.metric("go_goroutines")
	return weight{int(n), p.descriptors()}
}

// descriptors counts the open ones of the process.
func (p *mulligan) descriptors() int {
	p.t.Helper()
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
	if err != nil {
		p.t.Skip(err)
	}
	return len(fds)
}

// leaksNothing waits until the process is as it was: a few connections of pools
// more or less do not count.
func (p *mulligan) leaksNothing(before weight) {
	p.t.Helper()
	const few = 8
	var now weight
	for deadline := time.Now().Add(patience); ; linger(50 * time.Millisecond) {
		now = p.weigh()
		if now.goroutines <= before.goroutines+few && now.descriptors <= before.descriptors+few {
			return
		}
		if time.Now().After(deadline) {
			p.t.Errorf("%d goroutines and %d descriptors became %d and %d", before.goroutines, before.descriptors, now.goroutines, now.descriptors)
			return
		}
	}
}

// besides makes requests through the same mulligan until stopped, each of which
// has to succeed.
func (i *inside) besides(host string) (stop func()) {
	quit := make(chan bool)
	var all sync.WaitGroup
	for _, version := range []int{1, 2} {
		c := i.caller(version)
		all.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-quit:
					return
				default:
				}
				if r := c.do("GET", "https://"+host+"/fine", ""); r.Status != 200 {
					i.t.Errorf("another client's request %d: %d, %v", n, r.Status, r.Broken)
					return
				}
				linger(20 * time.Millisecond)
			}
		})
	}
	return func() { close(quit); all.Wait() }
}

// clientHello is a real one, in bytes.
func clientHello(t *testing.T, config *tls.Config) string {
	t.Helper()
	here, there := net.Pipe()
	defer here.Close()
	got := make(chan string, 1)
	go func() {
		b := make([]byte, 16<<10)
		n, _ := there.Read(b)
		there.Close()
		got <- string(b[:n])
	}()
	_ = tls.Client(here, config).Handshake()
	return <-got
}

// oldHello is the ClientHello of a version that no library here sends any more.
func oldHello(record, client string) string {
	body := client + strings.Repeat("r", 32) + "\x00" + "\x00\x02\x00\x2f" + "\x01\x00"
	hello := "\x01" + string([]byte{0, 0, byte(len(body))}) + body
	return "\x16" + record + string([]byte{0, byte(len(hello))}) + hello
}

// Whatever is sent instead of TLS, or in the middle of it, and then nothing more.
func TestBadOpenings(t *testing.T) {
	t.Parallel()
	p, u, host := apiInside(t)
	hello := clientHello(t, &tls.Config{ServerName: "api.localhost"})
	random := make([]byte, 3000)
	rng := rand.NewChaCha8([32]byte{7})
	_, _ = rng.Read(random)
	rows := map[string]string{
		"half a ClientHello":                 hello[:len(hello)/2],
		"a byte of a ClientHello":            hello[:1],
		"a record's header":                  hello[:5],
		"a ClientHello and nothing more":     hello,
		"a ClientHello, then SSH":            hello + "SSH-2.0-x\r\n",
		"two ClientHellos":                   hello + hello,
		"a hello of a huge record":           "\x16\x03\x01\xff\xff" + strings.Repeat("x", 4000),
		"a record of no length":              "\x16\x03\x01\x00\x00",
		"SSH":                                "SSH-2.0-OpenSSH_9.2\r\n",
		"half of SSH":                        "SSH",
		"an alert":                           "\x15\x03\x03\x00\x02\x02\x28",
		"many alerts":                        strings.Repeat("\x15\x03\x03\x00\x02\x01\x00", 500),
		"application data":                   "\x17\x03\x03\x00\x05hello",
		"a close_notify":                     "\x15\x03\x03\x00\x02\x01\x00",
		"SSLv2":                              "\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10" + strings.Repeat("\x01\x00\x80", 7) + strings.Repeat("c", 16),
		"SSLv3":                              oldHello("\x03\x00", "\x03\x00"),
		"TLS 1.0":                            oldHello("\x03\x01", "\x03\x01"),
		"TLS 1.1":                            oldHello("\x03\x01", "\x03\x02"),
		"TLS 9.9":                            oldHello("\x09\x09", "\x09\x09"),
		"random bytes":                       string(random),
		"a record of random bytes":           "\x16\x03\x01\x0b\xb8" + string(random),
		"zeros":                              strings.Repeat("\x00", 3000),
		"the preface of HTTP/2 in the clear": http2.ClientPreface,
		"half a request in the clear":        "GET / HT",
		"SMTP":                               "EHLO there\r\n",
	}
	for name, bits := range map[string]string{"spaces": "a b.localhost", "a path": "../../etc/passwd", "a NUL": "api.localhost\x00.evil.test",
		"300 characters": strings.Repeat("a", 300), "a star": "*.localhost", "a colon": "api.localhost:443", "percent": "%00", "a dot": "..", "UTF-8": "bücher.localhost"} {
		rows["SNI: "+name] = clientHello(t, &tls.Config{ServerName: bits, InsecureSkipVerify: true})
	}
	p.caller(1).do("GET", "https://"+host+"/fine", "").expect(t, 200, "")
	before := p.weigh()
	stop := p.besides(host)
	var all sync.WaitGroup
	for name, bytes := range rows {
		for range 2 {
			c := p.connect(host)
			all.Go(func() {
				_ = c.SetDeadline(time.Now().Add(closes))
				c.send(bytes)
				rest, err := io.ReadAll(c.r)
				if e, ok := err.(net.Error); ok && e.Timeout() {
					t.Errorf("%s: open after %v, and said %q", name, closes, tail(string(rest), 100))
				}
			})
		}
		if c := p.connect(host); len(bytes) > 0 { // and one that leaves at once
			c.send(bytes)
			c.Close()
		}
	}
	all.Wait()
	stop()
	p.leaksNothing(before)
	p.wantMetric(0, "mulligan_retries_total")
	p.wantMetric(0, "mulligan_requests_in_flight")
	fine := float64(u.seen("/fine"))
	p.wantMetric(fine, "mulligan_attempts_total")
	p.wantMetric(fine, "mulligan_requests_total", "outcome=success")
	p.wantMetric(fine, "mulligan_requests_total")
	if n := strings.Count(p.log.String(), "level=WARN"); n > 3 {
		t.Errorf("%d warnings: one a host is said to be enough", n)
	}
}

// Old versions are refused with the alert that says so.
func TestOldTLSVersions(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	p := startInside(t, "upstreams:\n"+ca.intercepting("api", "api.localhost", ""))
	for _, version := range []uint16{tls.VersionTLS10, tls.VersionTLS11, tls.VersionTLS12, tls.VersionTLS13} {
		c := p.connect("api.localhost:1")
		s := tls.Client(c.TCPConn, &tls.Config{RootCAs: p.roots, ServerName: "api.localhost", MinVersion: tls.VersionTLS10, MaxVersion: version})
		err := s.Handshake()
		if old := version < tls.VersionTLS12; (err != nil) != old || old && !strings.Contains(err.Error(), "protocol version") {
			t.Errorf("TLS %x: %v", version, err)
		}
	}
}

// After a handshake: bytes that are no HTTP, in either version, or not enough.
func TestBadBytesInsideTLS(t *testing.T) {
	t.Parallel()
	p, u, host := apiInside(t)
	random := make([]byte, 5000)
	rng := rand.NewChaCha8([32]byte{8})
	_, _ = rng.Read(random)
	request := frameBytes(func(f *frames) { f.ask(1, true, "GET", host, "/x") })
	open := frameBytes(func(f *frames) {
		f.ask(1, true, "GET", host, "/x")
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: []byte{0x82}})
	})
	settings := frameBytes(func(f *frames) { _ = f.WriteSettings() })
	rows := []struct{ name, protocol, bytes, says string }{
		{"random bytes", "http/1.1", string(random), "HTTP/1.1 400 "},
		{"random bytes", "h2", string(random), "\x00"},
		{"random bytes", "", string(random), "HTTP/1.1 400 "},
		{"HTTP/1.1", "h2", "GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n", "\x00"},
		{"HTTP/2", "http/1.1", http2.ClientPreface + settings, "HTTP/1.1 505 "}, // never what ALPN did not choose
		{"another CONNECT", "http/1.1", lines("CONNECT "+host+" HTTP/1.1", "Host: "+host), "HTTP/1.1 4"},
		{"TLS in TLS", "http/1.1", clientHello(t, &tls.Config{ServerName: "api.localhost"}), "HTTP/1.1 400 "},
		{"half a head", "http/1.1", "GET / HTTP/1.1\r\nHost: " + host, "HTTP/1.1 408 "},
		{"a head over 64 KiB", "http/1.1", "GET / HTTP/1.1\r\nA: " + strings.Repeat("x", 70_000), "HTTP/1.1 431 "},
		{"half a preface", "h2", http2.ClientPreface[:10], ""},
		{"the preface only", "h2", http2.ClientPreface, ""},
		{"half of SETTINGS", "h2", http2.ClientPreface + settings[:5], ""},
		{"no SETTINGS", "h2", http2.ClientPreface + request, ""},
		{"half of HEADERS", "h2", http2.ClientPreface + settings + request[:len(request)-3], ""},
		{"a header block that does not end", "h2", http2.ClientPreface + settings + open[len(request):], ""},
		{"a frame of 16 MB", "h2", http2.ClientPreface + settings + "\xff\xff\xff\x00\x00\x00\x00\x00\x01", ""},
	}
	p.caller(1).do("GET", "https://"+host+"/fine", "").expect(t, 200, "")
	before := p.weigh()
	stop := p.besides(host)
	var all sync.WaitGroup
	for _, row := range rows {
		for _, leaves := range []bool{false, true} {
			s, err := p.handshake(p.connect(host), "api.localhost", strings.Fields(row.protocol)...)
			if err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				_ = s.SetDeadline(time.Now().Add(closes))
				_, _ = io.WriteString(s, row.bytes)
				if leaves {
					s.Close()
					return
				}
				got, err := io.ReadAll(s)
				if e, ok := err.(net.Error); ok && e.Timeout() {
					t.Errorf("%s in %q: open after %v, and said %q", row.name, row.protocol, closes, tail(string(got), 300))
				}
				if !strings.HasPrefix(string(got), row.says) {
					t.Errorf("%s in %q: answered with %q", row.name, row.protocol, tail(string(got), 300))
				}
			})
		}
	}
	for name, bytes := range map[string]string{"no TLS record": "this is no TLS record at all", "an alert": "\x15\x03\x03\x00\x02\x02\x28", "a long record": "\x17\x03\x03\xff\xff" + string(random)} {
		s, err := p.handshake(p.connect(host), "api.localhost")
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			_, _ = io.WriteString(s.NetConn(), bytes)
			_ = s.NetConn().SetDeadline(time.Now().Add(closes))
			if _, err := io.Copy(io.Discard, s.NetConn()); err != nil {
				if e, ok := err.(net.Error); ok && e.Timeout() {
					t.Errorf("%s: the connection stays open", name)
				}
			}
		})
	}
	all.Wait()
	stop()
	p.leaksNothing(before)
	p.wantMetric(0, "mulligan_retries_total")
	p.wantMetric(0, "mulligan_requests_in_flight")
	want(t, "requests that reached the upstream", u.seen("/x")+u.seen("/"), 0)
	fine := float64(u.seen("/fine"))
	p.wantMetric(fine, "mulligan_attempts_total")
	p.wantMetric(fine, "mulligan_requests_total")
}

// frameBytes is what a script writes.
func frameBytes(script func(f *frames)) string {
	var b writer
	script(newFrames(&b))
	return b.String()
}

// writer is a connection that only collects.
type writer struct {
	net.Conn
	bytes.Buffer
}

func (w *writer) Read(p []byte) (int, error)  { return 0, io.EOF }
func (w *writer) Write(p []byte) (int, error) { return w.Buffer.Write(p) }

// A header list over 64 KiB gets 431, and its connection goes on.
func TestHugeHeaderList(t *testing.T) {
	t.Parallel()
	p, u, host := apiInside(t)
	f := p.frames(host)
	many := make([]string, 2500)
	for i := range many {
		many[i] = fmt.Sprintf("x-%d: y", i)
	}
	account := "attempts=0; stop=permanent; error=http_request_header_section_size"
	f.ask(1, true, "GET", host, "/", "big: "+strings.Repeat("x", 70_000))
	f.hear(t, 1).expectProblem(t, 431, account)
	f.ask(3, true, "GET", host, "/", many...)
	f.hear(t, 3).expectProblem(t, 431, account)
	f.ask(5, false, "POST", host, "/", "big: "+strings.Repeat("x", 70_000))
	f.hear(t, 5).expectProblem(t, 431, account)
	f.ask(7, true, "GET", host, "/", "big: "+strings.Repeat("x", 50_000))
	f.hear(t, 7).expect(t, 200, "")
	p.wantMetric(1, "mulligan_requests_total")
	p.wantMetric(1, "mulligan_attempts_total")
	want(t, "requests seen", u.seen("/"), 1)
}

// floods are what is known to have brought HTTP/2 servers down. Each sends frames
// for as long as the connection takes them; send's i counts from 0.
var floods = map[string]struct {
	most int
	send func(f *frames, host string, i int) error
}{
	"rapid reset": {3000, func(f *frames, host string, i int) error { // CVE-2023-44487
		f.ask(uint32(2*i+1), true, "GET", host, "/hang")
		return f.WriteRSTStream(uint32(2*i+1), http2.ErrCodeCancel)
	}},
	"rapid reset by error": {3000, func(f *frames, host string, i int) error { // CVE-2025-8671: it is the server that resets
		f.ask(uint32(2*i+1), true, "GET", host, "/hang")
		return f.WriteWindowUpdate(uint32(2*i+1), 1<<31-1)
	}},
	"CONTINUATION": {20000, func(f *frames, host string, i int) error { // CVE-2024-27316
		if i == 0 {
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}})
		}
		return f.WriteContinuation(1, false, bytes.Repeat([]byte{0x82}, 1000))
	}},
	"empty CONTINUATION": {20000, func(f *frames, host string, i int) error {
		if i == 0 {
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}})
		}
		return f.WriteContinuation(1, false, nil)
	}},
	"SETTINGS": {20000, func(f *frames, host string, i int) error { // CVE-2019-9515
		return f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(60000 + i%2)})
	}},
	"PING": {50000, func(f *frames, host string, i int) error { // CVE-2019-9512
		return f.WritePing(false, [8]byte{byte(i)})
	}},
	"PRIORITY": {50000, func(f *frames, host string, i int) error { // CVE-2019-9513
		return f.WritePriority(uint32(2*(i%1000)+1), http2.PriorityParam{StreamDep: uint32(i%7) * 2000, Weight: uint8(i)})
	}},
	"WINDOW_UPDATE": {50000, func(f *frames, host string, i int) error { return f.WriteWindowUpdate(0, 1) }},
	"empty DATA": {50000, func(f *frames, host string, i int) error { // CVE-2019-9518
		if i == 0 {
			f.ask(1, false, "POST", host, "/hang")
		}
		return f.WriteData(1, false, nil)
	}},
	"unknown frames": {50000, func(f *frames, host string, i int) error { return f.WriteRawFrame(0xee, 0, 0, nil) }},
	"malformed requests": {5000, func(f *frames, host string, i int) error {
		f.ask(uint32(2*i+1), true, "GET", host, "no slash")
		return nil
	}},
}

// Floods end their connection with ENHANCE_YOUR_CALM, and hurt nobody else.
func TestHTTP2Floods(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	var mu sync.Mutex
	hanging, most := 0, 0
	u := newSite(t, ca, 2, func(w http.ResponseWriter, r *http.Request, n int) {
		if r.URL.Path != "/hang" {
			return
		}
		mu.Lock()
		hanging++
		most = max(most, hanging)
		mu.Unlock()
		<-r.Context().Done()
		mu.Lock()
		hanging--
		mu.Unlock()
	})
	host := "api.localhost:" + u.port
	p := startInside(t, "log: {access: false}\nupstreams:\n"+ca.intercepting("api", "api.localhost", ""))
	p.caller(1).do("GET", "https://"+host+"/fine", "").expect(t, 200, "")
	before := p.weigh()
	stop := p.besides(host)
	for name, flood := range floods {
		t.Run(name, func(t *testing.T) {
			f := p.frames(host)
			defer f.nc.Close()
			_ = f.nc.SetDeadline(time.Now().Add(closes))
			code := make(chan http2.ErrCode, 1)
			go func() { // what it says meanwhile
				said := http2.ErrCode(0xffff)
				for {
					frame, err := f.ReadFrame()
					if g, ok := frame.(*http2.GoAwayFrame); ok {
						said = g.ErrCode
					}
					if _, one := err.(http2.StreamError); err != nil && !one {
						code <- said
						return
					}
				}
			}()
			sent := 0
			for ; sent < flood.most; sent++ {
				if flood.send(f, host, sent) != nil {
					break
				}
			}
			select {
			case said := <-code:
				if said != http2.ErrCodeEnhanceYourCalm && said != 0xffff { // a TCP reset may have taken it
					t.Errorf("ended with %v", said)
				}
			case <-time.After(patience):
				t.Errorf("the connection takes %d of them", sent)
			}
		})
	}
	stop()
	p.leaksNothing(before)
	p.wantMetric(0, "mulligan_requests_in_flight")
	p.wantMetric(0, "mulligan_retries_total")
	p.wantMetric(0, "mulligan_buffered_bytes")
	mu.Lock()
	defer mu.Unlock()
	if most > 300 { // a connection's streams, 250, and a few that end
		t.Errorf("%d requests at the upstream at once", most)
	}
}

// A small header block that decodes to a huge list is over the limit like any
// other, and is not kept.
func TestHPACKBomb(t *testing.T) {
	t.Parallel()
	p, u, host := apiInside(t)
	f := p.frames(host)
	f.ask(1, true, "GET", host, "/", "x: "+strings.Repeat("v", 4000)) // is in the table from now on, first
	f.hear(t, 1).expect(t, 200, "")
	for i := range 20 {
		stream := uint32(2*i + 3)
		f.write.Lock()
		f.block.Reset()
		for _, h := range []string{":method: GET", ":scheme: https", ":authority: " + host, ":path: /"} {
			name, value, _ := strings.Cut(h[1:], ": ")
			_ = f.enc.WriteField(hpack.HeaderField{Name: h[:1] + name, Value: value, Sensitive: true})
		}
		block := append(bytes.Clone(f.block.Bytes()), bytes.Repeat([]byte{0xbe}, 10_000)...) // and so 40 MB of header
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, EndStream: true, EndHeaders: true, BlockFragment: block})
		f.write.Unlock()
		f.hear(t, stream).expect(t, 431, "attempts=0; stop=permanent")
	}
	want(t, "requests seen", u.seen("/"), 1)
}

// A client that floods with PINGs and reads no answer is ended too.
func TestFloodThatDoesNotRead(t *testing.T) {
	t.Parallel()
	p, _, host := apiInside(t)
	before := p.weigh()
	for range 5 {
		f := p.frames(host)
		_ = f.nc.SetWriteDeadline(time.Now().Add(closes))
		var err error
		for n := 0; err == nil; n++ {
			err = f.WritePing(false, [8]byte{1})
			if n > 1_000_000 {
				t.Fatal("a million PINGs were taken")
			}
		}
		if e, ok := err.(net.Error); ok && e.Timeout() {
			t.Errorf("the connection stays open")
		}
	}
	p.leaksNothing(before)
	p.caller(2).do("GET", "https://"+host+"/", "").expect(t, 200, "")
}
