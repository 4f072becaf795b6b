package main

import (
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// flaky is an HTTP server on loopback that fails on purpose, and counts what it
// is asked. What it does to a request follows from the seed, the path and how
// often it saw that path: two with the same seed treat the same calls alike.
type flaky struct {
	*loopback
	seed uint64
	down atomic.Bool // an outage: 503 to everything

	mu       sync.Mutex
	seen     map[string]uint64 // requests by path
	requests int
	hinted   map[visit]bool // those that were told when to come back
}

// visit is a request by its path, and which of that path it is.
type visit struct {
	path  string
	which uint64
}

// fault is a way to fail.
type fault uint8

const (
	fine       fault = iota
	gateway          // 504
	reset            // the connection is reset before an answer
	hang             // no answer at all
	truncation       // an answer that breaks off
	busy             // 503, and when to come back
)

// faults are how many of a thousand requests fail in which way. All but gateway
// are a few: they are for show, and the budget has to afford them.
var faults = []struct {
	fault fault
	per   uint64
}{{gateway, 300}, {reset, 10}, {hang, 6}, {truncation, 10}, {busy, 12}}

// invalid is how many of a thousand paths are bad requests whatever happens: 422.
const invalid = 25

// comeBack is what a busy upstream asks for. It says so twice, as some do: in
// whole seconds, and more precisely in a field that is read first.
const comeBack = 150 * time.Millisecond

func newFlaky(seed uint64) (*flaky, error) {
	f := &flaky{seed: seed, seen: map[string]uint64{}, hinted: map[visit]bool{}}
	var err error
	if f.loopback, err = serveLoopback(f); err != nil {
		return nil, err
	}
	return f, nil
}

// count returns how many requests there were.
func (f *flaky) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests
}

// countOf returns how many of them had this path.
func (f *flaky) countOf(path string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return int(f.seen[path])
}

// saidWhen reports whether the request was told when to come back.
func (f *flaky) saidWhen(path string, which uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hinted[visit{path, which}]
}

// arrive counts a request, and returns which of its path it is.
func (f *flaky) arrive(path string) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests++
	f.seen[path]++
	return f.seen[path]
}

// sayWhen puts into an answer when to come back.
func (f *flaky) sayWhen(header http.Header, v visit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hinted[v] = true
	header.Set("Retry-After", "1")
	header.Set("retry-after-ms", strconv.FormatInt(comeBack.Milliseconds(), 10))
}

// draw returns a source that depends on the arguments and the seed only.
func (f *flaky) draw(path string, which uint64) *rand.Rand { return drawFor(f.seed, path, which) }

// ServeHTTP fails, or answers.
func (f *flaky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	which := f.arrive(r.URL.Path)
	if f.down.Load() {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	random := f.draw(r.URL.Path, which)
	if !f.work(r.Context(), 5*time.Millisecond+time.Duration(random.Int64N(int64(15*time.Millisecond)))) {
		return
	}
	if how := pick(random); how != fine {
		if how == busy {
			f.sayWhen(w.Header(), visit{r.URL.Path, which})
		}
		f.fail(how, w, r)
		return
	}
	if f.draw(r.URL.Path, 0).Uint64N(1000) < invalid {
		http.Error(w, "no such article", http.StatusUnprocessableEntity)
		return
	}
	_, _ = io.WriteString(w, strings.Repeat("an order ", 99)+"an order\n")
}

func pick(random *rand.Rand) fault {
	n := random.Uint64N(1000)
	for _, x := range faults {
		if n < x.per {
			return x.fault
		}
		n -= x.per
	}
	return fine
}

func (f *flaky) fail(how fault, w http.ResponseWriter, r *http.Request) {
	switch how {
	case gateway:
		http.Error(w, "what is behind did not answer", http.StatusGatewayTimeout)
	case busy:
		http.Error(w, "busy", http.StatusServiceUnavailable)
	case hang:
		f.work(r.Context(), time.Hour)
	case truncation:
		w.Header().Set("Content-Length", "900")
		_, _ = io.WriteString(w, strings.Repeat("an order ", 30))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case reset:
		abort(w)
	}
}

// abort resets the connection.
func abort(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
