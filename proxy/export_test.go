package proxy

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

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

// Held says what attempts hold of upstreams' limits and connections; "" is nothing.
// It is for when no request is under way.
func (s *Server) Held() string {
	var b strings.Builder
	s.statesMu.Lock()
	defer s.statesMu.Unlock()
	for name, st := range s.states {
		st.mu.Lock()
		scopes := map[*scope]bool{st.shared: true}
		for _, sc := range st.scopes {
			scopes[sc] = true
		}
		for e := st.recent.Front(); e != nil; e = e.Next() {
			a := e.Value.(*authority)
			if n := a.inFlight.Load(); n != 0 {
				fmt.Fprintf(&b, "%s: %d in flight to %s\n", name, n, a.url())
			}
			if n := probesOut(a.breaker.Load()); n != 0 {
				fmt.Fprintf(&b, "%s: %d probes of %s\n", name, n, a.url())
			}
			if open, idle := a.links.pool.Open(), a.links.idle(); open != idle {
				fmt.Fprintf(&b, "%s: %d connections to %s, of which %d idle\n", name, open, a.url(), idle)
			}
		}
		for sc := range scopes {
			if n := probesOut(sc.single.Load()); n != 0 {
				fmt.Fprintf(&b, "%s: %d probes\n", name, n)
			}
			g := sc.gate.Load()
			if g == nil {
				continue
			}
			g.mu.Lock()
			if g.inUse != 0 || g.waiting() != 0 {
				fmt.Fprintf(&b, "%s: %d places, %d waiting\n", name, g.inUse, g.waiting())
			}
			g.mu.Unlock()
		}
		st.mu.Unlock()
	}
	return b.String()
}

// idle returns how many connections carry no request.
func (l *links) idle() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.pool.Idle()
	for _, c := range l.shared {
		if c.Streams() == 0 {
			n++
		}
	}
	return n
}

// OpenTo returns how many connections there are to an upstream's authorities.
func (s *Server) OpenTo(name string) (n int) {
	s.statesMu.Lock()
	defer s.statesMu.Unlock()
	st := s.states[name]
	st.mu.Lock()
	defer st.mu.Unlock()
	for e := st.recent.Front(); e != nil; e = e.Next() {
		n += e.Value.(*authority).links.pool.Open()
	}
	return n
}

// probesOut counts the probes of a breaker, a *policy.Breaker, that are under way.
func probesOut(b interface{ Open(time.Time) bool }) int {
	v := reflect.ValueOf(b)
	if v.IsNil() {
		return 0
	}
	b.Open(time.Time{}) // after whoever had the lock
	return v.Elem().FieldByName("probes").Len()
}
