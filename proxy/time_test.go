package proxy_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mulligan/metrics"
	"mulligan/policy"
	"mulligan/proxy"
)

const (
	ok          = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	unavailable = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
	getUp       = "GET http://up/ HTTP/1.1\r\nHost: up\r\n\r\n"
	postUp      = "POST http://up/ HTTP/1.1\r\nHost: up\r\nContent-Length: 1\r\n\r\nx"
)

// within fails unless took is what is expected, give or take the watcher's tick.
func within(t *testing.T, took, want time.Duration) {
	t.Helper()
	if took < want || took > want+50*time.Millisecond {
		t.Errorf("took %v, want %v", took, want)
	}
}

func TestServerHintIsWaitedFor(t *testing.T) {
	hinted := "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 20\r\nContent-Length: 0\r\n\r\n"
	s := settings()
	s.Default.Default.Timeout.Total = 0
	inBubble(t, s, answers(hinted, ok), func(b *bubble) {
		began := time.Now()
		resp := b.send(b.dial(), getUp)
		if took := time.Since(began); resp.StatusCode != 200 || took < 20*time.Second || took > 26*time.Second {
			b.Errorf("%s after %v", resp.Status, took)
		}
	})
}

func TestAttemptTimeoutCutsWhereARetryFollows(t *testing.T) {
	inBubble(t, settings(), answers("", ok), func(b *bubble) {
		began := time.Now()
		resp := b.send(b.dial(), getUp)
		if resp.StatusCode != 200 || resp.Header.Get("Proxy-Status") != "mulligan; attempts=2; stop=success; received-status=200" {
			b.Errorf("%s %q", resp.Status, resp.Header.Get("Proxy-Status"))
		}
		within(b.T, time.Since(began), 5*time.Second)
	})
}

// TestAttemptTimeoutLeavesTheLastAttempt: nothing could follow a POST, so only
// the window ends it.
func TestAttemptTimeoutLeavesTheLastAttempt(t *testing.T) {
	inBubble(t, settings(), answers(""), func(b *bubble) {
		began := time.Now()
		resp := b.send(b.dial(), postUp)
		if resp.StatusCode != 504 || resp.Header.Get("Proxy-Status") != "mulligan; attempts=1; stop=window; error=http_response_timeout" {
			b.Errorf("%s %q", resp.Status, resp.Header.Get("Proxy-Status"))
		}
		within(b.T, time.Since(began), 20*time.Second)
	})
}

// TestAttemptTimeoutWithoutBudget: the token is taken before the cut; without
// one the slow answer is still the best there is.
func TestAttemptTimeoutWithoutBudget(t *testing.T) {
	s := settings()
	s.Default.Budget.Burst = 0
	slow := func(c net.Conn) {
		http.ReadRequest(bufio.NewReader(c))
		time.Sleep(8 * time.Second)
		io.WriteString(c, ok)
	}
	inBubble(t, s, slow, func(b *bubble) {
		began := time.Now()
		if resp := b.send(b.dial(), getUp); resp.StatusCode != 200 {
			b.Errorf("%s %q", resp.Status, resp.Header.Get("Proxy-Status"))
		}
		within(b.T, time.Since(began), 8*time.Second)
	})
}

// TestHeldResponseTimesOut: the rest of a held response belongs to the attempt.
func TestHeldResponseTimesOut(t *testing.T) {
	inBubble(t, settings(), answers("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhal", ok), func(b *bubble) {
		began := time.Now()
		resp := b.send(b.dial(), getUp)
		if body, _ := io.ReadAll(resp.Body); string(body) != "ok" {
			b.Errorf("%s %q", resp.Status, body)
		}
		within(b.T, time.Since(began), 5*time.Second)
	})
}

