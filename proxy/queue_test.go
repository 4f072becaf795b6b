package proxy_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/policy"
	"mulligan/proxy"
)

// queueing lets an upstream have one connection, and waits 10 s before a retry.
func queueing() *proxy.Settings {
	s := settings()
	s.Default.Connections.MaxPerEndpoint = 1
	s.Default.Default.Timeout.Attempt = 0
	s.Default.Default.Timeout.Total = time.Minute
	s.Default.Default.Retry.Backoff = policy.Backoff{Initial: 10 * time.Second, Max: 10 * time.Second, Multiplier: 1, Jitter: policy.NoJitter}
	return s
}

// queueBehindAnother gives a request a failed first attempt, and lets another
// request take the only connection, for good, while the first waits.
func queueBehindAnother(b *bubble) (first net.Conn) {
	first = b.dial()
	go io.WriteString(first, getUp)
	time.Sleep(time.Second)
	go io.WriteString(b.dial(), getUp)
	time.Sleep(20 * time.Second) // by now the first one's retry is queued
	return first
}

const busy = "HTTP/1.1 503 Busy\r\nX-Why: load\r\nContent-Length: 4\r\n\r\nbusy"

// TestRetryWithoutAConnection: a retry that gets no connection is none. What the
// attempt before got is what the client gets, not the news that all are busy.
func TestRetryWithoutAConnection(t *testing.T) {
	inBubble(t, queueing(), answers(busy, ""), func(b *bubble) {
		wantBusy(b, queueBehindAnother(b), "window")
		synctest.Wait() // what was held is given back behind the answer
		if n := counter(b, b.reg, "mulligan_attempts_total", "result=5xx"); n != 1 {
			b.Errorf("%v attempts were answered, want 1", n)
		}
		if n := gauge(b, b.reg, "mulligan_buffered_bytes", ""); n != 0 {
			b.Errorf("%v bytes are still held", n)
		}
	})
}

// TestRetryOutOfTheQueueOntoADeadConnection: it was no attempt, and what is in hand
// stays there for as long as the request is queued again.
func TestRetryOutOfTheQueueOntoADeadConnection(t *testing.T) {
	var conns atomic.Int32
	inBubble(t, queueing(), func(c net.Conn) {
		if conns.Add(1) > 1 { // the third request's, for good
			io.Copy(io.Discard, c)
			return
		}
		r := bufio.NewReader(c)
		http.ReadRequest(r)
		io.WriteString(c, "HTTP/1.1 103 Early\r\nA: b\r\n\r\n"+busy)
		http.ReadRequest(r)
		time.Sleep(24 * time.Second)
		io.WriteString(c, ok) // and it ends without a word
	}, func(b *bubble) {
		c := queueBehindAnother(b)
		go io.WriteString(b.dial(), getUp) // queues behind the retry
		r := bufio.NewReader(c)
		if resp := readResponse(b.T, r); resp.StatusCode != 103 {
			b.Errorf("%s, want the answer's own 103 first", resp.Status)
		}
		wantBusyFrom(b, r, "window")
	})
}

// oneAtATime is an upstream with one worker, whose first answer is longer than
// anybody reads.
func oneAtATime(t *testing.T, ln net.Listener) {
	t.Cleanup(func() { ln.Close() })
	go func() {
		for n := 1; ; n++ {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				if n == 1 {
					io.WriteString(c, "HTTP/1.1 503 Busy\r\nContent-Length: 67108864\r\n\r\n")
					for range 1024 {
						if _, err := c.Write(make([]byte, 1<<16)); err != nil {
							break
						}
					}
				} else {
					io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
				}
			}
			c.Close()
		}
	}()
}

