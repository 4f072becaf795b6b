package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mulligan/metrics"
	"mulligan/proxy"
)

// endedConn is a client's connection that says when the proxy first closes it,
// for writing or wholly. What was written until then is in its buffer.
type endedConn struct {
	*net.TCPConn
	ended chan struct{}
}

func (c endedConn) end() {
	select {
	case c.ended <- struct{}{}:
	default:
	}
}

func (c endedConn) Close() error {
	defer c.end()
	return c.TCPConn.Close()
}

func (c endedConn) CloseWrite() error {
	defer c.end()
	return c.TCPConn.CloseWrite()
}

// endedListener makes an endedConn of the first connection.
type endedListener struct {
	net.Listener
	ended    chan struct{}
	accepted int
}

func (l *endedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if l.accepted++; l.accepted > 1 {
		return c, nil
	}
	c.(*net.TCPConn).SetWriteBuffer(2 * unreadSize)
	return endedConn{c.(*net.TCPConn), l.ended}, nil
}

const unreadSize = 300_000 // more than a client is sent while it does not read

// TestBytesBehindTheLastRequestCostNoAnswer: what the client had sent after the
// last request that is answered made the close a reset, which took the end of
// the answer from a client that is slow to read.
func TestBytesBehindTheLastRequestCostNoAnswer(t *testing.T) {
	for name, row := range map[string]struct {
		fields, behind string
		drain          bool
	}{
		"pipelined at a drain":               {"", "GET http://up.invalid/ HTTP/1.1\r\nHost: x\r\n\r\n", true},
		"empty line after Connection: close": {"Connection: close\r\n", "\r\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			arrived, answer := make(chan struct{}, 2), make(chan struct{})
			addr := rawServe(t, func(_ int, c net.Conn, r *bufio.Reader) {
				readHead(r)
				arrived <- struct{}{}
				<-answer
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", unreadSize)
				c.Write(make([]byte, unreadSize))
			})
			ended := make(chan struct{}, 1)
			srv, err := proxy.New(proxy.Options{
				Proxy: "127.0.0.1:0", Metrics: metrics.New(prometheus.NewRegistry()), Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
				Listen: func(network, addr string) (net.Listener, error) {
					ln, err := net.Listen(network, addr)
					return &endedListener{Listener: ln, ended: ended}, err
				},
			}, unhurried(settings()))
			if err != nil {
				t.Fatal(err)
			}
			srv.Start()
			t.Cleanup(srv.Close)
			c, r := call(t, srv)
			fmt.Fprintf(c, "GET http://%s/ HTTP/1.1\r\nHost: x\r\n%s\r\n", addr, row.fields)
			<-arrived
			io.WriteString(c, row.behind)
			if row.drain {
				_, idle := call(t, srv)
				go srv.Shutdown(t.Context())
				idle.ReadByte() // it is closed once the drain has begun
			}
			close(answer)
			<-ended // only now the client reads
			resp := readResponse(t, r)
			if n, err := io.Copy(io.Discard, resp.Body); n != unreadSize {
				t.Errorf("%d of %d bytes: %v", n, unreadSize, err)
			}
		})
	}
}

// TestShutdownDoesNotWaitForIdleClients: the drain lingered on connections on
// which nothing was under way, until their clients closed too.
func TestShutdownDoesNotWaitForIdleClients(t *testing.T) {
	inBubbleOn(t, settings(), (*memNet).ListenLingering, answers(ok), func(b *bubble) {
		used, fresh := b.dial(), b.dial()
		defer used.Close()
		defer fresh.Close()
		io.Copy(io.Discard, b.send(used, getUp).Body)
		began := time.Now()
		if err := b.srv.Shutdown(context.Background()); err != nil {
			b.Error(err)
		}
		within(b.T, time.Since(began), 0)
	})
}
