package proxy

import (
	"container/list"
	"context"
	"fmt"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"mulligan/policy"
	"mulligan/proxy/h1"
)

// maxAuthorities bounds the state kept per authority of one upstream: hosts
// matched by a wildcard or by nothing can be without number.
const maxAuthorities = 1024

// state is what outlives a reload of an upstream: budgets and connections.
type state struct {
	server *Server
	name   string

	mu          sync.Mutex
	retired     bool // its upstream is gone: only requests in flight still use it
	policy      *policy.Upstream
	tls         *peerTLS
	parent      *url.URL
	shared      *scope                   // of the hosts that the upstream names
	scopes      map[authorityName]*scope // of each other one
	authorities map[authorityKey]*list.Element
	recent      list.List          // of *authority, most recently used first
	late        []*lateAuthorities // in use, of upstreams of earlier configurations
}

// authorityKey names one authority as a peer: the same host over TLS, or past
// the guard as an endpoint, is another pool.
type authorityKey struct {
	host  string
	port  int
	https bool
	// named authorities share the upstream's budget, others have their own
	named    bool
	endpoint bool
	path     string        // of an endpoint: two on one server are two
	tunnel   bool          // made by CONNECT; a parent proxy is asked for a tunnel too
	forHost  authorityName // an endpoint's budget for one host of a wildcard
}

// scope is whom an upstream's limits are for: all the hosts that it names, or one
// that it does not, so that the outage of one is not at the expense of others.
type scope struct {
	budget *policy.Budget
	limits
	users int // authorities; of one that is not shared
}

// authority is what is kept per authority: its connections, and whose limits it
// is under.
type authority struct {
	*scope
	*standing
	key   authorityKey
	links *links
	peer  *peer
	used  atomic.Bool // since it was last looked at for room
}

func newState(s *Server, name string) *state {
	return &state{server: s, name: name, authorities: map[authorityKey]*list.Element{}, scopes: map[authorityName]*scope{}}
}

// configure gives the state a (new) policy. Budgets keep their tokens, up to
// the new most; connections are kept unless TLS changed.
func (st *state) configure(u *policy.Upstream, t *peerTLS, parent *url.URL, now time.Time) {
	st.mu.Lock()
	defer st.mu.Unlock()
	old := st.policy
	if st.shared == nil {
		st.shared = newScope(u, now)
	} else {
		st.shared.configure(old, u, now)
		for _, s := range st.scopes {
			s.configure(old, u, now)
		}
	}
	tlsChanged := !st.tls.same(t)
	st.policy, st.tls, st.parent = u, t, parent
	st.late = slices.DeleteFunc(st.late, func(late *lateAuthorities) bool {
		unused := late.unused()
		if unused {
			late.close()
		}
		return unused
	})
	for e := st.recent.Front(); e != nil; {
		a, next := e.Value.(*authority), e.Next()
		switch {
		case a.key.https && tlsChanged, parent != nil && old != nil && old.PreserveHost != u.PreserveHost:
			st.renew(e)
		case old != nil && !reflect.DeepEqual(old.Connections, u.Connections):
			a.links.Configure(st.poolConfig(u))
		}
		e.Value.(*authority).configure(u, now)
		e = next
	}
}

func newScope(u *policy.Upstream, now time.Time) *scope {
	s := &scope{budget: policy.NewBudget(u.Budget, now)}
	s.limits.configure(u, now)
	return s
}

// configure takes what has changed of an upstream's limits.
func (s *scope) configure(old, next *policy.Upstream, now time.Time) {
	if next.Budget != old.Budget {
		s.budget.Configure(next.Budget, now)
	}
	s.limits.configure(next, now)
}

// poolConfig is the upstream's, but that nobody would close the connections that
// stay idle once the upstream is gone.
func (st *state) poolConfig(u *policy.Upstream) h1.PoolConfig {
	cfg := h1.PoolConfig{Idle: u.Connections.Idle, Max: u.Connections.MaxPerEndpoint}
	if st.retired {
		cfg.Idle = atOnce
	}
	return cfg
}

// lateIdle is how long connections stay idle that only requests from before a
// reload use.
const lateIdle = time.Second

// atOnce is the idle time of connections that are not to be used again.
const atOnce = time.Nanosecond

// renewAll leaves all connections: what may be dialled, or through what, has
// changed.
func (st *state) renewAll() {
	st.mu.Lock()
	defer st.mu.Unlock()
	for e := st.recent.Front(); e != nil; e = e.Next() {
		st.renew(e)
	}
	st.closeLate()
}

// renew replaces an authority by one without connections; its budget lives on.
func (st *state) renew(e *list.Element) {
	old := e.Value.(*authority)
	e.Value = st.newAuthority(old.key, st.tls, old.scope, old.standing)
	old.links.Close()
}

// drop forgets an authority: its idle connections are closed, those in use end
// with their requests.
func (st *state) drop(e *list.Element) {
	a := e.Value.(*authority)
	st.recent.Remove(e)
	delete(st.authorities, a.key)
	a.links.Close()
	if a.users--; a.users == 0 && a.scope != st.shared {
		delete(st.scopes, a.key.owner())
	}
}

// authority returns the state of one of the upstream's authorities, made on first
// use.
func (u *upstream) authority(k authorityKey, now time.Time) *authority {
	st := u.state
	st.mu.Lock()
	defer st.mu.Unlock()
	if k.https && !st.tls.same(u.tls) {
		return st.lateAuthority(u, k, now)
	}
	return st.authority(k, now)
}

