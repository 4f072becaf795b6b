package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mulligan/metrics"
	"mulligan/policy"
	"mulligan/proxy"
)

// Events and what is none.
const (
	overloaded = "event: error\ndata: {\"type\": \"overloaded_error\"}\n\n"
	pinged     = "event: ping\ndata: {\"type\": \"ping\"}\n\n"
	comment    = ": still here\n\n"
	started    = "event: message_start\ndata: {}\n\n"
	message    = "data: hello\n\n"
)

// eventSettings has first_event on, and error_event retried.
func eventSettings() *proxy.Settings {
	s := settings()
	firstEvents(s.Default)
	return s
}

func firstEvents(u *policy.Upstream) {
	u.Default.Buffer.FirstEvent = true
	if err := u.Default.Retry.RetryOn.Add("error_event"); err != nil {
		panic(err)
	}
}

// events is a server of one event stream: its head at once, then each part after
// a second, then the end, which is the connection's.
func events(parts ...string) func(net.Conn) {
	return func(c net.Conn) {
		readHead(bufio.NewReaderSize(c, 16))
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
		for _, p := range parts {
			time.Sleep(time.Second)
			io.WriteString(c, p)
		}
	}
}

// broken is events for a stream that breaks off instead of ending.
func broken(parts ...string) func(net.Conn) {
	return func(c net.Conn) {
		readHead(bufio.NewReaderSize(c, 16))
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
		for _, p := range parts {
			fmt.Fprintf(c, "%x\r\n%s\r\n", len(p), p)
		}
	}
}

// wholeStream is an answer that is a whole event stream, and leaves the connection.
func wholeStream(stream string) string {
	return "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks(stream)
}

// slowly is wholeStream, a byte each millisecond.
func slowly(stream string) func(net.Conn) {
	return func(c net.Conn) {
		readHead(bufio.NewReaderSize(c, 16))
		answer := wholeStream(stream)
		for i := range len(answer) {
			io.WriteString(c, answer[i:i+1])
			time.Sleep(time.Millisecond)
		}
	}
}

func post(path string) string {
	return "POST http://up" + path + " HTTP/1.1\r\nHost: up\r\nContent-Length: 0\r\n\r\n"
}

