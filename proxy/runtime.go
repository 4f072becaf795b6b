package proxy

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"mulligan/metrics"
	"mulligan/policy"
)

// Settings is what a reload may change. A Server never changes a Settings that
// it was given, and its giver must not either.
type Settings struct {
	Upstreams         []*policy.Upstream
	Default           *policy.Upstream // the policy of hosts that no upstream names
	DenyUnmatched     bool             // such hosts get 403
	AllowClients      []netip.Prefix   // empty: every client
	Auth              *Credentials     // nil: none is asked for
	BufferTotal       int64            // bytes that all replay and held bodies may take together
	Via               bool             // put Via on responses
	AllowDestinations []netip.Prefix
	DenyDestinations  []netip.Prefix
	ParentProxy       *url.URL // nil: dial directly
	AccessLog         bool
}

// Credentials are what clients must show (Basic, RFC 7617).
type Credentials struct{ Username, Password string }

// snapshot is everything that a request reads of the configuration, behind one
// pointer: a request in flight keeps the one that it began with.
type snapshot struct {
	settings  *Settings
	table     *policy.Table
	guard     *guard
	upstreams map[*policy.Upstream]*upstream
	byListen  map[string]*upstream
	fallback  *upstream
}

// upstream joins an upstream's policy to its metrics and its lasting state.
type upstream struct {
	*policy.Upstream
	metrics *metrics.Upstream
	routes  map[*policy.Route]*metrics.Route
	state   *state
	tls     *peerTLS // how it is spoken to; the state has that of the newest configuration
	late    lateAuthorities

	ends    []end // its endpoints
	p95     bool  // a hedge waits for the 95th percentile of its latencies
	limited bool  // attempts are not simply made: they have a choice, or a limit
}

// end is an endpoint of an upstream's.
type end struct {
	policy.Endpoint
	https     bool
	authority []byte // as the Host field has it

	unhealthy *atomic.Bool // by its checks; nil: there are none
}

// Reload takes new settings. All that can fail is done first; then one pointer
// is swapped, so that a bad configuration changes nothing.
func (s *Server) Reload(next *Settings) error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	if err := s.needSigner(next); err != nil {
		return err
	}
	tlsOf := map[*policy.Upstream]*peerTLS{}
	all := append([]*policy.Upstream{next.Default}, next.Upstreams...)
	for _, u := range all {
		t, err := newPeerTLS(u.TLS)
		if err != nil {
			return fmt.Errorf("upstream %q: %w", u.Name, err)
		}
		tlsOf[u] = t
	}
	snap := &snapshot{
		settings:  next,
		table:     policy.NewTable(next.Upstreams, next.Default),
		upstreams: map[*policy.Upstream]*upstream{},
		byListen:  map[string]*upstream{},
		guard:     &guard{allow: next.AllowDestinations, deny: next.DenyDestinations, denyLoopback: s.beyondLoopback, own: s.own},
	}
	fresh := s.changesDials(next)
	now := time.Now()
	names := make([]string, 0, len(all))
	for _, u := range all {
		snap.upstreams[u] = s.join(u, tlsOf[u], next.ParentProxy, now)
		names = append(names, u.Name)
		if u.Listen != "" {
			snap.byListen[u.Listen] = snap.upstreams[u]
		}
	}
	s.keepDoors(snap, next.Upstreams)
	snap.fallback = snap.upstreams[next.Default]
	s.buffered.limit.Store(next.BufferTotal)
	s.retire(names)
	s.warnNewListens(snap)
	s.checks.apply(snap)
	s.snap.Store(snap)
	if fresh { // after the swap, so that no new connection is made under the old rules
		for _, u := range snap.upstreams {
			u.state.renewAll()
		}
	}
	return nil
}

// needSigner asks for the local CA, the first time that an upstream intercepts.
func (s *Server) needSigner(next *Settings) (err error) {
	if s.signer != nil || !slices.ContainsFunc(next.Upstreams, func(u *policy.Upstream) bool { return u.TLS.Intercept }) {
		return nil
	}
	if s.opts.Signer == nil {
		return errors.New("tls.intercept needs a local CA, and there is none")
	}
	s.signer, err = s.opts.Signer()
	return err
}

