package h2

import (
	"errors"
	"io"
	"net"
	"testing"

	"golang.org/x/net/http2"

	"mulligan/proxy/h1"
)

// asked is a client with one request that a raw server has.
func asked(t *testing.T, settings ...http2.Setting) (*ClientConn, *ClientStream, *raw) {
	t.Helper()
	c, r := rawServer(t, settings...)
	s := open(t, c)
	get(s, "/")
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if f := want[*http2.HeadersFrame](r); f.StreamID != 1 || !f.StreamEnded() {
		t.Fatalf("%v", f)
	}
	return c, s, r
}

// wantError checks an error's kind and code.
func wantError(t *testing.T, err error, kind h1.Kind, code http2.ErrCode) {
	t.Helper()
	var e *h1.Error
	if !errors.As(err, &e) || e.Kind != kind || e.Code != uint32(code) {
		t.Errorf("%v, want kind %q with %v", err, kind, code)
	}
}

// TestErrorKinds: what happened is told by frame.
func TestErrorKinds(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(r *raw)
		kind h1.Kind
		code http2.ErrCode
	}{
		{"refused", func(r *raw) { r.WriteRSTStream(1, http2.ErrCodeRefusedStream) }, h1.Refused, http2.ErrCodeRefusedStream},
		{"1.1 required", func(r *raw) { r.WriteRSTStream(1, http2.ErrCodeHTTP11Required) }, h1.Refused, http2.ErrCodeHTTP11Required},
		{"reset", func(r *raw) { r.WriteRSTStream(1, http2.ErrCodeEnhanceYourCalm) }, h1.ResetBeforeHeader, http2.ErrCodeEnhanceYourCalm},
		{"goaway above", func(r *raw) { r.WriteGoAway(0, http2.ErrCodeNo, nil) }, h1.Refused, http2.ErrCodeNo},
		{"goaway above, with a code", func(r *raw) { r.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, nil) }, h1.Refused, http2.ErrCodeEnhanceYourCalm},
		{"goaway below, end", func(r *raw) { r.WriteGoAway(1, http2.ErrCodeInternal, nil); r.nc.Close() }, h1.ResetBeforeHeader, http2.ErrCodeInternal},
		{"end", func(r *raw) { r.nc.Close() }, h1.ResetBeforeHeader, 0},
		{"refused after a 1xx", func(r *raw) {
			r.headers(1, false, ":status", "103")
			r.WriteRSTStream(1, http2.ErrCodeRefusedStream)
		}, h1.Refused, http2.ErrCodeRefusedStream},
		{"no HTTP/2", func(r *raw) { r.nc.Write([]byte("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")) }, h1.Malformed, 0},
		{"push", func(r *raw) {
			r.WritePushPromise(http2.PushPromiseParam{StreamID: 1, PromiseID: 2, BlockFragment: r.block(":method", "GET"), EndHeaders: true})
		}, h1.Malformed, 0},
		{"no such stream", func(r *raw) { r.headers(7, true, ":status", "200") }, h1.Malformed, 0},
		{"data before a head", func(r *raw) { r.WriteData(1, true, []byte("x")) }, h1.Malformed, 0},
		{"101", func(r *raw) { r.headers(1, false, ":status", "101") }, h1.Malformed, 0},
		{"1xx with an end", func(r *raw) { r.headers(1, true, ":status", "100") }, h1.Malformed, 0},
		{"no status", func(r *raw) { r.headers(1, true, "a", "b") }, h1.Malformed, 0},
		{"long status", func(r *raw) { r.headers(1, true, ":status", "0200") }, h1.Malformed, 0},
		{"capitals", func(r *raw) { r.headers(1, true, ":status", "200", "A", "b") }, h1.Malformed, 0},
		{"connection", func(r *raw) { r.headers(1, true, ":status", "200", "connection", "close") }, h1.Malformed, 0},
		{"LF", func(r *raw) { r.headers(1, true, ":status", "200", "a", "b\nc") }, h1.Malformed, 0},
		{"two lengths", func(r *raw) { r.headers(1, false, ":status", "200", "content-length", "1", "content-length", "2") }, h1.Malformed, 0},
		{"shorter", func(r *raw) { r.headers(1, true, ":status", "200", "content-length", "1") }, h1.Malformed, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, s, r := asked(t)
			test.do(r)
			var err error
			for err == nil {
				_, err = s.ReadResponse("GET")
			}
			wantError(t, err, test.kind, test.code)
		})
	}
}

