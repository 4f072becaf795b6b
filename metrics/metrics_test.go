package metrics_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"mulligan/metrics"
)

// open returns metrics on a registry of their own.
func open(t testing.TB) (*metrics.Metrics, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	return metrics.New(registry), registry
}

// series returns every series as `name{label="value",...}` with its value (a
// histogram's is its count).
func series(t testing.TB, registry prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]float64)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, pair := range metric.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", pair.GetName(), pair.GetValue()))
			}
			value := metric.GetCounter().GetValue() + metric.GetGauge().GetValue() +
				float64(metric.GetHistogram().GetSampleCount())
			all[family.GetName()+"{"+strings.Join(labels, ",")+"}"] = value
		}
	}
	return all
}

// want fails the test for each series that does not have the value; -1 means
// that it must not exist.
func want(t testing.TB, registry prometheus.Gatherer, values map[string]float64) {
	t.Helper()
	all := series(t, registry)
	for name, value := range values {
		got, ok := all[name]
		switch {
		case value < 0 && ok:
			t.Errorf("%s exists with %v, want no such series", name, got)
		case value >= 0 && !ok:
			t.Errorf("%s does not exist, want %v", name, value)
		case value >= 0 && got != value:
			t.Errorf("%s = %v, want %v", name, got, value)
		}
	}
}

// TestContract holds every name, type and label of the README's table of
// metrics, on a proxy where everything has happened once.
func TestContract(t *testing.T) {
	m, registry := open(t)
	everything(m)
	table := []struct{ name, kind, labels string }{
		{"mulligan_requests_total", "COUNTER", "outcome,route,upstream"},
		{"mulligan_attempts_total", "COUNTER", "result,route,upstream"},
		{"mulligan_retries_total", "COUNTER", "reason,route,upstream"},
		{"mulligan_retries_denied_total", "COUNTER", "route,stop,upstream"},
		{"mulligan_client_retries_total", "COUNTER", "upstream"},
		{"mulligan_bodies_not_replayable_total", "COUNTER", "reason,upstream"},
		{"mulligan_retry_budget_remaining", "GAUGE", "upstream"},
		{"mulligan_circuit_open", "GAUGE", "endpoint,upstream"},
		{"mulligan_requests_in_flight", "GAUGE", "upstream"},
		{"mulligan_retries_waiting", "GAUGE", "upstream"},
		{"mulligan_request_duration_seconds", "HISTOGRAM", "upstream"},
		{"mulligan_attempt_duration_seconds", "HISTOGRAM", "upstream"},
		{"mulligan_backoff_seconds", "HISTOGRAM", "upstream"},
		{"mulligan_tunnels_total", "COUNTER", "result,upstream"},
		{"mulligan_tunnels_open", "GAUGE", "upstream"},
		{"mulligan_buffered_bytes", "GAUGE", ""},
		{"mulligan_config_reloads_total", "COUNTER", "result"},
		{"mulligan_build_info", "GAUGE", "goversion,version"},
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, family := range families {
		var labels []string
		for _, pair := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, pair.GetName())
		}
		slices.Sort(labels)
		got[family.GetName()] = family.GetType().String() + " " + strings.Join(labels, ",")
	}
	for _, row := range table {
		if want := row.kind + " " + row.labels; got[row.name] != want {
			t.Errorf("%s is %q, want %q", row.name, got[row.name], want)
		}
		delete(got, row.name)
	}
	for name := range got {
		t.Errorf("%s is not in the table", name)
	}
}

// everything makes every metric appear.
func everything(m *metrics.Metrics) {
	m.BuildInfo("v1")
	m.SetBudgets(func(yield func(string, int) bool) { yield("payments", 3) })
	m.SetCircuits(func(yield func(string, string, int) bool) { yield("payments", "", 0) })
	u := m.Upstream("payments", []string{"default"})
	u.TunnelOpened("established")
	u.Route("default").Retry("503")
	u.Route("default").Denied("budget")
}

func TestLint(t *testing.T) {
	m, registry := open(t)
	everything(m)
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
}

func TestRegistryHasGoAndProcess(t *testing.T) {
	registry := metrics.NewRegistry()
	metrics.New(registry)
	all := series(t, registry)
	for _, name := range []string{"go_goroutines{}", "process_resident_memory_bytes{}"} {
		if _, ok := all[name]; !ok {
			t.Errorf("%s does not exist", name)
		}
	}
}