// TestFirstEvent: what begins with an error, or ends without an event, is a failed
// attempt; comments and pings are no events, and go to the client with the first.
func TestFirstEvent(t *testing.T) {
	good := events(started, message)
	for name, row := range map[string]struct {
		first    func(net.Conn)
		attempts int
		body     string
	}{
		"error":                   {events(overloaded), 2, started + message},
		"error, in bytes":         {slowly(overloaded), 2, started + message},
		"error, stream goes on":   {events(overloaded, message, message), 2, started + message},
		"error without data":      {events("event: error\n\n"), 2, started + message},
		"error, behind a ping":    {events(comment, pinged, overloaded), 2, started + message},
		"error, with a length":    {oneAnswer(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s", len(overloaded), overloaded)), 2, started + message},
		"end at once":             {events(), 2, started + message},
		"end, of length 0":        {oneAnswer("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 0\r\n\r\n"), 2, started + message},
		"end behind comments":     {events(comment, pinged, comment), 2, started + message},
		"end in an event":         {events(strings.TrimSuffix(message, "\n")), 2, started + message},
		"event":                   {events(message), 1, message},
		"event, in bytes":         {slowly(message + overloaded), 1, message + overloaded},
		"event behind a ping":     {events(comment, pinged, message), 1, comment + pinged + message},
		"event, then an error":    {events(message, overloaded), 1, message + overloaded},
		"event with the error":    {events(message + overloaded), 1, message + overloaded},
		"error in the data alone": {events("data: {\"error\": {}}\n\n"), 1, "data: {\"error\": {}}\n\n"},
		"event, with a length":    {oneAnswer(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s", len(message), message)), 1, message},
		"another type":            {oneAnswer("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 14\r\n\r\nevent: error\n\n"), 1, "event: error\n\n"},
		"another status":          {oneAnswer("HTTP/1.1 201 Created\r\nContent-Type: text/event-stream\r\nContent-Length: 14\r\n\r\nevent: error\n\n"), 1, "event: error\n\n"},
		"a coding":                {oneAnswer("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: br\r\nContent-Length: 14\r\n\r\nevent: error\n\n"), 1, "event: error\n\n"},
		"a coding that is none":   {oneAnswer("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: identity\r\nContent-Length: 14\r\n\r\nevent: error\n\n"), 2, started + message},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, eventSettings(), inTurn(row.first, good), func(b *bubble) {
				c := b.dial()
				defer c.Close()
				resp := b.send(c, getUp)
				want := ""
				if row.attempts > 1 {
					want = fmt.Sprintf("mulligan; attempts=%d; stop=success; received-status=200", row.attempts)
				}
				if got := resp.Header.Get("Proxy-Status"); got != want {
					b.Errorf("%s %q, want %q", resp.Status, got, want)
				}
				if body, err := io.ReadAll(resp.Body); string(body) != row.body || err != nil {
					b.Errorf("%q %v", body, err)
				}
				failed := float64(row.attempts - 1)
				if n := counter(b.T, b.reg, "mulligan_attempts_total", "result=error_event"); n != failed {
					b.Errorf("%v attempts ended as error_event", n)
				}
				if n := counter(b.T, b.reg, "mulligan_retries_total", "reason=error_event"); n != failed {
					b.Errorf("%v retries for error_event", n)
				}
				time.Sleep(2 * time.Second) // what goes on behind its error comes to its end
				b.nothingKept()
			})
		})
	}
}

// TestFirstEventIsOff: nothing is looked for where it is not asked for, whoever
// was asked before on the same connection.
func TestFirstEventIsOff(t *testing.T) {
	s := eventSettings()
	off := route("off")
	off.Path, off.Prefix = "/off", false
	s.Default.Routes = []*policy.Route{off}
	inBubble(t, s, answers(wholeStream(overloaded), wholeStream(message), wholeStream(overloaded)), func(b *bubble) {
		c := b.dial()
		r := bufio.NewReader(c)
		for _, row := range []struct{ path, want, says string }{
			{"/", overloaded, "mulligan; attempts=1; stop=not_idempotent; received-status=200"},
			{"/off", message, ""},
			{"/off", overloaded, ""},
		} {
			io.WriteString(c, post(row.path))
			resp := readResponse(b.T, r)
			body, err := io.ReadAll(resp.Body)
			if got := resp.Header.Get("Proxy-Status"); string(body) != row.want || err != nil || got != row.says {
				b.Errorf("%q %v %q", body, err, got)
			}
		}
	})
}

// TestHeadHasNoFirstEvent: that no event comes of it is no failure.
func TestHeadHasNoFirstEvent(t *testing.T) {
	inBubble(t, eventSettings(), answers("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"), func(b *bubble) {
		resp := b.send(b.dial(), "HEAD http://up/ HTTP/1.1\r\nHost: up\r\n\r\n")
		if got := resp.Header.Get("Proxy-Status"); resp.StatusCode != 200 || got != "" {
			b.Errorf("%s %q", resp.Status, got)
		}
	})
}

// TestFirstEventDelaysNothingElse: the head comes with the first event, and what
// follows as it comes; then nothing is held any more.
func TestFirstEventDelaysNothingElse(t *testing.T) {
	inBubble(t, eventSettings(), events(comment, pinged, started, message, message), func(b *bubble) {
		c := b.dial()
		began := time.Now()
		resp := b.send(c, getUp)
		within(b.T, time.Since(began), 3*time.Second)
		for i, want := range []string{comment + pinged + started, message, message} {
			p := make([]byte, len(want))
			if _, err := io.ReadFull(resp.Body, p); err != nil || string(p) != want {
				b.Fatalf("%q %v", p, err)
			}
			within(b.T, time.Since(began), time.Duration(3+i)*time.Second)
			if n := gauge(b.T, b.reg, "mulligan_buffered_bytes", ""); i > 0 && n != 0 {
				b.Errorf("%v bytes are kept while it streams", n)
			}
		}
		if rest, err := io.ReadAll(resp.Body); len(rest) > 0 || err != nil {
			b.Errorf("%q %v", rest, err)
		}
	})
}

// TestLastErrorEventIsTheAnswer: when retries end the client gets the stream as it
// came, and what still comes of it.
func TestLastErrorEventIsTheAnswer(t *testing.T) {
	first, last := events(overloaded), events(pinged, overloaded, comment, message)
	for name, row := range map[string]struct {
		request string
		serve   func(net.Conn)
		says    string
		took    time.Duration
	}{
		"attempts": {getUp, inTurn(first, first, first, last), "mulligan; attempts=4; stop=max_attempts; received-status=200", 5 * time.Second},
		"method":   {post("/"), last, "mulligan; attempts=1; stop=not_idempotent; received-status=200", 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			s := eventSettings()
			s.Default.Default.Retry.Backoff = policy.Backoff{Initial: time.Millisecond, Max: time.Millisecond, Multiplier: 1}
			inBubble(t, s, row.serve, func(b *bubble) {
				c := b.dial()
				defer c.Close()
				began := time.Now()
				resp := b.send(c, row.request)
				if got := resp.Header.Get("Proxy-Status"); resp.StatusCode != 200 || got != row.says {
					b.Errorf("%s %q", resp.Status, got)
				}
				within(b.T, time.Since(began), row.took)
				if body, err := io.ReadAll(resp.Body); string(body) != pinged+overloaded+comment+message || err != nil {
					b.Errorf("%q %v", body, err)
				}
				if n := counter(b.T, b.reg, "mulligan_requests_total", "outcome=failed"); n != 1 {
					b.Errorf("%v requests failed", n)
				}
				b.nothingKept()
			})
		})
	}
}

