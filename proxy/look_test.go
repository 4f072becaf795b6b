package proxy_test

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mulligan/policy"
	"mulligan/proxy"
)

// What the rules of ruledSettings know.
const (
	limited  = `{"errors": [{"type": "RATE_LIMITED"}]}`
	spent    = `{"error": {"code": "insufficient_quota"}}`
	harmless = `{"error": {"code": "other"}}`
)

func statuses(words ...string) (s policy.Set) {
	for _, w := range words {
		if err := s.Add(w); err != nil {
			panic(err)
		}
	}
	return s
}

// ruledSettings has 429 retried but for spent, and 200 with limited.
func ruledSettings() *proxy.Settings {
	s := settings()
	r := &s.Default.Default.Retry
	if err := r.RetryOn.Add("429"); err != nil {
		panic(err)
	}
	r.Rules = []policy.Rule{
		{Status: statuses("429"), JSON: []policy.PathRule{{Path: []string{"error", "code"}, Values: []string{"insufficient_quota"}}}},
		{Status: statuses("200"), JSON: []policy.PathRule{{Path: []string{"errors", "0", "type"}, Values: []string{"RATE_LIMITED"}}}, Retry: true},
	}
	return s
}

// asJSON is an answer with a JSON body; fields end with \r\n each.
func asJSON(status int, fields, body string) string {
	return fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: application/json\r\n%s\r\n%s", status, http.StatusText(status), fields, body)
}

func withLength(status int, body string) string {
	return asJSON(status, fmt.Sprintf("Content-Length: %d\r\n", len(body)), body)
}

// chunks is a chunked body, a byte each chunk, so that none of it comes in one piece.
func chunks(body string) string {
	var b strings.Builder
	for i := range len(body) {
		b.WriteString("1\r\n" + body[i:i+1] + "\r\n")
	}
	return b.String() + "0\r\n\r\n"
}

func chunkedJSON(status int, fields, body string) string {
	return asJSON(status, fields+"Transfer-Encoding: chunked\r\n", chunks(body))
}

func gzipped(body string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, body)
	w.Close()
	return b.String()
}

func zlibbed(body string) string {
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	io.WriteString(w, body)
	w.Close()
	return b.String()
}

func deflated(body string) string {
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, flate.DefaultCompression)
	io.WriteString(w, body)
	w.Close()
	return b.String()
}

// oneAnswer gives the answer and closes the connection.
func oneAnswer(answer string) func(net.Conn) {
	return func(c net.Conn) {
		readHead(bufio.NewReaderSize(c, 16))
		io.WriteString(c, answer)
	}
}

// inTurn gives each connection to the next of the servers.
func inTurn(servers ...func(net.Conn)) func(net.Conn) {
	var n atomic.Int32
	return func(c net.Conn) {
		if i := int(n.Add(1)) - 1; i < len(servers) {
			servers[i](c)
		}
	}
}

// nothingKept fails unless the memory that was booked has been given back.
func (b *bubble) nothingKept() {
	b.Helper()
	time.Sleep(time.Second) // the request's end comes behind its answer's
	if n := gauge(b.T, b.reg, "mulligan_buffered_bytes", ""); n != 0 {
		b.Errorf("%v bytes are kept", n)
	}
	if n := gauge(b.T, b.reg, "mulligan_requests_in_flight", "default"); n != 0 {
		b.Errorf("%v requests are in flight", n)
	}
}

