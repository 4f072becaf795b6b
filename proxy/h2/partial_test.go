package h2

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"mulligan/proxy/h1"
)

// cutConn takes so many bytes more, once it is told to, and then fails.
type cutConn struct {
	net.Conn
	mu   sync.Mutex
	cuts bool
	left int
}

func (c *cutConn) cutAfter(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cuts, c.left = true, n
}

func (c *cutConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.cuts {
		return c.Conn.Write(p)
	}
	n := min(c.left, len(p))
	c.left -= n
	if n > 0 {
		c.Conn.Write(p[:n])
	}
	if n < len(p) {
		return n, errors.New("cut")
	}
	return n, nil
}

// TestHalfWritten: a message of which only the first frames were handed to the kernel
// is not finished, whatever is in the same write.
func TestHalfWritten(t *testing.T) {
	const whole, half = 40_000, 20_000
	t.Run("answer", func(t *testing.T) {
		a, b := tcpPair(t)
		nc := &cutConn{Conn: b}
		type result struct {
			err      error
			finished bool
		}
		got := make(chan result, 1)
		serve(t, nc, ServerConfig{}, func(s *ServerStream) {
			s.ReadRequest()
			nc.cutAfter(half)
			err := answer(s, 200, string(pattern(whole)))
			got <- result{err, s.Finished()}
		})
		r := newRaw(t, a)
		a.Write([]byte(http2.ClientPreface))
		r.greet()
		r.request(1, true)
		if g := <-got; g.err == nil || g.finished {
			t.Errorf("Finish %v, Finished %v", g.err, g.finished)
		}
	})
	t.Run("request", func(t *testing.T) {
		a, b := tcpPair(t)
		nc := &cutConn{Conn: a}
		c := dial(t, nc, ClientConfig{})
		r := newRaw(t, b)
		io.ReadFull(b, make([]byte, len(http2.ClientPreface)))
		r.greet()
		s := open(t, c)
		s.RequestLine("POST", []byte("/"))
		s.FieldString("Host", "up.test")
		s.EndHead(h1.Length, whole)
		nc.cutAfter(half)
		if err := s.FinishWith(pattern(whole), nil); err == nil || s.Finished() || !s.Failed() {
			t.Errorf("FinishWith %v, Finished %v, Failed %v", err, s.Finished(), s.Failed())
		}
	})
}

// TestClosedUnread: a body that had come whole, and of which a part was not read
// before the stream was closed or its buffers were given back, does not look whole.
func TestClosedUnread(t *testing.T) {
	for name, end := range map[string]func(*ServerStream){
		"CloseReset": func(s *ServerStream) { s.CloseReset() },
		"Release":    func(s *ServerStream) { s.Release() },
	} {
		t.Run(name, func(t *testing.T) {
			came, got := make(chan bool), make(chan error, 2)
			r := rawClient(t, ServerConfig{}, func(s *ServerStream) {
				s.ReadRequest()
				<-came
				s.NextBody()
				end(s)
				_, err := s.NextBody()
				got <- err
				if _, ok := s.BufferedBody(); ok {
					err = errors.New("a whole body")
				}
				got <- err
			})
			r.request(1, false)
			r.WriteData(1, false, pattern(16_000))
			r.WriteData(1, true, pattern(16_000))
			r.WritePing(false, [8]byte{})
			until(r, func(f *http2.PingFrame) bool { return f.IsAck() }) // by then the data is there
			came <- true
			for range 2 {
				if err := <-got; h1.KindOf(err) != h1.Broken {
					t.Errorf("%v", err)
				}
			}
		})
	}
}

// TestEarlyAnswerInAWrite: an answer that is whole before the request is, whose rest the
// server does not want (RFC 9113 section 8.1), is there to be read, and the write
// does not say that the body given was too short.
func TestEarlyAnswerInAWrite(t *testing.T) {
	c, r := rawServer(t)
	s := open(t, c)
	s.RequestLine("POST", []byte("/"))
	s.FieldString("Host", "up.test")
	s.EndHead(h1.Length, 100_000)
	done := make(chan error, 1)
	go func() { done <- s.FinishWith(pattern(100_000), nil) }()
	want[*http2.HeadersFrame](r)
	r.headers(1, true, ":status", "413", "content-length", "0")
	r.WriteRSTStream(1, http2.ErrCodeNo)
	if err := <-done; h1.KindOf(err) != h1.ResetBeforeHeader {
		t.Errorf("the write: %v", err)
	}
	if resp, err := s.ReadResponse("POST"); err != nil || resp.Status != 413 {
		t.Errorf("the answer: %v %v", resp, err)
	}
}

// TestWindowOfResetStreams: what streams that the client has reset had sent, and
// nobody reads any more, does not keep others from sending.
func TestWindowOfResetStreams(t *testing.T) {
	const n = 20
	release := make(chan struct{})
	defer close(release)
	r := rawClient(t, ServerConfig{MaxStreams: n}, func(s *ServerStream) { s.ReadRequest(); <-release })
	left := int64(n*serverWindow + 2*creditPending)
	for i := range uint32(n) {
		id := 2*i + 1
		r.request(id, false)
		for range serverWindow / frameSize {
			r.WriteData(id, false, pattern(frameSize))
			left -= frameSize
		}
		r.WriteRSTStream(id, http2.ErrCodeCancel)
	}
	r.WritePing(false, [8]byte{7})
	for {
		switch f := r.frame().(type) {
		case *http2.WindowUpdateFrame:
			if f.StreamID == 0 {
				left += int64(f.Increment)
			}
			continue
		case *http2.PingFrame:
			if f.Data != [8]byte{7} {
				continue
			}
		default:
			continue
		}
		break
	}
	if left < n*serverWindow {
		t.Errorf("%d bytes of the window are left for %d new streams", left, n)
	}
}

// TestSettingsAckFlood: answers to SETTINGS that were never sent are noise like any
// other.
func TestSettingsAckFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		server := NewServerConn(b, ServerConfig{})
		done := make(chan struct{})
		go func() { defer close(done); server.Serve(func(*ServerStream) {}) }()
		go io.Copy(io.Discard, a)
		a.Write([]byte(http2.ClientPreface))
		f := http2.NewFramer(a, a)
		f.WriteSettings()
		a.SetWriteDeadline(time.Now().Add(time.Second))
		n := 0
		for n < 200_000 && f.WriteSettingsAck() == nil {
			n++
		}
		if n == 200_000 {
			t.Error("all were taken")
		}
		server.Close()
		a.Close()
		<-done
	})
}
