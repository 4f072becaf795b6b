package proxy

import (
	"math"
	"sync/atomic"
	"time"

	"mulligan/policy"
)

// limits are what an upstream's attempts are bounded by, besides the budget. Each
// is nil where it is off.
type limits struct {
	gate   atomic.Pointer[gate]
	pacer  atomic.Pointer[pacer]
	single atomic.Pointer[policy.Breaker] // where there are no endpoints, which have one each
	recent policy.Recent                  // how long answers took: what a hedge at p95 waits for
}

// configure takes an upstream's (new) limits; what they have counted goes on.
func (l *limits) configure(u *policy.Upstream, now time.Time) {
	configureBreaker(&l.single, u.Breaker, now)
	switch g := l.gate.Load(); {
	case u.Concurrency.Max == 0 && g != nil:
		l.gate.Store(nil)
		g.configure(policy.Concurrency{Max: math.MaxInt, Queue: math.MaxInt}) // lets in who waits
	case u.Concurrency.Max > 0 && g == nil:
		l.gate.Store(&gate{cfg: u.Concurrency})
	case u.Concurrency.Max > 0:
		g.configure(u.Concurrency)
	}
	switch p := l.pacer.Load(); {
	case u.RateLimit.PerSecond == 0:
		l.pacer.Store(nil)
	case p == nil:
		l.pacer.Store(newPacer(u.RateLimit))
	default:
		p.configure(u.RateLimit)
	}
}

func configureBreaker(at *atomic.Pointer[policy.Breaker], cfg policy.BreakerConfig, now time.Time) {
	switch b := at.Load(); {
	case !cfg.On():
		at.Store(nil)
	case b == nil:
		at.Store(policy.NewBreaker(cfg, now))
	default:
		b.Configure(cfg, now)
	}
}

// standing is what is known of an authority beyond its connections, and outlives
// them.
type standing struct {
	pause   policy.Pause                   // what its hints hold back
	breaker atomic.Pointer[policy.Breaker] // of an endpoint

	// where there is a choice of endpoints
	inFlight atomic.Int32 // attempts under way
	latency  policy.Latency
}

func (s *standing) configure(u *policy.Upstream, now time.Time) {
	configureBreaker(&s.breaker, u.Breaker, now)
}

// configure takes what has changed of an upstream's limits per endpoint.
func (a *authority) configure(u *policy.Upstream, now time.Time) { a.standing.configure(u, now) }

// circuit returns the breaker that attempts to the authority are under; nil: none.
func (a *authority) circuit() *policy.Breaker {
	if a.key.endpoint {
		return a.standing.breaker.Load()
	}
	return a.single.Load()
}

// grant is what an attempt was let through with. It is given back once, when the
// attempt has no more to do with its upstream.
type grant struct {
	counted *authority // as under way there; nil: it is not
	gate    *gate
	breaker *policy.Breaker
	permit  policy.Permit
}

// leave gives back all but the breaker's permit, whose mark may come later.
func (g *grant) leave() {
	if g.counted != nil || g.gate != nil { // else all this is a look
		g.giveBack()
	}
}

func (g *grant) giveBack() {
	if g.counted != nil {
		g.counted.inFlight.Add(-1)
		g.counted = nil
	}
	if g.gate != nil {
		g.gate.leave(time.Now)
		g.gate = nil
	}
}

// keepGrant lets go of a connection that is not the one of the attempt under way, or
// not its last: what that was let through with stays.
func (x *exchange) keepGrant(letGo func()) {
	g := x.grant
	x.grant = grant{}
	letGo()
	x.grant = g
}
