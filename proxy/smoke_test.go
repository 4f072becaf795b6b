package proxy_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// TestRetriesUntilSuccess is the product in one test: two failures that the
// client never sees.
func TestRetriesUntilSuccess(t *testing.T) {
	var n atomic.Int32
	up := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) <= 2 {
			w.WriteHeader(503)
			return
		}
		io.WriteString(w, "hello "+r.URL.RawQuery)
	})
	client := through(start(t, settings()))
	resp, err := client.Get(up.URL + "/a?b=c")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || string(b) != "hello b=c" || resp.StatusCode != 200 {
		t.Fatalf("%v %q %v", resp.Status, b, err)
	}
	if got := resp.Header.Get("Proxy-Status"); got != "mulligan; attempts=3; stop=success; received-status=200" {
		t.Errorf("Proxy-Status %q", got)
	}
}

// TestBodyIsReplayed sends an upload twice from what was kept of it.
func TestBodyIsReplayed(t *testing.T) {
	for _, size := range []int{10, 20_000, 900_000} {
		var n atomic.Int32
		body := strings.Repeat("x", size)
		up := serve(t, func(w http.ResponseWriter, r *http.Request) {
			b, err := io.ReadAll(r.Body)
			if err != nil || string(b) != body {
				t.Errorf("size %d: %d bytes, %v", size, len(b), err)
			}
			if n.Add(1) == 1 {
				w.WriteHeader(503)
			}
		})
		client := through(start(t, settings()))
		req, _ := http.NewRequest("PUT", up.URL, strings.NewReader(body))
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 200 || n.Load() != 2 {
			t.Errorf("size %d: %s after %d attempts", size, resp.Status, n.Load())
		}
	}
}
