package h2

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"mulligan/proxy/h1"
)

// cook makes frames of bytes, most of which are nearly right: four bytes say which
// frame, and what follows is its payload, or which fields.
func cook(b []byte) []byte {
	var out, block bytes.Buffer
	fr := http2.NewFramer(&out, nil)
	fr.AllowIllegalWrites = true
	enc := hpack.NewEncoder(&block)
	for len(b) >= 4 {
		kind, id, flags, n := b[0]%16, uint32(b[1]%8), http2.Flags(b[2]), int(b[3])
		payload := b[4:min(len(b), 4+n)]
		b = b[4+len(payload):]
		switch kind {
		case 0, 1:
			fr.WriteRawFrame(http2.FrameData, flags&9, id, payload)
		case 2, 3, 4, 5:
			block.Reset()
			for _, c := range payload {
				f := menu[int(c)%len(menu)]
				enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
			}
			fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: flags&4 == 0, EndStream: flags&1 != 0})
		case 6:
			fr.WriteContinuation(id, flags&4 != 0, payload)
		case 7:
			fr.WriteRSTStream(id, http2.ErrCode(n))
		case 8:
			fr.WriteSettings(http2.Setting{ID: http2.SettingID(n), Val: uint32(flags) << 8})
		case 9:
			fr.WriteWindowUpdate(id, uint32(n)<<flags)
		case 10:
			fr.WriteGoAway(id, http2.ErrCode(n), nil)
		case 11:
			fr.WritePing(flags&1 != 0, [8]byte(append(payload, make([]byte, 8)...)))
		case 12:
			fr.WriteSettingsAck()
		case 13:
			fr.WriteRawFrame(http2.FrameType(n), flags, id, payload)
		default:
			out.Write(payload)
		}
	}
	return out.Bytes()
}

var menu = [...][2]string{
	{":method", "GET"}, {":method", "POST"}, {":scheme", "https"}, {":path", "/"}, {":path", "/answer"}, {":path", "/half"},
	{":authority", "up.test"}, {":status", "200"}, {":status", "103"}, {":status", "204"}, {"content-length", "3"},
	{"content-length", "0"}, {"cookie", "a=b"}, {"x-y", "z"}, {"Bad", ""}, {"host", "up.test"}, {"te", "trailers"},
}

// seeds are messages that are right, as the fuzzer would say them.
var seeds = [][]byte{
	{2, 1, 1, 4, 0, 2, 3, 6},
	{2, 1, 0, 5, 1, 2, 3, 6, 10, 0, 1, 0, 2, 'a', 'b', 0, 1, 1, 1, 'c', 2, 3, 1, 4, 0, 2, 4, 6, 7, 3, 0, 8},
	{2, 1, 0, 2, 7, 10, 0, 1, 9, 4, 1, 'a', 'b', 'c'},
	{2, 1, 0, 1, 8, 2, 1, 0, 1, 7, 0, 1, 0, 3, 'a', 'b', 'c', 2, 1, 1, 1, 13, 10, 1, 0, 0},
	{8, 0, 2, 4, 9, 0, 3, 200, 11, 0, 0, 0, 2, 1, 4, 3, 0, 2, 3, 6, 1, 4, 0, 7, 1, 0, 8, 10, 7, 0, 0},
}

func FuzzServer(f *testing.F) {
	for _, s := range seeds {
		f.Add(s, true)
		f.Add(cook(s), false)
	}
	f.Fuzz(func(t *testing.T, b []byte, raw bool) {
		if raw {
			b = cook(b)
		}
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe()
			go io.Copy(io.Discard, near)
			var wg sync.WaitGroup
			wg.Go(func() {
				near.Write([]byte(http2.ClientPreface))
				near.Write(cook([]byte{8, 0, 0, 1}))
				near.Write(b)
				time.Sleep(time.Second)
				near.Close()
			})
			c := NewServerConn(far, ServerConfig{MaxStreams: 4, MaxHead: 300})
			c.Serve(fuzzHandler)
			wg.Wait()
			if len(c.streams) != 0 || c.handlers != 0 || c.zombies != 0 || c.Streams() != 0 {
				t.Errorf("left: %d streams, %d handlers, %d zombies", len(c.streams), c.handlers, c.zombies)
			}
		})
	})
}

