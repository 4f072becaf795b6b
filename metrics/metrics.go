package metrics

import (
	"runtime"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Metrics holds every metric of one proxy. Its methods are safe for concurrent
// use.
type Metrics struct {
	requests      *prometheus.CounterVec
	attempts      *prometheus.CounterVec
	retries       *prometheus.CounterVec
	denied        *prometheus.CounterVec
	clientRetries *prometheus.CounterVec
	notReplayable *prometheus.CounterVec
	tunnels       *prometheus.CounterVec
	reloads       *prometheus.CounterVec
	build         *prometheus.GaugeVec

	requestSeconds *prometheus.HistogramVec
	attemptSeconds *prometheus.HistogramVec
	backoffSeconds *prometheus.HistogramVec

	mu        sync.Mutex // of the fields below
	upstreams map[string]*Upstream
	budgets   func(yield func(upstream string, remaining int) bool)
	circuits  func(yield func(upstream, endpoint string, open int) bool)
	buffered  func() float64
}

// NewRegistry returns a registry that has the metrics of the Go runtime and of
// the process.
func NewRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return registry
}

// New registers mulligan's metrics with reg. Like prometheus.MustRegister it
// panics where one of them is registered already.
func New(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		requests: counters("requests_total", "Requests by how they ended for the client.",
			"upstream", "route", "outcome"),
		attempts: counters("attempts_total", "Attempts by the status class or failure class they ended with.",
			"upstream", "route", "result"),
		retries: counters("retries_total", "Attempts after the first, by the status or failure class before them.",
			"upstream", "route", "reason"),
		denied: counters("retries_denied_total", "Failed requests that were not retried further, by what stopped them.",
			"upstream", "route", "stop"),
		clientRetries: counters("client_retries_total", "Requests that are themselves a retry by the client's own library.",
			"upstream"),
		notReplayable: counters("bodies_not_replayable_total",
			"Request bodies that were not kept for replay, by the limit in the way: buffer.request or buffer_total.",
			"upstream", "reason"),
		tunnels: counters("tunnels_total", "CONNECT requests: established, or the failure class of the dial.",
			"upstream", "result"),
		reloads: counters("config_reloads_total", "Reloads of the configuration by result.", "result"),
		build: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Name: "build_info", Help: "Always 1; the labels say what runs.",
		}, []string{"version", "goversion"}),

		requestSeconds: histograms("request_duration_seconds",
			"From a request's head to the end of its response, waits included.", exchangeBuckets),
		attemptSeconds: histograms("attempt_duration_seconds",
			"One attempt, from its start to its response's head, to the end of a response that is held until whole, or to its failure.", exchangeBuckets),
		backoffSeconds: histograms("backoff_seconds", "Waits before retries.", backoffBuckets),

		upstreams: make(map[string]*Upstream),
	}
	reg.MustRegister(
		m.requests, m.attempts, m.retries, m.denied, m.clientRetries, m.notReplayable, m.tunnels, m.reloads, m.build,
		m.requestSeconds, m.attemptSeconds, m.backoffSeconds, &gauges{m},
	)
	m.reloads.WithLabelValues("success")
	m.reloads.WithLabelValues("failure")
	return m
}

// BuildInfo says which version runs; Go's version is added.
func (m *Metrics) BuildInfo(version string) {
	m.build.WithLabelValues(version, runtime.Version()).Set(1)
}

// ConfigReload counts a reload of the configuration.
func (m *Metrics) ConfigReload(success bool) {
	result := "failure"
	if success {
		result = "success"
	}
	m.reloads.WithLabelValues(result).Inc()
}

// SetBudgets sets where mulligan_retry_budget_remaining comes from: budgets is
// called at each scrape and yields how many retries each upstream would be
// allowed now. An upstream with a budget for each authority is yielded once
// for each; the least is shown.
func (m *Metrics) SetBudgets(budgets func(yield func(upstream string, remaining int) bool)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.budgets = budgets
}

// SetCircuits sets where mulligan_circuit_open comes from: circuits is called at
// each scrape and yields, for each endpoint that has a circuit breaker, its URL as
// configured ("" for hosts of an upstream without endpoints) and how many of its
// circuits are open or half-open. What is yielded twice is added up.
func (m *Metrics) SetCircuits(circuits func(yield func(upstream, endpoint string, open int) bool)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.circuits = circuits
}

// SetBufferedBytes sets where mulligan_buffered_bytes comes from: bytes is
// called at each scrape.
func (m *Metrics) SetBufferedBytes(bytes func() float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.buffered = bytes
}