// TestWatcherWakes: the watcher looks rarely when nothing happens, but not when
// something does.
func TestWatcherWakes(t *testing.T) {
	inBubble(t, settings(), answers(ok, "", ok), func(b *bubble) {
		c := b.dial()
		b.send(c, getUp)
		time.Sleep(time.Minute)
		began := time.Now()
		if resp := b.send(c, getUp); resp.StatusCode != 200 {
			b.Error(resp.Status)
		}
		within(b.T, time.Since(began), 5*time.Second)
	})
}

func TestIdleClientIsClosed(t *testing.T) {
	inBubble(t, settings(), answers(ok), func(b *bubble) {
		c := b.dial()
		b.send(c, getUp)
		began := time.Now()
		if n, err := c.Read(make([]byte, 1)); err != io.EOF {
			b.Errorf("%d %v", n, err)
		}
		if took := time.Since(began); took < 2*time.Minute || took > 2*time.Minute+2*time.Second {
			b.Errorf("closed after %v", took)
		}
	})
}

func TestSlowHead(t *testing.T) {
	inBubble(t, settings(), answers(ok), func(b *bubble) {
		c := b.dial()
		began := time.Now()
		resp := b.send(c, "GET http://up/ HTTP/1.1\r\nHos")
		if resp.StatusCode != 408 || resp.Header.Get("Proxy-Status") != "mulligan; attempts=0; stop=permanent; error=http_request_error" {
			b.Errorf("%s %q", resp.Status, resp.Header.Get("Proxy-Status"))
		}
		if took := time.Since(began); took < 10*time.Second || took > 12*time.Second {
			b.Errorf("after %v", took)
		}
	})
}

// TestStandingBodyIsGivenUp: a body that moves no byte for timeout.idle ends, and
// does not look whole.
func TestStandingBodyIsGivenUp(t *testing.T) {
	stuck := "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nbeginning"
	inBubble(t, settings(), answers(stuck), func(b *bubble) {
		began := time.Now()
		resp := b.send(b.dial(), getUp)
		if _, err := io.ReadAll(resp.Body); err == nil {
			b.Error("the body looks whole")
		}
		within(b.T, time.Since(began), time.Minute)
	})
}

// TestWindowNeverCutsABody: the window ends with the header.
func TestWindowNeverCutsABody(t *testing.T) {
	drip := func(c net.Conn) {
		http.ReadRequest(bufio.NewReader(c))
		io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		for range 6 {
			time.Sleep(10 * time.Second)
			io.WriteString(c, "1\r\nx\r\n")
		}
		io.WriteString(c, "0\r\n\r\n")
	}
	inBubble(t, settings(), drip, func(b *bubble) {
		resp := b.send(b.dial(), getUp)
		if body, err := io.ReadAll(resp.Body); string(body) != "xxxxxx" || err != nil {
			b.Errorf("%q %v", body, err)
		}
	})
}

// TestWindowStandsStillForTheBody: the time an upload takes is the client's.
func TestWindowStandsStillForTheBody(t *testing.T) {
	inBubble(t, settings(), answers(unavailable, ok), func(b *bubble) {
		c := b.dial()
		io.WriteString(c, "PUT http://up/ HTTP/1.1\r\nHost: up\r\nContent-Length: 6\r\n\r\n")
		for range 5 {
			io.WriteString(c, "x")
			time.Sleep(10 * time.Second)
		}
		if resp := b.send(c, "x"); resp.StatusCode != 200 {
			b.Errorf("%s %q", resp.Status, resp.Header.Get("Proxy-Status"))
		}
	})
}

func TestDrainEndsAWait(t *testing.T) {
	s := settings()
	s.Default.Default.Retry.Backoff = policy.Backoff{Initial: 10 * time.Second, Max: 10 * time.Second, Multiplier: 1, Jitter: policy.NoJitter}
	inBubble(t, s, answers(unavailable), func(b *bubble) {
		c := b.dial()
		go func() {
			time.Sleep(time.Second)
			b.srv.Shutdown(context.Background())
		}()
		began := time.Now()
		resp := b.send(c, getUp)
		if resp.StatusCode != 503 || resp.Header.Get("Proxy-Status") != "mulligan; attempts=1; stop=draining; received-status=503" || !resp.Close {
			b.Errorf("%s %q close=%v", resp.Status, resp.Header.Get("Proxy-Status"), resp.Close)
		}
		within(b.T, time.Since(began), time.Second)
		synctest.Wait()
	})
}

