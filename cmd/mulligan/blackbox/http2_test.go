package blackbox

import (
	"crypto/tls"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// HTTP/2 frame by frame, on both sides at once: what becomes of a stream of the
// upstream's is seen on the client's.

// insideFrames is one mulligan between a raw client and a raw upstream.
func insideFrames(t *testing.T, extra string, script func(n int, f *frames), settings ...http2.Setting) (p *inside, u *upstream, host string) {
	t.Helper()
	ca := newAuthority(t)
	u = framesUpstream(t, ca, script, settings...)
	p = startInside(t, fmt.Sprintf("defaults: {retry: {%s}}\nupstreams:\n", quick)+ca.intercepting("api", "api.localhost", extra))
	return p, u, fmt.Sprintf("api.localhost:%d", u.port())
}

// fine answers a stream.
func (f *frames) fine(stream uint32, body string) {
	f.headers(stream, false, ":status: 200", "content-type: text/plain")
	f.data(stream, true, body)
}

// beforeHead is what may happen to a stream before its head, and what it is taken for.
var beforeHead = []struct {
	name    string
	do      func(f *frames, stream uint32) (last bool) // the connection's last
	class   string
	any     bool // retried whatever the method
	account string
}{
	{"REFUSED_STREAM", resetting(http2.ErrCodeRefusedStream), "refused_stream", true, "error=connection_terminated"},
	{"GOAWAY below", func(f *frames, stream uint32) bool { f.goAway(stream-2, http2.ErrCodeNo); return true }, "refused_stream", true, "error=connection_terminated"},
	{"GOAWAY below with an error", func(f *frames, stream uint32) bool { f.goAway(stream-2, http2.ErrCodeEnhanceYourCalm); return true }, "refused_stream", true, "error=connection_terminated"},
	{"INTERNAL_ERROR", resetting(http2.ErrCodeInternal), "connection_reset", false, "error=connection_terminated"},
	{"CANCEL", resetting(http2.ErrCodeCancel), "connection_reset", false, "error=connection_terminated"},
	{"NO_ERROR", resetting(http2.ErrCodeNo), "connection_reset", false, "error=connection_terminated"},
	{"an unknown code", resetting(0xfeed), "connection_reset", false, "error=connection_terminated"},
	{"GOAWAY at it and the end", func(f *frames, stream uint32) bool { f.goAway(stream, http2.ErrCodeInternal); return true }, "connection_reset", false, "error=connection_terminated"},
	{"the end", func(f *frames, _ uint32) bool { return true }, "connection_reset", false, "error=connection_terminated"},
	{"a TCP reset", func(f *frames, _ uint32) bool { abort(f.nc.(*tls.Conn).NetConn()); return true }, "connection_reset", false, "error=connection_terminated"},
	{"after a 103", func(f *frames, stream uint32) bool {
		f.headers(stream, false, ":status: 103", "link: </a>")
		f.reset(stream, http2.ErrCodeInternal)
		return false
	}, "connection_reset", false, "error=connection_terminated"},
}

func resetting(code http2.ErrCode) func(f *frames, stream uint32) bool {
	return func(f *frames, stream uint32) bool { f.reset(stream, code); return false }
}

// Section 4: REFUSED_STREAM and a stream above GOAWAY's last were not processed
// and are retried whatever the method; any other end before a head is a reset.
func TestStreamEndsBeforeItsHead(t *testing.T) {
	t.Parallel()
	for _, row := range beforeHead {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var seen atomic.Int32
			p, _, host := insideFrames(t, "", func(n int, f *frames) {
				for stream, fields := range f.requests() {
					seen.Add(1)
					if fields[":path"] == "/ok" {
						f.fine(stream, "ok")
					} else if seen.Load() == 2 { // behind /ok
						if row.do(f, stream) {
							return
						}
					} else {
						f.fine(stream, "at last")
					}
				}
			})
			f := p.frames(host)
			f.ask(1, true, "GET", host, "/ok") // so that the stream that fails is not the first
			f.hear(t, 1).expect(t, 200, "")
			f.ask(3, true, "POST", host, "/", "content-type: text/plain")
			h := f.hear(t, 3)
			if row.any {
				h.expect(t, 200, "attempts=2; stop=success; received-status=200")
				want(t, "body", h.body, "at last")
			} else {
				h.expect(t, 502, "attempts=1; stop=not_idempotent; "+row.account)
			}
			seen.Store(1)
			f.ask(5, true, "GET", host, "/")
			h = f.hear(t, 5)
			h.expect(t, 200, "attempts=2; stop=success; received-status=200")
			if len(h.interim) > 0 {
				t.Errorf("the 1xx of a failed attempt came through: %v", h.interim)
			}
			p.wantMetric(2, "mulligan_attempts_total", "result="+row.class)
			retries := 1.0
			if row.any {
				retries = 2
			}
			p.wantMetric(retries, "mulligan_retries_total", "reason="+row.class)
			p.wantMetric(retries, "mulligan_retries_total")
			p.wantMetric(0, "mulligan_requests_in_flight")
		})
	}
}

