package blackbox

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// frames is one end of an HTTP/2 connection that a test drives frame by frame.
// Only SETTINGS and PING are answered by themselves, while it reads.
type frames struct {
	*http2.Framer
	nc    net.Conn
	write sync.Mutex // of what is sent
	block bytes.Buffer
	enc   *hpack.Encoder
	limit uint32 // the peer's SETTINGS_MAX_CONCURRENT_STREAMS; 0 = not said

	patience time.Duration // for the next frame; 0: the connection has a deadline for all
}

func newFrames(nc net.Conn) *frames {
	f := &frames{nc: nc, Framer: http2.NewFramer(nc, nc)}
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	f.MaxHeaderListSize = 1 << 20
	f.enc = hpack.NewEncoder(&f.block)
	return f
}

// frames is a client inside of a tunnel, past its preface and SETTINGS.
func (i *inside) frames(authority string, settings ...http2.Setting) *frames {
	i.t.Helper()
	return asClient(i.t, i.secure(authority, "h2"), settings...)
}

func asClient(t *testing.T, nc *tls.Conn, settings ...http2.Setting) *frames {
	t.Helper()
	if p := nc.ConnectionState().NegotiatedProtocol; p != "h2" {
		t.Fatalf("ALPN chose %q", p)
	}
	f := newFrames(nc)
	f.patience = 2 * patience
	_, _ = io.WriteString(nc, http2.ClientPreface)
	_ = f.WriteSettings(settings...)
	return f
}

// framesUpstream is an https server that speaks nothing but HTTP/2, by a script
// for each connection; n is the connection's number, from 1.
func framesUpstream(t *testing.T, ca *authority, script func(n int, f *frames), settings ...http2.Setting) *upstream {
	t.Helper()
	config := rightConfig(ca)
	config.Certificates = []tls.Certificate{ca.leaf(time.Now().Add(time.Hour), "127.0.0.1", "api.localhost")}
	config.NextProtos = []string{"h2"}
	return upstreamOn(t, tls.NewListener(listen(t, "127.0.0.1:0"), config), func(p *peer) {
		preface := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(p.Conn, preface); err != nil || string(preface) != http2.ClientPreface {
			return
		}
		f := newFrames(p.Conn)
		_ = f.WriteSettings(settings...)
		script(p.number, f)
	})
}

// headers sends a HEADERS frame; fields are ":status: 200" and the like.
func (f *frames) headers(stream uint32, end bool, fields ...string) {
	f.write.Lock()
	defer f.write.Unlock()
	f.block.Reset()
	for _, line := range fields {
		name, value, _ := strings.Cut(line[1:], ": ") // behind the colon of a pseudo-field
		_ = f.enc.WriteField(hpack.HeaderField{Name: line[:1] + name, Value: value})
	}
	const most = 16 << 10
	block := bytes.Clone(f.block.Bytes())
	first := block[:min(len(block), most)]
	rest := block[len(first):]
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, EndStream: end, EndHeaders: len(rest) == 0, BlockFragment: first})
	for len(rest) > 0 {
		next := rest[:min(len(rest), most)]
		rest = rest[len(next):]
		_ = f.WriteContinuation(stream, len(rest) == 0, next)
	}
}

// ask sends a request's HEADERS.
func (f *frames) ask(stream uint32, end bool, method, authority, path string, fields ...string) {
	f.headers(stream, end, append([]string{":method: " + method, ":scheme: https", ":authority: " + authority, ":path: " + path}, fields...)...)
}

func (f *frames) data(stream uint32, end bool, text string) {
	f.write.Lock()
	defer f.write.Unlock()
	_ = f.WriteData(stream, end, []byte(text))
}

func (f *frames) reset(stream uint32, code http2.ErrCode) {
	f.write.Lock()
	defer f.write.Unlock()
	_ = f.WriteRSTStream(stream, code)
}

func (f *frames) goAway(last uint32, code http2.ErrCode) {
	f.write.Lock()
	defer f.write.Unlock()
	_ = f.WriteGoAway(last, code, nil)
}

func (f *frames) credit(stream uint32, n int) {
	f.write.Lock()
	defer f.write.Unlock()
	_ = f.WriteWindowUpdate(stream, uint32(n))
}

// next reads a frame that is not about the connection alone; nil at its end.
// A frame of DATA is valid until the next one is read.
func (f *frames) next() http2.Frame {
	for {
		if f.patience > 0 {
			_ = f.nc.SetDeadline(time.Now().Add(f.patience))
		}
		frame, err := f.ReadFrame()
		if err != nil {
			var bad http2.StreamError
			if errors.As(err, &bad) {
				continue
			}
			return nil
		}
		f.write.Lock()
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				if n, ok := frame.Value(http2.SettingMaxConcurrentStreams); ok {
					f.limit = n
				}
				_ = f.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !frame.IsAck() {
				_ = f.WritePing(true, frame.Data)
			}
		case *http2.WindowUpdateFrame:
		default:
			f.write.Unlock()
			return frame
		}
		f.write.Unlock()
	}
}