// TestBodyErrors: the same in a body, where what came before is still read.
func TestBodyErrors(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(r *raw)
		kind h1.Kind
		code http2.ErrCode
	}{
		{"refused", func(r *raw) { r.WriteRSTStream(1, http2.ErrCodeRefusedStream) }, h1.Broken, http2.ErrCodeRefusedStream},
		{"no error", func(r *raw) { r.WriteRSTStream(1, http2.ErrCodeNo) }, h1.Broken, 0},
		{"end", func(r *raw) { r.nc.Close() }, h1.Broken, 0},
		{"longer", func(r *raw) { r.WriteData(1, true, []byte("lf and more")) }, h1.Malformed, 0},
		{"shorter", func(r *raw) { r.WriteData(1, true, []byte("l")) }, h1.Malformed, 0},
		{"trailers too early", func(r *raw) { r.headers(1, true, "a", "b") }, h1.Malformed, 0},
		{"trailers without an end", func(r *raw) { r.headers(1, false, "a", "b") }, h1.Malformed, 0},
		{"pseudo-fields in trailers", func(r *raw) { r.headers(1, true, ":status", "200") }, h1.Malformed, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, s, r := asked(t)
			r.headers(1, false, ":status", "200", "content-length", "4")
			r.WriteData(1, false, []byte("ha"))
			if _, err := s.ReadResponse("GET"); err != nil {
				t.Fatal(err)
			}
			p, err := s.NextBody()
			if string(p) != "ha" || err != nil {
				t.Fatalf("%q %v", p, err)
			}
			test.do(r)
			_, err = s.NextBody()
			for err == nil {
				_, err = s.NextBody()
			}
			wantError(t, err, test.kind, test.code)
			if s.BodyDone() {
				t.Error("a broken body is said to be done")
			}
		})
	}
}

// TestUnwritten: of what nothing went out, nothing can have been seen.
func TestUnwritten(t *testing.T) {
	t.Run("the connection had ended", func(t *testing.T) {
		closed := make(chan struct{})
		a, b := tcpPair(t)
		c := dial(t, a, ClientConfig{OnClose: func() { close(closed) }})
		s := open(t, c)
		get(s, "/")
		b.Close()
		wait(t, closed, "the end")
		_, err := s.FinishAndReadResponse(nil, nil, "GET")
		wantError(t, err, h1.NothingWritten, 0)
		if s.Written() != 0 || !s.Failed() || s.Finished() {
			t.Error("something is said to be written")
		}
		if c.Open() != nil || usable(c) {
			t.Error("it can still be used")
		}
	})
	t.Run("the server goes away", func(t *testing.T) {
		c, r := rawServer(t)
		s, old := open(t, c), open(t, c)
		get(old, "/")
		old.Flush()
		want[*http2.HeadersFrame](r)
		r.WriteGoAway(1, http2.ErrCodeNo, nil)
		eventually(t, "no more streams", func() bool { return !usable(c) })
		get(s, "/")
		_, err := s.FinishAndReadResponse(nil, nil, "GET")
		wantError(t, err, h1.NothingWritten, 0)
		r.headers(1, true, ":status", "204")
		if resp, err := old.ReadResponse("GET"); err != nil || resp.Status != 204 {
			t.Errorf("the old stream: %v", err)
		}
		r.wantEnd()
	})
}

// TestResetAfterTheEnd: a server may not want the rest of a request that it has
// answered (RFC 9113 section 8.1).
func TestResetAfterTheEnd(t *testing.T) {
	c, r := rawServer(t)
	s := open(t, c)
	s.RequestLine("POST", []byte("/"))
	s.FieldString("Host", "up.test")
	s.EndHead(h1.Chunked, 0)
	s.Flush()
	want[*http2.HeadersFrame](r)
	r.headers(1, false, ":status", "200")
	r.WriteData(1, true, []byte("done"))
	r.WriteRSTStream(1, http2.ErrCodeNo)
	eventually(t, "the request has failed", s.Failed)
	if resp, err := s.ReadResponse("POST"); err != nil || resp.Status != 200 {
		t.Fatal(err)
	}
	if got, err := readAll(s); got != "done" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	if err := s.Body([]byte("x")); err == nil || s.Finished() {
		t.Error("more of the request can be written")
	}
	if c.Streams() != 0 {
		t.Error("the stream is still open")
	}
}

