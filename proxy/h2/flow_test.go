package h2

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"

	"golang.org/x/net/http2"

	"mulligan/proxy/h1"
)

// wantBalance checks that a connection without streams has given back every byte
// of its window.
func wantBalance(t testing.TB, c *conn) {
	t.Helper()
	eventually(t, "the window is whole again", func() bool {
		c.mu.Lock()
		defer c.unlock()
		return len(c.streams) == 0 && c.recvWindow+c.recvCredit == c.limits.shared && c.recvCredit < creditPending
	})
}

// TestStreamWindow: a stream that nobody reads gets a window and no more, and does
// not hold up its neighbours.
func TestStreamWindow(t *testing.T) {
	const stalled = 50
	release := make(chan struct{})
	c, sc := pair(t, func(s *ServerStream) {
		if req, _ := s.ReadRequest(); string(req.Target) == "/stalled" {
			<-release
		}
		n := 0
		for {
			p, err := s.NextBody()
			n += len(p)
			if err != nil {
				break
			}
		}
		answer(s, 200, fmt.Sprint(n))
	})
	body := pattern(serverWindow + 1)
	var wg sync.WaitGroup
	post := func(path string) *ClientStream {
		s := open(t, c)
		s.RequestLine("POST", []byte(path))
		s.FieldString("Host", "up.test")
		s.EndHead(h1.Chunked, 0)
		wg.Go(func() {
			if err := s.FinishWith(body, nil); err != nil {
				t.Error(err)
			}
		})
		return s
	}
	read := func(s *ClientStream) {
		if _, err := s.ReadResponse("POST"); err != nil {
			t.Error(err)
		}
		if got, err := readAll(s); got != fmt.Sprint(len(body)) || err != nil {
			t.Errorf("%s %v", got, err)
		}
	}
	var held []*ClientStream
	for range stalled {
		held = append(held, post("/stalled"))
	}
	for _, s := range held {
		eventually(t, "it waits for the window", func() bool { return s.Writing() && s.Unsent() == 1 })
	}
	for range 20 {
		read(post("/"))
	}
	close(release)
	for _, s := range held {
		read(s)
	}
	wg.Wait()
	wantBalance(t, &sc.conn)
	wantBalance(t, &c.conn)
}

// TestWindowsAreGivenBack in every way in which data can end up unread.
func TestWindowsAreGivenBack(t *testing.T) {
	started := make(chan *ServerStream, 1)
	goOn := make(chan struct{})
	a, b := tcpPair(t)
	sc := serve(t, b, ServerConfig{}, func(s *ServerStream) {
		started <- s
		<-goOn
		if req, _ := s.ReadRequest(); string(req.Header.Get("read")) == "1" {
			s.NextBody() // in hand, and never given back
		}
	})
	r := newRaw(t, a)
	a.Write([]byte(http2.ClientPreface))
	r.greet()
	id := uint32(1)
	run := func(name string, fields []string, during func()) {
		t.Helper()
		r.request(id, false, fields...)
		<-started
		during()
		goOn <- struct{}{}
		eventually(t, name+": the handler has returned", func() bool { return sc.Streams() == 0 })
		id += 2
	}
	reset := func(code http2.ErrCode) {
		t.Helper()
		if f := until(r, func(f *http2.RSTStreamFrame) bool { return f.StreamID == id }); f.ErrCode != code {
			t.Errorf("stream %d: %v, want %v", id, f.ErrCode, code)
		}
	}
	data := make([]byte, 10_000)
	run("unread", nil, func() { r.WriteData(id, false, data) })
	run("padded", nil, func() { r.WriteDataPadded(id, false, data, make([]byte, 200)) })
	run("only padding", nil, func() { r.WriteDataPadded(id, false, nil, make([]byte, 200)) })
	run("in hand", []string{"read", "1"}, func() { r.WriteData(id, false, data) })
	run("whole", nil, func() { r.WriteData(id, true, data) })
	run("reset by the client", nil, func() {
		r.WriteData(id, false, data)
		r.WriteRSTStream(id, http2.ErrCodeCancel)
		r.WriteData(id, false, data) // a fault, but it counts
		reset(http2.ErrCodeStreamClosed)
	})
	run("longer than its length", []string{"content-length", "10001"}, func() {
		r.WriteData(id, false, data)
		r.WriteData(id, false, data)
		reset(http2.ErrCodeProtocol)
		r.WriteData(id, true, data) // late
	})
	run("over the window", nil, func() {
		for range serverWindow/len(data) + 1 {
			r.WriteData(id, false, data)
		}
		reset(http2.ErrCodeFlowControl)
	})
	r.request(id, true)
	s := <-started
	goOn <- struct{}{}
	eventually(t, "the last handler has returned", func() bool { return sc.Streams() == 0 })
	if s.closed != true {
		t.Error("a stream is left")
	}
	r.WriteData(id, true, data) // for a stream that ended long ago
	r.WritePing(false, [8]byte{})
	want[*http2.PingFrame](r)
	wantBalance(t, &sc.conn)
}

