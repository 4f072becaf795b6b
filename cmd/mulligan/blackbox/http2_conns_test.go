package blackbox

import (
	"crypto/tls"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// Requests of all clients, in either version, share one HTTP/2 connection, and
// never have more streams on it than the upstream allows. They are GETs: one that
// may not be repeated leaves a connection on which nothing came for a second, and
// nothing in the second after that, which is what a busy machine looks like, too.
func TestStreamsShareAConnection(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		allowed uint32
		per     int
	}{"unlimited": {100, 256}, "two at a time on one connection": {2, 1}, "one at a time": {1, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var over atomic.Int32
			p, u, host := insideFrames(t, fmt.Sprintf("    connections: {max_per_endpoint: %d}\n", row.per), func(_ int, f *frames) {
				var mu sync.Mutex
				open := 0
				var all sync.WaitGroup
				defer all.Wait()
				for stream, fields := range f.requests() {
					mu.Lock()
					if open++; open > int(row.allowed) {
						over.Add(1)
					}
					mu.Unlock()
					all.Go(func() {
						linger(2 * time.Millisecond) // so that requests overlap
						mu.Lock()
						open--
						mu.Unlock()
						f.fine(stream, fields[":path"])
					})
				}
			}, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: row.allowed})
			p.caller(2).do("GET", "https://"+host+"/first", "").expect(t, 200, "")
			var all sync.WaitGroup
			for c := range 4 {
				caller := p.caller(1 + c%2)
				for i := range 10 {
					all.Go(func() {
						path := fmt.Sprintf("/%d/%d", c, i)
						r := caller.do("GET", "https://"+host+path, "")
						if r.Status != 200 || r.Body != path {
							t.Errorf("%s: %d, %q, %v", path, r.Status, r.Body, r.Broken)
						}
					})
				}
			}
			all.Wait()
			want(t, "streams over the limit", over.Load(), 0)
			want(t, "connections", u.connections(), 1)
			p.wantMetric(41, "mulligan_attempts_total")
			p.wantMetric(41, "mulligan_requests_total", "outcome=success")
		})
	}
}

// An upstream that ends its connection between two requests, in whatever way,
// costs no attempt; one that announces the end finishes what it has.
func TestConnectionsEndBetweenRequests(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(f *frames, stream uint32){
		"GOAWAY and the end": func(f *frames, stream uint32) { f.goAway(stream, http2.ErrCodeNo) },
		"the end":            func(f *frames, stream uint32) {},
		"a TCP reset":        func(f *frames, stream uint32) { abort(f.nc.(*tls.Conn).NetConn()) },
		"GOAWAY of a graceful server": func(f *frames, stream uint32) {
			f.goAway(1<<31-1, http2.ErrCodeNo)
			f.goAway(stream, http2.ErrCodeNo)
			f.drained()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			closing := make(chan bool, 10)
			p, u, host := insideFrames(t, "", func(_ int, f *frames) {
				stream, _ := f.request()
				if stream == 0 {
					return
				}
				f.fine(stream, "fine")
				end(f, stream)
				f.nc.Close()
				closing <- true
			})
			f := p.frames(host)
			without := p.descriptors()
			for i := range 4 {
				f.ask(uint32(2*i+1), true, "POST", host, "/")
				f.hear(t, uint32(2*i+1)).expect(t, 200, "")
				soon(t, "the end", closing)
				eventually(t, "the end to be noticed", func() bool { return p.descriptors() <= without })
			}
			want(t, "connections", u.connections(), 4)
			p.wantMetric(4, "mulligan_attempts_total")
			p.wantMetric(4, "mulligan_requests_total", "outcome=success")
		})
	}
}

// What is at or below GOAWAY's last is finished; later requests go elsewhere.
func TestGoAwayFinishesWhatItHas(t *testing.T) {
	t.Parallel()
	held := make(chan bool)
	p, u, host := insideFrames(t, "", func(n int, f *frames) {
		for stream, fields := range f.requests() {
			if fields[":path"] != "/held" {
				f.fine(stream, fmt.Sprint("by ", n))
				continue
			}
			f.headers(stream, false, ":status: 200")
			f.goAway(stream, http2.ErrCodeNo)
			f.data(stream, false, "first ") // who has this has been told
			go func() {
				<-held
				f.data(stream, true, "last")
			}()
		}
	})
	f := p.frames(host)
	f.ask(1, true, "GET", host, "/held")
	var h heard
	for h.body == "" {
		h.take(t, f.next())
	}
	f.ask(3, true, "POST", host, "/")
	other := f.hear(t, 3)
	want(t, "another request", other.body, "by 2")
	close(held)
	for !h.done() {
		h.take(t, f.next())
	}
	want(t, "what was begun", h.body, "first last")
	want(t, "its end", h.ended && !h.reset, true)
	want(t, "connections", u.connections(), 2)
	p.wantMetric(2, "mulligan_attempts_total")
}