// TestNetworkError: it stays in the chain.
func TestNetworkError(t *testing.T) {
	_, s, r := asked(t)
	r.nc.(*net.TCPConn).SetLinger(0)
	r.nc.Close()
	_, err := s.ReadResponse("GET")
	wantError(t, err, h1.ResetBeforeHeader, 0)
	var op *net.OpError
	if !errors.As(err, &op) {
		t.Errorf("%v", err)
	}
	_, s, r = asked(t)
	r.nc.Close()
	if _, err := s.ReadResponse("GET"); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v", err)
	}
}

// TestServerSeesReset: the request's reader and the response's writer are told.
func TestServerSeesReset(t *testing.T) {
	got := make(chan error, 2)
	r := rawClient(t, ServerConfig{}, func(s *ServerStream) {
		_, err := readAll(s)
		got <- err
		if !s.PeerGone() {
			t.Error("the client has not left")
		}
		got <- answer(s, 200, "x")
	})
	r.request(1, false)
	r.WriteData(1, false, []byte("x"))
	r.WriteRSTStream(1, http2.ErrCodeCancel)
	for range 2 {
		wantError(t, <-got, h1.Broken, http2.ErrCodeCancel)
	}
}

// TestServerSeesEnd: a client that closes its writing side is gone.
func TestServerSeesEnd(t *testing.T) {
	got := make(chan error, 2)
	r := rawClient(t, ServerConfig{}, func(s *ServerStream) {
		_, err := readAll(s)
		got <- err
		eventually(t, "gone", s.PeerGone)
		got <- answer(s, 200, "x")
	})
	r.request(1, false)
	r.nc.(*net.TCPConn).CloseWrite()
	for range 2 {
		wantError(t, <-got, h1.Broken, 0)
	}
}

// TestBadRequests are reset, and no handler hears of them.
func TestBadRequests(t *testing.T) {
	base := []string{":method", "GET", ":scheme", "https", ":path", "/", ":authority", "up.test"}
	with := func(pairs ...string) []string {
		all := append([]string{}, base...)
		for i := 0; i < len(pairs); i += 2 {
			found := false
			for j := 0; j < len(all); j += 2 {
				if all[j] == pairs[i] && pairs[i][0] == ':' {
					all[j+1], found = pairs[i+1], true
				}
			}
			if !found {
				all = append(all, pairs[i], pairs[i+1])
			}
		}
		return all
	}
	for _, test := range []struct {
		name   string
		fields []string
	}{
		{"capitals", with("A", "b")},
		{"empty name", with("", "b")},
		{"space in a name", with("a b", "c")},
		{"LF", with("a", "b\nc")},
		{"NUL", with("a", "b\x00c")},
		{"control", with("a", "b\x01c")},
		{"connection", with("connection", "close")},
		{"transfer-encoding", with("transfer-encoding", "chunked")},
		{"upgrade", with("upgrade", "h2c")},
		{"keep-alive", with("keep-alive", "1")},
		{"proxy-connection", with("proxy-connection", "close")},
		{"te", with("te", "gzip")},
		{"te, two", with("te", "trailers, gzip")},
		{"no method", base[2:]},
		{"no path", append(append([]string{}, base[:4]...), base[6:]...)},
		{"no scheme", append(append([]string{}, base[:2]...), base[4:]...)},
		{"no host", base[:6]},
		{"twice", append([]string{":method", "GET"}, base...)},
		{"status", append([]string{":status", "200"}, base...)},
		{"protocol", append([]string{":protocol", "websocket"}, base...)},
		{"late", append([]string{"a", "b"}, base...)},
		{"connect", with(":method", "CONNECT")},
		{"connect alone", []string{":method", "CONNECT", ":authority", "up.test:443"}},
		{"bad method", with(":method", "G T")},
		{"empty path", with(":path", "")},
		{"absolute", with(":path", "https://up.test/")},
		{"star", with(":path", "*")},
		{"space in path", with(":path", "/a b")},
		{"fragment", with(":path", "/a#b")},
		{"bad host", with(":authority", "up test")},
		{"user info", with(":authority", "u@up.test")},
		{"empty host", with(":authority", "")},
		{"host differs", with("host", "other.test")},
		{"length", with("content-length", "x")},
		{"signed length", with("content-length", "+1")},
		{"lengths", with("content-length", "1", "content-length", "2")},
		{"list of lengths", with("content-length", "1, 1")},
		{"short", with("content-length", "1")},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := rawClient(t, ServerConfig{}, func(s *ServerStream) {
				if req, _ := s.ReadRequest(); len(req.Header) != 2 {
					t.Errorf("a handler was called: %s", text(req.Header))
				}
				answer(s, 200, "")
			})
			r.headers(1, true, test.fields...)
			r.wantReset(1, http2.ErrCodeProtocol)
			r.request(3, true, "fine", "1") // the connection, and its HPACK table, live on
			if f := want[*http2.HeadersFrame](r); f.StreamID != 3 {
				t.Errorf("%v", f)
			}
		})
	}
}

