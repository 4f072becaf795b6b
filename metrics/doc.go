// Package metrics counts what mulligan does: the metrics of the admin port's
// /metrics page.
//
// New registers every metric on the registry it is given. An Upstream, and a
// Route of it, hold the series of one configured name, resolved once, so that
// counting on the path of a request is an atomic addition: no look-up, no
// allocation.
//
//	registry := metrics.NewRegistry()
//	m := metrics.New(registry)
//	u := m.Upstream("payments", []string{"default", "charge"})
//	u.InFlight.Inc()
//	u.Route("charge").AttemptStatus(503)
//	u.Route("charge").Retry("503")
//
// The package is a leaf: names, classes and stops arrive as strings. Label
// values come from the configuration and from the fixed lists in words.go; a
// word that is not in its list is counted as "other", so that nothing that a
// request or an upstream says can make a new series.
package metrics
