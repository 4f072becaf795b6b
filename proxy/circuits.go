package proxy

import (
	"cmp"
	"time"

	"mulligan/policy"
)

// circuits yields how many circuits of each endpoint are open or half-open, of
// upstreams that have a circuit breaker.
func (s *Server) circuits(yield func(upstream, endpoint string, open int) bool) {
	s.statesMu.Lock()
	defer s.statesMu.Unlock()
	now := time.Now()
	for name, st := range s.states {
		for endpoint, open := range st.openCircuits(now) {
			if !yield(name, endpoint, open) {
				return
			}
		}
	}
}

// openCircuits counts the open circuits of each endpoint, by its URL; those of
// hosts that are none, a tunnel's for instance, count under "".
func (st *state) openCircuits(now time.Time) map[string]int {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.policy.Breaker.On() {
		return nil
	}
	open := map[string]int{}
	named := map[string]string{} // what an endpoint's URL is called
	for _, e := range st.policy.Endpoints {
		name := endpointName(e)
		open[name], named[endpointURL(e)] = 0, name
	}
	if len(open) == 0 {
		open[""] = 0
	}
	for e := st.recent.Front(); e != nil; e = e.Next() {
		a := e.Value.(*authority)
		if name, configured := named[a.url()]; configured && isOpen(a.breaker.Load(), now) {
			open[name]++
		}
	}
	for _, s := range st.scopes {
		if isOpen(s.single.Load(), now) {
			open[""]++
		}
	}
	if isOpen(st.shared.single.Load(), now) {
		open[""]++
	}
	return open
}

func isOpen(b *policy.Breaker, now time.Time) bool { return b != nil && b.Open(now) }

// endpointName is how metrics and logs call an endpoint: as it is configured.
func endpointName(e policy.Endpoint) string { return cmp.Or(e.Text, endpointURL(e)) }

// endpointURL writes an endpoint as a configuration does, without a port that its
// scheme has anyway.
func endpointURL(e policy.Endpoint) string {
	return e.Scheme + "://" + endpointAuthority(e.Scheme, e.Host, e.Port) + e.Path
}

// url is the URL of the endpoint that an authority is; "" where it is none.
func (a *authority) url() string {
	if !a.key.endpoint {
		return ""
	}
	e := policy.Endpoint{Scheme: "http", Host: a.key.host, Port: a.key.port, Path: a.key.path}
	if a.key.https {
		e.Scheme = "https"
	}
	return endpointURL(e)
}