// request reads up to the next HEADERS, and returns its stream and fields; 0 at
// the end of the connection.
func (f *frames) request() (stream uint32, fields map[string]string) {
	for {
		frame := f.next()
		if frame == nil {
			return 0, nil
		}
		if h, ok := frame.(*http2.MetaHeadersFrame); ok {
			return h.StreamID, fieldsOf(h)
		}
	}
}

// requests are the requests that come, until the end of the connection.
func (f *frames) requests() iter.Seq2[uint32, map[string]string] {
	return func(yield func(uint32, map[string]string) bool) {
		for {
			if stream, fields := f.request(); stream == 0 || !yield(stream, fields) {
				return
			}
		}
	}
}

func fieldsOf(h *http2.MetaHeadersFrame) map[string]string {
	fields := map[string]string{}
	for _, f := range h.Fields {
		if before, ok := fields[f.Name]; ok {
			f.Value = before + ", " + f.Value
		}
		fields[f.Name] = f.Value
	}
	return fields
}

// drained reads on until the other side ends the connection.
func (f *frames) drained() {
	for f.next() != nil {
	}
}

// heard is what a stream got.
type heard struct {
	interim []map[string]string // 1xx
	head    map[string]string   // nil: none
	body    string
	trailer map[string]string
	ended   bool // by END_STREAM
	reset   bool
	code    http2.ErrCode // of the reset
	gone    bool          // the connection ended first
}

func (h heard) String() string {
	return fmt.Sprintf("interim %v, head %v, %d bytes %.100q, trailer %v, ended %v, reset %v (%v), gone %v",
		h.interim, h.head, len(h.body), h.body, h.trailer, h.ended, h.reset, h.code, h.gone)
}

// done reports whether nothing more can come.
func (h heard) done() bool { return h.ended || h.reset || h.gone }

// hear reads until a stream is over, and gives credit for what came.
func (f *frames) hear(t *testing.T, stream uint32) heard {
	t.Helper()
	return f.hearAll(t, stream)[stream]
}

// hearAll reads until all of these streams are over.
func (f *frames) hearAll(t *testing.T, streams ...uint32) map[uint32]heard {
	t.Helper()
	all := map[uint32]heard{}
	left := func() (n int) {
		for _, s := range streams {
			if !all[s].done() {
				n++
			}
		}
		return n
	}
	for left() > 0 {
		frame := f.next()
		if frame == nil {
			for _, s := range streams {
				if h := all[s]; !h.done() {
					h.gone = true
					all[s] = h
				}
			}
			return all
		}
		id := frame.Header().StreamID
		h := all[id]
		h.take(t, frame)
		if d, ok := frame.(*http2.DataFrame); ok && len(d.Data()) > 0 {
			f.credit(0, len(d.Data()))
			if !h.done() {
				f.credit(id, len(d.Data()))
			}
		}
		all[id] = h
	}
	return all
}

// take adds one frame to what a stream got.
func (h *heard) take(t *testing.T, frame http2.Frame) {
	t.Helper()
	switch frame := frame.(type) {
	case nil:
		t.Fatalf("the connection ended after %v", h)
	case *http2.MetaHeadersFrame:
		fields := fieldsOf(frame)
		switch {
		case strings.HasPrefix(fields[":status"], "1"):
			h.interim = append(h.interim, fields)
		case h.head == nil:
			h.head = fields
		default:
			h.trailer = fields
		}
		h.ended = frame.StreamEnded()
	case *http2.DataFrame:
		h.body += string(frame.Data())
		h.ended = frame.StreamEnded()
	case *http2.RSTStreamFrame:
		if h.ended && frame.ErrCode == http2.ErrCodeNo {
			return // what is left of an upload is not wanted: RFC 9113 8.1
		}
		h.reset, h.code = true, frame.ErrCode
	}
}

// response is what was heard, as response's checks want it.
func (h heard) response() response {
	r := response{message: message{Body: h.body, Whole: h.ended && !h.reset}}
	fmt.Sscan(h.head[":status"], &r.Status)
	for name, value := range h.head {
		r.Fields = append(r.Fields, field{name, value})
	}
	return r
}

// expect checks the status and mulligan's account of it; see response.expect.
func (h heard) expect(t *testing.T, status int, account string) {
	t.Helper()
	if !h.ended || h.reset {
		t.Errorf("no whole answer: %v", h)
	}
	h.response().expect(t, status, account)
}

// expectProblem checks that mulligan itself answered.
func (h heard) expectProblem(t *testing.T, status int, account string) {
	t.Helper()
	h.expect(t, status, account)
	h.response().expectProblem(t, status, account)
}
