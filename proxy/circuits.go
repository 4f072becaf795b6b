package proxy

import (
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

// openCircuits counts the open circuits of each endpoint, by its URL; hosts that
// are none, a tunnel's for instance, count under "". Two endpoints that differ in
// their paths alone share their circuits.
func (st *state) openCircuits(now time.Time) map[string]int {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.policy.Breaker.On() {
		return nil
	}
	open := map[string]int{}
	urls := map[authorityKey][]string{} // of what endpoints lead to
	for _, e := range st.policy.Endpoints {
		at, url := authorityKey{host: e.Host, port: e.Port, https: e.Scheme == "https"}, endpointURL(e)
		if _, twice := open[url]; !twice {
			urls[at] = append(urls[at], url)
			open[url] = 0
		}
	}
	if len(open) == 0 {
		open[""] = 0
	}
	for e := st.recent.Front(); e != nil; e = e.Next() {
		a := e.Value.(*authority)
		if a.breaker == nil || !a.breaker.Open(now) {
			continue
		}
		var of []string
		if k := a.key; k.endpoint {
			of = urls[authorityKey{host: k.host, port: k.port, https: k.https}]
		} else {
			of = []string{""}
		}
		for _, url := range of {
			open[url]++
		}
	}
	return open
}

// endpointURL writes an endpoint as a configuration does, without a port that its
// scheme has anyway.
func endpointURL(e policy.Endpoint) string {
	return e.Scheme + "://" + endpointAuthority(e.Scheme, e.Host, e.Port) + e.Path
}
