package h2

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// raw is a peer that says frames, one by one, and reads those that come.
type raw struct {
	testing.TB
	*http2.Framer
	nc  net.Conn
	enc *hpack.Encoder
	buf bytes.Buffer
	dec *hpack.Decoder
}

func newRaw(t testing.TB, nc net.Conn) *raw {
	r := &raw{TB: t, Framer: http2.NewFramer(nc, nc), nc: nc}
	r.enc = hpack.NewEncoder(&r.buf)
	r.dec = hpack.NewDecoder(4096, nil)
	nc.SetReadDeadline(time.Now().Add(patience))
	return r
}

// rawServer is the peer of a client of ours, with the SETTINGS exchanged.
func rawServer(t testing.TB, settings ...http2.Setting) (*ClientConn, *raw) {
	t.Helper()
	a, b := tcpPair(t)
	c := dial(t, a, ClientConfig{})
	r := newRaw(t, b)
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(b, preface); err != nil || string(preface) != http2.ClientPreface {
		t.Fatalf("preface %q %v", preface, err)
	}
	r.greet(settings...)
	return c, r
}

// rawClient is the peer of a server of ours.
func rawClient(t testing.TB, cfg ServerConfig, handle func(*ServerStream)) *raw {
	t.Helper()
	a, b := tcpPair(t)
	serve(t, b, cfg, handle)
	r := newRaw(t, a)
	a.Write([]byte(http2.ClientPreface))
	r.greet()
	return r
}

// greet exchanges SETTINGS, and takes the connection's first WINDOW_UPDATE.
func (r *raw) greet(settings ...http2.Setting) {
	r.Helper()
	r.WriteSettings(settings...)
	for seen := 0; seen < 2; {
		switch f := r.frame().(type) {
		case *http2.SettingsFrame:
			if f.IsAck() {
				seen++
			} else {
				r.WriteSettingsAck()
			}
		case *http2.WindowUpdateFrame:
			seen++
		default:
			r.Fatalf("while greeting: %v", f)
		}
	}
}

// frame reads a frame.
func (r *raw) frame() http2.Frame {
	r.Helper()
	f, err := r.ReadFrame()
	if err != nil {
		r.Fatalf("reading a frame: %v", err)
	}
	return f
}

// until reads frames until one for which ok is true.
func until[F http2.Frame](r *raw, ok func(F) bool) F {
	r.Helper()
	for {
		if f, is := r.frame().(F); is && ok(f) {
			return f
		}
	}
}

// want reads frames until one of the type comes.
func want[F http2.Frame](r *raw) F {
	r.Helper()
	return until(r, func(F) bool { return true })
}

// wantReset reads until a RST_STREAM, which must be this.
func (r *raw) wantReset(id uint32, code http2.ErrCode) {
	r.Helper()
	if f := want[*http2.RSTStreamFrame](r); f.StreamID != id || f.ErrCode != code {
		r.Errorf("RST_STREAM %d %v, want %d %v", f.StreamID, f.ErrCode, id, code)
	}
}

// wantGoAway reads until a GOAWAY, which must be this.
func (r *raw) wantGoAway(code http2.ErrCode) {
	r.Helper()
	if f := want[*http2.GoAwayFrame](r); f.ErrCode != code {
		r.Errorf("GOAWAY %v %q, want %v", f.ErrCode, f.DebugData(), code)
	}
}

// wantEnd reads until the connection ends.
func (r *raw) wantEnd() {
	r.Helper()
	for {
		_, err := r.ReadFrame()
		if t, ok := err.(net.Error); ok && t.Timeout() {
			r.Fatal("the connection does not end")
		}
		if err != nil {
			return
		}
	}
}

// block encodes fields: name, value, name, value ...
func (r *raw) block(fields ...string) []byte {
	r.buf.Reset()
	for i := 0; i < len(fields); i += 2 {
		r.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return bytes.Clone(r.buf.Bytes())
}

// headers sends a head.
func (r *raw) headers(id uint32, end bool, fields ...string) {
	r.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: r.block(fields...), EndStream: end, EndHeaders: true})
}

// request sends the head of one.
func (r *raw) request(id uint32, end bool, more ...string) {
	method := "GET"
	if !end {
		method = "POST"
	}
	r.headers(id, end, append([]string{":method", method, ":scheme", "https", ":path", "/", ":authority", "up.test"}, more...)...)
}

// fields decodes a head.
func (r *raw) fields(f *http2.HeadersFrame) (all string) {
	r.Helper()
	fields, err := r.dec.DecodeFull(f.HeaderBlockFragment())
	if err != nil {
		r.Fatal(err)
	}
	for _, f := range fields {
		all += f.Name + "=" + f.Value + ";"
	}
	return all
}