// TestErrorEventThatIsFinal: where error_event is not listed, the first is the
// answer.
func TestErrorEventThatIsFinal(t *testing.T) {
	s := settings()
	s.Default.Default.Buffer.FirstEvent = true
	inBubble(t, s, events(overloaded), func(b *bubble) {
		c := b.dial()
		defer c.Close()
		resp := b.send(c, getUp)
		body, err := io.ReadAll(resp.Body)
		if got := resp.Header.Get("Proxy-Status"); got != "mulligan; attempts=1; stop=permanent; received-status=200" || string(body) != overloaded || err != nil {
			b.Errorf("%q %q %v", got, body, err)
		}
	})
}

// TestErrorEventIsHinted: a Retry-After that came with the stream is obeyed.
func TestErrorEventIsHinted(t *testing.T) {
	hinted := strings.Replace(wholeStream(overloaded), "\r\n", "\r\nRetry-After: 8\r\n", 1)
	inBubble(t, eventSettings(), answers(hinted, wholeStream(message)), func(b *bubble) {
		began := time.Now()
		resp := b.send(b.dial(), getUp)
		if took := time.Since(began); resp.StatusCode != 200 || took < 8*time.Second || took > 11*time.Second {
			b.Errorf("%s after %v", resp.Status, took)
		}
	})
}

// TestStreamBreaksOff: before its first event it is a failed attempt, truncated;
// behind it the client sees the break.
func TestStreamBreaksOff(t *testing.T) {
	for name, row := range map[string]struct {
		request string
		serve   func(net.Conn)
		status  int
		says    string
		body    string
	}{
		"before": {getUp, inTurn(broken(pinged), events(message)), 200, "mulligan; attempts=2; stop=success; received-status=200", message},
		"before, last": {post("/"), broken(pinged), 502,
			"mulligan; attempts=1; stop=not_idempotent; received-status=200; error=http_response_incomplete", ""},
		"behind": {getUp, broken(pinged, message), 200, "", pinged + message},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, eventSettings(), row.serve, func(b *bubble) {
				c := b.dial()
				defer c.Close()
				resp := b.send(c, row.request)
				if got := resp.Header.Get("Proxy-Status"); resp.StatusCode != row.status || got != row.says {
					b.Errorf("%s %q", resp.Status, got)
				}
				body, err := io.ReadAll(resp.Body)
				if row.status == 200 && string(body) != row.body || (err != nil) != (name == "behind") {
					b.Errorf("%q %v", body, err)
				}
				want := map[bool]float64{true: 0, false: 1}[name == "behind"]
				if n := counter(b.T, b.reg, "mulligan_attempts_total", "result=truncated"); n != want {
					b.Errorf("%v attempts were truncated", n)
				}
				b.nothingKept()
			})
		})
	}
}

// TestFirstEventIsLate: timeout.attempt bounds the hold. It is a retry where one
// can follow; else the client gets what is there, and the rest as it comes.
func TestFirstEventIsLate(t *testing.T) {
	late := events(comment, comment, comment, comment, comment, comment, message)
	for _, row := range []struct {
		request, want, says string
		timeouts            float64
	}{
		{getUp, message, "mulligan; attempts=2; stop=success; received-status=200", 1},
		{post("/"), strings.Repeat(comment, 6) + message, "", 0},
	} {
		inBubble(t, eventSettings(), inTurn(late, answers(wholeStream(message))), func(b *bubble) {
			c := b.dial()
			defer c.Close()
			began := time.Now()
			resp := b.send(c, row.request)
			within(b.T, time.Since(began), 5*time.Second)
			if got := resp.Header.Get("Proxy-Status"); got != row.says {
				b.Errorf("%q, want %q", got, row.says)
			}
			if body, err := io.ReadAll(resp.Body); string(body) != row.want || err != nil {
				b.Errorf("%q %v", body, err)
			}
			if n := counter(b.T, b.reg, "mulligan_attempts_total", "result=timeout"); n != row.timeouts {
				b.Errorf("%v attempts ended as timeout", n)
			}
			time.Sleep(4 * time.Second) // what is late comes to its end
			b.nothingKept()
		})
	}
}