// TestRulesLookIntoJSON: in any framing and known coding a rule finds what it
// looks for, and either verdict counts.
func TestRulesLookIntoJSON(t *testing.T) {
	for name, answer := range map[string]func(status int, body string) string{
		"length":  withLength,
		"chunked": func(status int, body string) string { return chunkedJSON(status, "", body) },
		"one chunk": func(status int, body string) string {
			return asJSON(status, "Transfer-Encoding: chunked\r\n", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body))
		},
		"blocks": func(status int, body string) string {
			body = strings.Repeat(" ", 40<<10) + body
			return asJSON(status, "Transfer-Encoding: chunked\r\n", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body))
		},
		"until close": func(status int, body string) string { return asJSON(status, "", body) },
		"gzip": func(status int, body string) string {
			return chunkedJSON(status, "Content-Encoding: gzip\r\n", gzipped(body))
		},
		"x-gzip": func(status int, body string) string {
			z := gzipped(body)
			return asJSON(status, fmt.Sprintf("Content-Encoding: X-GZIP\r\nContent-Length: %d\r\n", len(z)), z)
		},
		"deflate": func(status int, body string) string {
			return chunkedJSON(status, "Content-Encoding: deflate\r\n", zlibbed(body))
		},
		"raw deflate": func(status int, body string) string {
			return chunkedJSON(status, "Content-Encoding: deflate\r\n", deflated(body))
		},
		"identity": func(status int, body string) string {
			return chunkedJSON(status, "Content-Encoding: identity\r\n", body)
		},
		"problem+json": func(status int, body string) string {
			return strings.Replace(withLength(status, body), "application/json", "Application/Problem+JSON; charset=utf-8", 1)
		},
	} {
		for _, row := range []struct {
			status int
			body   string
			stop   string
		}{
			{200, limited, "mulligan; attempts=2; stop=success; received-status=200"},
			{200, harmless, ""},
			{429, spent, "mulligan; attempts=1; stop=permanent; received-status=429"},
			{429, harmless, "mulligan; attempts=2; stop=success; received-status=200"},
		} {
			t.Run(fmt.Sprint(name, " ", row.status, row.body), func(t *testing.T) {
				inBubble(t, ruledSettings(), inTurn(oneAnswer(answer(row.status, row.body)), answers(ok)), func(b *bubble) {
					c := b.dial()
					defer c.Close()
					resp := b.send(c, getUp)
					if got := resp.Header.Get("Proxy-Status"); got != row.stop {
						b.Fatalf("%s %q, want %q", resp.Status, got, row.stop)
					}
					body, err := io.ReadAll(resp.Body)
					_, whole, _ := strings.Cut(answer(row.status, row.body), "\r\n\r\n")
					if strings.Contains(row.stop, "success") {
						whole = "ok"
					} else if resp.TransferEncoding != nil && name != "until close" {
						r, _ := http.ReadResponse(bufio.NewReader(strings.NewReader(answer(row.status, row.body))), nil)
						p, _ := io.ReadAll(r.Body)
						whole = string(p)
					}
					if string(body) != whole || err != nil {
						b.Errorf("%q %v, want %q", body, err, whole)
					}
					b.nothingKept()
				})
			})
		}
	}
}

// TestRulesDoNotLookInto: what a rule cannot look into is no match, and passes as
// it came.
func TestRulesDoNotLookInto(t *testing.T) {
	padded := limited + strings.Repeat(" ", 64<<10)
	for name, answer := range map[string]string{
		"not JSON":                strings.Replace(withLength(200, limited), "application/json", "text/plain", 1),
		"unknown coding":          chunkedJSON(200, "Content-Encoding: br\r\n", limited),
		"two codings":             chunkedJSON(200, "Content-Encoding: gzip, gzip\r\n", gzipped(gzipped(limited))),
		"two codings, two fields": chunkedJSON(200, "Content-Encoding: gzip\r\nContent-Encoding: gzip\r\n", gzipped(gzipped(limited))),
		"not so coded":            chunkedJSON(200, "Content-Encoding: gzip\r\n", limited),
		"coded, half":             chunkedJSON(200, "Content-Encoding: gzip\r\n", gzipped(limited)[:40]),
		"unpacks to too much":     chunkedJSON(200, "Content-Encoding: gzip\r\n", gzipped(padded)),
		"deflates to too much":    chunkedJSON(200, "Content-Encoding: deflate\r\n", zlibbed(padded)),
		"length over the limit":   withLength(200, padded),
		"over the limit":          asJSON(200, "Transfer-Encoding: chunked\r\n", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(padded), padded)),
		"until close, over":       asJSON(200, "", padded),
		"empty":                   asJSON(200, "Transfer-Encoding: chunked\r\n", "0\r\n\r\n"),
		"no body":                 asJSON(204, "", ""),
		"another status":          chunkedJSON(201, "", limited),
	} {
		t.Run(name, func(t *testing.T) {
			want, _ := http.ReadResponse(bufio.NewReader(strings.NewReader(answer)), nil)
			wanted, _ := io.ReadAll(want.Body)
			inBubble(t, ruledSettings(), inTurn(oneAnswer(answer), answers(ok)), func(b *bubble) {
				c := b.dial()
				defer c.Close()
				resp := b.send(c, getUp)
				body, err := io.ReadAll(resp.Body)
				if resp.Header.Get("Proxy-Status") != "" || !bytes.Equal(body, wanted) || err != nil {
					b.Errorf("%s %q, %d bytes of %d, %v", resp.Status, resp.Header.Get("Proxy-Status"), len(body), len(wanted), err)
				}
				b.nothingKept()
			})
		})
	}
}

