package main

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// clientsAtOnce is how many clients each side has.
const clientsAtOnce = 16

// patience is how long a client waits for an answer: longer than mulligan's
// window, so that it gets to hear what became of its request.
const patience = 4 * time.Second

// call is one request that clients make.
type call struct {
	method, path string
	key          string // Idempotency-Key; "" none
}

// newCalls draws calls: most can be repeated (GET, PUT, POST with a key), some
// cannot (POST without).
func newCalls(n int, seed uint64) []call {
	random := rand.New(rand.NewPCG(seed, 0))
	calls := make([]call, n)
	for i := range calls {
		c := call{method: "GET", path: pathOf(i)}
		switch k := random.IntN(100); {
		case k < 10:
			c.method = "POST"
		case k < 18:
			c.method, c.key = "POST", "order-"+strconv.Itoa(i+1)
		case k < 25:
			c.method = "PUT"
		}
		calls[i] = c
	}
	return calls
}

// pathOf is the path of a call by its number; no two calls share one.
func pathOf(call int) string { return "/orders/" + strconv.Itoa(call+1) }

// result is what a client saw.
type result struct {
	status   int  // 0: no answer
	broke    bool // the answer's body broke off
	attempts int  // by Proxy-Status; 1 where it says nothing
	stop     string
	took     time.Duration
}

func (r result) good() bool { return r.status >= 200 && r.status < 400 && !r.broke }

// begun reports whether a good answer broke off when some of it had gone to the
// client already: nobody can take that back, so for mulligan the request ended
// with the status that it had.
func (r result) begun() bool {
	return r.broke && r.status < 400 && (r.stop == "" || r.stop == "success")
}

// clients make calls, so many at once, as numbers of calls come in.
type clients struct {
	next chan int
	all  []result
	busy sync.WaitGroup
}

// newClients starts clients of the server at that base; of several, each call goes
// to the next one's.
func newClients(ctx context.Context, client *http.Client, calls []call, bases ...string) *clients {
	c := &clients{next: make(chan int, len(calls)), all: make([]result, len(calls))}
	for range clientsAtOnce {
		c.busy.Go(func() {
			for i := range c.next {
				c.all[i] = calls[i].make(ctx, client, bases[i%len(bases)])
			}
		})
	}
	return c
}

// newClient goes through the proxy at that address or, where it is "", directly. It
// has a connection for each request: over kept ones net/http repeats
// some requests by itself, and here it is to be seen who repeats what.
func newClient(proxy string) *http.Client {
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true}
	if proxy != "" {
		transport.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: proxy})
	}
	return &http.Client{Transport: transport, Timeout: patience}
}

// results waits for the calls under way and returns what became of all.
func (c *clients) results() []result {
	close(c.next)
	c.busy.Wait()
	return c.all
}

// make makes the call, and reads its answer to the end.
func (c call) make(ctx context.Context, client *http.Client, base string) result {
	begin := time.Now()
	r := c.answer(ctx, client, base)
	r.took = time.Since(begin)
	return r
}

func (c call) answer(ctx context.Context, client *http.Client, base string) result {
	r := result{attempts: 1}
	var body io.Reader
	if c.method != "GET" {
		body = strings.NewReader(`{"article": 7}`)
	}
	request, err := http.NewRequestWithContext(ctx, c.method, base+c.path, body)
	if err != nil {
		return r
	}
	if c.key != "" {
		request.Header.Set("Idempotency-Key", c.key)
	}
	response, err := client.Do(request)
	if err != nil {
		return r
	}
	defer response.Body.Close()
	r.readStatus(response.Header.Get("Proxy-Status"))
	r.status = response.StatusCode
	_, err = io.Copy(io.Discard, response.Body)
	r.broke = err != nil
	return r
}

// readStatus reads what mulligan says in Proxy-Status (RFC 9209):
// `mulligan; attempts=3; stop=success`.
func (r *result) readStatus(field string) {
	for part := range strings.SplitSeq(field, ";") {
		switch key, value, _ := strings.Cut(strings.TrimSpace(part), "="); key {
		case "attempts":
			r.attempts, _ = strconv.Atoi(value)
		case "stop":
			r.stop = value
		}
	}
}
