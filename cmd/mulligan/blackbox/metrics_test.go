package blackbox

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Section 9: what is configured exists from the start, at 0.
func TestMetricsFromTheStart(t *testing.T) {
	t.Parallel()
	p := start(t, `
upstreams:
  payments:
    hosts: [pay.internal]
    endpoints: ["http://127.0.0.1:9/v1", "http://127.0.0.1:9/v2"]
    circuit_breaker: {}
    retry: {budget: {burst: 7}}
    routes: [{name: charge, match: {methods: [POST], path: /v1/charges}}]
`)
	have := map[string]float64{}
	for _, s := range p.scrape() {
		have[s.key()] = s.value
	}
	for _, upstream := range []string{"default", "payments"} {
		routes := []string{"default"}
		if upstream == "payments" {
			routes = append(routes, "charge")
		}
		for _, route := range routes {
			for _, outcome := range []string{"success", "success_after_retry", "permanent", "failed", "client_gone"} {
				expectSample(t, have, fmt.Sprintf("mulligan_requests_total{outcome=%s,route=%s,upstream=%s}", outcome, route, upstream), 0)
			}
		}
		for _, gauge := range []string{"requests_in_flight", "retries_waiting", "tunnels_open"} {
			expectSample(t, have, fmt.Sprintf("mulligan_%s{upstream=%s}", gauge, upstream), 0)
		}
	}
	expectSample(t, have, "mulligan_retry_budget_remaining{upstream=default}", 3)
	expectSample(t, have, "mulligan_retry_budget_remaining{upstream=payments}", 7)
	for _, version := range []string{"v1", "v2"} {
		expectSample(t, have, "mulligan_circuit_open{endpoint=http://127.0.0.1:9/"+version+",upstream=payments}", 0)
	}
	expectSample(t, have, "mulligan_buffered_bytes{}", 0)
	expectSample(t, have, "mulligan_config_reloads_total{result=success}", 0)
	expectSample(t, have, "mulligan_config_reloads_total{result=failure}", 0)
	build, found := p.metric("mulligan_build_info")
	if !found || build != 1 {
		t.Errorf("mulligan_build_info is %v (found: %v), want 1", build, found)
	}
	for _, s := range p.scrape() {
		if s.name == "mulligan_build_info" && (s.labels["version"] == "" || !strings.HasPrefix(s.labels["goversion"], "go1.")) {
			t.Errorf("mulligan_build_info has the labels %v", s.labels)
		}
	}
}

func expectSample(t *testing.T, have map[string]float64, key string, value float64) {
	t.Helper()
	if got, found := have[key]; !found || got != value {
		t.Errorf("%s is %v (found: %v), want %v", key, got, found, value)
	}
}

// Every metric of section 9 that belongs here has its type and its help.
func TestMetricTypes(t *testing.T) {
	t.Parallel()
	u := answers(t, text(503, ""), text(200, ""))
	p := start(t, `defaults: {retry: {`+quick+`}, circuit_breaker: {}}`)
	p.get(u.url("/"), "x-stainless-retry-count: 1")
	p.connect(u.addr).Close()
	p.do("POST", "http://"+closedAddr(t)+"/", "x")
	body := p.ask("GET", "/metrics").Body
	for name, kind := range map[string]string{
		"requests_total": "counter", "attempts_total": "counter", "retries_total": "counter", "retries_denied_total": "counter",
		"client_retries_total": "counter", "retry_budget_remaining": "gauge", "requests_in_flight": "gauge", "retries_waiting": "gauge", "circuit_open": "gauge",
		"request_duration_seconds": "histogram", "attempt_duration_seconds": "histogram", "backoff_seconds": "histogram",
		"tunnels_total": "counter", "tunnels_open": "gauge", "buffered_bytes": "gauge", "config_reloads_total": "counter", "build_info": "gauge",
	} {
		contains(t, "/metrics", body, "# TYPE mulligan_"+name+" "+kind+"\n", "# HELP mulligan_"+name+" ")
	}
	for _, later := range []string{"deferred_scheduled", "dead_letters", "deferred_lag", "deferred_total"} {
		if strings.Contains(body, "mulligan_"+later) {
			t.Errorf("/metrics has mulligan_%s, of which there is nothing yet", later)
		}
	}
}