// TestRulesAtTheLimit: buffer.response itself is still looked into, however it is
// cut.
func TestRulesAtTheLimit(t *testing.T) {
	for _, size := range []int{len(limited), len(limited) - 1} {
		for name, answer := range map[string]string{"length": withLength(200, limited), "chunked": chunkedJSON(200, "", limited), "close": asJSON(200, "", limited)} {
			t.Run(fmt.Sprint(name, size), func(t *testing.T) {
				s := ruledSettings()
				s.Default.Default.Buffer.Response = int64(size)
				inBubble(t, s, inTurn(oneAnswer(answer), answers(ok)), func(b *bubble) {
					c := b.dial()
					defer c.Close()
					resp := b.send(c, getUp)
					body, _ := io.ReadAll(resp.Body)
					if want := map[bool]string{true: "ok", false: limited}[size == len(limited)]; string(body) != want {
						b.Errorf("%q, want %q", body, want)
					}
				})
			})
		}
	}
}

// TestHeadIsNotLookedInto: it has no body, whatever its fields say of one.
func TestHeadIsNotLookedInto(t *testing.T) {
	inBubble(t, ruledSettings(), answers(asJSON(200, "Content-Length: 38\r\n", ""), asJSON(200, "Transfer-Encoding: chunked\r\n", "")), func(b *bubble) {
		c := b.dial()
		r := bufio.NewReader(c)
		for range 2 {
			io.WriteString(c, "HEAD http://up/ HTTP/1.1\r\nHost: up\r\n\r\n")
			resp, err := http.ReadResponse(r, &http.Request{Method: "HEAD"})
			if err != nil || resp.StatusCode != 200 || resp.Header.Get("Proxy-Status") != "" {
				b.Fatal(resp, err)
			}
		}
	})
}

// TestTooLongToLookIntoStreams: what is longer than can be held goes on as it
// comes, and nothing of it is lost or kept.
func TestTooLongToLookIntoStreams(t *testing.T) {
	const size = 64 << 10
	first, then := strings.Repeat(" ", size), limited
	slow := func(c net.Conn) {
		readHead(bufio.NewReaderSize(c, 16))
		io.WriteString(c, asJSON(200, "Transfer-Encoding: chunked\r\nTrailer: X-End\r\n", ""))
		time.Sleep(time.Second)
		fmt.Fprintf(c, "%x\r\n%s\r\n", size, first)
		for range 3 {
			time.Sleep(time.Second)
			fmt.Fprintf(c, "%x\r\n%s\r\n", len(then), then)
		}
		io.WriteString(c, "0\r\nX-End: yes\r\n\r\n")
		io.Copy(io.Discard, c)
	}
	inBubble(t, ruledSettings(), slow, func(b *bubble) {
		c := b.dial()
		began := time.Now()
		resp := b.send(c, getUp)
		within(b.T, time.Since(began), 2*time.Second)
		for i := range 3 {
			want := then
			if i == 0 {
				want = first + then
			}
			p := make([]byte, len(want))
			if _, err := io.ReadFull(resp.Body, p); err != nil || string(p) != want {
				b.Fatalf("piece %d: %v", i, err)
			}
			within(b.T, time.Since(began), time.Duration(2+i)*time.Second)
			if n := gauge(b.T, b.reg, "mulligan_buffered_bytes", ""); i > 0 && n != 0 {
				b.Errorf("%v bytes are kept while it streams", n)
			}
		}
		if rest, err := io.ReadAll(resp.Body); len(rest) > 0 || err != nil || resp.Trailer.Get("X-End") != "yes" {
			b.Errorf("%q %v %v", rest, err, resp.Trailer)
		}
	})
}