func TestExistsFromTheStart(t *testing.T) {
	m, registry := open(t)
	m.Upstream("payments", []string{"default", "charge"})
	zero := map[string]float64{
		`mulligan_requests_in_flight{upstream="payments"}`:       0,
		`mulligan_retries_waiting{upstream="payments"}`:          0,
		`mulligan_tunnels_open{upstream="payments"}`:             0,
		`mulligan_client_retries_total{upstream="payments"}`:     0,
		`mulligan_request_duration_seconds{upstream="payments"}`: 0,
		`mulligan_attempt_duration_seconds{upstream="payments"}`: 0,
		`mulligan_backoff_seconds{upstream="payments"}`:          0,
		`mulligan_config_reloads_total{result="success"}`:        0,
		`mulligan_config_reloads_total{result="failure"}`:        0,
		`mulligan_buffered_bytes{}`:                              0,

		`mulligan_bodies_not_replayable_total{reason="request",upstream="payments"}`: 0,
		`mulligan_bodies_not_replayable_total{reason="total",upstream="payments"}`:   0,
	}
	for _, route := range []string{"default", "charge"} {
		for _, outcome := range []string{"success", "success_after_retry", "permanent", "failed", "client_gone"} {
			zero[fmt.Sprintf(`mulligan_requests_total{outcome=%q,route=%q,upstream="payments"}`, outcome, route)] = 0
		}
	}
	want(t, registry, zero)
}

func TestOutcomes(t *testing.T) {
	m, registry := open(t)
	route := m.Upstream("u", []string{"default"}).Route("default")
	outcomes := []metrics.Outcome{
		metrics.Success, metrics.SuccessAfterRetry, metrics.Permanent, metrics.Failed, metrics.ClientGone,
	}
	values := make(map[string]float64)
	for i, outcome := range outcomes {
		for range i + 1 {
			route.Request(outcome)
		}
		values[fmt.Sprintf(`mulligan_requests_total{outcome=%q,route="default",upstream="u"}`, outcome)] = float64(i + 1)
	}
	want(t, registry, values)
}

func TestReloads(t *testing.T) {
	m, registry := open(t)
	m.ConfigReload(true)
	m.ConfigReload(true)
	m.ConfigReload(false)
	want(t, registry, map[string]float64{
		`mulligan_config_reloads_total{result="success"}`: 2,
		`mulligan_config_reloads_total{result="failure"}`: 1,
	})
}

func TestBuildInfo(t *testing.T) {
	m, registry := open(t)
	m.BuildInfo("v1.2.3")
	want(t, registry, map[string]float64{
		fmt.Sprintf(`mulligan_build_info{goversion=%q,version="v1.2.3"}`, runtime.Version()): 1,
	})
}

func TestGauges(t *testing.T) {
	m, registry := open(t)
	u := m.Upstream("u", nil)
	for range 3 {
		u.InFlight.Inc()
		u.Waiting.Inc()
		u.TunnelsOpen.Inc()
	}
	u.InFlight.Dec()
	u.Waiting.Dec()
	u.Waiting.Dec()
	bytes := 512.0
	m.SetBufferedBytes(func() float64 { return bytes })
	want(t, registry, map[string]float64{
		`mulligan_requests_in_flight{upstream="u"}`: 2,
		`mulligan_retries_waiting{upstream="u"}`:    1,
		`mulligan_tunnels_open{upstream="u"}`:       3,
		`mulligan_buffered_bytes{}`:                 512,
	})
	bytes = 7
	want(t, registry, map[string]float64{`mulligan_buffered_bytes{}`: 7})
}

func TestBudgetsShowTheLeast(t *testing.T) {
	m, registry := open(t)
	m.SetBudgets(func(yield func(string, int) bool) {
		_ = yield("a", 3) && yield("wild", 9) && yield("wild", 0) && yield("wild", 4)
	})
	want(t, registry, map[string]float64{
		`mulligan_retry_budget_remaining{upstream="a"}`:    3,
		`mulligan_retry_budget_remaining{upstream="wild"}`: 0,
	})
}

// TestCircuitsAreAddedUp: one endpoint can have a circuit for each host of a
// wildcard, and an upstream without endpoints one for each of its hosts.
func TestCircuitsAreAddedUp(t *testing.T) {
	m, registry := open(t)
	m.SetCircuits(func(yield func(string, string, int) bool) {
		_ = yield("a", "https://one", 0) && yield("a", "https://two", 1) && yield("a", "https://two", 2) &&
			yield("wild", "", 0) && yield("wild", "", 1) && yield("off", "", 0)
	})
	want(t, registry, map[string]float64{
		`mulligan_circuit_open{endpoint="https://one",upstream="a"}`: 0,
		`mulligan_circuit_open{endpoint="https://two",upstream="a"}`: 3,
		`mulligan_circuit_open{endpoint="-",upstream="wild"}`:        1,
		`mulligan_circuit_open{endpoint="-",upstream="off"}`:         0,
		`mulligan_circuit_open{endpoint="",upstream="off"}`:          -1,
	})
}