// flow is how much a peer allows to be sent.
type flow struct {
	mu      sync.Mutex
	changed sync.Cond
	conn    int64
	streams map[uint32]int64
	initial int64
	over    bool
}

func newFlow() *flow {
	w := &flow{conn: 65535, initial: 65535, streams: map[uint32]int64{}}
	w.changed.L = &w.mu
	return w
}

// watch takes what a frame says about windows.
func (w *flow) watch(frame http2.Frame) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch frame := frame.(type) {
	case *http2.WindowUpdateFrame:
		if frame.StreamID == 0 {
			w.conn += int64(frame.Increment)
		} else {
			w.streams[frame.StreamID] += int64(frame.Increment)
		}
	case *http2.SettingsFrame:
		if v, ok := frame.Value(http2.SettingInitialWindowSize); ok {
			w.initial = int64(v)
		}
	case *http2.RSTStreamFrame:
		w.streams[frame.StreamID] -= 1 << 40
	}
	w.changed.Broadcast()
}

// end lets all who wait go.
func (w *flow) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.changed.Broadcast()
}

// take waits for up to n bytes; 0 at the end.
func (w *flow) take(stream uint32, n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.over && min(w.conn, w.initial+w.streams[stream]) <= 0 {
		w.changed.Wait()
	}
	if w.over {
		return 0
	}
	n = int(min(int64(n), w.conn, w.initial+w.streams[stream]))
	w.conn -= int64(n)
	w.streams[stream] -= int64(n)
	return n
}

