package main

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// endpoint is one of the second act's servers. It keeps a record of what it is
// asked.
type endpoint struct {
	*loopback
	seed  uint64
	limit int         // requests in a slot of time; more are answered 429
	down  atomic.Bool // 503 to everything

	mu      sync.Mutex
	slot    time.Time // when the present one began
	inSlot  int
	visits  []arrival
	comes   map[int]uint64    // how often a call came here
	backOn  map[int]time.Time // when a call was told to come back
	tooSoon int               // calls that came back before
}

// arrival is a request, and what came of it.
type arrival struct{ call, status int }

// The limit of the second act's endpoint A, and that of B.
const (
	slotLength   = 250 * time.Millisecond
	callsPerSlot = 10
	noLimit      = 1 << 30
)

func newEndpoint(seed uint64, limit int) (*endpoint, error) {
	e := &endpoint{seed: seed, limit: limit, comes: map[int]uint64{}, backOn: map[int]time.Time{}}
	var err error
	if e.loopback, err = serveLoopback(e); err != nil {
		return nil, err
	}
	return e, nil
}

// searchPath is the path of a call by its number, and callOf its reverse.
func searchPath(call int) string { return "/search/" + strconv.Itoa(call) }

func callOf(path string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(path, "/search/"))
	if err != nil {
		return -1 // somebody who looks around
	}
	return n
}

// ServeHTTP answers, or fails, as it is to.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, which, wait := e.arrive(callOf(r.URL.Path), time.Now())
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
		w.Header().Set("retry-after-ms", strconv.FormatInt(wait.Milliseconds(), 10))
		http.Error(w, "too many requests", status)
		return
	}
	random := drawFor(e.seed, r.URL.Path, which)
	if !e.work(r.Context(), 10*time.Millisecond+time.Duration(random.Int64N(int64(20*time.Millisecond)))) {
		return
	}
	if status != http.StatusOK {
		http.Error(w, "down", status)
		return
	}
	_, _ = io.WriteString(w, strings.Repeat("a hit ", 99)+"a hit\n")
}

// arrive takes a request into the record, and returns what is to come of it: the
// status; which of its call it is; and, with 429, in how many whole milliseconds
// to come back.
func (e *endpoint) arrive(call int, now time.Time) (status int, which uint64, wait time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now.Before(e.backOn[call]) {
		e.tooSoon++
	}
	if now.Sub(e.slot) >= slotLength {
		e.slot, e.inSlot = now, 0
	}
	e.inSlot++
	status = http.StatusOK
	switch {
	case e.down.Load():
		status = http.StatusServiceUnavailable
	case e.inSlot > e.limit:
		status = http.StatusTooManyRequests
		wait = max(time.Millisecond, (slotLength - now.Sub(e.slot)).Truncate(time.Millisecond))
		e.backOn[call] = now.Add(wait)
	}
	e.visits = append(e.visits, arrival{call, status})
	e.comes[call]++
	return status, e.comes[call], wait
}

// record returns all requests so far.
func (e *endpoint) record() []arrival {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.visits[:len(e.visits):len(e.visits)]
}

// count returns how many requests there were.
func (e *endpoint) count() int { return len(e.record()) }

// answered returns how many of them were answered with the status.
func (e *endpoint) answered(status int) int {
	n := 0
	for _, v := range e.record() {
		if v.status == status {
			n++
		}
	}
	return n
}

// early returns how many calls came back before they were told to.
func (e *endpoint) early() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.tooSoon
}
