package proxy

import (
	"math/rand/v2"
	"time"

	"mulligan/policy"
)

// authorityName is a host and port as a client named them.
type authorityName struct {
	host string
	port int
}

// toEndpoints sends the request to the upstream's endpoints, one of which each
// attempt goes to. named says that the upstream's own budget pays.
func (x *exchange) toEndpoints(up *upstream, path []byte, named bool) {
	x.path, x.tried = path, 0
	x.to = target{endpoint: true, named: named}
	x.aim(up, withoutQuery(path))
	x.places = up.places(x, named)
	x.place()
	x.enter()
}

// places finds the state of each of the upstream's endpoints. A host that the
// upstream does not name itself (a wildcard's) has limits of its own there.
func (u *upstream) places(x *exchange, named bool) []*authority {
	var owner authorityName
	if !named {
		if owner = x.byHost; owner.host == "" {
			owner = authorityName{foldHost(x.c.last.host), x.c.last.port}
		}
	}
	last := &x.c.lastPlaces
	if last.snap == x.snap && last.up == u && last.named == named && last.owner == owner {
		for _, a := range last.all {
			a.touch()
		}
		return last.all
	}
	*last = lastPlaces{snap: x.snap, up: u, named: named, owner: owner, all: make([]*authority, len(u.ends))}
	for i := range u.ends {
		e := &u.ends[i]
		last.all[i] = u.authority(authorityKey{host: e.Host, port: e.Port, https: e.https, named: named, endpoint: true, forHost: owner}, time.Now())
	}
	return last.all
}

// lastPlaces are the endpoints that the connection's last request could go to.
type lastPlaces struct {
	snap  *snapshot
	up    *upstream
	named bool
	owner authorityName
	all   []*authority
}

// place chooses the endpoint that the next attempt goes to: another than those
// before it, where there is one.
func (x *exchange) place() {
	i := 0
	if n := len(x.places); n > 1 {
		i = x.choose(time.Now())
		x.tried |= 1 << i
	}
	e := &x.up.ends[i]
	x.at, x.auth = i, x.places[i]
	x.to.https, x.to.host, x.to.port = e.https, e.Host, e.Port
	x.to.path = x.path
	if e.Path != "" && !(len(x.path) == 1 && x.path[0] == '*') {
		x.to.path = append([]byte(e.Path), x.path...)
	}
	x.to.authority = nil
	if !x.up.PreserveHost {
		x.to.authority = e.authority
	} else if _, authority, _, err := parseAbsolute(x.req.Target); err == nil {
		x.to.authority = authority
	}
}

// choose returns the endpoint with least to do of two that have not failed this
// request yet; once all have, of those but the last one.
func (x *exchange) choose(now time.Time) int {
	var few [8]policy.Load
	loads := few[:0]
	for i, a := range x.places {
		n := int(a.inFlight.Load())
		loads = append(loads, policy.Load{InFlight: n, Latency: a.latency.Value(now, n), Skip: x.tried&(1<<i) != 0})
	}
	i := policy.Choose(loads, rand.Float64(), rand.Float64())
	if i >= 0 {
		return i
	}
	x.tried = 1 << x.at
	for i := range loads {
		loads[i].Skip = i == x.at
	}
	return policy.Choose(loads, rand.Float64(), rand.Float64())
}
