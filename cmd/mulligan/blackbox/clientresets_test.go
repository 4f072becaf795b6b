package blackbox

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// A client's reset ends the upstream's stream at once, in whatever phase, and no
// other; its budget goes back.
func TestClientResets(t *testing.T) {
	t.Parallel()
	began, ended := make(chan string, 10), make(chan string, 10)
	p, u, host := insideFrames(t, "", func(_ int, f *frames) {
		paths := map[uint32]string{}
		for {
			switch frame := f.next().(type) {
			case nil:
				return
			case *http2.MetaHeadersFrame:
				path := fieldsOf(frame)[":path"]
				paths[frame.StreamID] = path
				switch path {
				case "/fine":
					f.fine(frame.StreamID, "fine")
					continue
				case "/body":
					f.headers(frame.StreamID, false, ":status: 200")
					f.data(frame.StreamID, false, "some")
				}
				began <- path
			case *http2.RSTStreamFrame:
				ended <- fmt.Sprint(paths[frame.StreamID], " ", frame.ErrCode)
			}
		}
	})
	f := p.frames(host)
	pauses, last := 0, time.Now()
	step := func() {
		if time.Since(last) > 400*time.Millisecond {
			pauses++
		}
		last = time.Now()
	}
	for i, row := range []struct {
		path string
		end  bool
		code http2.ErrCode
	}{{"/head", true, http2.ErrCodeCancel}, {"/body", true, http2.ErrCodeCancel}, {"/upload", false, http2.ErrCodeCancel}, {"/head", true, http2.ErrCodeInternal}} {
		stream := uint32(4*i + 1)
		f.ask(stream, row.end, "POST", host, row.path)
		want(t, "began", soon(t, row.path, began), row.path)
		if row.path == "/body" {
			for h := (heard{}); h.body == ""; {
				h.take(t, f.next())
			}
		}
		step()
		f.reset(stream, row.code)
		want(t, "the upstream's stream", soon(t, "its end", ended), row.path+" CANCEL")
		step()
		f.ask(stream+2, true, "GET", host, "/fine")
		f.hear(t, stream+2).expect(t, 200, "")
		step()
	}
	p.wantMetric(4, "mulligan_requests_total", "outcome=client_gone")

	// A client that closes its connection resets all of its streams.
	step()
	for i := range 3 {
		f.ask(uint32(101+2*i), true, "GET", host, "/head")
		soon(t, "the request", began)
		step()
	}
	f.nc.Close()
	for range 3 {
		want(t, "a stream of the connection", soon(t, "its end", ended), "/head CANCEL")
		step()
	}
	// So does one of HTTP/1.1.
	c := p.secure1(host)
	c.send(lines("GET /head HTTP/1.1", "Host: "+host))
	soon(t, "the request", began)
	c.Conn.Close()
	want(t, "the stream of a connection", soon(t, "its end", ended), "/head CANCEL")
	p.wantMetric(8, "mulligan_requests_total", "outcome=client_gone")
	p.wantMetric(0, "mulligan_retries_total")
	p.wantMetric(0, "mulligan_requests_in_flight")
	// A connection that was silent for a second takes no streams until it has shown
	// that it is there, nor one that shows it late.
	if n := u.connections(); n > 1+pauses {
		t.Errorf("%d connections to the upstream, and the machine stood still %d times", n, pauses)
	}
}

// A wait ends with the client's reset, and its token goes back.
func TestClientResetsInAWait(t *testing.T) {
	t.Parallel()
	p, u, host := insideFrames(t, "    retry: {backoff: {initial_delay: 1m, max_delay: 1m, jitter: none}, budget: {burst: 2, ratio: 0}}\n", func(_ int, f *frames) {
		for stream := range f.requests() {
			f.headers(stream, true, ":status: 503")
		}
	})
	f := p.frames(host)
	f.ask(1, true, "GET", host, "/")
	p.wantMetric(1, "mulligan_retries_waiting", "upstream=api")
	p.wantMetric(1, "mulligan_retry_budget_remaining", "upstream=api")
	f.reset(1, http2.ErrCodeCancel)
	p.wantMetric(0, "mulligan_retries_waiting", "upstream=api")
	p.wantMetric(2, "mulligan_retry_budget_remaining", "upstream=api")
	p.wantMetric(1, "mulligan_requests_total", "outcome=client_gone")
	p.wantMetric(1, "mulligan_attempts_total")
	want(t, "connections", u.connections(), 1)
}