// TestWhatCannotBeReadIsNotHeld: what no rule could look into streams from the
// beginning.
func TestWhatCannotBeReadIsNotHeld(t *testing.T) {
	for name, answer := range map[string]string{
		"coding": asJSON(200, "Content-Encoding: zstd\r\nTransfer-Encoding: chunked\r\n", ""),
		"type":   "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n",
		"status": asJSON(201, "Transfer-Encoding: chunked\r\n", ""),
		"length": asJSON(200, "Content-Length: 65537\r\n", ""),
	} {
		t.Run(name, func(t *testing.T) {
			slow := func(c net.Conn) {
				readHead(bufio.NewReaderSize(c, 16))
				io.WriteString(c, answer)
				time.Sleep(time.Second)
			}
			inBubble(t, ruledSettings(), slow, func(b *bubble) {
				c := b.dial()
				defer c.Close()
				began := time.Now()
				b.send(c, getUp)
				within(b.T, time.Since(began), 0)
				time.Sleep(2 * time.Second)
			})
		})
	}
}

// TestBombIsNotUnpacked: a small body that would unpack to much costs no memory.
func TestBombIsNotUnpacked(t *testing.T) {
	const size = 16 << 20
	bomb := gzipped(strings.Repeat(" ", size))
	answer := asJSON(200, fmt.Sprintf("Content-Encoding: gzip\r\nContent-Length: %d\r\n", len(bomb)), bomb)
	inBubble(t, ruledSettings(), oneAnswer(answer), func(b *bubble) {
		c := b.dial()
		defer c.Close()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		body, err := io.ReadAll(b.send(c, getUp).Body)
		runtime.ReadMemStats(&after)
		if string(body) != bomb || err != nil {
			b.Errorf("%d bytes, %v", len(body), err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > size/4 {
			b.Errorf("%d bytes were allocated", n)
		}
	})
}

// TestLookedIntoKeepsItsConnection: a response that was held whole leaves its
// connection for the retry, and its trailers for the client.
func TestLookedIntoKeepsItsConnection(t *testing.T) {
	var conns atomic.Int32
	trailing := strings.TrimSuffix(chunkedJSON(200, "Trailer: X-End\r\n", harmless), "\r\n") + "X-End: yes\r\n\r\n"
	serve := answers(chunkedJSON(200, "", limited), chunkedJSON(200, "", limited), trailing, ok)
	s := ruledSettings()
	s.Default.Connections.MaxPerEndpoint = 1
	inBubble(t, s, func(c net.Conn) { conns.Add(1); serve(c) }, func(b *bubble) {
		c := b.dial()
		r := bufio.NewReader(c)
		for i := range 2 {
			io.WriteString(c, getUp)
			resp := readResponse(b.T, r)
			body, err := io.ReadAll(resp.Body)
			if i == 0 && (string(body) != harmless || resp.Trailer.Get("X-End") != "yes") || i == 1 && string(body) != "ok" || err != nil {
				b.Errorf("%d: %s %q %v %v", i, resp.Status, body, resp.Trailer, err)
			}
		}
		if n := conns.Load(); n != 1 {
			b.Errorf("%d connections", n)
		}
		b.nothingKept()
	})
}

// TestLookedIntoBreaksOff: what breaks off while it is held is truncated.
func TestLookedIntoBreaksOff(t *testing.T) {
	half := oneAnswer(asJSON(200, "Transfer-Encoding: chunked\r\n", "26\r\n"+limited))
	for method, row := range map[string]struct {
		status int
		says   string
	}{
		"GET":  {200, "mulligan; attempts=2; stop=success; received-status=200"},
		"POST": {502, "mulligan; attempts=1; stop=not_idempotent; received-status=200; error=http_response_incomplete"},
	} {
		inBubble(t, ruledSettings(), inTurn(half, answers(ok)), func(b *bubble) {
			c := b.dial()
			defer c.Close()
			resp := b.send(c, method+" http://up/ HTTP/1.1\r\nHost: up\r\nContent-Length: 0\r\n\r\n")
			if got := resp.Header.Get("Proxy-Status"); resp.StatusCode != row.status || got != row.says {
				b.Errorf("%s %q", resp.Status, got)
			}
			if n := counter(b.T, b.reg, "mulligan_attempts_total", "result=truncated"); n != 1 {
				b.Errorf("%v attempts were truncated", n)
			}
			b.nothingKept()
		})
	}
}

// TestLookedIntoIsLate: timeout.attempt bounds the hold. It is a retry where one
// can follow; else the client gets what is there, and the rest as it comes.
func TestLookedIntoIsLate(t *testing.T) {
	drip := func(c net.Conn) {
		readHead(bufio.NewReaderSize(c, 16))
		io.WriteString(c, asJSON(200, "Transfer-Encoding: chunked\r\n", ""))
		for range 4 {
			io.WriteString(c, "1\r\n \r\n")
			time.Sleep(2 * time.Second)
		}
		io.WriteString(c, "0\r\n\r\n")
	}
	for method, want := range map[string]string{"GET": "ok", "POST": "    "} {
		inBubble(t, ruledSettings(), inTurn(drip, answers(ok)), func(b *bubble) {
			c := b.dial()
			defer c.Close()
			began := time.Now()
			resp := b.send(c, method+" http://up/ HTTP/1.1\r\nHost: up\r\nContent-Length: 0\r\n\r\n")
			within(b.T, time.Since(began), 5*time.Second)
			if body, err := io.ReadAll(resp.Body); string(body) != want || err != nil {
				b.Errorf("%s: %q %v", method, body, err)
			}
			b.nothingKept()
			time.Sleep(5 * time.Second) // what drips comes to its end
		})
	}
}

// TestNothingLeftToHold: where buffer_total is used up, nothing is looked into.
func TestNothingLeftToHold(t *testing.T) {
	for name, answer := range map[string]string{"length": withLength(200, limited), "chunked": chunkedJSON(200, "", limited)} {
		t.Run(name, func(t *testing.T) {
			s := ruledSettings()
			s.BufferTotal = 20
			slowly := func(c net.Conn) { // else it needs no hold
				readHead(bufio.NewReaderSize(c, 16))
				for i := range len(answer) {
					io.WriteString(c, answer[i:i+1])
				}
			}
			inBubble(t, s, inTurn(slowly, answers(ok)), func(b *bubble) {
				c := b.dial()
				defer c.Close()
				if body, err := io.ReadAll(b.send(c, getUp).Body); string(body) != limited || err != nil {
					b.Errorf("%q %v", body, err)
				}
				b.nothingKept()
			})
		})
	}
}

// TestRulesOnHTTP2: a response without a length is the rule there.
func TestRulesOnHTTP2(t *testing.T) {
	var n atomic.Int32
	i := intercept(t, true, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		body := limited
		if n.Add(1) > 1 {
			body = harmless
		}
		for i := range len(body) {
			io.WriteString(w, body[i:i+1])
			w.(http.Flusher).Flush()
		}
	}, func(u *policy.Upstream) { u.Default.Retry.Rules = ruledSettings().Default.Default.Retry.Rules })
	for _, http2 := range []bool{true, false} {
		n.Store(0)
		resp, err := i.client(t, http2).Get("https://" + i.host + "/")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(body) != harmless || err != nil || n.Load() != 2 {
			t.Errorf("%q %v, %d attempts", body, err, n.Load())
		}
	}
	if !eventually(func() bool { return gauge(t, i.reg, "mulligan_buffered_bytes", "") == 0 }) {
		t.Errorf("%v bytes are kept", gauge(t, i.reg, "mulligan_buffered_bytes", ""))
	}
}