// TestLocksOfOthers: a scrape holds no lock of ours while it asks for values,
// so that whoever gives them may count meanwhile.
func TestLocksOfOthers(t *testing.T) {
	m, registry := open(t)
	m.SetBudgets(func(yield func(string, int) bool) {
		m.Upstream("late", []string{"default"})
		yield("late", 1)
	})
	m.SetCircuits(func(yield func(string, string, int) bool) {
		m.Upstream("late", nil)
		yield("late", "", 1)
	})
	m.SetBufferedBytes(func() float64 { m.Retain([]string{"late"}); return 1 })
	want(t, registry, map[string]float64{`mulligan_retry_budget_remaining{upstream="late"}`: 1})
}

func TestReloadKeepsCounts(t *testing.T) {
	m, registry := open(t)
	before := m.Upstream("u", []string{"default"})
	route := before.Route("default")
	route.Request(metrics.Success)
	after := m.Upstream("u", []string{"default", "new"})
	if before != after || after.Route("default") != route {
		t.Error("a reload made a new upstream or route")
	}
	after.Route("new").Request(metrics.Failed)
	want(t, registry, map[string]float64{
		`mulligan_requests_total{outcome="success",route="default",upstream="u"}`: 1,
		`mulligan_requests_total{outcome="failed",route="new",upstream="u"}`:      1,
	})
	if after.Route("never configured") != nil {
		t.Error("a route that was never configured exists")
	}
}

func TestRetain(t *testing.T) {
	m, registry := open(t)
	gone := m.Upstream("gone", []string{"default"})
	m.Upstream("kept", nil)
	gone.Route("default").Request(metrics.Success)
	gone.InFlight.Inc()
	gone.InFlight.Inc()

	m.Retain([]string{"kept"})
	gone.InFlight.Dec() // a request that began before the reload ends
	want(t, registry, map[string]float64{
		`mulligan_requests_in_flight{upstream="gone"}`: -1,
		`mulligan_retries_waiting{upstream="gone"}`:    -1,
		`mulligan_tunnels_open{upstream="gone"}`:       -1,
		`mulligan_requests_in_flight{upstream="kept"}`: 0,

		`mulligan_requests_total{outcome="success",route="default",upstream="gone"}`: 1,
	})

	m.Upstream("gone", nil) // and comes back while one is still in flight
	want(t, registry, map[string]float64{`mulligan_requests_in_flight{upstream="gone"}`: 1})
}

// TestConcurrent counts, scrapes and reloads at once; the race detector and
// the totals are the test.
func TestConcurrent(t *testing.T) {
	m, registry := open(t)
	m.Upstream("u", []string{"default"})
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for i := range 200 {
				u := m.Upstream("u", []string{"default", fmt.Sprint("r", i%10)})
				u.InFlight.Inc()
				u.Route("default").AttemptStatus(200)
				u.Route("default").Retry("503")
				u.RequestSeconds.Observe(0.01)
				u.InFlight.Dec()
			}
			series(t, registry)
		})
	}
	workers.Wait()
	want(t, registry, map[string]float64{
		`mulligan_attempts_total{result="2xx",route="default",upstream="u"}`: 1600,
		`mulligan_retries_total{reason="503",route="default",upstream="u"}`:  1600,
		`mulligan_request_duration_seconds{upstream="u"}`:                    1600,
		`mulligan_requests_in_flight{upstream="u"}`:                          0,
	})
}

// countOneRequest is what the path of a request that succeeds at once counts.
func countOneRequest(u *metrics.Upstream) {
	u.InFlight.Inc()
	route := u.Route("default")
	route.AttemptStatus(200)
	u.AttemptSeconds.Observe(0.0012)
	route.Request(metrics.Success)
	u.RequestSeconds.Observe(0.0013)
	u.InFlight.Dec()
}

func TestNoAllocation(t *testing.T) {
	m, _ := open(t)
	u := m.Upstream("payments", []string{"default"})
	route := u.Route("default")
	for name, count := range map[string]func(){
		"success": func() { countOneRequest(u) },
		"failure": func() {
			route.AttemptClass("timeout")
			route.Retry("503")
			route.Denied("budget")
			u.TunnelOpened("timeout")
			u.ClientRetry()
			u.NotReplayable(metrics.RequestLimit)
		},
	} {
		if n := testing.AllocsPerRun(1000, count); n != 0 {
			t.Errorf("%s: %v allocations, want none", name, n)
		}
	}
}

func BenchmarkRequest(b *testing.B) {
	m, _ := open(b)
	u := m.Upstream("payments", []string{"default"})
	b.ReportAllocs()
	for b.Loop() {
		countOneRequest(u)
	}
}