// nextIn reads any frame, and tells a flow of it; nil at the connection's end.
func (f *frames) nextIn(w *flow) http2.Frame {
	frame, err := f.ReadFrame()
	if err != nil {
		w.end()
		return nil
	}
	w.watch(frame)
	f.write.Lock()
	defer f.write.Unlock()
	switch frame := frame.(type) {
	case *http2.SettingsFrame:
		if !frame.IsAck() {
			_ = f.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if !frame.IsAck() {
			_ = f.WritePing(true, frame.Data)
		}
	}
	return frame
}

// A client that does not read one stream holds up that stream's upstream, keeps
// no more than a window of it here, and hurts no other stream.
func TestStreamThatIsNotRead(t *testing.T) {
	t.Parallel()
	const size = 20 << 20
	var sent atomic.Int64
	p, _, host := insideFrames(t, "", func(_ int, f *frames) {
		w := newFlow()
		var all sync.WaitGroup
		defer all.Wait()
		for {
			switch frame := f.nextIn(w).(type) {
			case nil:
				return
			case *http2.MetaHeadersFrame:
				stream := frame.StreamID
				if fieldsOf(frame)[":path"] == "/fine" {
					f.fine(stream, "fine")
					continue
				}
				f.headers(stream, false, ":status: 200")
				all.Go(func() {
					for left := size; left > 0; {
						n := w.take(stream, min(left, 16<<10))
						if n == 0 {
							return
						}
						left -= n
						f.data(stream, left == 0, strings.Repeat("d", n))
						sent.Add(int64(n))
					}
				})
			}
		}
	})
	f := p.frames(host)
	stalled := []uint32{1, 3, 5}
	for _, stream := range stalled {
		f.ask(stream, true, "GET", host, "/big")
	}
	got := map[uint32]int{}
	take := func() {
		switch frame := f.next().(type) {
		case nil:
			t.Fatalf("the connection ended after %v", got)
		case *http2.DataFrame:
			got[frame.StreamID] += len(frame.Data())
			f.credit(0, max(1, len(frame.Data()))) // the connection's window is no part of it
		}
	}
	for got[1] < 65535 || got[3] < 65535 || got[5] < 65535 {
		take()
	}
	for i := range 50 { // streams beside them go on
		stream := uint32(101 + 2*i)
		f.ask(stream, true, "GET", host, "/fine")
		f.hear(t, stream).expect(t, 200, "")
	}
	before := sent.Load()
	if most := int64(len(stalled)) * (2 << 20); before > most {
		t.Errorf("%d bytes were taken from the upstream for clients that took %d", before, 3*65535)
	}
	want(t, "a stream's bytes beyond its window", got[1] <= 65535, true)
	// Reading goes on where it was.
	for got[1] < size {
		f.credit(1, 65535)
		goal := min(size, got[1]+65535)
		for got[1] < goal {
			take()
		}
	}
	want(t, "bytes of the stream that was read", got[1], size)
	f.nc.Close()
	p.wantMetric(2, "mulligan_requests_total", "outcome=client_gone")
	p.wantMetric(0, "mulligan_requests_in_flight")
}

// An upstream that does not read one upload holds up its client, and no other
// stream on the shared connection.
func TestUploadThatIsNotRead(t *testing.T) {
	t.Parallel()
	release := make(chan bool)
	got := make(chan int, 1)
	p, u, host := insideFrames(t, "", func(_ int, f *frames) {
		total, paths := 0, map[uint32]string{}
		for {
			switch frame := f.next().(type) {
			case nil:
				return
			case *http2.MetaHeadersFrame:
				upload := frame.StreamID
				if paths[upload] = fieldsOf(frame)[":path"]; paths[upload] == "/up" {
					go func() { // from then on it is read
						<-release
						f.credit(upload, 1<<30)
					}()
				}
			case *http2.DataFrame:
				n := len(frame.Data())
				f.credit(0, max(1, n)) // of the connection; the upload's own window stays shut
				if paths[frame.StreamID] == "/up" {
					total += n
				}
				if frame.StreamEnded() {
					if paths[frame.StreamID] == "/up" {
						got <- total
					}
					f.fine(frame.StreamID, "fine")
				}
			}
		}
	}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10_000})
	const size = 8 << 20
	up := make(chan response, 1)
	uploader := p.caller(2)
	uploader.Timeout = lifetime
	go func() { up <- uploader.do("POST", "https://"+host+"/up", strings.Repeat("u", size)) }()
	eventually(t, "the upload to begin", func() bool {
		n, _ := p.metric("mulligan_requests_in_flight", "upstream=api")
		return n == 1
	})
	for i := range 10 {
		r := p.caller(1+i%2).do("PUT", "https://"+host+"/beside", strings.Repeat("b", 5000))
		r.expect(t, 200, "")
	}
	close(release)
	(<-up).expect(t, 200, "")
	want(t, "bytes uploaded", soon(t, "the upload", got), size)
	want(t, "connections", u.connections(), 1)
}

// An upstream that answers early, and does not want the rest of an upload: the
// client gets the whole answer, in either version, and its connection goes on.
func TestEarlyAnswerToAnUpload(t *testing.T) {
	t.Parallel()
	p, _, host := insideFrames(t, "", func(_ int, f *frames) {
		for stream, fields := range f.requests() {
			switch fields[":path"] {
			case "/reset":
				f.headers(stream, false, ":status: 413")
				f.data(stream, true, "too much")
				f.reset(stream, http2.ErrCodeNo)
			case "/ignore":
				f.headers(stream, false, ":status: 413")
				f.data(stream, true, "too much")
			default:
				f.fine(stream, "fine")
			}
		}
	})
	f := p.frames(host)
	for i, path := range []string{"/reset", "/ignore"} {
		stream := uint32(4*i + 1)
		f.ask(stream, false, "POST", host, path, "content-length: 1000000")
		f.data(stream, false, strings.Repeat("x", 1000))
		h := f.hear(t, stream)
		h.expect(t, 413, "attempts=1; stop=permanent; received-status=413")
		want(t, "body", h.body, "too much")
		f.reset(stream, http2.ErrCodeCancel)
		f.ask(stream+2, true, "GET", host, "/fine")
		f.hear(t, stream+2).expect(t, 200, "")

		r := p.caller(1).do("POST", "https://"+host+path, strings.Repeat("x", 3<<20))
		if r.Status != 413 || r.Body != "too much" {
			t.Errorf("HTTP/1.1, %s: %d %q (%v)", path, r.Status, r.Body, r.Broken)
		}
	}
	p.wantMetric(4, "mulligan_requests_total", "outcome=permanent")
	p.wantMetric(0, "mulligan_requests_in_flight")
}

