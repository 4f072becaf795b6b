package proxy_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"mulligan/policy"
	"mulligan/proxy"
)

// told is what attempts arrive with, as an upstream sees it.
type told struct {
	mu   sync.Mutex
	seen []http.Header
}

func (u *told) note(h http.Header) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.seen = append(u.seen, h)
	return len(u.seen)
}

// expect compares the values of one field, attempt by attempt; several in one are
// joined by a bar.
func (u *told) expect(t *testing.T, name string, want ...string) {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	var got []string
	for _, h := range u.seen {
		got = append(got, strings.Join(h.Values(name), "|"))
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("%s: %q, want %q", name, got, want)
	}
}

// telling makes the default policy tell under these names.
func telling(attempt, remaining string) *proxy.Settings {
	s := settings()
	r := s.Default.Default
	r.AttemptHeader, r.RemainingHeader = attempt, remaining
	r.Retry.Backoff = policy.Backoff{Initial: 1500 * time.Millisecond, Max: 1500 * time.Millisecond, Multiplier: 1, Jitter: policy.NoJitter}
	return s
}

// tellOne sends one request in virtual time: its first attempt takes 100.5 ms, the
// second comes 1.5 s after that.
func tellOne(t *testing.T, s *proxy.Settings, fields string) *told {
	t.Helper()
	var u told
	inBubble(t, s, func(c net.Conn) {
		r := bufio.NewReader(c)
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			io.Copy(io.Discard, req.Body)
			if u.note(req.Header) == 1 {
				time.Sleep(100*time.Millisecond + 500*time.Microsecond)
				io.WriteString(c, unavailable)
			} else {
				io.WriteString(c, ok)
			}
		}
	}, func(b *bubble) {
		resp := b.send(b.dial(), "GET http://up/ HTTP/1.1\r\nHost: up\r\n"+fields+"\r\n")
		if resp.StatusCode != 200 {
			b.Errorf("%s", resp.Status)
		}
	})
	return &u
}

// TestTold: each attempt says which it is, and what is left of the window, in
// whole milliseconds, rounded down.
func TestTold(t *testing.T) {
	u := tellOne(t, telling("X-Attempt", "X-Remaining-Ms"), "")
	u.expect(t, "X-Attempt", "1", "2")
	u.expect(t, "X-Remaining-Ms", "20000", "18399") // of 20 s; 100.5 ms and 1.5 s later
}

// TestToldAsGRPC: where the field is gRPC's it has gRPC's format, and the window is
// the client's own where that is shorter.
func TestToldAsGRPC(t *testing.T) {
	u := tellOne(t, telling("", "Grpc-Timeout"), "Content-Type: application/grpc\r\ngrpc-timeout: 3S\r\n")
	u.expect(t, "Grpc-Timeout", "3000m", "1399m")
	u.expect(t, "X-Attempt", "", "")
}

// TestToldWithoutWindow: nothing is left of what is not there.
func TestToldWithoutWindow(t *testing.T) {
	s := telling("X-Attempt", "X-Remaining-Ms")
	s.Default.Default.Timeout.Total = 0
	u := tellOne(t, s, "x-remaining-ms: 5\r\n")
	u.expect(t, "X-Attempt", "1", "2")
	u.expect(t, "X-Remaining-Ms", "", "")
}

// TestNotTold: without the option the client's own fields pass, however they are
// called.
func TestNotTold(t *testing.T) {
	u := tellOne(t, telling("", ""), "X-Attempt: 7\r\nX-Attempt: 8\r\n")
	u.expect(t, "X-Attempt", "7|8", "7|8")
}

// TestToldOnce: what a client sends under these names is replaced, on either
// version of HTTP on either side; in trailers too.
func TestToldOnce(t *testing.T) {
	bothWays(t, func(t *testing.T, client2, upstream2 bool) {
		var u told
		var trailer http.Header
		i := intercept(t, upstream2, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			if u.note(r.Header) == 1 {
				w.WriteHeader(503)
				return
			}
			trailer = r.Trailer
		}, func(up *policy.Upstream) {
			up.Default.AttemptHeader, up.Default.RemainingHeader = "X-Attempt", "X-Left"
			up.Default.Timeout.Total = time.Hour
		})
		req, _ := http.NewRequest("PUT", "https://"+i.host+"/", io.NopCloser(strings.NewReader("x")))
		req.Header["x-attempt"] = []string{"7", "8"}
		req.Header["X-LEFT"] = []string{"99999999"}
		req.Trailer = http.Header{"X-Attempt": {"9"}, "X-Sum": {"1"}}
		resp, err := i.client(t, client2).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Fatal(resp.Status)
		}
		u.expect(t, "X-Attempt", "1", "2")
		for _, h := range u.seen {
			if v := h.Values("X-Left"); len(v) != 1 || len(v[0]) > 7 {
				t.Errorf("X-Left: %q, want one of an hour", v)
			}
		}
		if trailer.Get("X-Sum") != "1" || trailer.Get("X-Attempt") != "" {
			t.Errorf("trailer %v, want X-Sum alone", trailer)
		}
	})
}