func TestTunnelIdle(t *testing.T) {
	echo := func(c net.Conn) { io.Copy(c, c) }
	inBubble(t, settings(), echo, func(b *bubble) {
		c := b.dial()
		if resp := b.send(c, "CONNECT up:80 HTTP/1.1\r\nHost: up:80\r\n\r\n"); resp.StatusCode != 200 {
			b.Fatal(resp.Status)
		}
		buf := make([]byte, 8)
		for range 3 { // moving bytes keeps it open
			io.WriteString(c, "\x16\x03\x01")
			if n, err := io.ReadFull(c, buf[:3]); err != nil {
				b.Fatal(n, err)
			}
			time.Sleep(40 * time.Second)
		}
		began := time.Now()
		if n, err := c.Read(buf); err == nil {
			b.Errorf("%d bytes", n)
		}
		within(b.T, time.Since(began), 20*time.Second)
	})
}

// TestQuiet: the proxy says once that it has become quiet, and never while a
// request is under way.
func TestQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{T: t, net: newMemNet()}
		ln, _ := b.net.Listen("", "up:80")
		defer ln.Close()
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				go func() {
					http.ReadRequest(bufio.NewReader(c))
					time.Sleep(10 * time.Second)
					io.WriteString(c, ok)
				}()
			}
		}()
		var quiet []time.Time
		s := settings()
		s.Default.Default.Timeout.Attempt = 0
		srv, err := proxy.New(proxy.Options{
			Proxy: "proxy:1", Metrics: metrics.New(prometheus.NewRegistry()), Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
			Listen: b.net.Listen, Dial: b.net.Dial, Quiet: func() { quiet = append(quiet, time.Now()) },
		}, s)
		if err != nil {
			t.Fatal(err)
		}
		srv.Start()
		began := time.Now()
		c := b.dial()
		if resp := b.send(c, getUp); resp.StatusCode != 200 {
			t.Error(resp.Status)
		}
		time.Sleep(30 * time.Second)
		c.Close()
		srv.Close()
		if len(quiet) != 1 {
			t.Fatalf("quiet at %v", quiet)
		}
		// It takes a hundred visits in a row, 10 ms apart, that find nothing: the
		// first may be in the very moment in which the request ended.
		within(t, quiet[0].Sub(began), 10*time.Second+99*10*time.Millisecond)
	})
}

// TestEachAttemptMayStandStill: an upload that stood still for timeout.idle in one
// attempt has all of it again in the next, even if that gets exactly as far.
func TestEachAttemptMayStandStill(t *testing.T) {
	s := settings()
	s.Default.Default.Timeout.Total = 0
	s.Default.Default.Retry.MaxAttempts = 3
	stuck := func(c net.Conn) {
		c.Read(make([]byte, 1000))
		time.Sleep(time.Hour)
	}
	inBubble(t, s, stuck, func(b *bubble) {
		c := b.dial()
		began := time.Now()
		go func() {
			io.WriteString(c, "PUT http://up/ HTTP/1.1\r\nHost: up\r\nContent-Length: 100000\r\n\r\n")
			c.Write(make([]byte, 100000))
		}()
		resp := readResponse(b.T, bufio.NewReader(c))
		if resp.StatusCode != 504 || resp.Header.Get("Proxy-Status") != "mulligan; attempts=3; stop=max_attempts; error=connection_write_timeout" {
			b.Errorf("%s %q", resp.Status, resp.Header.Get("Proxy-Status"))
		}
		if took := time.Since(began); took < 3*time.Minute || took > 3*time.Minute+time.Second {
			b.Errorf("took %v, want 3m", took)
		}
		c.Close()
		time.Sleep(2 * time.Hour)
	})
}