// TestCredit: what was consumed may be sent again, on the stream and on the
// connection, padding too.
func TestCredit(t *testing.T) {
	_, s, r := asked(t)
	r.headers(1, false, ":status", "200")
	frame := make([]byte, 10_000)
	const padding = 99
	sent, allowed := 0, clientWindow
	done := make(chan int)
	go func() {
		n := 0
		for {
			p, err := s.NextBody()
			n += len(p)
			if err != nil {
				done <- n
				return
			}
		}
	}()
	n := 0
	for ; n < 3*clientWindow; n += len(frame) {
		for sent+len(frame)+padding+1 > allowed {
			f := until(r, func(f *http2.WindowUpdateFrame) bool { return f.StreamID == 1 })
			allowed += int(f.Increment)
		}
		r.WriteDataPadded(1, false, frame, make([]byte, padding))
		sent += len(frame) + padding + 1
	}
	r.WriteData(1, true, nil)
	if got := <-done; got != n {
		t.Errorf("%d bytes of %d", got, n)
	}
}

// TestInitialWindow: the peer may change it while streams are open, and windows may
// become negative (RFC 9113 section 6.9.2).
func TestInitialWindow(t *testing.T) {
	c, r := rawServer(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
	s := open(t, c)
	s.RequestLine("POST", []byte("/"))
	s.FieldString("Host", "up.test")
	s.EndHead(h1.Chunked, 0)
	done := make(chan error, 1)
	go func() { done <- s.FinishWith(pattern(100), nil) }()
	var got bytes.Buffer
	take := func(n int) {
		t.Helper()
		for got.Len() < n {
			f := want[*http2.DataFrame](r)
			got.Write(f.Data())
		}
		if got.Len() != n {
			t.Fatalf("%d bytes, %d are allowed", got.Len(), n)
		}
	}
	quiet := func() {
		t.Helper()
		r.WritePing(false, [8]byte{7})
		for {
			switch f := r.frame().(type) {
			case *http2.DataFrame:
				t.Fatalf("%d bytes too many", len(f.Data()))
			case *http2.PingFrame:
				return
			}
		}
	}
	take(10)
	quiet()
	r.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}) // now it is -10
	r.WriteWindowUpdate(1, 10)
	quiet()
	r.WriteWindowUpdate(1, 5)
	take(15)
	r.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 20})
	take(35)
	quiet()
	r.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1000})
	take(100)
	if err := <-done; err != nil || got.String() != string(pattern(100)) {
		t.Errorf("%v", err)
	}
	r.WriteWindowUpdate(1, 1000)
	r.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: maxWindow})
	r.wantGoAway(http2.ErrCodeFlowControl)
}

