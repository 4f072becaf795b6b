package proxy_test

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
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

// TestRetriesKeepTheirLimit: requests in flight share the connections that are made
// as they began, within max_per_endpoint.
func TestRetriesKeepTheirLimit(t *testing.T) {
	const crowd, limit = 20, 2
	bothWays(t, func(t *testing.T, client2, upstream2 bool) {
		var asked, open, most atomic.Int32
		theirs := newTestCA(t)
		leaf, err := theirs.Leaf("api.localhost")
		if err != nil {
			t.Fatal(err)
		}
		up := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if asked.Add(1) <= crowd {
				w.WriteHeader(503)
			}
		}))
		up.TLS = &tls.Config{Certificates: []tls.Certificate{*leaf}}
		up.EnableHTTP2 = upstream2
		up.Config.ErrorLog = log.New(io.Discard, "", 0)
		up.Config.ConnState = func(_ net.Conn, s http.ConnState) {
			switch s {
			case http.StateNew:
				for n := open.Add(1); ; {
					if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
						return
					}
				}
			case http.StateClosed:
				open.Add(-1)
			}
		}
		up.StartTLS()
		t.Cleanup(up.Close)
		i := interceptAt(t, up.Listener.Addr(), theirs.file(t), up, func(u *policy.Upstream) {
			u.Connections.MaxPerEndpoint = limit
			u.Budget.Burst = crowd
			b := &u.Default.Retry.Backoff
			b.Initial, b.Max, b.Jitter = 2*time.Second, 2*time.Second, policy.NoJitter
		})
		c := i.client(t, client2)
		var all sync.WaitGroup
		for range crowd {
			all.Go(func() {
				resp, err := c.Get("https://" + i.host)
				if err != nil {
					t.Error(err)
					return
				}
				resp.Body.Close()
				if resp.StatusCode != 200 {
					t.Error(resp.Status, resp.Header)
				}
			})
		}
		if !eventually(func() bool { return gauge(t, i.reg, "mulligan_retries_waiting", "api") == crowd }) {
			t.Skip("they do not all wait at once: the machine is too slow for this")
		}
		i.notIntercepted(t)
		if !eventually(func() bool { return open.Load() == 0 }) { // those from before the reload
			t.Fatal(open.Load(), "connections are open, and nobody uses them")
		}
		most.Store(0)
		all.Wait()
		if n := most.Load(); n < 1 || n > limit {
			t.Errorf("%d connections at once, the limit is %d", n, limit)
		}
	})
}

// TestRetriesObeyWhatIsDenied: what is not to be dialled any more is not called over
// connections either that were made as requests in flight had begun.
func TestRetriesObeyWhatIsDenied(t *testing.T) {
	bothWays(t, func(t *testing.T, client2, upstream2 bool) {
		var asked atomic.Int32
		i := intercept(t, upstream2, func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			w.WriteHeader(503)
		}, func(u *policy.Upstream) {
			b := &u.Default.Retry.Backoff
			b.Initial, b.Max, b.Jitter = 700*time.Millisecond, 700*time.Millisecond, policy.NoJitter // under lateIdle
			u.Default.Retry.MaxAttempts, u.Budget.Burst = 10, 10
		})
		c := i.client(t, client2)
		status := make(chan int, 1)
		go func() {
			resp, err := c.Get("https://" + i.host)
			if err != nil {
				t.Error(err)
				status <- 0
				return
			}
			resp.Body.Close()
			status <- resp.StatusCode
		}()
		if !eventually(func() bool { return asked.Load() >= 1 }) {
			t.Fatal("no attempt")
		}
		i.notIntercepted(t)
		if !eventually(func() bool { return asked.Load() >= 2 }) { // over a connection made as it began
			t.Fatal("no retry")
		}
		u := upstream("api")
		u.Hosts = []policy.HostPattern{{Name: "api.localhost"}}
		denying := settings(u)
		denying.DenyDestinations = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
		if err := i.srv.Reload(denying); err != nil {
			t.Fatal(err)
		}
		if got := <-status; got != 403 {
			t.Errorf("status %d, asked %d times", got, asked.Load())
		}
	})
}