// The same for ever: attempts run out, and the client is told in HTTP/1.1 too.
func TestRefusedForEver(t *testing.T) {
	t.Parallel()
	p, _, host := insideFrames(t, "", func(_ int, f *frames) {
		for stream := range f.requests() {
			f.reset(stream, http2.ErrCodeRefusedStream)
		}
	})
	for _, version := range []int{1, 2} {
		p.caller(version).do("POST", "https://"+host+"/", "x").expectProblem(t, 502, "attempts=4; stop=max_attempts; error=connection_terminated")
	}
	p.wantMetric(8, "mulligan_attempts_total", "result=refused_stream")
	p.wantMetric(2, "mulligan_retries_denied_total", "stop=max_attempts")
}

// A refused request is sent again with its body, however that came: it was kept,
// whatever the method, up to buffer.request.
func TestRefusedWithABody(t *testing.T) {
	t.Parallel()
	type how struct {
		name string
		end  func(f *frames, stream uint32)
	}
	for _, row := range []how{
		{"REFUSED_STREAM", func(f *frames, stream uint32) { f.reset(stream, http2.ErrCodeRefusedStream) }},
		{"GOAWAY below", func(f *frames, stream uint32) { f.goAway(0, http2.ErrCodeNo) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			headers, bodies := make(chan bool, 4), make(chan string, 4)
			var refused atomic.Int32
			p, _, host := insideFrames(t, "", func(_ int, f *frames) {
				body := ""
				for {
					switch frame := f.next().(type) {
					case nil:
						return
					case *http2.MetaHeadersFrame:
						body = ""
						headers <- true
					case *http2.DataFrame:
						f.credit(0, max(1, len(frame.Data())))
						if body += string(frame.Data()); !frame.StreamEnded() {
							continue
						}
						if refused.Add(1)%2 == 1 {
							row.end(f, frame.StreamID)
							continue
						}
						bodies <- body
						f.fine(frame.StreamID, "fine")
					}
				}
			})
			f := p.frames(host)
			f.ask(1, false, "POST", host, "/", "content-length: 12")
			soon(t, "the head", headers) // what follows comes later than its head, for sure
			f.data(1, false, "half a ")
			f.data(1, true, "body!")
			f.hear(t, 1).expect(t, 200, "attempts=2; stop=success; received-status=200")
			want(t, "the body", soon(t, "the body", bodies), "half a body!")

			c := p.secure1(host)
			soon(t, "the second head", headers)
			c.send(lines("POST / HTTP/1.1", "Host: "+host, "Transfer-Encoding: chunked"))
			soon(t, "the second head", headers)
			c.send("7\r\nhalf a \r\n5\r\nbody!\r\n0\r\n\r\n")
			c.next("POST").expect(t, 200, "attempts=2; stop=success; received-status=200")
			want(t, "the body in HTTP/1.1", soon(t, "the body", bodies), "half a body!")
		})
	}
}