// TestWindowEndsTheHold: the window ends with the header, which is here.
func TestWindowEndsTheHold(t *testing.T) {
	s := eventSettings()
	s.Default.Default.Timeout.Attempt = 0
	s.Default.Default.Timeout.Total = 2500 * time.Millisecond
	inBubble(t, s, events(comment, comment, comment, message), func(b *bubble) {
		c := b.dial()
		defer c.Close()
		began := time.Now()
		resp := b.send(c, getUp)
		within(b.T, time.Since(began), 2500*time.Millisecond)
		if body, err := io.ReadAll(resp.Body); string(body) != strings.Repeat(comment, 3)+message || err != nil || resp.Header.Get("Proxy-Status") != "" {
			b.Errorf("%s %q %q %v", resp.Status, resp.Header.Get("Proxy-Status"), body, err)
		}
	})
}

// TestTooMuchBeforeTheFirstEvent: what is longer than buffer.response without an
// event goes on, whatever follows, and however it is cut.
func TestTooMuchBeforeTheFirstEvent(t *testing.T) {
	const most = 100
	for name, serve := range map[string]func(stream string) func(net.Conn){
		"in one":   func(stream string) func(net.Conn) { return events(stream) },
		"in bytes": slowly,
		"with a length": func(stream string) func(net.Conn) {
			return oneAnswer(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s", len(stream), stream))
		},
	} {
		for _, row := range []struct {
			stream   string
			attempts int
		}{
			{strings.Repeat(":", most-len(overloaded)-1) + "\n" + overloaded, 2},
			{strings.Repeat(":", most-len(overloaded)) + "\n" + overloaded, 1},
			{strings.Repeat(":", most), 2},
			{strings.Repeat(":", most+1), 1},
		} {
			t.Run(fmt.Sprint(name, len(row.stream), row.attempts), func(t *testing.T) {
				s := eventSettings()
				s.Default.Default.Buffer.Response = most
				inBubble(t, s, inTurn(serve(row.stream), answers(wholeStream(message))), func(b *bubble) {
					c := b.dial()
					defer c.Close()
					want := row.stream
					if row.attempts == 2 {
						want = message
					}
					if body, err := io.ReadAll(b.send(c, getUp).Body); string(body) != want || err != nil {
						b.Errorf("%q %v", body, err)
					}
					b.nothingKept()
				})
			})
		}
	}
}

// TestClientLeavesWhileItIsHeld: the upstream's connection ends, and nothing is
// kept or sent again. It takes real connections: a pipe's end cannot be asked
// whether its peer is there.
func TestClientLeavesWhileItIsHeld(t *testing.T) {
	held, closed := make(chan struct{}), make(chan struct{})
	up := rawServe(t, func(_ int, c net.Conn, r *bufio.Reader) {
		readHead(r)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"+comment)
		close(held) // a second attempt would panic
		io.Copy(io.Discard, r)
		close(closed)
	})
	srv, reg := startWith(t, eventSettings(), nil, nil)
	c, _ := call(t, srv)
	fmt.Fprintf(c, "GET http://%s/ HTTP/1.1\r\nHost: %s\r\n\r\n", up, up)
	<-held
	if !eventually(func() bool { return gauge(t, reg, "mulligan_buffered_bytes", "") == float64(len(comment)) }) {
		t.Error("nothing is held")
	}
	c.Close()
	<-closed
	if !eventually(func() bool {
		return counter(t, reg, "mulligan_requests_total", "outcome=client_gone") == 1 &&
			gauge(t, reg, "mulligan_buffered_bytes", "") == 0 && gauge(t, reg, "mulligan_requests_in_flight", "default") == 0
	}) {
		t.Error("something is left of the request")
	}
}

// TestPingsKeepAHeldStreamAlive: timeout.idle is for streams that stand still.
func TestPingsKeepAHeldStreamAlive(t *testing.T) {
	pings := []string{comment, comment, comment, comment}
	silent := func(c net.Conn) {
		readHead(bufio.NewReaderSize(c, 16))
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"+comment)
		io.Copy(io.Discard, c)
	}
	for name, row := range map[string]struct {
		serve func(net.Conn)
		took  time.Duration
	}{
		"pings":  {events(append(pings, message)...), 5 * time.Second},
		"silent": {inTurn(silent, answers(wholeStream(message))), 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			s := eventSettings()
			s.Default.Default.Timeout.Attempt = 10 * time.Second
			s.Default.Default.Timeout.Idle = 2 * time.Second
			inBubble(t, s, row.serve, func(b *bubble) {
				c := b.dial()
				defer c.Close()
				began := time.Now()
				resp := b.send(c, getUp)
				within(b.T, time.Since(began), row.took)
				if body, err := io.ReadAll(resp.Body); !strings.HasSuffix(string(body), message) || err != nil {
					b.Errorf("%q %v", body, err)
				}
				b.nothingKept()
			})
		})
	}
}

