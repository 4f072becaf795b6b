package h2

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"mulligan/proxy/h1"
)

// TestTableSize: the peer's SETTINGS_HEADER_TABLE_SIZE is kept, and said to be in
// the next block (RFC 7541 section 4.2).
func TestTableSize(t *testing.T) {
	r := rawClient(t, ServerConfig{}, func(s *ServerStream) {
		s.StatusLine(1, 200, nil)
		s.FieldString("X-Same", "always")
		s.EndHead(h1.NoBody, 0)
		s.Finish(nil)
	})
	id := uint32(1)
	ask := func() []byte {
		t.Helper()
		r.request(id, true)
		id += 2
		f := want[*http2.HeadersFrame](r)
		block := append([]byte(nil), f.HeaderBlockFragment()...)
		if got := r.fields(f); got != ":status=200;x-same=always;" {
			t.Errorf("%s", got)
		}
		return block
	}
	size := func(n uint32) {
		t.Helper()
		r.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: n})
		r.dec.SetAllowedMaxDynamicTableSize(n)
		until(r, func(f *http2.SettingsFrame) bool { return f.IsAck() })
	}
	first, second := ask(), ask()
	if len(first) < 5 || len(second) != 2 {
		t.Errorf("%x, then %x: the table is not used", first, second)
	}
	size(0)
	if b := ask(); b[0] != 0x20 {
		t.Errorf("%x does not say that the table is gone", b)
	}
	if b := ask(); len(b) != len(first) && len(b) < 5 {
		t.Errorf("%x uses a table", b)
	}
	size(1 << 20)
	ask()
	if b := ask(); len(b) != 2 {
		t.Errorf("%x does not use the table", b)
	}
}

// TestSecrets are never put into a table, and marked so (RFC 7541 section 7.1.3).
func TestSecrets(t *testing.T) {
	c, r := rawServer(t)
	secret := map[string]bool{}
	r.dec.SetEmitFunc(func(f hpack.HeaderField) { secret[f.Name] = f.Sensitive })
	s := open(t, c)
	s.RequestLine("GET", []byte("/"))
	s.FieldString("Host", "up.test")
	for _, name := range []string{"Authorization", "Cookie", "X-Api-Key", "Accept"} {
		s.FieldString(name, "v")
	}
	s.Field([]byte("Proxy-Authorization"), []byte("v"))
	s.EndHead(h1.NoBody, 0)
	s.Flush()
	f := want[*http2.HeadersFrame](r)
	if _, err := r.dec.Write(f.HeaderBlockFragment()); err != nil {
		t.Fatal(err)
	}
	for name, is := range secret {
		if want := name != "accept" && name[0] != ':'; is != want {
			t.Errorf("%s: %v", name, is)
		}
	}
	if len(secret) != 9 {
		t.Errorf("%v", secret)
	}
}

// TestLargeHeads are cut into frames, and put together again.
func TestLargeHeads(t *testing.T) {
	long := strings.Repeat("v1%", 30_000)
	c, _ := pair(t, func(s *ServerStream) {
		req, err := s.ReadRequest()
		if err != nil {
			t.Error(err)
			return
		}
		s.StatusLine(1, 200, nil)
		for i := range 5 {
			s.FieldString(fmt.Sprint("x-", i), long)
		}
		s.FieldBytes("x-asked", req.Header.Get("x-q"))
		s.EndHead(h1.NoBody, 0)
		s.Finish(nil)
	})
	for range 3 {
		s := open(t, c)
		s.RequestLine("GET", []byte("/"))
		s.FieldString("Host", "up.test")
		s.FieldString("X-Q", long[:40_000])
		s.EndHead(h1.NoBody, 0)
		resp, err := s.FinishAndReadResponse(nil, nil, "GET")
		if err != nil {
			t.Fatal(err)
		}
		if string(resp.Header.Get("x-4")) != long || string(resp.Header.Get("x-asked")) != long[:40_000] {
			t.Error("a field has changed")
		}
	}
}

// TestResponseHeadOverLimit: only its stream suffers.
func TestResponseHeadOverLimit(t *testing.T) {
	c, _ := pair(t, func(s *ServerStream) {
		req, _ := s.ReadRequest()
		s.StatusLine(1, 200, nil)
		if string(req.Target) == "/long" {
			for i := range 20 {
				s.FieldString(fmt.Sprint("x-", i), strings.Repeat("v", 60_000))
			}
		}
		s.EndHead(h1.NoBody, 0)
		s.Finish(nil)
	})
	for _, path := range []string{"/", "/long", "/"} {
		s := open(t, c)
		get(s, path)
		_, err := s.FinishAndReadResponse(nil, nil, "GET")
		if path == "/long" {
			wantError(t, err, h1.HeadTooLarge, 0)
		} else if err != nil {
			t.Error(err)
		}
	}
}

// TestBadBlock: what cannot be decoded ends the connection, since nothing behind it
// can be.
func TestBadBlock(t *testing.T) {
	for _, block := range [][]byte{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, {0xbf + 1 + 62}, {0x40, 1, 'a', 5, 'b'}} {
		r := rawClient(t, ServerConfig{}, serveEmpty)
		r.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndHeaders: true, EndStream: true})
		r.wantGoAway(http2.ErrCodeCompression)
		r.wantEnd()
	}
}

// TestArrivedBody never waits.
func TestArrivedBody(t *testing.T) {
	_, s, r := asked(t)
	r.headers(1, false, ":status", "200")
	resp, err := s.ReadResponse("GET")
	if err != nil {
		t.Fatal(err)
	}
	if p, err := s.ArrivedBody(); p != nil || err != nil {
		t.Errorf("%q %v", p, err)
	}
	before := s.Progress()
	r.WriteData(1, false, []byte("abc"))
	eventually(t, "it moves", func() bool { return s.Progress() != before })
	if p, err := s.ArrivedBody(); string(p) != "abc" || err != nil {
		t.Errorf("%q %v", p, err)
	}
	if p, err := s.ArrivedBody(); p != nil || err != nil || s.BodyDone() {
		t.Errorf("%q %v", p, err)
	}
	r.headers(1, true, "x-t", "1")
	eventually(t, "the end", s.BodyDone)
	if p, err := s.ArrivedBody(); p != nil || err != io.EOF || text(resp.Trailer) != "x-t=1;" {
		t.Errorf("%q %v %s", p, err, text(resp.Trailer))
	}
}

// TestTwoTableSizes: a header block may begin with the smallest and with the last
// of the sizes that its table has had since the one before (RFC 7541 section 4.2),
// though what is in the table has outlived the smallest.
func TestTwoTableSizes(t *testing.T) {
	got := make(chan string, 2)
	r := rawClient(t, ServerConfig{}, func(s *ServerStream) {
		req, _ := s.ReadRequest()
		got <- string(req.Header.Get("x-kept"))
		answer(s, 200, "")
	})
	r.request(1, true, "x-kept", "one")
	r.enc.SetMaxDynamicTableSize(1000)
	r.enc.SetMaxDynamicTableSize(2000)
	r.request(3, true, "x-kept", "one")
	until(r, func(f *http2.HeadersFrame) bool { return f.StreamID == 3 })
	if a, b := <-got, <-got; a != "one" || b != "one" {
		t.Errorf("%q and %q", a, b)
	}
}