// A server that wants HTTP/1.1 gets it (RFC 9113 7).
func TestHTTP11Required(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	config := rightConfig(ca)
	config.Certificates = []tls.Certificate{ca.leaf(time.Now().Add(time.Hour), "api.localhost")}
	config.NextProtos = []string{"h2", "http/1.1"}
	one := answering(text(200, "one"))
	u := upstreamOn(t, tls.NewListener(listen(t, "127.0.0.1:0"), config), func(p *peer) {
		_ = p.Conn.(*tls.Conn).Handshake()
		if p.Conn.(*tls.Conn).ConnectionState().NegotiatedProtocol != "h2" {
			one(p)
			return
		}
		preface := make([]byte, len(http2.ClientPreface))
		if _, err := p.r.Read(preface); err != nil {
			return
		}
		f := newFrames(p.Conn)
		f.Framer = http2.NewFramer(p.Conn, p.r)
		_ = f.WriteSettings()
		for {
			frame := f.next()
			if frame == nil {
				return
			}
			if h, ok := frame.(*http2.HeadersFrame); ok {
				f.reset(h.StreamID, http2.ErrCodeHTTP11Required)
			}
		}
	})
	p := startInside(t, fmt.Sprintf("defaults: {retry: {%s}}\nupstreams:\n", quick)+ca.intercepting("api", "api.localhost", ""))
	for range 3 {
		r := p.caller(2).do("POST", fmt.Sprintf("https://api.localhost:%d/", u.port()), "x")
		want(t, "status", r.Status, 200)
		want(t, "body", r.Body, "one")
	}
	want(t, "requests in HTTP/1.1", u.count(), 3)
}

// A reset in a body is a reset at the client, with its code, and never a clean
// end; so is a connection that ends, and a body that is not as long as it said.
func TestStreamEndsInItsBody(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 70_000) // more than is held
	for name, row := range map[string]struct {
		fields []string
		do     func(f *frames, stream uint32) (last bool)
		code   http2.ErrCode
	}{
		"CANCEL":               {nil, resetting(http2.ErrCodeCancel), http2.ErrCodeCancel},
		"INTERNAL_ERROR":       {nil, resetting(http2.ErrCodeInternal), http2.ErrCodeInternal},
		"ENHANCE_YOUR_CALM":    {nil, resetting(http2.ErrCodeEnhanceYourCalm), http2.ErrCodeEnhanceYourCalm},
		"an unknown code":      {nil, resetting(0xfeed), 0xfeed},
		"with a length":        {[]string{"content-length: 200000"}, resetting(http2.ErrCodeCancel), http2.ErrCodeCancel},
		"the connection's end": {nil, func(*frames, uint32) bool { return true }, http2.ErrCodeInternal},
		"a GOAWAY and the end": {nil, func(f *frames, s uint32) bool { f.goAway(s, http2.ErrCodeInternal); return true }, http2.ErrCodeInternal},
		"too short": {[]string{"content-length: 200000"}, func(f *frames, s uint32) bool {
			f.data(s, true, "")
			return false
		}, http2.ErrCodeInternal},
		"too long": {[]string{"content-length: 70001"}, func(f *frames, s uint32) bool {
			f.data(s, true, "xyz")
			return false
		}, http2.ErrCodeInternal},
		"broken trailers": {nil, func(f *frames, s uint32) bool {
			f.headers(s, true, ":status: 200", "a: b")
			return false
		}, http2.ErrCodeInternal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _, host := insideFrames(t, "", func(_ int, f *frames) {
				for stream, fields := range f.requests() {
					if fields[":path"] == "/ok" {
						f.fine(stream, "ok")
						continue
					}
					f.headers(stream, false, append([]string{":status: 200"}, row.fields...)...)
					for rest := big; rest != ""; rest = rest[min(len(rest), 16<<10):] {
						f.data(stream, false, rest[:min(len(rest), 16<<10)])
					}
					if row.do(f, stream) {
						linger(200 * time.Millisecond) // so that the body is on its way before the end
						return
					}
				}
			})
			f := p.frames(host)
			f.ask(1, true, "GET", host, "/broken")
			h := f.hear(t, 1)
			if h.ended || !h.reset || h.head[":status"] != "200" || h.gone {
				t.Errorf("not a reset: %v", h)
			}
			want(t, "code of the reset", h.code, row.code)
			f.ask(3, true, "GET", host, "/ok")
			f.hear(t, 3).expect(t, 200, "") // the connection goes on

			c := p.secure1(host)
			r := c.ask("GET", "/broken", host)
			if r.Status != 200 || r.Whole {
				t.Errorf("in HTTP/1.1 it looks whole: %d, %d bytes", r.Status, len(r.Body))
			}
			p.wantMetric(0, "mulligan_retries_total")
			p.wantMetric(0, "mulligan_requests_in_flight")
		})
	}
}