// TestConnectionWindow: where it is spent, streams wait for it in their order, and
// heads do not.
func TestConnectionWindow(t *testing.T) {
	c, r := rawServer(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
	var all sync.WaitGroup
	const streams, size = 5, 20_000
	for range streams {
		s := open(t, c)
		s.RequestLine("POST", []byte("/"))
		s.FieldString("Host", "up.test")
		s.EndHead(h1.Length, size)
		all.Go(func() {
			if err := s.FinishWith(make([]byte, size), nil); err != nil {
				t.Error(err)
			}
		})
	}
	heads, sent := 0, 0
	got := map[uint32]int{}
	read := func() {
		switch f := r.frame().(type) {
		case *http2.HeadersFrame:
			heads++
		case *http2.DataFrame:
			sent += len(f.Data())
			got[f.StreamID] += len(f.Data())
		}
	}
	for heads < streams || sent < firstWindow {
		read()
	}
	if sent != firstWindow {
		t.Fatalf("%d bytes", sent)
	}
	gone := c.Open() // one that waits, and is given up
	gone.RequestLine("POST", []byte("/"))
	gone.FieldString("Host", "up.test")
	gone.EndHead(h1.Chunked, 0)
	gone.InterruptWrite()
	gone.Body(make([]byte, 20_000))
	gone.Close()
	for allowed := firstWindow; sent < streams*size; {
		r.WriteWindowUpdate(0, 1000)
		allowed += 1000
		for sent < min(allowed, streams*size) {
			read()
		}
		if sent > allowed {
			t.Fatalf("%d bytes, %d are allowed", sent, allowed)
		}
	}
	all.Wait()
	for id, n := range got {
		if n != size {
			t.Errorf("stream %d: %d", id, n)
		}
	}
}

// TestTurns: a large body does not hold up a small one.
func TestTurns(t *testing.T) {
	c, r := rawServer(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30})
	r.WriteWindowUpdate(0, 1<<30)
	large, small := open(t, c), open(t, c)
	for _, s := range []*ClientStream{large, small} {
		s.RequestLine("POST", []byte("/"))
		s.FieldString("Host", "up.test")
		s.EndHead(h1.Chunked, 0)
	}
	if err := r.nc.(*net.TCPConn).SetReadBuffer(1 << 20); err != nil { // or what is on its way could be of any length
		t.Fatal(err)
	}
	go large.Body(make([]byte, 64<<20)) // until the test ends
	until(r, func(f *http2.DataFrame) bool { return f.StreamID == 1 })
	done := make(chan error, 1)
	go func() { done <- small.FinishWith([]byte("small"), nil) }()
	eventually(t, "the small one waits for its turn, or had it", func() bool { return small.Writing() || small.Finished() }) // and nothing is read meanwhile
	before := 0
	until(r, func(f *http2.DataFrame) bool { before += len(f.Data()); return f.StreamID == 3 })
	if before > 16<<20 {
		t.Errorf("%d bytes went before", before)
	}
	large.Interrupt()
	large.Close()
	go io.Copy(io.Discard, r.nc)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestChaos moves bodies on many streams that end in all ways; the windows balance
// at the end.
func TestChaos(t *testing.T) {
	c, sc := pair(t, func(s *ServerStream) {
		s.ReadRequest()
		s.StatusLine(1, 200, nil)
		s.EndHead(h1.Chunked, 0)
		for {
			p, err := s.NextBody()
			switch {
			case rand.N(200) == 0:
				return
			case err == io.EOF:
				s.Finish(nil)
				return
			case err != nil || s.Body(p) != nil:
				return
			}
		}
	})
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 40 {
				s := c.Open()
				if s == nil {
					t.Error("no stream")
					return
				}
				chaos(s)
				s.Close()
			}
		})
	}
	wg.Wait()
	wantBalance(t, &c.conn)
	wantBalance(t, &sc.conn)
	if !usable(c) {
		t.Error("the connection did not live through it")
	}
}

// chaos makes one request, which may go wrong.
func chaos(s *ClientStream) {
	s.RequestLine("POST", []byte("/"))
	s.FieldString("Host", "up.test")
	s.EndHead(h1.Chunked, 0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range rand.N(30) {
			if rand.N(3) == 0 {
				s.Flush()
			}
			if s.Body(make([]byte, rand.N(40_000))) != nil {
				s.InterruptRead() // an answer might never come
				return
			}
		}
		if s.Finish(nil) != nil {
			s.InterruptRead()
		}
	}()
	defer func() { <-done }()
	if rand.N(4) == 0 {
		s.InterruptWrite()
	}
	if rand.N(4) == 0 {
		s.Close()
	}
	if _, err := s.ReadResponse("POST"); err != nil {
		s.InterruptWrite()
		return
	}
	for {
		if _, err := s.NextBody(); err != nil || rand.N(100) == 0 {
			s.Interrupt()
			return
		}
	}
}