// Outcomes, results, reasons and stops of one request each.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		method  string
		script  []answer
		outcome string
		metrics map[string]float64
	}{
		"success": {"GET", []answer{text(204, "")}, "success", map[string]float64{
			"attempts_total result=2xx": 1, "retries_total": 0, "retries_denied_total": 0}},
		"redirect": {"GET", []answer{text(301, "")}, "success", map[string]float64{"attempts_total result=3xx": 1}},
		"success after retry": {"GET", []answer{text(503, ""), fin, text(200, "")}, "success_after_retry", map[string]float64{
			"attempts_total result=5xx": 1, "attempts_total result=connection_reset": 1, "attempts_total result=2xx": 1,
			"retries_total reason=503": 1, "retries_total reason=connection_reset": 1, "retries_denied_total": 0, "backoff_seconds_count": 2}},
		"permanent": {"GET", []answer{text(404, "")}, "permanent", map[string]float64{
			"attempts_total result=4xx": 1, "retries_denied_total": 0}},
		"500 is permanent": {"GET", []answer{text(500, "")}, "permanent", map[string]float64{"attempts_total result=5xx": 1}},
		"permanent whatever came before": {"GET", []answer{text(502, ""), text(409, "")}, "permanent", map[string]float64{
			"retries_total reason=502": 1, "retries_denied_total": 0}},
		"protocol error": {"GET", []answer{rawClose("junk\r\n\r\n")}, "permanent", map[string]float64{"attempts_total result=protocol_error": 1}},
		"failed": {"GET", []answer{text(504, "")}, "failed", map[string]float64{
			"attempts_total result=5xx": 4, "retries_total reason=504": 3, "retries_denied_total stop=max_attempts": 1}},
		"failed, not idempotent": {"POST", []answer{text(503, "")}, "failed", map[string]float64{
			"retries_total": 0, "retries_denied_total stop=not_idempotent": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := answers(t, row.script...)
			p := start(t, `defaults: {retry: {`+quick+`}}`)
			p.do(row.method, u.url("/"), "")
			p.wantMetric(1, "mulligan_requests_total", "upstream=default", "route=default", "outcome="+row.outcome)
			p.wantMetric(1, "mulligan_requests_total")
			p.wantMetric(1, "mulligan_request_duration_seconds_count", "upstream=default")
			p.wantMetric(float64(u.count()), "mulligan_attempt_duration_seconds_count", "upstream=default")
			for what, value := range row.metrics {
				words := strings.Fields(what)
				p.wantMetric(value, "mulligan_"+words[0], words[1:]...)
			}
			p.wantMetric(0, "mulligan_requests_in_flight", "upstream=default")
		})
	}
}

// Requests that are themselves a client SDK's retry are counted.
func TestClientRetries(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, "")
	for _, field := range []string{"x-stainless-retry-count: 1", "X-Stainless-Retry-Count: 2", "amz-sdk-request: attempt=2; max=3"} {
		p.get(u.url("/"), field)
	}
	for _, field := range []string{"x-stainless-retry-count: 0", "amz-sdk-request: attempt=1; max=3", "X-A: b"} {
		p.get(u.url("/"), field)
	}
	p.wantMetric(6, "mulligan_requests_total")
	p.wantMetric(3, "mulligan_client_retries_total", "upstream=default")
}