// A held response that breaks off has not reached the client: it is retried.
func TestHeldStreamBreaksOff(t *testing.T) {
	t.Parallel()
	var seen atomic.Int32
	p, _, host := insideFrames(t, "", func(_ int, f *frames) {
		for stream := range f.requests() {
			f.headers(stream, false, ":status: 200", "content-length: 10")
			if seen.Add(1)%2 == 1 {
				f.data(stream, false, "half")
				f.reset(stream, http2.ErrCodeInternal)
				continue
			}
			f.data(stream, true, "0123456789")
		}
	})
	for _, version := range []int{1, 2} {
		r := p.caller(version).do("GET", "https://"+host+"/", "")
		r.expect(t, 200, "attempts=2; stop=success")
		want(t, "body", r.Body, "0123456789")
	}
	p.wantMetric(2, "mulligan_attempts_total", "result=truncated")
}

// What is no HTTP/2 message is a protocol_error, and never retried.
func TestMalformedStreams(t *testing.T) {
	t.Parallel()
	rows := map[string]func(f *frames, stream uint32){
		"no :status":        func(f *frames, s uint32) { f.headers(s, true, "content-type: text/plain") },
		"two :status":       func(f *frames, s uint32) { f.headers(s, true, ":status: 200", ":status: 200") },
		"a bad :status":     func(f *frames, s uint32) { f.headers(s, true, ":status: 2xx") },
		"status 101":        func(f *frames, s uint32) { f.headers(s, true, ":status: 101") },
		"a request's field": func(f *frames, s uint32) { f.headers(s, true, ":status: 200", ":path: /") },
		"upper case":        func(f *frames, s uint32) { f.headers(s, true, ":status: 200", "Upper: x") },
		"a LF in a value":   func(f *frames, s uint32) { f.headers(s, true, ":status: 200", "a: b\nc: d") },
		"Connection":        func(f *frames, s uint32) { f.headers(s, true, ":status: 200", "connection: close") },
		"Transfer-Encoding": func(f *frames, s uint32) { f.headers(s, true, ":status: 200", "transfer-encoding: chunked") },
		"two lengths": func(f *frames, s uint32) {
			f.headers(s, false, ":status: 200", "content-length: 1", "content-length: 2")
		},
		"a length, no body":     func(f *frames, s uint32) { f.headers(s, true, ":status: 200", "content-length: 5") },
		"DATA first":            func(f *frames, s uint32) { f.data(s, true, "x") },
		"a final 1xx":           func(f *frames, s uint32) { f.headers(s, true, ":status: 103") },
		"more than 32 1xx":      func(f *frames, s uint32) { manyInterim(f, s) },
		"a head over 1 MiB":     func(f *frames, s uint32) { f.headers(s, true, ":status: 200", "big: "+strings.Repeat("x", 1<<20+1)) },
		"a DATA on stream zero": func(f *frames, s uint32) { f.rawFrame(http2.FrameData, 0, 0, "x") },
		"an unknown padding":    func(f *frames, s uint32) { f.rawFrame(http2.FrameData, http2.FlagDataPadded, s, "\xff") },
		"PUSH_PROMISE": func(f *frames, s uint32) {
			f.rawFrame(http2.FramePushPromise, http2.FlagPushPromiseEndHeaders, s, "\x00\x00\x00\x02\x88")
		},
		"HPACK that is none": func(f *frames, s uint32) {
			f.rawFrame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, s, "\xff\xff\xff\xff\xff\xff")
		},
	}
	var seen atomic.Int32
	p, _, host := insideFrames(t, "", func(_ int, f *frames) {
		f.ReadMetaHeaders.SetMaxStringLength(1 << 21)
		for stream, fields := range f.requests() {
			seen.Add(1)
			row, ok := rows[fields["row"]]
			if !ok {
				t.Errorf("asked for %v", fields)
				return
			}
			row(f, stream)
		}
	})
	for name := range rows {
		f := p.frames(host)
		f.ask(1, true, "GET", host, "/", "row: "+name)
		h := f.hear(t, 1)
		t.Run(name, func(t *testing.T) {
			h.expect(t, 502, "attempts=1; stop=permanent; error=http_protocol_error")
		})
		f.nc.Close()
	}
	want(t, "attempts seen", int(seen.Load()), len(rows))
	p.wantMetric(float64(len(rows)), "mulligan_attempts_total", "result=protocol_error")
}

