package h2

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"

	"mulligan/proxy/h1"
)

// TestServerLimit: no more streams than the server allows, also where it says so
// late.
func TestServerLimit(t *testing.T) {
	var rooms atomic.Int32
	a, b := tcpPair(t)
	c := dial(t, a, ClientConfig{OnRoom: func() { rooms.Add(1) }})
	var all []*ClientStream
	for range assumed {
		all = append(all, open(t, c))
	}
	if c.Open() != nil {
		t.Error("more than is assumed")
	}
	r := newRaw(t, b)
	b.Read(make([]byte, len(http2.ClientPreface)))
	r.greet(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 2})
	r.WritePing(false, [8]byte{})
	for {
		if _, ok := r.frame().(*http2.PingFrame); ok {
			break
		}
	}
	for i, s := range all[:4] {
		get(s, fmt.Sprint("/", i))
		go s.Flush()
	}
	first, second := want[*http2.HeadersFrame](r), want[*http2.HeadersFrame](r)
	if first.StreamID != 1 || second.StreamID != 3 {
		t.Errorf("%v %v", first, second)
	}
	r.WritePing(false, [8]byte{1})
	if f, ok := r.frame().(*http2.PingFrame); !ok {
		t.Fatalf("a third stream: %v", f)
	}
	before := rooms.Load()
	r.headers(3, true, ":status", "204")
	if f, ok := r.frame().(*http2.HeadersFrame); !ok || f.StreamID != 5 {
		t.Fatalf("no third stream: %v", f)
	}
	eventually(t, "there is said to be room", func() bool { return rooms.Load() > before })
	for _, s := range all {
		s.Close()
	}
	if s := c.Open(); s == nil {
		t.Error("no room though all have ended")
	} else {
		s.Close()
	}
	r.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 0})
	eventually(t, "no stream may be opened", func() bool {
		s := c.Open()
		if s != nil {
			s.Close()
		}
		return s == nil && usable(c)
	})
}

// TestBeforeTheServersLimit: as long as a server has not said how many streams it
// allows, one is begun: what it would refuse of more is an attempt that is lost.
func TestBeforeTheServersLimit(t *testing.T) {
	a, b := tcpPair(t)
	c := dial(t, a, ClientConfig{})
	r := newRaw(t, b)
	b.Read(make([]byte, len(http2.ClientPreface)))
	for i := range 3 {
		s := open(t, c)
		get(s, fmt.Sprint("/", i))
		go s.Flush()
	}
	want[*http2.HeadersFrame](r)
	eventually(t, "the others wait", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.held.first != nil && c.held.first != c.held.last
	})
	r.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 2})
	if f := want[*http2.HeadersFrame](r); f.StreamID != 3 {
		t.Errorf("%v", f)
	}
}

// TestRefusal: a client that does not keep to the limit is refused, and the others
// are served.
func TestRefusal(t *testing.T) {
	release := make(chan struct{})
	r := rawClient(t, ServerConfig{MaxStreams: 2}, func(s *ServerStream) {
		<-release
		answer(s, 200, "")
	})
	r.request(1, true)
	r.request(3, true)
	r.request(5, true, "x", "only here")
	r.wantReset(5, http2.ErrCodeRefusedStream)
	close(release)
	for range 2 {
		want[*http2.HeadersFrame](r)
	}
	r.request(7, true, "x", "only here") // from the table, where the refused one put it
	if f := want[*http2.HeadersFrame](r); f.StreamID != 7 {
		t.Errorf("%v", f)
	}
}

