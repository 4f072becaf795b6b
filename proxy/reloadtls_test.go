package proxy_test

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"mulligan/policy"
)

// notIntercepted is a configuration in which nothing of interception is left, nor
// of the authority that the upstream's certificate is trusted by.
func (i *intercepted) notIntercepted(t *testing.T) {
	t.Helper()
	u := upstream("api")
	u.Hosts = []policy.HostPattern{{Name: "api.localhost"}}
	if err := i.srv.Reload(settings(u)); err != nil {
		t.Fatal(err)
	}
}

// TestReloadEndsInterception: a connection that was intercepted is served once more,
// as it began, and then ended.
func TestReloadEndsInterception(t *testing.T) {
	bothWays(t, func(t *testing.T, client2, upstream2 bool) {
		i := intercept(t, upstream2, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok") }, nil)
		c := i.client(t, client2)
		for n := range 2 {
			resp, err := c.Get("https://" + i.host)
			if err != nil {
				t.Fatal(n, err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != 200 || string(body) != "ok" || err != nil {
				t.Error(n, resp.Status, resp.Header, string(body), err)
			}
			if n == 0 {
				i.notIntercepted(t)
			}
		}
		if client2 {
			return // a GOAWAY may be on its way while the next request is
		}
		if resp, err := c.Get("https://" + i.host); err == nil {
			resp.Body.Close()
			t.Error("the connection is served a second time")
		}
	})
}

// TestRetryKeepsItsTLS: a request in flight keeps the policy that it began with, of
// which the authority that the upstream is trusted by is a part.
func TestRetryKeepsItsTLS(t *testing.T) {
	bothWays(t, func(t *testing.T, client2, upstream2 bool) {
		var asked atomic.Int32
		i := intercept(t, upstream2, func(w http.ResponseWriter, r *http.Request) {
			if asked.Add(1) == 1 {
				w.WriteHeader(503)
				return
			}
			io.WriteString(w, "ok")
		}, func(u *policy.Upstream) {
			b := &u.Default.Retry.Backoff
			b.Initial, b.Max, b.Jitter = time.Second, time.Second, policy.NoJitter
		})
		c := i.client(t, client2)
		status := make(chan string, 1)
		go func() {
			resp, err := c.Get("https://" + i.host)
			if err != nil {
				status <- err.Error()
				return
			}
			resp.Body.Close()
			status <- resp.Status
		}()
		if !eventually(func() bool { return gauge(t, i.reg, "mulligan_retries_waiting", "api") == 1 }) {
			t.Fatal("no retry waits")
		}
		i.notIntercepted(t)
		if got := <-status; got != "200 OK" || asked.Load() != 2 {
			t.Errorf("%s, asked %d times", got, asked.Load())
		}
	})
}
