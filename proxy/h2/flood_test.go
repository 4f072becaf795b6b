package h2

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"mulligan/proxy/h1"
)

// bubble is a server of ours in virtual time, on a pipe, and a raw client whose
// frames are read all the time.
type bubble struct {
	*raw
	server *ServerConn
	frames chan string // a short word for each frame that came
	ended  chan struct{}
}

func inBubble(t *testing.T, cfg ServerConfig, handle func(*ServerStream), f func(b *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		s := NewServerConn(far, cfg)
		b := &bubble{raw: newRaw(t, near), server: s, frames: make(chan string, 10_000), ended: make(chan struct{})}
		near.SetReadDeadline(time.Time{})
		served := make(chan struct{})
		go func() { defer close(served); s.Serve(handle) }()
		go func() {
			defer close(b.ended)
			for {
				f, err := b.ReadFrame()
				if err != nil {
					return
				}
				b.frames <- word(f)
			}
		}()
		f(b)
		near.Close()
		<-b.ended
		<-served
	})
}

func word(f http2.Frame) string {
	switch f := f.(type) {
	case *http2.GoAwayFrame:
		return "GOAWAY " + f.ErrCode.String()
	case *http2.RSTStreamFrame:
		return "RST_STREAM " + f.ErrCode.String()
	}
	return f.Header().Type.String()
}

func (b *bubble) begin() {
	b.nc.Write([]byte(http2.ClientPreface))
	b.WriteSettings()
	b.WriteSettingsAck()
	synctest.Wait()
	for len(b.frames) > 0 {
		<-b.frames
	}
}

// endsWith waits until the connection ends and checks what it said last.
func (b *bubble) endsWith(last string) {
	b.Helper()
	<-b.ended
	got := "nothing"
	for len(b.frames) > 0 {
		got = <-b.frames
	}
	if got != last {
		b.Errorf("the connection ended with %s, want %s", got, last)
	}
}

// flood repeats until the connection ends, or often enough.
func (b *bubble) flood(most int, f func(i int) error) (n int) {
	b.Helper()
	for ; n < most; n++ {
		select {
		case <-b.ended:
			return n
		default:
		}
		if f(n) != nil {
			return n
		}
		if n%100 == 0 {
			synctest.Wait() // the server has to come to it, too
		}
	}
	b.Errorf("%d times, and the connection lives", most)
	return n
}

func serveEmpty(s *ServerStream) { answer(s, 200, "") }

// serveNever returns when the client has left.
func serveNever(s *ServerStream) {
	readAll(s)
	for !s.PeerGone() {
		time.Sleep(10 * time.Millisecond)
	}
}

// TestFloods end the connection with ENHANCE_YOUR_CALM, and soon.
func TestFloods(t *testing.T) {
	const most = 10_000
	for _, test := range []struct {
		name   string
		handle func(*ServerStream)
		do     func(b *bubble)
	}{
		{"rapid reset", serveNever, func(b *bubble) {
			b.flood(most, func(i int) error {
				b.request(uint32(2*i+1), false)
				return b.WriteRSTStream(uint32(2*i+1), http2.ErrCodeCancel)
			})
		}},
		{"made to reset", serveNever, func(b *bubble) {
			b.flood(most, func(i int) error {
				b.request(uint32(2*i+1), false)
				return b.WriteRawFrame(http2.FrameWindowUpdate, 0, uint32(2*i+1), []byte{0, 0, 0, 0})
			})
		}},
		{"bad requests", serveNever, func(b *bubble) {
			b.flood(most, func(i int) error { b.headers(uint32(2*i+1), true, "a", "b"); return nil })
		}},
		{"refused requests", serveNever, func(b *bubble) {
			b.flood(most, func(i int) error { b.request(uint32(2*i+1), false); return nil })
		}},
		{"continuation, small", serveEmpty, func(b *bubble) {
			b.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: b.block(":method", "GET")})
			b.flood(most, func(int) error { return b.WriteContinuation(1, false, nil) })
		}},
		{"continuation, large", serveEmpty, func(b *bubble) {
			b.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: b.block(":method", "GET")})
			b.flood(100, func(int) error { return b.WriteContinuation(1, false, make([]byte, 16<<10)) })
		}},
		{"settings", serveEmpty, func(b *bubble) { b.flood(most, func(int) error { return b.WriteSettings() }) }},
		{"settings of many values", serveEmpty, func(b *bubble) {
			set := make([]http2.Setting, 2700)
			for i := range set {
				set[i] = http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(i)}
			}
			b.flood(50, func(int) error { return b.WriteSettings(set...) })
		}},
		{"ping", serveEmpty, func(b *bubble) { b.flood(most, func(int) error { return b.WritePing(false, [8]byte{}) }) }},
		{"pong", serveEmpty, func(b *bubble) { b.flood(most, func(int) error { return b.WritePing(true, [8]byte{}) }) }},
		{"priority", serveEmpty, func(b *bubble) {
			b.flood(most, func(i int) error { return b.WritePriority(uint32(i*2+1), http2.PriorityParam{}) })
		}},
		{"window updates", serveEmpty, func(b *bubble) { b.flood(most, func(int) error { return b.WriteWindowUpdate(0, 1) }) }},
		{"empty data", serveNever, func(b *bubble) {
			b.request(1, false)
			b.flood(most, func(int) error { return b.WriteData(1, false, nil) })
		}},
		{"padding", serveNever, func(b *bubble) {
			b.request(1, false)
			b.flood(most, func(int) error { return b.WriteDataPadded(1, false, nil, make([]byte, 9)) })
		}},
		{"unknown frames", serveEmpty, func(b *bubble) {
			b.flood(most, func(int) error { return b.WriteRawFrame(0x77, 0, 0, nil) })
		}},
		{"resets of what has ended", serveEmpty, func(b *bubble) {
			b.request(1, true)
			b.flood(most, func(int) error { return b.WriteRSTStream(1, http2.ErrCodeCancel) })
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, ServerConfig{}, test.handle, func(b *bubble) {
				b.begin()
				test.do(b)
				b.endsWith("GOAWAY ENHANCE_YOUR_CALM")
			})
		})
	}
}