// Label values come from the configuration and fixed lists only, never from a
// request: nothing a client or an upstream says makes a series of its own.
func TestNoRequestDataInLabels(t *testing.T) {
	t.Parallel()
	u := answers(t, raw("HTTP/1.1 799 Odd\r\nContent-Length: 0\r\n\r\n"), raw("HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n"),
		raw("HTTP/1.1 599 Odd\r\nContent-Length: 0\r\n\r\n"), raw("HTTP/1.1 666 Odd\r\nContent-Length: 0\r\n\r\n"), text(200, ""))
	p := start(t, `defaults: {retry: {max_attempts: 2, retry_on: [inherit, 5xx, 666], `+quick+`}}`)
	p.do("BREWMARK", u.url("/pathmark?querymark"), "", "X-Mark: fieldmark", "Idempotency-Key: keymark")
	for range 4 {
		p.get(u.url("/pathmark"))
	}
	p.get("http://hostmark.invalid/")
	p.raw("ODDMARK * HTTP/9.9\r\n\r\n")
	results := regexp.MustCompile(`^([1-5]xx|connect_failure|refused_stream|connection_reset|timeout|truncated|error_event|tls_failure|dns_not_found|protocol_error|denied)$`)
	eventually(t, "the requests to be counted", func() bool { n, _ := p.metric("mulligan_requests_total"); return n == 6 })
	for _, s := range p.scrape() {
		if !strings.HasPrefix(s.name, "mulligan_") {
			continue
		}
		for name, value := range s.labels {
			if strings.Contains(value, "mark") || strings.Contains(value, "127.0.0.1") || strings.Contains(value, fmt.Sprint(u.port())) {
				t.Errorf("%s: label %s has request data", s.key(), name)
			}
		}
		if s.name == "mulligan_attempts_total" && !results.MatchString(s.labels["result"]) {
			t.Errorf("%s: not one of the fixed results", s.key())
		}
		if u := s.labels["upstream"]; u != "" && u != "default" {
			t.Errorf("%s: an upstream nobody configured", s.key())
		}
	}
}

// Routes: the first that matches, by method and path, else default.
func TestRouteLabels(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, fmt.Sprintf(`
upstreams:
  shop:
    mount: /shop
    hosts: ["%s"]
    endpoints: ["http://%s"]
    routes:
      - {name: charge, match: {methods: [POST], path: /v1/charges}}
      - {name: hooks, match: {path: /hooks/*}}
      - {name: reads, match: {methods: [GET]}}
      - {name: late, match: {methods: [GET], path: /v1/late}}
`, u.addr, u.addr))
	counts := map[string]float64{}
	for _, row := range []struct{ method, target, route string }{
		{"POST", u.url("/v1/charges"), "charge"}, {"POST", u.url("/v1/charges?x=1"), "charge"}, {"POST", "/shop/v1/charges?x", "charge"},
		{"POST", u.url("/v1/charges/"), "default"}, {"POST", u.url("/V1/charges"), "default"}, {"POST", u.url("/v1/%63harges"), "default"},
		{"POST", u.url("/hooks/"), "hooks"}, {"GET", u.url("/hooks/a/b"), "hooks"}, {"POST", u.url("/hooks"), "default"}, {"POST", "/shop/hooks/1", "hooks"},
		{"GET", u.url("/v1/late"), "reads"}, {"GET", u.url("/"), "reads"}, {"get", u.url("/"), "default"},
	} {
		p.raw(lines(row.method+" "+row.target+" HTTP/1.1", "Host: "+u.addr)).expect(t, 200, "")
		counts[row.route]++
		p.wantMetric(counts[row.route], "mulligan_requests_total", "upstream=shop", "route="+row.route)
	}
}

// Durations are measured from the request to the end of the answer.
func TestDurations(t *testing.T) {
	t.Parallel()
	u := answers(t, slowly(300*time.Millisecond, text(200, "")))
	p := start(t, "")
	p.get(u.url("/"))
	for _, name := range []string{"request", "attempt"} {
		p.wantMetric(1, "mulligan_"+name+"_duration_seconds_count")
		if sum, _ := p.metric("mulligan_" + name + "_duration_seconds_sum"); sum < 0.28 {
			t.Errorf("mulligan_%s_duration_seconds_sum is %v after 300 ms", name, sum)
		}
	}
}
