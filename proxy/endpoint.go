package proxy

import (
	"math"
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
	x.place(0) // until admit chooses
	x.tried = 0
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
		last.all[i] = u.authority(authorityKey{host: e.Host, port: e.Port, https: e.https, path: e.Path, named: named, endpoint: true, forHost: owner}, time.Now())
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

// place sends the next attempt to the endpoint.
func (x *exchange) place(i int) {
	e := &x.up.ends[i]
	x.at, x.auth = i, x.places[i]
	if len(x.places) > 1 {
		x.tried |= 1 << i
	}
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

// What speaks against an endpoint, from the least to the most: one is chosen of
// those against which there is least.
const (
	isTried     = 1 << iota // an attempt of this request went there
	isLast                  // the last one did
	isPaused                // a hint asks for no requests like this one for a while
	isUnhealthy             // its health check says so
	isHeld                  // the hint holds back what this request would send there
)

// choose returns the endpoint that the next attempt is to go to: by the power of
// two choices among those against which there is least. Those whose circuit is
// open are none; where all are, the result is -1, and wait how long they certainly
// stay so.
func (x *exchange) choose(now time.Time) (i int, wait time.Duration) {
	var few [8]policy.Load
	var marks [policy.MaxEndpoints]uint8
	loads, least := few[:0], uint8(math.MaxUint8)
	for i, a := range x.places {
		load := policy.Load{InFlight: int(a.inFlight.Load())}
		load.Latency = a.latency.Value(now, load.InFlight)
		if b := a.circuit(); b != nil {
			switch left := b.Wait(now); {
			case left > 0, x.isLane && b.Open(now): // a hedge is no probe
				load.Skip = true
				if wait == 0 || left < wait {
					wait = left
				}
			case b.Open(now): // a probe is due, and the failures before would keep it off for long
				load.Latency = 0
			}
		}
		marks[i] = x.against(i, now)
		if !load.Skip {
			least = min(least, marks[i])
		}
		loads = append(loads, load)
	}
	for i := range loads {
		loads[i].Skip = loads[i].Skip || marks[i] != least
	}
	if i = policy.Choose(loads, rand.Float64(), rand.Float64()); i >= 0 {
		wait = 0
	}
	return i, wait
}

// against is what speaks against an endpoint.
func (x *exchange) against(i int, now time.Time) (marks uint8) {
	a := x.places[i]
	if a.pause.Any() && a.pause.Left(x.credentials(), now) > 0 {
		marks |= isPaused
		if x.number > 0 || a.pacer.Load() != nil { // with rate_limit, hints hold first attempts back too
			marks |= isHeld
		}
	}
	if x.up.unhealthy(i) {
		marks |= isUnhealthy
	}
	if x.tried&(1<<i) != 0 {
		marks |= isTried
		if i == x.at {
			marks |= isLast
		}
	}
	return marks
}