// Answers that begin before the upload ends go on while it does.
func TestDuplexStreams(t *testing.T) {
	t.Parallel()
	p, _, host := insideFrames(t, "", func(_ int, f *frames) {
		for {
			switch frame := f.next().(type) {
			case nil:
				return
			case *http2.MetaHeadersFrame:
				f.headers(frame.StreamID, false, ":status: 200")
			case *http2.DataFrame:
				f.credit(0, max(1, len(frame.Data())))
				f.data(frame.StreamID, frame.StreamEnded(), strings.ToUpper(string(frame.Data())))
			}
		}
	})
	f := p.frames(host)
	f.ask(1, false, "POST", host, "/")
	var h heard
	for h.head == nil {
		h.take(t, f.next())
	}
	for i := range 100 {
		word := fmt.Sprintf("word %d,", i)
		before := len(h.body)
		f.data(1, i == 99, word)
		for len(h.body) < before+len(word) {
			h.take(t, f.next())
		}
		want(t, "echo", h.body[before:], strings.ToUpper(word))
	}
	for !h.done() {
		h.take(t, f.next())
	}
	want(t, "ended", h.ended && !h.reset, true)
}

// 100-continue passes from an HTTP/2 upstream to an HTTP/2 client, and to one of
// HTTP/1.1.
func TestContinueInside(t *testing.T) {
	t.Parallel()
	p, _, host := insideFrames(t, "", func(_ int, f *frames) {
		for {
			switch frame := f.next().(type) {
			case nil:
				return
			case *http2.MetaHeadersFrame:
				if fieldsOf(frame)["expect"] != "" {
					f.headers(frame.StreamID, false, ":status: 100")
				}
			case *http2.DataFrame:
				f.credit(0, max(1, len(frame.Data())))
				if frame.StreamEnded() {
					f.fine(frame.StreamID, "got it")
				}
			}
		}
	})
	f := p.frames(host)
	for i, method := range []string{"PUT", "POST"} {
		stream := uint32(2*i + 1)
		f.ask(stream, false, method, host, "/", "expect: 100-continue", "content-length: 4")
		h, ok := f.next().(*http2.MetaHeadersFrame)
		if !ok || h.PseudoValue("status") != "100" {
			t.Fatalf("%s: no 100: %v", method, h)
		}
		f.data(stream, true, "body")
		f.hear(t, stream).expect(t, 200, "")
	}
	c := p.secure1(host)
	c.send(lines("PUT / HTTP/1.1", "Host: "+host, "Expect: 100-continue", "Content-Length: 4"))
	want(t, "HTTP/1.1", c.next("PUT").Status, 100)
	c.send("body")
	c.next("PUT").expect(t, 200, "")
}

// A client's SETTINGS are kept: tiny windows, no header table, and changes of
// both in the middle of a stream.
func TestClientSettings(t *testing.T) {
	t.Parallel()
	body := pattern(100_000)
	ca := newAuthority(t)
	u := upstreamOn(t, tls.NewListener(listen(t, "127.0.0.1:0"), rightConfig(ca)), answering(text(200, body)))
	host := fmt.Sprintf("localhost:%d", u.port())
	p := startInside(t, "upstreams:\n"+ca.intercepting("api", "localhost", ""))
	f := p.frames(host, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}, http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0})
	f.ask(1, true, "GET", host, "/")
	var h heard
	for h.head == nil {
		h.take(t, f.next())
	}
	f.credit(1, 1)
	for len(h.body) < 1 {
		h.take(t, f.next())
	}
	want(t, "with a window of 1", h.body, body[:1])
	f.write.Lock()
	_ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 9})
	f.write.Unlock()
	for len(h.body) < 10 {
		h.take(t, f.next())
	}
	want(t, "with 9 more", h.body, body[:10])
	f.write.Lock()
	_ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}, http2.Setting{ID: http2.SettingHeaderTableSize, Val: 4096})
	f.write.Unlock()
	f.credit(0, 1<<20)
	for !h.done() {
		h.take(t, f.next())
	}
	want(t, "the whole", h.body == body, true)
	f.ask(3, true, "GET", host, "/")
	f.hear(t, 3).expect(t, 200, "")
	if f.limit == 0 {
		t.Error("no SETTINGS_MAX_CONCURRENT_STREAMS")
	}
}