// TestLongFailureIsLetGoOf: a failed attempt's response that is not read to its end
// must be over before the retry is made, dialled or queued for: the server's next
// worker may be the one that writes it.
func TestLongFailureIsLetGoOf(t *testing.T) {
	const clients = 2 // of which the second takes the connection while the first waits
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			u := upstream("up")
			if scheme == "https" {
				up := httptest.NewTLSServer(nil)
				up.Close()
				u.TLS.CAFile = filepath.Join(t.TempDir(), "ca.pem")
				os.WriteFile(u.TLS.CAFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: up.Certificate().Raw}), 0o600)
				ln = tls.NewListener(ln, &tls.Config{Certificates: up.TLS.Certificates})
			}
			oneAtATime(t, ln)
			u.Hosts = []policy.HostPattern{{Name: "up.invalid"}}
			u.Endpoints = []policy.Endpoint{{Scheme: scheme, Host: "127.0.0.1", Port: ln.Addr().(*net.TCPAddr).Port}}
			u.Connections.MaxPerEndpoint = 1
			u.Default.Timeout.Attempt = 0
			u.Default.Timeout.Connect, u.Default.Timeout.Total = 10*time.Second, 30*time.Second
			u.Default.Retry.MaxAttempts = 2
			u.Default.Retry.Backoff = policy.Backoff{Initial: 200 * time.Millisecond, Max: 200 * time.Millisecond, Multiplier: 1, Jitter: policy.NoJitter}
			srv := start(t, settings(u))
			var wg sync.WaitGroup
			for range clients {
				wg.Go(func() {
					c, r := call(t, srv)
					io.WriteString(c, "GET http://up.invalid/ HTTP/1.1\r\nHost: up.invalid\r\n\r\n")
					resp, err := http.ReadResponse(r, nil)
					if err != nil {
						t.Error(err)
					} else if resp.StatusCode != 200 {
						t.Errorf("%s %s", resp.Status, resp.Header.Get("Proxy-Status"))
					}
				})
			}
			wg.Wait()
		})
	}
}

// TestConnectWithoutAConnection: a CONNECT that found no free connection is counted
// as a tunnel that was not made.
func TestConnectWithoutAConnection(t *testing.T) {
	inBubble(t, queueing(), answers(""), func(b *bubble) {
		go io.WriteString(b.dial(), getUp)
		time.Sleep(time.Second)
		resp := b.send(b.dial(), "CONNECT up:80 HTTP/1.1\r\nHost: up\r\nMulligan-Policy: total=5\r\n\r\n")
		if got, want := resp.Header.Get("Proxy-Status"), "mulligan; attempts=0; stop=window; error=http_response_timeout"; resp.StatusCode != 504 || got != want {
			b.Errorf("%s %q, want 504 %q", resp.Status, got, want)
		}
		time.Sleep(time.Second) // it is counted when it is over
		if n := counter(b, b.reg, "mulligan_tunnels_total", "result=timeout"); n != 1 {
			b.Errorf("%v tunnels counted, want 1", n)
		}
	})
}

// wantBusy expects the first attempt's answer, and the reason why there was no
// other.
func wantBusy(b *bubble, c net.Conn, stop string) {
	b.Helper()
	wantBusyFrom(b, bufio.NewReader(c), stop)
}

func wantBusyFrom(b *bubble, r *bufio.Reader, stop string) {
	b.Helper()
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		b.Fatal(err)
	}
	p := make([]byte, 4)
	io.ReadFull(resp.Body, p)
	if resp.StatusCode != 503 || resp.Header.Get("X-Why") != "load" || string(p) != "busy" {
		b.Errorf("%s %v %q", resp.Status, resp.Header, p)
	}
	if got, want := resp.Header.Get("Proxy-Status"), "mulligan; attempts=1; stop="+stop+"; received-status=503"; got != want {
		b.Errorf("Proxy-Status %q, want %q", got, want)
	}
}

