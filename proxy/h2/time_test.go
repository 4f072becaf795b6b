package h2

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"mulligan/proxy/h1"
)

// TestServerTimes: what ends a connection, and when.
func TestServerTimes(t *testing.T) {
	for _, test := range []struct {
		name     string
		do       func(b *bubble)
		from, to time.Duration // from the beginning
		last     string
	}{
		{"nothing comes", func(b *bubble) {}, 10 * time.Second, 11 * time.Second, "GOAWAY NO_ERROR"},
		{"half a preface", func(b *bubble) { b.nc.Write([]byte(http2.ClientPreface[:10])) }, 10 * time.Second, 11 * time.Second, "GOAWAY NO_ERROR"},
		{"no settings", func(b *bubble) { b.nc.Write([]byte(http2.ClientPreface)) }, 10 * time.Second, 11 * time.Second, "GOAWAY NO_ERROR"},
		{"another protocol", func(b *bubble) { b.nc.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n")) }, 0, time.Second, "GOAWAY PROTOCOL_ERROR"},
		{"idle", func(b *bubble) { b.begin() }, 120 * time.Second, 121 * time.Second, "GOAWAY NO_ERROR"},
		{"idle after a request", func(b *bubble) {
			b.begin()
			time.Sleep(time.Minute)
			b.request(1, true)
		}, 180 * time.Second, 181 * time.Second, "GOAWAY NO_ERROR"},
		{"pings do not count", func(b *bubble) {
			b.begin()
			for range 13 {
				b.WritePing(false, [8]byte{})
				time.Sleep(10 * time.Second)
			}
		}, 120 * time.Second, 131 * time.Second, "GOAWAY NO_ERROR"},
		{"half a block", func(b *bubble) {
			b.begin()
			b.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: b.block(":method", "GET")})
		}, 10 * time.Second, 11 * time.Second, "GOAWAY NO_ERROR"},
		{"a block in drops", func(b *bubble) {
			b.begin()
			b.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: b.block(":method", "GET")})
			for range 10 {
				time.Sleep(1500 * time.Millisecond)
				b.WriteContinuation(1, false, []byte{0})
			}
		}, 10 * time.Second, 16 * time.Second, "GOAWAY NO_ERROR"},
		{"half a frame", func(b *bubble) { b.begin(); b.nc.Write([]byte{0, 0, 8, 6, 0}) }, 10 * time.Second, 11 * time.Second, "GOAWAY NO_ERROR"},
		{"half of a DATA frame", func(b *bubble) {
			b.begin()
			b.request(1, false)
			b.nc.Write([]byte{0, 0, 8, 0, 0, 0, 0, 0, 1, 'x'})
		}, 60 * time.Second, 61 * time.Second, "GOAWAY NO_ERROR"},
	} {
		t.Run(test.name, func(t *testing.T) {
			handle := func(s *ServerStream) {
				if _, err := readAll(s); err == nil {
					answer(s, 200, "")
				}
			}
			inBubble(t, ServerConfig{}, handle, func(b *bubble) {
				began := time.Now()
				test.do(b)
				b.endsWith(test.last)
				if d := time.Since(began); d < test.from || d > test.to {
					t.Errorf("ended after %v", d)
				}
			})
		})
	}
}

// TestDrainUnanswered: a client that does not answer does not delay it for long.
func TestDrainUnanswered(t *testing.T) {
	inBubble(t, ServerConfig{}, serveEmpty, func(b *bubble) {
		b.begin()
		began := time.Now()
		b.server.Drain()
		b.endsWith("GOAWAY NO_ERROR")
		if d := time.Since(began); d != drainWait {
			t.Errorf("ended after %v", d)
		}
	})
}

// TestLongRequest: a request may take as long as it likes, and a slow DATA frame
// that moves too.
func TestLongRequest(t *testing.T) {
	got := make(chan string, 1)
	handle := func(s *ServerStream) {
		body, err := readAll(s)
		if err != nil {
			t.Error(err)
		}
		got <- body
		time.Sleep(time.Hour)
		answer(s, 200, "")
	}
	inBubble(t, ServerConfig{}, handle, func(b *bubble) {
		b.begin()
		b.request(1, false)
		b.nc.Write([]byte{0, 0, 10, 0, 1, 0, 0, 0, 1})
		for i := range 10 {
			time.Sleep(50 * time.Second)
			b.nc.Write([]byte{'0' + byte(i)})
		}
		if body := <-got; body != "0123456789" {
			t.Errorf("%q", body)
		}
		time.Sleep(time.Hour + time.Second)
		if len(b.frames) == 0 {
			t.Error("no answer")
		}
	})
}

