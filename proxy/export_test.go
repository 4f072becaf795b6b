package proxy

import "fmt"

// Unhealthy returns which endpoints of an upstream are to be skipped by their checks.
func (s *Server) Unhealthy(name string) (all []bool) {
	for _, u := range s.snap.Load().upstreams {
		if u.Name == name {
			for i := range u.ends {
				all = append(all, u.unhealthy(i))
			}
		}
	}
	return all
}

// Held says what attempts of an upstream still hold of its limits and connections; ""
// for nothing.
func (s *Server) Held(name string) string {
	s.statesMu.Lock()
	st := s.states[name]
	s.statesMu.Unlock()
	st.mu.Lock()
	defer st.mu.Unlock()
	held := ""
	for e := st.recent.Front(); e != nil; e = e.Next() {
		a := e.Value.(*authority)
		if n := a.inFlight.Load(); n != 0 {
			held += fmt.Sprintf("%d in flight to %s; ", n, a.url())
		}
		a.links.mu.Lock()
		if n := a.links.pool.Open() - a.links.pool.Idle() - len(a.links.shared); n != 0 {
			held += fmt.Sprintf("%d connections to %s; ", n, a.url())
		}
		a.links.mu.Unlock()
		if g := a.gate.Load(); g != nil {
			g.mu.Lock()
			if g.inUse != 0 || g.waiting() != 0 {
				held += fmt.Sprintf("%d places, %d wait; ", g.inUse, g.waiting())
			}
			g.mu.Unlock()
		}
	}
	return held
}