// TestSlowFloodsAreNone: what working clients do, for long, is forgiven.
func TestSlowFloodsAreNone(t *testing.T) {
	inBubble(t, ServerConfig{}, serveEmpty, func(b *bubble) {
		b.begin()
		for i := range 5000 {
			b.WritePing(false, [8]byte{})
			b.WriteSettings()
			b.request(uint32(4*i+1), false)
			b.WriteRSTStream(uint32(4*i+1), http2.ErrCodeCancel)
			time.Sleep(100 * time.Millisecond)
			select {
			case <-b.ended:
				b.Fatalf("ended after %d", i)
			default:
			}
			for len(b.frames) > 0 {
				<-b.frames
			}
		}
	})
}

// TestLateResetsAreNone: a client whose own timeout is over, for every request, has
// its reasons.
func TestLateResetsAreNone(t *testing.T) {
	inBubble(t, ServerConfig{}, serveNever, func(b *bubble) {
		b.begin()
		for i := range 50 {
			for j := range 100 {
				b.request(uint32(200*i+2*j+1), true)
			}
			time.Sleep(300 * time.Millisecond)
			for j := range 100 {
				b.WriteRSTStream(uint32(200*i+2*j+1), http2.ErrCodeCancel)
			}
			synctest.Wait()
		}
		b.WritePing(false, [8]byte{})
		synctest.Wait()
		select {
		case <-b.ended:
			b.Error("the connection has ended")
		default:
		}
	})
}

// TestSmallCredits: a client that gives back what it has read in small amounts may
// do so as fast as it likes.
func TestSmallCredits(t *testing.T) {
	const size = 8 << 20
	handle := func(s *ServerStream) {
		s.StatusLine(1, 200, nil)
		s.EndHead(h1.Length, size)
		s.FinishWith(make([]byte, size), nil)
	}
	r := rawClient(t, ServerConfig{}, handle)
	r.request(1, true)
	for got := 0; got < size; {
		f := want[*http2.DataFrame](r)
		got += len(f.Data())
		for n := len(f.Data()); n > 0; n -= 1000 {
			r.WriteWindowUpdate(0, uint32(min(n, 1000)))
			r.WriteWindowUpdate(1, uint32(min(n, 1000)))
		}
	}
}

// TestAnswersToNobody: a client that does not read cannot make us keep any number
// of answers.
func TestAnswersToNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		s := NewServerConn(far, ServerConfig{StallTimeout: time.Hour})
		done := make(chan struct{})
		go func() { defer close(done); s.Serve(serveEmpty) }()
		r := newRaw(t, near)
		near.Write([]byte(http2.ClientPreface))
		r.WriteSettings()
		n := 0
		for n < 10_000 && r.WritePing(false, [8]byte{}) == nil {
			n++
		}
		if n > 3*controlMost {
			t.Errorf("%d PINGs were taken", n)
		}
		<-done
	})
}