// TestZombies: handlers are bounded also where the client resets their streams.
func TestZombies(t *testing.T) {
	release := make(chan struct{})
	var running, most atomic.Int32
	r := rawClient(t, ServerConfig{MaxStreams: 3}, func(s *ServerStream) {
		most.Store(max(most.Load(), running.Add(1)))
		<-release
		running.Add(-1)
	})
	refused := 0
	for id := uint32(1); id < 80; id += 2 {
		r.request(id, true)
		r.WriteRSTStream(id, http2.ErrCodeCancel)
	}
	r.WritePing(false, [8]byte{})
	for {
		f := r.frame()
		if _, ok := f.(*http2.PingFrame); ok {
			break
		}
		if f, ok := f.(*http2.RSTStreamFrame); ok && f.ErrCode == http2.ErrCodeRefusedStream {
			refused++
		}
	}
	if refused != 40-3 {
		t.Errorf("%d refused", refused)
	}
	close(release)
	eventually(t, "they have ended", func() bool { return running.Load() == 0 })
	if most.Load() > 6 {
		t.Errorf("%d handlers", most.Load())
	}
}

// TestDrain: what was on its way is served, the last stream is named, and the
// connection ends with it.
func TestDrain(t *testing.T) {
	release := make(chan struct{})
	a, b := tcpPair(t)
	sc := serve(t, b, ServerConfig{}, func(s *ServerStream) {
		<-release
		answer(s, 200, "")
	})
	r := newRaw(t, a)
	a.Write([]byte(http2.ClientPreface))
	r.greet()
	r.request(1, true)
	eventually(t, "one request", func() bool { return sc.Streams() == 1 })
	sc.Drain()
	sc.Drain()
	if f := want[*http2.GoAwayFrame](r); f.LastStreamID != maxStreamID || f.ErrCode != 0 {
		t.Errorf("%v", f)
	}
	ping := want[*http2.PingFrame](r)
	r.request(3, true) // on its way
	r.WritePing(true, ping.Data)
	if f := want[*http2.GoAwayFrame](r); f.LastStreamID != 3 || f.ErrCode != 0 {
		t.Errorf("%v", f)
	}
	r.request(5, false) // too late: not looked at
	r.WriteData(5, true, []byte("x"))
	close(release)
	for range 2 {
		if f := want[*http2.HeadersFrame](r); f.StreamID > 3 {
			t.Errorf("%v", f)
		}
	}
	r.wantEnd()
}

// TestClientGoesAway: a client that says so is let go when its requests are done.
func TestClientGoesAway(t *testing.T) {
	for _, asked := range []bool{false, true} {
		release := make(chan struct{})
		r := rawClient(t, ServerConfig{}, func(s *ServerStream) {
			<-release
			answer(s, 200, "")
		})
		if asked {
			r.request(1, true)
		}
		r.WriteGoAway(0, http2.ErrCodeNo, nil)
		close(release)
		if asked {
			want[*http2.HeadersFrame](r)
		}
		r.wantGoAway(http2.ErrCodeNo)
		r.wantEnd()
	}
}

// TestDrainClient: likewise.
func TestDrainClient(t *testing.T) {
	closed := make(chan struct{})
	a, b := tcpPair(t)
	serve(t, b, ServerConfig{}, echo)
	c := dial(t, a, ClientConfig{OnClose: func() { close(closed) }})
	s := open(t, c)
	c.Drain()
	if c.Open() != nil || usable(c) {
		t.Error("a stream can be opened")
	}
	get(s, "/")
	if _, err := s.FinishAndReadResponse(nil, nil, "GET"); err != nil {
		t.Fatal(err)
	}
	wait(t, closed, "the end")
	if got, err := readAll(s); got != "GET / " || err != nil {
		t.Errorf("%q %v: what had arrived is lost", got, err)
	}
}