// fuzzHandler answers before, after or amid the request's body.
func fuzzHandler(s *ServerStream) {
	req, err := s.ReadRequest()
	if err != nil {
		answer(s, 431, "")
		return
	}
	switch string(req.Target) {
	case "/answer":
		answer(s, 200, "at once")
	case "/half":
		s.NextBody()
		s.StatusLine(1, 200, nil)
		s.EndHead(h1.Chunked, 0)
		s.Body(make([]byte, 70_000))
	default:
		body, err := readAll(s)
		if err == nil && req.Framing == h1.Length && int64(len(body)) != req.ContentLength {
			panic("a body of another length is given as whole")
		}
		answer(s, 200, body)
	}
}

func FuzzClient(f *testing.F) {
	for _, s := range seeds {
		f.Add(s, true)
		f.Add(cook(s), false)
	}
	f.Fuzz(func(t *testing.T, b []byte, raw bool) {
		if raw {
			b = cook(b)
		}
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe()
			closed := 0
			c := NewClientConn(near, ClientConfig{OnClose: func() { closed++ }, OnRoom: func() {}})
			go io.Copy(io.Discard, far)
			var wg sync.WaitGroup
			for i := range 3 {
				s := c.Open()
				wg.Go(func() { fuzzRequest(s, i) })
			}
			synctest.Wait() // the requests are out
			far.Write(cook([]byte{8, 0, 0, 1}))
			far.Write(b)
			time.Sleep(time.Second)
			far.Close()
			wg.Wait()
			synctest.Wait()
			if closed != 1 || c.Streams() != 0 || len(c.unsent) != 0 || len(c.streams) != 0 {
				t.Errorf("closed %d times, %d streams", closed, c.Streams())
			}
		})
	})
}

func fuzzRequest(s *ClientStream, i int) {
	defer s.Close()
	method := []string{"GET", "HEAD", "POST"}[i]
	s.RequestLine(method, []byte("/"))
	s.FieldString("Host", "up.test")
	s.EndHead([]h1.Framing{h1.NoBody, h1.NoBody, h1.Chunked}[i], 0)
	resp, err := s.FinishAndReadResponse(make([]byte, 10_000*i*i), nil, method)
	for err == nil && resp.Status < 200 {
		resp, err = s.ReadResponse(method)
	}
	if err != nil {
		return
	}
	body, err := readAll(s)
	if err == nil && resp.Framing == h1.Length && int64(len(body)) != resp.ContentLength {
		panic("a body of another length is given as whole")
	}
}

// FuzzRequest: what is taken as a request here is one for the strict reader of
// HTTP/1.1 too, with the same words.
func FuzzRequest(f *testing.F) {
	f.Add("GET", "/", "up.test", "a", "b", "", "")
	f.Add("OPTIONS", "*", "[::1]:80", "host", "[::1]:80", "content-length", "3")
	f.Add("M", "/\xff?", "%41", "te", "trailers", "cookie", "x\ty")
	f.Fuzz(func(t *testing.T, method, path, authority, name1, value1, name2, value2 string) {
		h := head{limit: 1 << 16}
		for _, f := range [][2]string{{":method", method}, {":scheme", "https"}, {":path", path}, {":authority", authority}, {name1, value1}, {name2, value2}} {
			h.add(hpack.HeaderField{Name: f[0], Value: f[1]})
		}
		var req h1.Request
		if h.tooLarge() || h.request(&req, false) != nil {
			return
		}
		var text bytes.Buffer
		fmt.Fprintf(&text, "%s %s HTTP/1.1\r\n", req.Method, req.Target)
		for i := range req.Header {
			fmt.Fprintf(&text, "%s: %s\r\n", req.Header[i].Name, req.Header[i].Value)
		}
		text.WriteString("\r\n")
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		go near.Write(text.Bytes())
		old, err := h1.NewServerConn(far, h1.Limits{Head: 1 << 20}).ReadRequest()
		if err != nil {
			t.Fatalf("%q: %v", text.String(), err)
		}
		if old.Method != req.Method || !bytes.Equal(old.Target, req.Target) || len(old.Header) != len(req.Header) || req.Framing == h1.Length && old.ContentLength != req.ContentLength {
			t.Fatalf("%q: %+v", text.String(), old)
		}
		for i := range req.Header {
			if !bytes.Equal(old.Header[i].Value, req.Header[i].Value) || !bytes.Equal(old.Header[i].Name, req.Header[i].Name) {
				t.Errorf("%q became %q", req.Header[i].Value, old.Header[i].Value)
			}
		}
	})
}