// TestFailedStreamsLeaveTheirConnection: streams that ended are off their
// connection before the retry, and one that goes on does not keep the only place.
func TestFailedStreamsLeaveTheirConnection(t *testing.T) {
	for name, row := range map[string]struct {
		serve func(net.Conn)
		conns int32
	}{
		"ended":   {answers(wholeStream(comment), wholeStream(overloaded), wholeStream(message)), 1},
		"goes on": {inTurn(events(overloaded, message), events(message)), 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := eventSettings()
			s.Default.Connections.MaxPerEndpoint = 1
			var conns atomic.Int32
			inBubble(t, s, func(c net.Conn) { conns.Add(1); row.serve(c) }, func(b *bubble) {
				c := b.dial()
				defer c.Close()
				if body, err := io.ReadAll(b.send(c, getUp).Body); string(body) != message || err != nil {
					b.Errorf("%q %v", body, err)
				}
				if n := conns.Load(); n != row.conns {
					b.Errorf("%d connections", n)
				}
				b.nothingKept()
			})
		})
	}
}

// TestErrorEventInTheLog: the access log names the class.
func TestErrorEventInTheLog(t *testing.T) {
	var log syncBuffer
	s := eventSettings()
	s.AccessLog = true
	up := rawServe(t, func(n int, c net.Conn, r *bufio.Reader) {
		readHead(r)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"+map[bool]string{true: overloaded, false: message}[n == 1])
	})
	srv, err := proxy.New(proxy.Options{
		Proxy: "127.0.0.1:0", Metrics: metrics.New(prometheus.NewRegistry()), Log: slog.New(slog.NewTextHandler(&log, nil)),
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, up)
		},
	}, s)
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	defer srv.Close()
	resp, err := through(srv).Get("http://up.test/")
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if !eventually(func() bool { return strings.Contains(log.String(), "attempts.1.result=error_event") }) {
		t.Error(log.String())
	}
}

// TestFirstEventOnHTTP2: the same over HTTP/2, upstream and client.
func TestFirstEventOnHTTP2(t *testing.T) {
	for _, http2 := range []bool{true, false} {
		var n atomic.Int32
		i := intercept(t, true, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			parts := []string{comment, started[:7], started[7:], message}
			switch n.Add(1) {
			case 1:
				parts = []string{pinged, overloaded[:10], overloaded[10:]}
			case 2:
				parts = nil
			}
			for _, p := range parts {
				io.WriteString(w, p)
				w.(http.Flusher).Flush()
			}
		}, firstEvents)
		resp, err := i.client(t, http2).Get("https://" + i.host + "/")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(body) != comment+started+message || err != nil || n.Load() != 3 {
			t.Errorf("%q %v, %d attempts", body, err, n.Load())
		}
		if !eventually(func() bool { return gauge(t, i.reg, "mulligan_buffered_bytes", "") == 0 }) {
			t.Errorf("%v bytes are kept", gauge(t, i.reg, "mulligan_buffered_bytes", ""))
		}
	}
}

// TestUpgradeBehindAnErrorEvent: what the request before ended with says nothing of
// a 101.
func TestUpgradeBehindAnErrorEvent(t *testing.T) {
	inBubble(t, eventSettings(), answers(wholeStream(overloaded), switching), func(b *bubble) {
		c := b.dial()
		defer c.Close()
		r := bufio.NewReader(c)
		io.WriteString(c, post("/"))
		io.Copy(io.Discard, readResponse(b.T, r).Body)
		io.WriteString(c, "GET http://up/ HTTP/1.1\r\nHost: up\r\nConnection: Upgrade\r\nUpgrade: foo\r\n\r\n")
		resp := readResponse(b.T, r)
		if got := resp.Header.Get("Proxy-Status"); resp.StatusCode != 101 || got != "" {
			b.Errorf("%s %q", resp.Status, got)
		}
	})
}