// TestClosing: what is sent where a stream is closed.
func TestClosing(t *testing.T) {
	for _, test := range []struct {
		name   string
		unread bool // the request is not whole
		do     func(s *ServerStream)
		code   http2.ErrCode
		none   bool
	}{
		{name: "answered", do: func(s *ServerStream) { answer(s, 200, "x") }, none: true},
		{name: "answered, request not whole", unread: true, do: func(s *ServerStream) { answer(s, 200, "x") }, code: http2.ErrCodeNo},
		{name: "no answer", do: func(s *ServerStream) {}, code: http2.ErrCodeInternal},
		{name: "half an answer", do: func(s *ServerStream) {
			s.StatusLine(1, 200, nil)
			s.EndHead(h1.Length, 5)
			s.Body([]byte("x"))
			s.Flush()
		}, code: http2.ErrCodeInternal},
		{name: "short", do: func(s *ServerStream) {
			s.StatusLine(1, 200, nil)
			s.EndHead(h1.Length, 5)
			wantError(t, s.FinishWith([]byte("x"), nil), h1.Broken, 0)
		}, code: http2.ErrCodeInternal},
		{name: "contradicting", do: func(s *ServerStream) {
			s.StatusLine(1, 200, nil)
			s.FieldInt("Content-Length", 6)
			s.EndHead(h1.Length, 5)
			wantError(t, s.FinishWith([]byte("hello"), nil), h1.Malformed, 0)
		}, code: http2.ErrCodeInternal},
		{name: "two lengths", do: func(s *ServerStream) {
			s.StatusLine(1, 200, nil)
			s.FieldInt("Content-Length", 5)
			s.FieldInt("content-length", 5)
			s.EndHead(h1.Length, 5)
			wantError(t, s.FinishWith([]byte("hello"), nil), h1.Malformed, 0)
		}, code: http2.ErrCodeInternal},
		{name: "a code", do: func(s *ServerStream) { s.CloseWith(uint32(http2.ErrCodeCancel)) }, code: http2.ErrCodeCancel},
		{name: "reset, answered", unread: true, do: func(s *ServerStream) { answer(s, 200, "x"); s.CloseReset() }, code: http2.ErrCodeInternal},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := rawClient(t, ServerConfig{}, test.do)
			r.request(1, !test.unread)
			if test.none {
				if f := want[*http2.DataFrame](r); !f.StreamEnded() {
					t.Errorf("%v", f)
				}
				r.WritePing(false, [8]byte{})
				if f, ok := r.frame().(*http2.PingFrame); !ok {
					t.Errorf("%v", f)
				}
				return
			}
			r.wantReset(1, test.code)
		})
	}
}

// TestOneWrite: a head and a small body go out together.
func TestOneWrite(t *testing.T) {
	a, b := tcpPair(t)
	count := &countingConn{Conn: b}
	s := NewServerConn(count, ServerConfig{})
	go s.Serve(func(s *ServerStream) {
		count.writes.Store(0)
		answer(s, 200, strings.Repeat("x", 10_000))
	})
	defer s.Close()
	c := dial(t, a, ClientConfig{})
	for range 20 {
		st := open(t, c)
		get(st, "/")
		if _, err := st.FinishAndReadResponse(nil, nil, "GET"); err != nil {
			t.Fatal(err)
		}
		readAll(st)
	}
	if n := count.writes.Load(); n != 1 {
		t.Errorf("%d writes", n)
	}
}

// TestProbe: a server is asked for a sign of life with what has to be acknowledged,
// and with no PING: those of gRPC end connections for a few of them.
func TestProbe(t *testing.T) {
	c, r := rawServer(t)
	for range 3 {
		seen := c.Probe()
		switch f := r.frame().(type) {
		case *http2.SettingsFrame:
			if f.IsAck() || f.NumSettings() != 0 {
				t.Fatalf("%v", f)
			}
		default:
			t.Fatalf("%v", f)
		}
		select {
		case <-seen:
			t.Fatal("nothing has come")
		default:
		}
		r.WriteSettingsAck()
		wait(t, seen, "the sign of life")
	}
	seen := c.Probe()
	r.nc.Close()
	wait(t, seen, "the end of the connection")
	wait(t, c.Probe(), "what is over")
}

// TestProbesAtOnce: one that comes while the answer to the one before is being taken
// gets an answer of its own.
func TestProbesAtOnce(t *testing.T) {
	c, _ := pair(t, echo)
	for range 200 {
		var all sync.WaitGroup
		for range 32 {
			all.Go(func() {
				runtime.Gosched()
				wait(t, c.Probe(), "a sign of life")
			})
		}
		all.Wait()
	}
}
