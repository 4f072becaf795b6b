package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// hookConn tells when the proxy stops writing to the upstream, and when it wrote.
type hookConn struct {
	net.Conn
	once     sync.Once
	stopping func()
	wrote    func(p []byte)
}

func (c *hookConn) SetWriteDeadline(t time.Time) error {
	if !t.IsZero() {
		c.once.Do(c.stopping)
	}
	return c.Conn.SetWriteDeadline(t)
}

func (c *hookConn) Write(p []byte) (int, error) {
	c.wrote(p)
	return c.Conn.Write(p)
}

// TestRetryNeverSendsTheRestOfABodyAsTheWhole: an early 503 is retried although
// the upload outgrows buffer.request between the decision and the pump's stop.
// The second attempt must carry the whole body, or not be made.
func TestRetryNeverSendsTheRestOfABodyAsTheWhole(t *testing.T) {
	bodies := make(chan string, 4)
	addr := rawServe(t, func(n int, c net.Conn, r *bufio.Reader) {
		if n == 1 {
			readHead(r)
			io.ReadFull(r, make([]byte, 5+800)) // "320\r\n" and the first piece
			io.WriteString(c, "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
			io.Copy(io.Discard, r)
			return
		}
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		b, err := io.ReadAll(req.Body)
		bodies <- fmt.Sprintf("%d bytes, whole: %v", len(b), err == nil)
		io.WriteString(c, ok)
	})
	more, sent := make(chan struct{}), make(chan struct{})
	var dials atomic.Int32
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		nc, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil || dials.Add(1) > 1 {
			return nc, err
		}
		var once sync.Once
		return &hookConn{Conn: nc, stopping: func() {
			close(more) // the client's next piece comes just before the pump is stopped
			<-sent
		}, wrote: func(p []byte) {
			if bytes.Contains(p, []byte("bbbb")) {
				once.Do(func() { close(sent) })
			}
		}}, nil
	}
	s := settings()
	s.Default.Default.Buffer.Request = 1000
	srv, _ := startWith(t, s, dial, nil)
	c, r := call(t, srv)
	fmt.Fprintf(c, "PUT http://%s/ HTTP/1.1\r\nHost: %s\r\nTransfer-Encoding: chunked\r\n\r\n320\r\n%s\r\n", addr, addr, strings.Repeat("a", 800))
	go func() {
		<-more
		fmt.Fprintf(c, "320\r\n%s\r\n0\r\n\r\n", strings.Repeat("b", 800))
	}()
	resp := readResponse(t, r)
	select {
	case b := <-bodies:
		if b != "1600 bytes, whole: true" {
			t.Errorf("the second attempt's body: %s (the client sent 1600 bytes)", b)
		}
	default:
		if resp.StatusCode != 503 || !strings.Contains(resp.Header.Get("Proxy-Status"), "stop=body_not_replayable") {
			t.Errorf("%s %q", resp.Status, resp.Header.Get("Proxy-Status"))
		}
	}
}

// TestUploadsReuseTheirConnection: a request with a body that is not whole in
// the first read, or with Content-Length: 0, leaves its connection reusable.
func TestUploadsReuseTheirConnection(t *testing.T) {
	for name, body := range map[string]func() io.Reader{
		"chunked": func() io.Reader { return io.MultiReader(strings.NewReader("hello")) },
		"zero":    func() io.Reader { return http.NoBody },
		"long":    func() io.Reader { return strings.NewReader(strings.Repeat("x", 300_000)) },
	} {
		t.Run(name, func(t *testing.T) {
			var conns atomic.Int32
			up := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				io.WriteString(w, "x")
			}))
			up.Config.ConnState = func(_ net.Conn, s http.ConnState) {
				if s == http.StateNew {
					conns.Add(1)
				}
			}
			up.Start()
			defer up.Close()
			client := through(start(t, settings()))
			for range 500 {
				resp, err := client.Post(up.URL, "", body())
				if err != nil {
					t.Fatal(err)
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			if n := conns.Load(); n != 1 {
				t.Errorf("%d connections for 500 requests one after the other", n)
			}
		})
	}
}

// TestMalformedUploadIsTold: the 400 for a body with broken chunks says that the
// connection closes, and is not lost to a reset while the client still sends.
func TestMalformedUploadIsTold(t *testing.T) {
	up := serve(t, func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	srv := start(t, settings())
	for range 5 {
		c, r := call(t, srv)
		fmt.Fprintf(c, "PUT %s/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", up.URL)
		time.Sleep(20 * time.Millisecond)
		go io.WriteString(c, "zz\r\n"+strings.Repeat("x", 200_000))
		time.Sleep(20 * time.Millisecond)
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatalf("the answer is lost: %v", err)
		}
		if resp.StatusCode != 400 || !resp.Close {
			t.Errorf("%s, Connection: close %v", resp.Status, resp.Close)
		}
	}
}

// TestUpstreamThatStopsReadingIsATimeout: it is not the client that is at fault
// when the upstream takes no byte of an upload for timeout.idle.
func TestUpstreamThatStopsReadingIsATimeout(t *testing.T) {
	stuck := func(c net.Conn) {
		readHead(bufio.NewReaderSize(c, 16))
		time.Sleep(10 * time.Minute)
	}
	inBubble(t, settings(), stuck, func(b *bubble) {
		c := b.dial()
		began := time.Now()
		go io.WriteString(c, "POST http://up/ HTTP/1.1\r\nHost: up\r\nContent-Length: 100000\r\n\r\n"+strings.Repeat("x", 100000))
		resp := readResponse(b.T, bufio.NewReader(c))
		b.Log(time.Since(began), resp.Header.Get("Proxy-Status"))
		if resp.StatusCode != 504 {
			b.Errorf("%s %q", resp.Status, resp.Header.Get("Proxy-Status"))
		}
		c.Close()
		time.Sleep(11 * time.Minute)
	})
}

// TestAttemptClockStartsWithTheLastByteSent: a request that the upstream takes
// late is not cut half-way through being written.
func TestAttemptClockStartsWithTheLastByteSent(t *testing.T) {
	s := settings()
	s.Default.Budget.Burst = 0
	late := func(c net.Conn) {
		time.Sleep(8 * time.Second)
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			io.WriteString(c, ok)
		}
	}
	inBubble(t, s, late, func(b *bubble) {
		began := time.Now()
		if resp := b.send(b.dial(), getUp); resp.StatusCode != 200 {
			b.Errorf("%s %q", resp.Status, resp.Header.Get("Proxy-Status"))
		}
		within(b.T, time.Since(began), 8*time.Second)
	})
}