// What the other side of a connection may not do ends the stream, or the
// connection with a GOAWAY, and never reaches the upstream.
func TestRequestsThatAreNoHTTP2(t *testing.T) {
	t.Parallel()
	p, u, host := apiInside(t)
	for name, fields := range map[string][]string{
		"no :path":             {":method: GET", ":scheme: https", ":authority: " + host},
		"an empty :path":       {":method: GET", ":scheme: https", ":authority: " + host, ":path: "},
		"a path of no slash":   {":method: GET", ":scheme: https", ":authority: " + host, ":path: x"},
		"a space in the path":  {":method: GET", ":scheme: https", ":authority: " + host, ":path: /a b"},
		"a fragment":           {":method: GET", ":scheme: https", ":authority: " + host, ":path: /a#b"},
		"a CR in the path":     {":method: GET", ":scheme: https", ":authority: " + host, ":path: /a\rb"},
		"a bad method":         {":method: G ET", ":scheme: https", ":authority: " + host, ":path: /"},
		"two :method":          {":method: GET", ":method: GET", ":scheme: https", ":authority: " + host, ":path: /"},
		"a late pseudo-field":  {":method: GET", ":scheme: https", "a: b", ":authority: " + host, ":path: /"},
		"an unknown one":       {":method: GET", ":scheme: https", ":authority: " + host, ":path: /", ":x: y"},
		"CONNECT":              {":method: CONNECT", ":authority: " + host},
		"upper case":           {":method: GET", ":scheme: https", ":authority: " + host, ":path: /", "Upper: x"},
		"a LF in a value":      {":method: GET", ":scheme: https", ":authority: " + host, ":path: /", "a: b\nc: d"},
		"a NUL in a value":     {":method: GET", ":scheme: https", ":authority: " + host, ":path: /", "a: b\x00"},
		"a space in a name":    {":method: GET", ":scheme: https", ":authority: " + host, ":path: /", "a b: c"},
		"Connection":           {":method: GET", ":scheme: https", ":authority: " + host, ":path: /", "connection: close"},
		"Transfer-Encoding":    {":method: POST", ":scheme: https", ":authority: " + host, ":path: /", "transfer-encoding: chunked"},
		"TE":                   {":method: GET", ":scheme: https", ":authority: " + host, ":path: /", "te: gzip"},
		"two hosts":            {":method: GET", ":scheme: https", ":authority: " + host, ":path: /", "host: other.localhost"},
		"a length, no body":    {":method: POST", ":scheme: https", ":authority: " + host, ":path: /", "content-length: 5"},
		"a bad length":         {":method: POST", ":scheme: https", ":authority: " + host, ":path: /", "content-length: +0"},
		"userinfo in the host": {":method: GET", ":scheme: https", ":authority: u@" + host, ":path: /"},
	} {
		t.Run(name, func(t *testing.T) {
			f := p.frames(host)
			defer f.nc.Close()
			f.headers(1, true, fields...)
			h := f.hear(t, 1)
			status := h.head[":status"]
			if !(h.reset && h.code == http2.ErrCodeProtocol) && !h.gone && status != "400" && status != "421" {
				t.Errorf("taken: %v", h)
			}
		})
	}
	want(t, "requests seen", u.seen("/")+u.seen("/a")+u.seen("/a b"), 0)
	p.wantMetric(0, "mulligan_attempts_total")
	p.wantMetric(0, "mulligan_requests_in_flight")
}

// Idle connections end when there is nothing more to do for the upstream's policy.
func TestIdleSharedConnectionEnds(t *testing.T) {
	t.Parallel()
	ended := make(chan bool, 1)
	p, _, host := insideFrames(t, "    connections: {idle: 300ms}\n", func(_ int, f *frames) {
		stream, _ := f.request()
		f.fine(stream, "fine")
		f.drained()
		ended <- true
	})
	p.caller(1).do("GET", "https://"+host+"/", "").expect(t, 200, "")
	soon(t, "an idle connection to end", ended)
}