// changesDials reports whether the next settings dial otherwise, or elsewhere,
// than those before: then connections from before are not used on.
func (s *Server) changesDials(next *Settings) bool {
	snap := s.snap.Load()
	if snap == nil {
		return false
	}
	old := snap.settings
	return !reflect.DeepEqual(old.ParentProxy, next.ParentProxy) ||
		!slices.Equal(old.AllowDestinations, next.AllowDestinations) || !slices.Equal(old.DenyDestinations, next.DenyDestinations)
}

// join finds or makes what lasts of an upstream.
func (s *Server) join(u *policy.Upstream, t *peerTLS, parent *url.URL, now time.Time) *upstream {
	st := s.states[u.Name]
	if st == nil {
		st = newState(s, u.Name)
		s.statesMu.Lock()
		s.states[u.Name] = st
		s.statesMu.Unlock()
	}
	st.configure(u, t, parent, now)
	routes := append([]*policy.Route{u.Default}, u.Routes...)
	names := make([]string, len(routes))
	for i, r := range routes {
		names[i] = r.Name
	}
	joined := &upstream{Upstream: u, metrics: s.opts.Metrics.Upstream(u.Name, names), routes: map[*policy.Route]*metrics.Route{}, state: st, tls: t}
	for _, e := range u.Endpoints {
		joined.ends = append(joined.ends, end{Endpoint: e, https: e.Scheme == "https", authority: []byte(endpointAuthority(e.Scheme, e.Host, e.Port))})
	}
	joined.limited = len(u.Endpoints) > 1 || u.Breaker.On() || u.Concurrency.Max > 0 || u.RateLimit.PerSecond > 0
	for _, r := range routes {
		joined.routes[r] = joined.metrics.Route(r.Name)
		joined.p95 = joined.p95 || r.Hedge.Max > 0 && r.Hedge.Delay == 0
	}
	return joined
}

// retire forgets upstreams that the configuration no longer has. Requests in
// flight keep what they hold of them.
func (s *Server) retire(names []string) {
	keep := map[string]bool{}
	for _, n := range names {
		keep[n] = true
	}
	s.statesMu.Lock()
	defer s.statesMu.Unlock()
	for name, st := range s.states {
		if !keep[name] {
			st.close()
			delete(s.states, name)
		}
	}
	s.opts.Metrics.Retain(names)
}

// keepDoors lets a listener that is open lead to its upstream where the next
// configuration says otherwise: what is under `listen` needs a restart, and until
// then holds as it was.
func (s *Server) keepDoors(next *snapshot, upstreams []*policy.Upstream) {
	for addr, name := range s.listening {
		if next.byListen[addr] != nil {
			continue
		}
		for _, u := range upstreams {
			if u.Name == name && len(u.Endpoints) > 0 {
				next.byListen[addr] = next.upstreams[u]
			}
		}
	}
}

// warnNewListens says which listeners the new configuration changes: that takes a
// restart.
func (s *Server) warnNewListens(next *snapshot) {
	if s.snap.Load() == nil {
		return
	}
	for addr, u := range next.byListen {
		if _, open := s.listening[addr]; !open {
			s.log.Warn("a new listener needs a restart", slog.String("upstream", u.Name), slog.String("listen", addr))
		}
	}
	for addr := range s.listening {
		switch u := next.byListen[addr]; {
		case u == nil:
			s.log.Warn("a removed listener answers 421 until a restart closes it: its upstream is gone", slog.String("listen", addr))
		case u.Listen != addr:
			s.log.Warn("a listener goes on until a restart closes it", slog.String("upstream", u.Name), slog.String("listen", addr))
		}
	}
}

// budgets yields what is left of every upstream's retry budget.
func (s *Server) budgets(yield func(string, int) bool) {
	s.statesMu.Lock()
	defer s.statesMu.Unlock()
	now := time.Now()
	for name, st := range s.states {
		if !yield(name, st.remaining(now)) {
			return
		}
	}
}
