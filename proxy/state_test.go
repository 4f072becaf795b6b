package proxy

import (
	"fmt"
	"testing"
	"time"

	"mulligan/policy"
)

// kept is the state of an upstream without a server.
func kept(t *testing.T, u *policy.Upstream) *upstream {
	t.Helper()
	tls, err := newPeerTLS(u.TLS)
	if err != nil {
		t.Fatal(err)
	}
	st := newState(nil, u.Name)
	st.configure(u, tls, nil, time.Now())
	return &upstream{Upstream: u, state: st, tls: st.tls}
}

// sound fails where what is kept is more than the bound, or not in step.
func sound(t *testing.T, st *state) {
	t.Helper()
	if n := st.recent.Len(); n > maxAuthorities || n != len(st.authorities) {
		t.Fatalf("%d authorities in a row, %d by name, at most %d are kept", n, len(st.authorities), maxAuthorities)
	}
	users := map[*scope]int{}
	for e := st.recent.Front(); e != nil; e = e.Next() {
		a := e.Value.(*authority)
		users[a.scope]++
		if a.scope != st.shared && st.scopes[a.key.owner()] != a.scope {
			t.Fatalf("%v is under limits that are not its host's", a.key)
		}
	}
	for s, n := range users {
		if s.users != n {
			t.Fatalf("%d users, counted as %d", n, s.users)
		}
	}
	delete(users, st.shared)
	if len(users) != len(st.scopes) {
		t.Fatalf("limits of %d hosts are kept, and %d are in use", len(st.scopes), len(users))
	}
}

// TestStateIsBounded: of any number of hosts, by any of the ways to them, a bounded
// number is kept; the ways to one host share its limits.
func TestStateIsBounded(t *testing.T) {
	u := kept(t, &policy.Upstream{Name: "u", Budget: policy.BudgetConfig{Burst: 3}})
	st, now := u.state, time.Now()
	for i := range 10_000 {
		host := fmt.Sprintf("h%d", i)
		plain := u.authority(authorityKey{host: host, port: 80}, now)
		tunnel := u.authority(authorityKey{host: host, port: 80, tunnel: true}, now)
		tls := u.authority(authorityKey{host: host, port: 443, https: true}, now)
		if plain.scope != tunnel.scope || plain == tunnel || plain.scope == tls.scope {
			t.Fatalf("%s: its port 80 is to be one with its tunnels, and not with 443", host)
		}
		if i%1000 == 0 || i == 9999 {
			sound(t, st)
		}
	}
	if st.recent.Len() != maxAuthorities {
		t.Errorf("%d are kept, and there is room for %d", st.recent.Len(), maxAuthorities)
	}
}

// TestUsedAuthoritiesStay: what connections go on using without asking for it is
// kept, as long as there is anything else to drop.
func TestUsedAuthoritiesStay(t *testing.T) {
	u := kept(t, &policy.Upstream{Name: "u"})
	busy := authorityKey{host: "busy", port: 80}
	a := u.authority(busy, time.Now())
	for i := range 10_000 {
		a.touch()
		u.authority(authorityKey{host: fmt.Sprintf("h%d", i), port: 80}, time.Now())
	}
	if u.authority(busy, time.Now()) != a {
		t.Error("it was dropped while it was used")
	}
	for _, e := range u.state.authorities {
		e.Value.(*authority).used.Store(true)
	}
	u.authority(authorityKey{host: "one more", port: 80}, time.Now())
	sound(t, u.state)
}

// TestEndpointsAreNotForgotten: a wildcard's hosts do not push out the endpoints
// themselves, until the configuration has others.
func TestEndpointsAreNotForgotten(t *testing.T) {
	end := policy.Endpoint{Scheme: "http", Host: "end", Port: 80}
	u := kept(t, &policy.Upstream{Name: "u", Endpoints: []policy.Endpoint{end}})
	own := authorityKey{host: "end", port: 80, named: true, endpoint: true}
	a := u.authority(own, time.Now())
	crowd := func(name string) {
		for i := range 10_000 {
			k := own
			k.named, k.forHost = false, authorityName{fmt.Sprintf("%s%d", name, i), 80}
			u.authority(k, time.Now())
		}
		sound(t, u.state)
	}
	crowd("a")
	if u.authority(own, time.Now()) != a {
		t.Error("it was forgotten")
	}
	next := *u.Upstream
	next.Endpoints = []policy.Endpoint{{Scheme: "http", Host: "other", Port: 80}}
	u.state.configure(&next, u.tls, nil, time.Now())
	crowd("b")
	if u.state.authorities[own] != nil {
		t.Error("it is no endpoint any more, and still kept")
	}
}
