package proxy_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mulligan/metrics"
	"mulligan/policy"
	"mulligan/proxy"
)

// route is a policy with short waits, for tests.
func route(name string) *policy.Route {
	r := &policy.Route{Name: name, Prefix: true}
	r.Timeout = policy.TimeoutConfig{Connect: 20 * time.Second, Attempt: 5 * time.Second, Total: 20 * time.Second, Idle: time.Minute, TunnelIdle: time.Minute}
	r.Retry = policy.Retry{
		MaxAttempts: 4, Methods: []string{"GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"},
		IdempotencyKeys: []string{"Idempotency-Key"}, RetryAfter: 30 * time.Second,
		Backoff: policy.Backoff{Initial: time.Millisecond, Max: 5 * time.Millisecond, Multiplier: 2},
	}
	for _, w := range []string{"connect_failure", "connection_reset", "timeout", "truncated", "502", "503", "504"} {
		if err := r.Retry.RetryOn.Add(w); err != nil {
			panic(err)
		}
	}
	r.Buffer = policy.Buffer{Request: 1 << 20, Response: 64 << 10}
	return r
}

func upstream(name string) *policy.Upstream {
	return &policy.Upstream{
		Name: name, Default: route("default"),
		Budget:      policy.BudgetConfig{Ratio: 0.2, Burst: 100, Window: 10 * time.Second},
		Connections: policy.Connections{Idle: 30 * time.Second, MaxPerEndpoint: 256},
	}
}

func settings(ups ...*policy.Upstream) *proxy.Settings {
	return &proxy.Settings{Upstreams: ups, Default: upstream("default"), BufferTotal: 64 << 20, Via: true}
}

// unhurried gives an attempt as long as the request, for a test on real
// connections that sets no time of its own: a machine that stands still for some
// seconds is no upstream that does.
func unhurried(s *proxy.Settings) *proxy.Settings {
	standard := route("").Timeout.Attempt
	for _, u := range append([]*policy.Upstream{s.Default}, s.Upstreams...) {
		for _, r := range append([]*policy.Route{u.Default}, u.Routes...) {
			if r.Timeout.Attempt == standard {
				r.Timeout.Attempt = r.Timeout.Total
			}
		}
	}
	return s
}

// start runs a proxy on loopback until the test ends.
func start(t testing.TB, s *proxy.Settings) *proxy.Server {
	t.Helper()
	srv, err := proxy.New(proxy.Options{
		Proxy: "127.0.0.1:0", Metrics: metrics.New(prometheus.NewRegistry()),
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}, unhurried(s))
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(srv.Close)
	return srv
}

// through returns a client that uses the proxy.
func through(srv *proxy.Server) *http.Client {
	u := &url.URL{Scheme: "http", Host: srv.Addr().String()}
	return &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(u)}, Timeout: 20 * time.Second}
}

// serve runs an upstream.
func serve(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	up := httptest.NewServer(h)
	t.Cleanup(up.Close)
	return up
}