// TestQueuedRetryOfAFailureWithoutAnAnswer: the failure that there was is told,
// with the retry that was paid for back in the budget.
func TestQueuedRetryOfAFailureWithoutAnAnswer(t *testing.T) {
	reset := func(c net.Conn) {
		http.ReadRequest(bufio.NewReader(c))
	}
	n := 0
	inBubble(t, queueing(), func(c net.Conn) {
		if n++; n == 1 {
			reset(c)
			return
		}
		answers("")(c)
	}, func(b *bubble) {
		before := gauge(b, b.reg, "mulligan_retry_budget_remaining", "default")
		resp, err := http.ReadResponse(bufio.NewReader(queueBehindAnother(b)), nil)
		if err != nil {
			b.Fatal(err)
		}
		if got, want := resp.Header.Get("Proxy-Status"), "mulligan; attempts=1; stop=window; error=connection_terminated"; resp.StatusCode != 502 || got != want {
			b.Errorf("%s %q, want 502 %q", resp.Status, got, want)
		}
		if after := gauge(b, b.reg, "mulligan_retry_budget_remaining", "default"); after != before {
			b.Errorf("budget %v, before %v", after, before)
		}
	})
}

// TestNoRetryOutOfTheQueueOnceDraining: a retry that is queued when the process is
// told to end is not sent any more; a first attempt still is.
func TestNoRetryOutOfTheQueueOnceDraining(t *testing.T) {
	inBubble(t, queueing(), answers(busy, ""), func(b *bubble) {
		c := queueBehindAnother(b)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { b.srv.Shutdown(ctx); close(done) }()
		began := time.Now()
		wantBusy(b, c, "draining")
		within(b.T, time.Since(began), 0)
		cancel()
		<-done
	})
}

// TestShortWaitIsNotStretched: what is left of a failed attempt's response is
// waited for no longer than the retry.
func TestShortWaitIsNotStretched(t *testing.T) {
	s := settings()
	s.Default.Default.Retry.MaxAttempts = 3
	s.Default.Default.Retry.Backoff = policy.Backoff{Initial: 2 * time.Millisecond, Max: 2 * time.Millisecond, Multiplier: 1, Jitter: policy.NoJitter}
	endless := "HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"
	inBubble(t, s, answers(endless, endless, ok), func(b *bubble) {
		began := time.Now()
		if resp := b.send(b.dial(), getUp); resp.StatusCode != 200 {
			b.Error(resp.Status)
		}
		if took := time.Since(began); took != 4*time.Millisecond {
			b.Errorf("took %v, want two waits of 2 ms", took)
		}
	})
}

// TestObserveCountsBytes: in mode observe too a body past buffer.request is what
// a retry fails by, whatever its framing.
func TestObserveCountsBytes(t *testing.T) {
	for name, request := range map[string]string{
		"length":              "Content-Length: 6\r\n\r\nabcdef",
		"chunked":             "Transfer-Encoding: chunked\r\n\r\n6\r\nabcdef\r\n0\r\n\r\n",
		"chunked, small ones": "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := settings()
			s.Default.Default.Retry.Mode = policy.ModeObserve
			s.Default.Default.Buffer.Request = 5
			inBubble(t, s, answers(unavailable, unavailable), func(b *bubble) {
				c := b.dial()
				go func() { // the second time head and body come apart
					io.WriteString(c, "PUT http://up/ HTTP/1.1\r\nHost: up\r\n"+request)
				}()
				wantNotReplayable(b, c, 1)
				c = b.dial()
				go func() {
					io.WriteString(c, "PUT http://up/ HTTP/1.1\r\nHost: up\r\n"+request[:len(request)-8])
					time.Sleep(time.Second)
					io.WriteString(c, request[len(request)-8:])
				}()
				wantNotReplayable(b, c, 2)
			})
		})
	}
}

func wantNotReplayable(b *bubble, c net.Conn, n float64) {
	b.Helper()
	resp := readResponse(b.T, bufio.NewReader(c))
	if got, want := resp.Header.Get("Proxy-Status"), "mulligan; attempts=1; stop=body_not_replayable; received-status=503"; got != want {
		b.Errorf("%q, want %q", got, want)
	}
	if got := counter(b, b.reg, "mulligan_bodies_not_replayable_total"); got != n {
		b.Errorf("%v bodies counted, want %v", got, n)
	}
}