// TestStall: a peer that takes nothing is given up, whoever is waiting.
func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		s := NewServerConn(far, ServerConfig{})
		done := make(chan struct{})
		var err error
		go func() {
			defer close(done)
			s.Serve(func(s *ServerStream) { err = answer(s, 200, string(make([]byte, 1000))) })
		}()
		r := newRaw(t, near)
		go func() {
			near.Write([]byte(http2.ClientPreface))
			r.WriteSettings()
			r.request(1, true)
		}()
		began := time.Now()
		<-done
		if d := time.Since(began); d < time.Minute || d > 80*time.Second {
			t.Errorf("ended after %v", d)
		}
		wantError(t, err, h1.Broken, 0)
		near.Close()
	})
}

// clientBubble is a client of ours in virtual time, whose peer is raw.
func clientBubble(t *testing.T, cfg ClientConfig, f func(c *ClientConn, r *raw, frames chan http2.FrameHeader)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		closed := make(chan struct{})
		cfg.OnClose = func() { close(closed) }
		c := NewClientConn(near, cfg)
		r := newRaw(t, far)
		far.SetReadDeadline(time.Time{})
		frames := make(chan http2.FrameHeader, 1000)
		go func() {
			io.ReadFull(far, make([]byte, len(http2.ClientPreface)))
			for {
				f, err := r.ReadFrame()
				if err != nil {
					close(frames)
					return
				}
				frames <- f.Header()
			}
		}()
		r.WriteSettings()
		synctest.Wait()
		f(c, r, frames)
		c.Close()
		<-closed
		far.Close()
		for range frames {
		}
	})
}

func TestClientIdle(t *testing.T) {
	clientBubble(t, ClientConfig{IdleTimeout: 30 * time.Second}, func(c *ClientConn, r *raw, frames chan http2.FrameHeader) {
		time.Sleep(20 * time.Second)
		if d := h1.Now() - c.IdleSince(); d != int64(20*time.Second) {
			t.Errorf("idle for %v", time.Duration(d))
		}
		s := c.Open()
		get(s, "/")
		s.Flush()
		time.Sleep(time.Minute)
		if d := h1.Now() - c.IdleSince(); d < int64(time.Minute) {
			t.Errorf("silent for %v", time.Duration(d))
		}
		r.headers(1, false, ":status", "200")
		synctest.Wait()
		if c.IdleSince() != h1.Now() {
			t.Error("idle while bytes come")
		}
		r.WriteData(1, true, nil)
		synctest.Wait()
		began := time.Now()
		c.SetIdle(10 * time.Second)
		for range frames {
		}
		if d := time.Since(began); d != 10*time.Second {
			t.Errorf("ended after %v", d)
		}
		if c.Open() != nil || usable(c) {
			t.Error("it can be used")
		}
	})
}

// TestSuspect: where a request was given up and the server said nothing at all, no
// new one goes there until it says something; and where it never does, the
// connection ends.
func TestSuspect(t *testing.T) {
	for _, answers := range []bool{true, false} {
		room := 0
		clientBubble(t, ClientConfig{OnRoom: func() { room++ }}, func(c *ClientConn, r *raw, frames chan http2.FrameHeader) {
			quick := c.Open()
			get(quick, "/")
			quick.Flush()
			quick.Close()
			if !usable(c) {
				t.Error("suspected at once")
			}
			s := c.Open()
			get(s, "/")
			s.Flush()
			time.Sleep(5 * time.Second)
			s.Close()
			if usable(c) || c.Open() != nil {
				t.Error("it is not suspected")
			}
			synctest.Wait()
			before := room
			if answers {
				r.WritePing(true, [8]byte{'a', 'l', 'i', 'v', 'e'})
				synctest.Wait()
				if !usable(c) || room == before {
					t.Error("it is still suspected")
				}
				return
			}
			began := time.Now()
			for range frames {
			}
			if d := time.Since(began); d != time.Minute {
				t.Errorf("ended after %v", d)
			}
		})
	}
}

// TestSlowServer: a frame of which no byte moves ends the connection.
func TestSlowServer(t *testing.T) {
	clientBubble(t, ClientConfig{}, func(c *ClientConn, r *raw, frames chan http2.FrameHeader) {
		s := c.Open()
		get(s, "/")
		began := time.Now()
		go func() { time.Sleep(30 * time.Second); r.nc.Write([]byte{0, 0, 100, 1}) }()
		_, err := s.FinishAndReadResponse(nil, nil, "GET")
		wantError(t, err, h1.ResetBeforeHeader, 0)
		if d := time.Since(began); d != 90*time.Second {
			t.Errorf("after %v", d)
		}
	})
}
