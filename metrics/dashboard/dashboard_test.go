package dashboard_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	dto "github.com/prometheus/client_model/go"

	"mulligan/metrics"
	"mulligan/metrics/dashboard"
)

// request is one call of the admin port.
type request struct {
	method, path, host string
	header             map[string]string
	username, password string // "" none
}

// call returns the answer of the admin port with these options.
func call(t *testing.T, o dashboard.Options, req request) *http.Response {
	t.Helper()
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	if o.Ready == nil {
		o.Ready = func() bool { return true }
	}
	r := httptest.NewRequest(or(req.method, "GET"), or(req.path, "/"), nil)
	r.Host = or(req.host, "127.0.0.1:7081")
	for name, value := range req.header {
		r.Header.Set(name, value)
	}
	if req.username != "" || req.password != "" {
		r.SetBasicAuth(req.username, req.password)
	}
	recorder := httptest.NewRecorder()
	dashboard.New(o).ServeHTTP(recorder, r)
	return recorder.Result()
}

// or returns s, or fallback where s is "".
func or(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

func TestHost(t *testing.T) {
	o := dashboard.Options{Loopback: true, Hosts: []string{"Admin.Example.", "mesh.example:7081"},
		Certified: func(name string) bool { return name == "certified.example" }}
	for host, status := range map[string]int{
		"127.0.0.1":          200,
		"127.0.0.1:7081":     200,
		"10.1.2.3:80":        200,
		"[::1]:7081":         200,
		"[::1]":              200,
		"[fe80::1%25eth0]:1": 200,
		"localhost":          200,
		"LocalHost:9999":     200,
		"localhost.":         200,
		"localhost.:7081":    200,
		"admin.example":      200,
		"ADMIN.example.:1":   200,
		"mesh.example":       200,
		"mesh.example:80":    200,

		"Certified.example.:7081": 200,
		"x.certified.example":     421,

		"evil.example":           421,
		"evil.example:7081":      421,
		"localhost.evil.example": 421,
		"x.localhost":            421,
		"x.admin.example":        421,
		"127.0.0.1.evil.example": 421,
		"127.1":                  421,
		"2130706433":             421,
		"[evil.example]":         421,
		"[]":                     421,
		".":                      421,
		":7081":                  421,
	} {
		for _, path := range []string{"/", "/metrics", "/healthz", "/readyz", "/none"} {
			want := status
			if status == 200 && path == "/none" {
				want = 404
			}
			if got := call(t, o, request{host: host, path: path}); got.StatusCode != want {
				t.Errorf("Host %s, %s: %d, want %d", host, path, got.StatusCode, want)
			}
		}
	}
}

// TestNoHost: HTTP/1.0 has no need of a Host field, but this port has.
func TestNoHost(t *testing.T) {
	r := httptest.NewRequest("GET", "/metrics", nil)
	r.Host = ""
	recorder := httptest.NewRecorder()
	dashboard.New(dashboard.Options{Registry: prometheus.NewRegistry(), Loopback: true}).ServeHTTP(recorder, r)
	if recorder.Code != 421 {
		t.Errorf("%d, want 421", recorder.Code)
	}
}

func TestCrossOriginWrites(t *testing.T) {
	for _, test := range []struct {
		name   string
		method string
		header map[string]string
		status int
	}{
		{"read from anywhere", "GET", map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}, 200},
		{"head from anywhere", "HEAD", map[string]string{"Sec-Fetch-Site": "cross-site"}, 200},
		{"preflight is answered without any permission", "OPTIONS", map[string]string{"Origin": "https://evil.example"}, 405},
		{"other origin", "POST", map[string]string{"Origin": "https://evil.example"}, 403},
		{"other port", "POST", map[string]string{"Origin": "http://127.0.0.1:1"}, 403},
		{"opaque origin", "POST", map[string]string{"Origin": "null"}, 403},
		{"cross-site", "DELETE", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		{"same-site is not same-origin", "PUT", map[string]string{"Sec-Fetch-Site": "same-site"}, 403},
		{"unknown method", "FROB", map[string]string{"Origin": "https://evil.example"}, 403},
		{"same origin", "POST", map[string]string{"Origin": "http://127.0.0.1:7081"}, 405},
		{"same origin by fetch metadata", "POST", map[string]string{"Sec-Fetch-Site": "same-origin"}, 405},
		{"no browser", "POST", nil, 405},
	} {
		got := call(t, dashboard.Options{Loopback: true}, request{method: test.method, header: test.header})
		if got.StatusCode != test.status {
			t.Errorf("%s: %d, want %d", test.name, got.StatusCode, test.status)
		}
		if got.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: other origins may read the answer", test.name)
		}
	}
}