func manyInterim(f *frames, stream uint32) {
	for range 40 {
		f.headers(stream, false, ":status: 103", "link: </a>")
	}
	f.headers(stream, true, ":status: 200")
}

func (f *frames) rawFrame(kind http2.FrameType, flags http2.Flags, stream uint32, payload string) {
	f.write.Lock()
	defer f.write.Unlock()
	_ = f.WriteRawFrame(kind, flags, stream, []byte(payload))
}

// Trailers, 1xx, repeated fields, HEAD, 204 and 304 pass as frames.
func TestMessagesFrameByFrame(t *testing.T) {
	t.Parallel()
	got := make(chan map[string]string, 20)
	p, _, host := insideFrames(t, "", func(_ int, f *frames) {
		for stream, fields := range f.requests() {
			got <- fields
			switch fields[":path"] {
			case "/trailers":
				f.headers(stream, false, ":status: 200", "x-repeated: 1", "x-repeated: 2")
				f.data(stream, false, "body")
				f.headers(stream, true, "sum: 42", "x-more: yes")
			case "/trailers-only":
				f.headers(stream, true, ":status: 200", "content-type: application/grpc", "grpc-status: 0")
			case "/hints":
				f.headers(stream, false, ":status: 103", "link: </a>")
				f.headers(stream, false, ":status: 103", "link: </b>")
				f.headers(stream, true, ":status: 204")
			case "/head":
				f.headers(stream, true, ":status: 200", "content-length: 1234")
			case "/304":
				f.headers(stream, true, ":status: 304", "content-length: 1234", "etag: \"x\"")
			case "/cookies":
				f.headers(stream, true, ":status: 200", "set-cookie: a=1", "set-cookie: b=2")
			case "/upload":
				for {
					frame := f.next()
					if d, ok := frame.(*http2.DataFrame); ok {
						f.credit(0, max(1, len(d.Data())))
						if d.StreamEnded() {
							f.fine(stream, "no trailers")
							break
						}
					}
					if h, ok := frame.(*http2.MetaHeadersFrame); ok {
						f.fine(stream, fieldsOf(h)["sum"])
						break
					}
					if frame == nil {
						return
					}
				}
			}
		}
	})
	f := p.frames(host)
	f.ask(1, true, "GET", host, "/trailers", "te: trailers")
	h := f.hear(t, 1)
	h.expect(t, 200, "")
	want(t, "trailers", h.trailer["sum"]+h.trailer["x-more"], "42yes")
	want(t, "body", h.body, "body")
	want(t, "repeated fields", h.head["x-repeated"], "1, 2")
	r := soon(t, "the request", got)
	want(t, "TE at the upstream", r["te"], "trailers")
	want(t, ":scheme and :authority", r[":scheme"]+" "+r[":authority"], "https "+host)
	if r["user-agent"] != "" || r["accept-encoding"] != "" || r["x-forwarded-for"] != "" || !strings.HasPrefix(r["via"], "2.0 mulligan-") {
		t.Errorf("the request got %v", r)
	}

	f.ask(3, true, "GET", host, "/trailers-only")
	h = f.hear(t, 3)
	if h.head["grpc-status"] != "0" || h.body != "" || h.trailer != nil || !h.ended {
		t.Errorf("trailers-only: %v", h)
	}
	for i, method := range []string{"GET", "POST"} { // held back with the final head, or at once
		f.ask(uint32(5+2*i), true, method, host, "/hints")
		h = f.hear(t, uint32(5+2*i))
		if len(h.interim) != 2 || h.interim[0]["link"] != "</a>" || h.interim[1]["link"] != "</b>" || h.head[":status"] != "204" {
			t.Errorf("1xx of a %s: %v", method, h)
		}
	}
	f.ask(9, true, "HEAD", host, "/head")
	h = f.hear(t, 9)
	want(t, "Content-Length of a HEAD", h.head["content-length"], "1234")
	want(t, "HEAD ends", h.ended, true)
	f.ask(11, true, "GET", host, "/304")
	h = f.hear(t, 11)
	want(t, "304", h.head[":status"]+h.head["etag"]+h.body, "304\"x\"")
	f.ask(13, true, "GET", host, "/cookies", "cookie: a=1", "cookie: b=2", "cookie: c=3; d=4")
	h = f.hear(t, 13)
	want(t, "Set-Cookie lines", h.head["set-cookie"], "a=1, b=2")
	for fields := range got {
		if fields[":path"] == "/cookies" {
			want(t, "Cookie", strings.ReplaceAll(fields["cookie"], ", ", "; "), "a=1; b=2; c=3; d=4")
			break
		}
	}
	f.ask(15, false, "POST", host, "/upload", "trailer: sum")
	f.data(15, false, "data")
	f.headers(15, true, "sum: 43")
	want(t, "the request's trailers", f.hear(t, 15).body, "43")

	// The same to a client of HTTP/1.1.
	c := p.secure1(host)
	one := c.ask("GET", "/trailers", host, "TE: trailers", "Connection: TE")
	want(t, "HTTP/1.1: trailers", strings.Join(valuesOf(one.Trailer, "sum"), ","), "42")
	want(t, "HTTP/1.1: repeated fields", strings.Join(one.all("x-repeated"), "|"), "1|2")
	want(t, "HTTP/1.1: body", one.Body, "body")
	if one.Line != "HTTP/1.1 200 OK" && one.Line != "HTTP/1.1 200 " {
		t.Errorf("status line %q", one.Line)
	}
	one = c.ask("HEAD", "/head", host)
	want(t, "HTTP/1.1: Content-Length of a HEAD", one.get("Content-Length"), "1234")
	one = c.ask("GET", "/cookies", host)
	want(t, "HTTP/1.1: Set-Cookie lines", strings.Join(one.all("Set-Cookie"), "|"), "a=1|b=2")
	c.send(lines("GET /hints HTTP/1.1", "Host: "+host))
	want(t, "HTTP/1.1: first 1xx", c.next("GET").get("Link"), "</a>")
	want(t, "HTTP/1.1: second 1xx", c.next("GET").get("Link"), "</b>")
	want(t, "HTTP/1.1: then", c.next("GET").Status, 204)
	c.send(lines("POST /upload HTTP/1.1", "Host: "+host, "Transfer-Encoding: chunked", "Trailer: Sum") + "4\r\ndata\r\n0\r\nSum: 44\r\n\r\n")
	want(t, "HTTP/1.1: the request's trailers", c.next("POST").Body, "44")
}