// lateAuthorities are those of an upstream for requests that began before a reload
// changed how TLS is spoken to it: they keep the policy that they began with. The
// state's mu guards it.
type lateAuthorities struct{ all map[authorityKey]*authority }

// close lets go of them, and of their connections.
func (l *lateAuthorities) close() {
	for _, a := range l.all {
		a.links.Close()
	}
	l.all = nil
}

// unused reports whether none has a connection.
func (l *lateAuthorities) unused() bool {
	for _, a := range l.all {
		if a.links.pool.Open() > 0 {
			return false
		}
	}
	return true
}

// closeLate lets go of those of all earlier configurations; mu is held.
func (st *state) closeLate() {
	for _, late := range st.late {
		late.close()
	}
	st.late = nil
}

// lateAuthority returns an authority as it was before a reload; mu is held.
func (st *state) lateAuthority(u *upstream, k authorityKey, now time.Time) *authority {
	late := &u.late
	if a := late.all[k]; a != nil {
		return a
	}
	if len(late.all) >= maxAuthorities {
		late.close()
	}
	if late.all == nil {
		late.all = map[authorityKey]*authority{}
	}
	if !slices.Contains(st.late, late) {
		st.late = append(st.late, late)
	}
	a := st.newAuthority(k, u.tls, st.scopeOf(k, now), st.standingOf(k, now))
	cfg := st.poolConfig(u.Upstream)
	if cfg.Idle == 0 || cfg.Idle > lateIdle {
		cfg.Idle = lateIdle // nobody would close what stays idle
	}
	a.links.Configure(cfg)
	late.all[k] = a
	return a
}

// authority is that of the newest configuration; mu is held.
func (st *state) authority(k authorityKey, now time.Time) *authority {
	if e, ok := st.authorities[k]; ok {
		st.recent.MoveToFront(e)
		return e.Value.(*authority)
	}
	for st.recent.Len() >= maxAuthorities {
		// Connections that go on using an authority do not come here for it: they
		// leave a mark, which is a second chance.
		e := st.recent.Back()
		if a := e.Value.(*authority); !a.used.Swap(false) && !st.configured(a.key) {
			st.drop(e)
			break
		}
		st.recent.MoveToFront(e)
	}
	a := st.newAuthority(k, st.tls, st.scopeOf(k, now), st.standingOf(k, now))
	if a.users++; a.scope != st.shared {
		st.scopes[k.owner()] = a.scope
	}
	st.authorities[k] = st.recent.PushFront(a)
	return a
}

// configured reports whether an authority is an endpoint itself, for the hosts that
// the upstream names. Those are few, and their state is not forgotten because a
// wildcard has hosts without number.
func (st *state) configured(k authorityKey) bool {
	return k.named && k.endpoint && slices.ContainsFunc(st.policy.Endpoints, func(e policy.Endpoint) bool {
		return e.Host == k.host && e.Port == k.port && (e.Scheme == "https") == k.https && e.Path == k.path
	})
}

// scopeOf returns whose limits an authority is under.
func (st *state) scopeOf(k authorityKey, now time.Time) *scope {
	if k.named {
		return st.shared
	}
	if s := st.scopes[k.owner()]; s != nil {
		return s
	}
	return newScope(st.policy, now)
}

// owner is the host as clients name it, whatever its scheme.
func (k authorityKey) owner() authorityName {
	if k.endpoint {
		return k.forHost
	}
	return authorityName{k.host, k.port}
}

// standingOf returns what is known of an authority, or room for it.
func (st *state) standingOf(k authorityKey, now time.Time) *standing {
	if e, ok := st.authorities[k]; ok {
		return e.Value.(*authority).standing
	}
	s := new(standing)
	s.configure(st.policy, now)
	return s
}

func (st *state) newAuthority(k authorityKey, t *peerTLS, s *scope, known *standing) *authority {
	p := &peer{host: k.host, port: k.port, exempt: k.endpoint, plain: !k.https && !k.tunnel && !st.keepsHost(k), parent: st.parent}
	if k.https {
		p.tls = t.config(k.host)
	}
	a := &authority{scope: s, standing: known, key: k, peer: p}
	dial := func(ctx context.Context) (net.Conn, error) {
		if ctx.Err() != nil { // the request's time was over before it got here: that is no attempt
			return nil, fmt.Errorf("%w: %w", h1.ErrPoolFull, context.Cause(ctx))
		}
		return st.server.dial(ctx, p)
	}
	a.links = newLinks(dial, p.tls != nil, st.poolConfig(st.policy))
	return a
}

// keepsHost reports whether requests to the authority carry the client's Host: a
// parent proxy would send on that of the target instead, if it saw them.
func (st *state) keepsHost(k authorityKey) bool { return k.endpoint && st.policy.PreserveHost }

// touch marks an authority as used again, by a connection that remembers it.
func (a *authority) touch() {
	if !a.used.Load() {
		a.used.Store(true)
	}
}

// remaining returns the retries that would be allowed now: the least, where
// budgets are kept per authority.
func (st *state) remaining(now time.Time) int {
	st.mu.Lock()
	defer st.mu.Unlock()
	least, any := 0, false
	for e := st.recent.Front(); e != nil; e = e.Next() {
		if n := e.Value.(*authority).budget.Remaining(now); !any || n < least {
			least, any = n, true
		}
	}
	if !any {
		return st.shared.budget.Remaining(now)
	}
	return least
}

// close ends all pools.
func (st *state) close() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.retired = true
	st.closeLate()
	for st.recent.Len() > 0 {
		st.drop(st.recent.Back())
	}
}

// hostport writes an authority as people write it.
func hostport(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