func TestAuth(t *testing.T) {
	credentials := &dashboard.Credentials{Username: "u", Password: "pä:ss"}
	for _, loopback := range []bool{true, false} {
		o := dashboard.Options{Loopback: loopback, Auth: credentials}
		for _, test := range []struct {
			name string
			request
			status int
		}{
			{"right", request{username: "u", password: "pä:ss"}, 200},
			{"right, no such page", request{path: "/none", username: "u", password: "pä:ss"}, 404},
			{"none", request{}, 401},
			{"none, no such page", request{path: "/none"}, 401},
			{"wrong password", request{username: "u", password: "pä:s"}, 401},
			{"wrong user", request{username: "U", password: "pä:ss"}, 401},
			{"empty", request{username: "", password: "pä:ss"}, 401},
			{"other scheme", request{header: map[string]string{"Authorization": "Bearer u:pä:ss"}}, 401},
			{"not Base64", request{header: map[string]string{"Authorization": "Basic %%%"}}, 401},
			{"metrics", request{path: "/metrics"}, 200},
			{"alive", request{path: "/healthz"}, 200},
			{"ready", request{path: "/readyz"}, 200},
			{"almost metrics", request{path: "/metrics/"}, 401},
		} {
			got := call(t, o, test.request)
			if got.StatusCode != test.status {
				t.Errorf("loopback %v, %s: %d, want %d", loopback, test.name, got.StatusCode, test.status)
			}
			challenge := strings.HasPrefix(got.Header.Get("WWW-Authenticate"), "Basic realm=")
			if challenge != (test.status == 401) {
				t.Errorf("loopback %v, %s: challenge %v", loopback, test.name, challenge)
			}
		}
	}
}

func TestBeyondLoopbackWithoutAuth(t *testing.T) {
	for path, status := range map[string]int{
		"/metrics": 200, "/healthz": 200, "/readyz": 200, "/": 403, "/none": 403, "/api/v1/upstreams": 403,
	} {
		if got := call(t, dashboard.Options{}, request{path: path}); got.StatusCode != status {
			t.Errorf("%s: %d, want %d", path, got.StatusCode, status)
		}
	}
}

func TestPages(t *testing.T) {
	for _, test := range []struct {
		method, path string
		status       int
		allow, body  string
	}{
		{"GET", "/", 200, "", "/metrics"},
		{"GET", "/healthz", 200, "", "alive\n"},
		{"GET", "/readyz", 200, "", "ready\n"},
		{"HEAD", "/healthz", 200, "", ""},
		{"GET", "/none", 404, "", "no such page"},
		{"GET", "//metrics", 404, "", ""},
		{"GET", "/x/../metrics", 404, "", ""},
		{"POST", "/none", 404, "", ""},
		{"POST", "/", 405, "GET, HEAD", ""},
		{"DELETE", "/metrics", 405, "GET, HEAD", ""},
		{"PUT", "/healthz", 405, "GET, HEAD", ""},
		{"OPTIONS", "/readyz", 405, "GET, HEAD", ""},
		{"get", "/readyz", 405, "GET, HEAD", ""},
	} {
		got := call(t, dashboard.Options{Loopback: true}, request{method: test.method, path: test.path})
		if got.StatusCode != test.status || got.Header.Get("Allow") != test.allow {
			t.Errorf("%s %s: %d Allow %q, want %d %q",
				test.method, test.path, got.StatusCode, got.Header.Get("Allow"), test.status, test.allow)
		}
		if body := read(t, got); !strings.Contains(body, test.body) {
			t.Errorf("%s %s: body %q, want %q in it", test.method, test.path, body, test.body)
		}
	}
}

