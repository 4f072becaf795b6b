package proxy_test

import (
	"net/http"
	"sync/atomic"
	"testing"

	"mulligan/policy"
)

// TestClientRetriesPay: requests that are a client library's own retry take tokens
// of the budget where that is configured, and are sent when there is none.
func TestClientRetriesPay(t *testing.T) {
	for _, counted := range []bool{false, true} {
		var attempts atomic.Int32
		up := serve(t, func(w http.ResponseWriter, r *http.Request) {
			attempts.Add(1)
			w.WriteHeader(503)
		})
		s := settings()
		s.Default.Budget = policy.BudgetConfig{Burst: 3}
		s.Default.Default.Retry.CountClientRetries = counted
		s.Default.Default.Retry.MaxAttempts = 2
		srv, reg := startWith(t, s, nil, nil)
		c := through(srv)
		ask := func(method string, retry bool, status string) {
			t.Helper()
			req, _ := http.NewRequest(method, up.URL, nil)
			if retry {
				req.Header.Set("X-Stainless-Retry-Count", "1")
			}
			resp, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if got := resp.Header.Get("Proxy-Status"); got != status {
				t.Errorf("counted %v: %s, want %s", counted, got, status)
			}
		}
		remain := func(want float64) {
			t.Helper()
			if n := gauge(t, reg, "mulligan_retry_budget_remaining", "default"); n != want {
				t.Errorf("counted %v: %v remain, want %v", counted, n, want)
			}
		}
		const once, twice = "mulligan; attempts=1; stop=not_idempotent; received-status=503", "mulligan; attempts=2; stop=max_attempts; received-status=503"
		ask("POST", false, once)
		remain(3)
		if !counted {
			for range 5 {
				ask("POST", true, once)
			}
			remain(3)
			continue
		}
		ask("POST", true, once)
		remain(2)
		ask("GET", true, twice) // its own retry, and ours
		remain(0)
		ask("GET", true, "mulligan; attempts=1; stop=budget; received-status=503")
		ask("POST", true, once)
		remain(0)
		if n := attempts.Load(); n != 6 {
			t.Errorf("the upstream saw %d attempts, want 6", n)
		}
		if n := counter(t, reg, "mulligan_client_retries_total", "upstream=default"); n != 4 {
			t.Errorf("%v client retries, want 4", n)
		}
	}
}
