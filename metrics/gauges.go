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
	bufferedDesc = gaugeDesc("buffered_bytes", "Bytes of request and response bodies kept for replay or held.")
)

// gaugeDesc describes a gauge.
func gaugeDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

// Describe implements prometheus.Collector.
func (g *gauges) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{inFlightDesc, waitingDesc, tunnelsDesc, budgetDesc, bufferedDesc} {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (g *gauges) Collect(out chan<- prometheus.Metric) {
	emit := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	retained, budgets, buffered := g.m.sources()
	for _, u := range retained {
		emit(inFlightDesc, float64(u.InFlight.n.Load()), u.name)
		emit(waitingDesc, float64(u.Waiting.n.Load()), u.name)
		emit(tunnelsDesc, float64(u.TunnelsOpen.n.Load()), u.name)
	}
	for upstream, remaining := range least(budgets) {
		emit(budgetDesc, float64(remaining), upstream)
	}
	emit(bufferedDesc, buffered())
}

// sources returns what the gauges are read from. The lock is not held while
// they are read: they belong to others, who have locks of their own.
func (m *Metrics) sources() (retained []*Upstream, budgets func(func(string, int) bool), buffered func() float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, u := range m.upstreams {
		if u.retained {
			retained = append(retained, u)
		}
	}
	budgets, buffered = m.budgets, m.buffered
	if budgets == nil {
		budgets = func(func(string, int) bool) {}
	}
	if buffered == nil {
		buffered = func() float64 { return 0 }
	}
	return retained, budgets, buffered
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