// TestObserveForgetsTheRequestBefore: what came of one request's body is no part of
// the next one's.
func TestObserveForgetsTheRequestBefore(t *testing.T) {
	s := settings()
	s.Default.Default.Retry.Mode = policy.ModeObserve
	s.Default.Default.Buffer.Request = 5
	inBubble(t, s, answers(unavailable, unavailable), func(b *bubble) {
		c := b.dial()
		go io.WriteString(c, "PUT http://up/ HTTP/1.1\r\nHost: up\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nabcdef\r\n0\r\n\r\n"+
			"PUT http://up/ HTTP/1.1\r\nHost: up\r\nContent-Length: 3\r\n\r\nabc")
		r := bufio.NewReader(c)
		for _, stop := range []string{"body_not_replayable", "disabled"} {
			resp := readResponse(b.T, r)
			io.Copy(io.Discard, resp.Body)
			if got, want := resp.Header.Get("Proxy-Status"), "mulligan; attempts=1; stop="+stop+"; received-status=503"; got != want {
				b.Errorf("%q, want %q", got, want)
			}
		}
	})
}

// TestSilentTunnelsHoldNoSlot: a tunnel over which nobody has said anything yet is
// none of the pool's connections either.
func TestSilentTunnelsHoldNoSlot(t *testing.T) {
	s := settings()
	s.Default.Connections.MaxPerEndpoint = 1
	inBubble(t, s, answers(ok, ok), func(b *bubble) {
		var last net.Conn
		for range 3 {
			last = b.dial()
			if resp := b.send(last, "CONNECT up:80 HTTP/1.1\r\nHost: up\r\n\r\n"); resp.StatusCode != 200 {
				b.Fatal(resp.Status, resp.Header.Get("Proxy-Status"))
			}
		}
		time.Sleep(time.Second)
		if resp := b.send(last, "GET / HTTP/1.1\r\nHost: up\r\n\r\n"); resp.StatusCode != 200 {
			b.Error(resp.Status, resp.Header.Get("Proxy-Status"))
		}
	})
}

// TestFailedAnswerIsNotKeptDuringTheRetry: once the retry has a connection, the
// memory of what came before is for others.
func TestFailedAnswerIsNotKeptDuringTheRetry(t *testing.T) {
	s := queueing()
	s.Default.Connections.MaxPerEndpoint = 256
	inBubble(t, s, answers(busy, ""), func(b *bubble) {
		go io.WriteString(b.dial(), getUp)
		time.Sleep(time.Second)
		if n := gauge(b, b.reg, "mulligan_buffered_bytes", ""); n != 4 {
			b.Errorf("%v bytes are held during the wait, want 4", n)
		}
		time.Sleep(20 * time.Second)
		if n := gauge(b, b.reg, "mulligan_buffered_bytes", ""); n != 0 {
			b.Errorf("%v bytes are held while the retry is made", n)
		}
	})
}

// TestShortWaitKeepsTheConnection: a failed answer that is wholly there costs no
// connection, however short the wait and whatever its framing.
func TestShortWaitKeepsTheConnection(t *testing.T) {
	for name, body := range map[string]string{"length": "Content-Length: 4\r\n\r\nbusy", "chunked": "Transfer-Encoding: chunked\r\n\r\n4\r\nbusy\r\n0\r\n\r\n"} {
		t.Run(name, func(t *testing.T) {
			s := settings()
			s.Default.Default.Retry.Backoff = policy.Backoff{Initial: 2 * time.Millisecond, Max: 2 * time.Millisecond, Multiplier: 1, Jitter: policy.NoJitter}
			failed := "HTTP/1.1 503 Busy\r\n" + body
			serve := answers(failed, failed, ok)
			var conns atomic.Int32
			inBubble(t, s, func(c net.Conn) { conns.Add(1); serve(c) }, func(b *bubble) {
				if resp := b.send(b.dial(), getUp); resp.StatusCode != 200 {
					b.Error(resp.Status)
				}
				if n := conns.Load(); n != 1 {
					b.Errorf("%d connections", n)
				}
			})
		})
	}
}
