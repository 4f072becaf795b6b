package metrics

import "github.com/prometheus/client_golang/prometheus"

// gauges collects the gauges, whose values are read when they are asked for.
// Being a collector of our own, it can leave out upstreams that a reload
// dropped while requests that began before still count in them.
type gauges struct{ m *Metrics }

var (
	inFlightDesc = gaugeDesc("requests_in_flight", "Requests taken and not yet answered whole.", "upstream")
	waitingDesc  = gaugeDesc("retries_waiting", "Requests that wait before a retry.", "upstream")
	tunnelsDesc  = gaugeDesc("tunnels_open", "Tunnels that are open.", "upstream")
	budgetDesc   = gaugeDesc("retry_budget_remaining",
		"Retries that would be allowed now; the least, where budgets are kept per authority.", "upstream")
	circuitDesc  = gaugeDesc("circuit_open", "Circuits that are open or half-open.", "upstream", "endpoint")
	bufferedDesc = gaugeDesc("buffered_bytes", "Bytes of request and response bodies kept for replay or held.")
)

// gaugeDesc describes a gauge.
func gaugeDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

// Describe implements prometheus.Collector.
func (g *gauges) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{inFlightDesc, waitingDesc, tunnelsDesc, budgetDesc, circuitDesc, bufferedDesc} {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (g *gauges) Collect(out chan<- prometheus.Metric) {
	emit := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	from := g.m.sources()
	for _, u := range from.retained {
		emit(inFlightDesc, float64(u.InFlight.n.Load()), u.name)
		emit(waitingDesc, float64(u.Waiting.n.Load()), u.name)
		emit(tunnelsDesc, float64(u.TunnelsOpen.n.Load()), u.name)
	}
	for upstream, remaining := range least(from.budgets) {
		emit(budgetDesc, float64(remaining), upstream)
	}
	for at, open := range sums(from.circuits) {
		emit(circuitDesc, float64(open), at.upstream, at.endpoint)
	}
	emit(bufferedDesc, from.buffered())
}

// sources are what the gauges are read from.
type sources struct {
	retained []*Upstream
	budgets  func(yield func(upstream string, remaining int) bool)
	circuits func(yield func(upstream, endpoint string, open int) bool)
	buffered func() float64
}

// sources returns what the gauges are read from. The lock is not held while
// they are read: they belong to others, who have locks of their own.
func (m *Metrics) sources() sources {
	m.mu.Lock()
	defer m.mu.Unlock()
	from := sources{budgets: m.budgets, circuits: m.circuits, buffered: m.buffered}
	for _, u := range m.upstreams {
		if u.retained {
			from.retained = append(from.retained, u)
		}
	}
	if from.budgets == nil {
		from.budgets = func(func(string, int) bool) {}
	}
	if from.circuits == nil {
		from.circuits = func(func(string, string, int) bool) {}
	}
	if from.buffered == nil {
		from.buffered = func() float64 { return 0 }
	}
	return from
}

// least returns the smallest number that is yielded for each name.
func least(budgets func(yield func(name string, n int) bool)) map[string]int {
	smallest := make(map[string]int)
	for name, n := range budgets {
		if old, ok := smallest[name]; !ok || n < old {
			smallest[name] = n
		}
	}
	return smallest
}

// circuit is what the circuits of one endpoint are counted under.
type circuit struct{ upstream, endpoint string }

// noEndpoint is the label of hosts that are no configured endpoint: a request's
// own host is never a label.
const noEndpoint = "-"

// sums adds up what is yielded for each endpoint.
func sums(circuits func(yield func(upstream, endpoint string, open int) bool)) map[circuit]int {
	all := make(map[circuit]int)
	circuits(func(upstream, endpoint string, open int) bool {
		if endpoint == "" {
			endpoint = noEndpoint
		}
		all[circuit{upstream, endpoint}] += open
		return true
	})
	return all
}