// TestGoodRequests are unusual but right.
func TestGoodRequests(t *testing.T) {
	for _, test := range []struct {
		fields []string
		want   string
	}{
		{[]string{":method", "OPTIONS", ":scheme", "https", ":path", "*", ":authority", "up.test"}, "OPTIONS * Host=up.test;"},
		{[]string{":path", "/", ":scheme", "http", ":method", "GET", "host", "up.test:1"}, "GET http://up.test:1/ Host=up.test:1;"},
		{[]string{":path", "*", ":scheme", "HTTP", ":method", "OPTIONS", ":authority", "up.test"}, "OPTIONS http://up.test Host=up.test;"},
		{[]string{":method", "GET", ":scheme", "https", ":path", "/", ":authority", "[::1]:8", "a", " b ", "host", "[::1]:8"}, "GET / Host=[::1]:8;a=b;"},
		{[]string{":method", "M-1", ":scheme", "https", ":path", "//\xff?#"[:4], ":authority", "a", "cookie", "a", "b", "c", "cookie", "d", "cookie", "e"}, "M-1 //\xff? Host=a;cookie=a; d; e;b=c;"},
		{[]string{":method", "GET", ":scheme", "https", ":path", "/", ":authority", "a", "content-length", "0", "expect", "100-continue"}, "GET / Host=a;content-length=0;expect=100-continue;"},
	} {
		got := make(chan string, 1)
		r := rawClient(t, ServerConfig{}, func(s *ServerStream) {
			req, _ := s.ReadRequest()
			if req.Framing != h1.NoBody || req.ExpectContinue {
				t.Errorf("%+v", req)
			}
			got <- req.Method + " " + string(req.Target) + " " + text(req.Header)
		})
		r.headers(1, true, test.fields...)
		if got := <-got; got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

// TestHeadOverLimit: it can be answered, and its neighbours do not notice.
func TestHeadOverLimit(t *testing.T) {
	r := rawClient(t, ServerConfig{MaxHead: 1000}, func(s *ServerStream) {
		_, err := s.ReadRequest()
		var e *h1.Error
		status := 200
		if errors.As(err, &e) {
			if status = e.Status; e.Kind != h1.HeadTooLarge {
				t.Error(err)
			}
		}
		answer(s, status, "")
	})
	long := string(pattern(500))
	r.request(1, true, "a", long, "b", long)
	if got := r.fields(want[*http2.HeadersFrame](r)); got != ":status=431;" {
		t.Error(got)
	}
	r.request(3, true, "a", long)
	if got := r.fields(want[*http2.HeadersFrame](r)); got != ":status=200;" {
		t.Error(got)
	}
	r.request(5, false, "a", long)
	r.headers(5, true, "a", long, "b", long)
	if got := r.fields(want[*http2.HeadersFrame](r)); got != ":status=200;" {
		t.Error(got)
	}
}
