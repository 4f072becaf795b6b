package metrics

import (
	"maps"
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Upstream counts for one configured upstream. Its methods are safe for
// concurrent use.
type Upstream struct {
	InFlight    Gauge // requests taken and not yet answered whole
	Waiting     Gauge // requests waiting before a retry
	TunnelsOpen Gauge // established tunnels

	RequestSeconds Seconds // from a request's head to the end of its response
	AttemptSeconds Seconds // from an attempt's start to its response's head (of a held response: its end), or failure
	BackoffSeconds Seconds // waits before retries

	m             *Metrics
	name          string
	routes        atomic.Pointer[map[string]*Route] // replaced whole, under m.mu
	retained      bool                              // its gauges are shown; under m.mu
	clientRetries prometheus.Counter
	notReplayable [numLimits]prometheus.Counter
}

// Seconds observes durations, in seconds.
type Seconds interface{ Observe(seconds float64) }

// Gauge is a number that goes up and down. The zero value is 0.
type Gauge struct{ n atomic.Int64 }

// Inc adds one.
func (g *Gauge) Inc() { g.n.Add(1) }

// Dec takes one away.
func (g *Gauge) Dec() { g.n.Add(-1) }

// Limit is what a request body was too large for.
type Limit uint8

// The limits on what is kept of request bodies.
const (
	RequestLimit Limit = iota // buffer.request: one body's
	TotalLimit                // buffer_total: that of all together
	numLimits
)

var limitNames = [numLimits]string{"request", "total"}

// Upstream returns the upstream of that name with at least these routes. The
// same name gives the same *Upstream, after a reload too, so that its counts
// go on. Its series exist from now on, at 0.
func (m *Metrics) Upstream(name string, routes []string) *Upstream {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.upstreams[name]
	if u == nil {
		u = m.newUpstream(name)
		m.upstreams[name] = u
	}
	u.retained = true
	u.addRoutes(routes)
	return u
}

// newUpstream resolves the series of an upstream.
func (m *Metrics) newUpstream(name string) *Upstream {
	u := &Upstream{
		RequestSeconds: m.requestSeconds.WithLabelValues(name),
		AttemptSeconds: m.attemptSeconds.WithLabelValues(name),
		BackoffSeconds: m.backoffSeconds.WithLabelValues(name),
		m:              m,
		name:           name,
		clientRetries:  m.clientRetries.WithLabelValues(name),
	}
	for limit, word := range limitNames {
		u.notReplayable[limit] = m.notReplayable.WithLabelValues(name, word)
	}
	u.routes.Store(&map[string]*Route{})
	return u
}

// addRoutes adds those of the named routes that u lacks; m.mu is held.
func (u *Upstream) addRoutes(names []string) {
	routes := maps.Clone(*u.routes.Load())
	for _, name := range names {
		if routes[name] == nil {
			routes[name] = u.newRoute(name)
		}
	}
	u.routes.Store(&routes)
}

// Retain ends the gauges of every upstream that is not named, after a reload
// that dropped it. What it counted stays, since a counter that vanishes looks
// like a reset; Upstream of the same name brings the gauges back.
func (m *Metrics) Retain(names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, u := range m.upstreams {
		u.retained = slices.Contains(names, name)
	}
}

// Route returns the route of that name, or nil where Upstream was never told
// of it.
func (u *Upstream) Route(name string) *Route { return (*u.routes.Load())[name] }

// ClientRetry counts a request that is itself a retry by the client's library.
func (u *Upstream) ClientRetry() { u.clientRetries.Inc() }

// NotReplayable counts a request body that was not kept for replay.
func (u *Upstream) NotReplayable(limit Limit) { u.notReplayable[limit].Inc() }

// TunnelOpened counts a CONNECT: its result is "established" or a failure class.
func (u *Upstream) TunnelOpened(result string) {
	if result != "established" {
		result = listed(classes, result)
	}
	u.m.tunnels.WithLabelValues(u.name, result).Inc()
}