// TestIndexIsComplete: every page that the index names is there.
func TestIndexIsComplete(t *testing.T) {
	o := dashboard.Options{Loopback: true}
	for line := range strings.Lines(read(t, call(t, o, request{}))) {
		path, _, _ := strings.Cut(line, " ")
		if !strings.HasPrefix(path, "/") {
			continue
		}
		if got := call(t, o, request{path: path}); got.StatusCode != 200 {
			t.Errorf("%s: %d", path, got.StatusCode)
		}
	}
}

func TestReadyFollows(t *testing.T) {
	ready := true
	o := dashboard.Options{Loopback: true, Ready: func() bool { return ready }}
	for _, status := range []int{200, 503, 200} {
		ready = status == 200
		if got := call(t, o, request{path: "/readyz"}); got.StatusCode != status {
			t.Errorf("/readyz %d, want %d", got.StatusCode, status)
		}
		if got := call(t, o, request{path: "/healthz"}); got.StatusCode != 200 {
			t.Errorf("/healthz %d: alive is not ready", got.StatusCode)
		}
	}
}

// TestSecurityHeaders: on every answer, refusals and errors too.
func TestSecurityHeaders(t *testing.T) {
	for _, req := range []request{
		{}, {path: "/metrics"}, {path: "/none"}, {method: "POST"}, {host: "evil.example"},
		{method: "POST", header: map[string]string{"Origin": "null"}},
	} {
		h := call(t, dashboard.Options{Loopback: true}, req).Header
		csp := h.Get("Content-Security-Policy")
		if !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") {
			t.Errorf("%+v: Content-Security-Policy %q", req, csp)
		}
		for name, value := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if h.Get(name) != value {
				t.Errorf("%+v: %s is %q, want %q", req, name, h.Get(name), value)
			}
		}
	}
}

func TestMetricsFormats(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := metrics.New(registry)
	m.Upstream("u", []string{"default"}).RequestSeconds.Observe(0.2)
	o := dashboard.Options{Registry: registry, Loopback: true}
	for accept, want := range map[string]struct{ contentType, end string }{
		"":                             {"text/plain; version=0.0.4", "\n"},
		"application/openmetrics-text": {"application/openmetrics-text", "# EOF\n"},
		"text/plain;version=0.0.4":     {"text/plain; version=0.0.4", "\n"},
	} {
		got := call(t, o, request{path: "/metrics", header: map[string]string{"Accept": accept}})
		body := read(t, got)
		if !strings.HasPrefix(got.Header.Get("Content-Type"), want.contentType) || !strings.HasSuffix(body, want.end) {
			t.Errorf("Accept %q: %s", accept, got.Header.Get("Content-Type"))
		}
		if !strings.Contains(body, `mulligan_requests_total{outcome="success",route="default",upstream="u"} 0`) {
			t.Errorf("Accept %q: the page lacks a counter:\n%s", accept, body)
		}
	}
}

// TestNativeHistograms: protobuf carries them beside the classic buckets.
func TestNativeHistograms(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics.New(registry).Upstream("u", nil).RequestSeconds.Observe(0.2)
	const protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
	got := call(t, dashboard.Options{Registry: registry, Loopback: true},
		request{path: "/metrics", header: map[string]string{"Accept": protobuf}})
	decoder := expfmt.NewDecoder(got.Body, expfmt.ResponseFormat(got.Header))
	for {
		var family dto.MetricFamily
		if err := decoder.Decode(&family); err != nil {
			t.Fatal("no histogram of requests:", err)
		}
		if family.GetName() != "mulligan_request_duration_seconds" {
			continue
		}
		histogram := family.GetMetric()[0].GetHistogram()
		if len(histogram.GetPositiveSpan()) == 0 || len(histogram.GetBucket()) == 0 {
			t.Errorf("native and classic buckets are wanted: %v", histogram)
		}
		return
	}
}
