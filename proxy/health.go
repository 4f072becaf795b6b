package proxy

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"mulligan/policy"
)

// checks are the health checks of all upstreams' endpoints, each with a goroutine of
// its own from start or its first configuration on, whichever is later, until stop or
// the configuration that leaves it out.
type checks struct {
	server *Server

	mu      sync.Mutex
	all     map[checkKey]*check
	running sync.WaitGroup
	started bool
	stopped bool
}

// checkKey names what is checked: what is the same after a reload keeps what was
// found.
type checkKey struct {
	upstream string
	policy.Endpoint
}

// check is that of one endpoint.
type check struct {
	server    *Server
	key       checkKey
	how       atomic.Pointer[checkWay]
	changed   chan struct{} // how is another
	end       context.CancelFunc
	found     policy.Health // of its goroutine
	unhealthy atomic.Bool   // the same, for all
}

// checkWay is how an endpoint is checked.
type checkWay struct {
	policy.HealthCheck
	peer *peer
	tls  *peerTLS
}

// same reports whether an endpoint that was checked in one way need not be looked at
// anew for the other.
func (w *checkWay) same(other *checkWay) bool {
	return w.HealthCheck == other.HealthCheck && w.tls.same(other.tls) && reflect.DeepEqual(w.peer.parent, other.peer.parent)
}

// unhealthy reports whether checks have found that the endpoint is to be skipped.
// While nothing is known of it, it is not.
func (u *upstream) unhealthy(i int) bool {
	unhealthy := u.ends[i].unhealthy
	return unhealthy != nil && unhealthy.Load()
}

// apply takes what a configuration, which nobody uses yet, says of checks.
func (c *checks) apply(next *snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.all
	c.all = map[checkKey]*check{}
	for _, u := range next.upstreams {
		if !u.HealthCheck.On() {
			continue
		}
		for i := range u.ends {
			e := &u.ends[i]
			k := checkKey{u.Name, e.Endpoint}
			one := c.all[k]
			if one == nil {
				one = c.follow(before[k], k, wayOf(u, e, next.settings.ParentProxy))
				c.all[k] = one
				delete(before, k)
			}
			e.unhealthy = &one.unhealthy
		}
	}
	for _, gone := range before {
		gone.end()
	}
}

func wayOf(u *upstream, e *end, parent *url.URL) *checkWay {
	p := &peer{host: e.Host, port: e.Port, exempt: true, plain: !e.https, parent: parent}
	if e.https {
		p.tls = u.tls.config(e.Host)
	}
	return &checkWay{u.HealthCheck, p, u.tls}
}

// follow goes on with the check that there was, or makes one; mu is held.
func (c *checks) follow(before *check, k checkKey, how *checkWay) *check {
	if before == nil {
		one := &check{server: c.server, key: k, changed: make(chan struct{}, 1), end: func() {}}
		one.how.Store(how)
		c.run(one)
		return one
	}
	if !before.how.Load().same(how) {
		before.how.Store(how)
		select {
		case before.changed <- struct{}{}:
		default:
		}
	}
	return before
}

// run starts a check's goroutine, while there are any; mu is held.
func (c *checks) run(one *check) {
	if !c.started || c.stopped {
		return
	}
	var ctx context.Context
	ctx, one.end = context.WithCancel(context.Background())
	c.running.Go(func() { one.run(ctx) })
}

// start begins with what is configured.
func (c *checks) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.started = true
	for _, one := range c.all {
		c.run(one)
	}
}

// stop ends all checks, those under way too, and waits for that. What they have found
// stays.
func (c *checks) stop() {
	c.mu.Lock()
	c.stopped = true
	for _, one := range c.all {
		one.end()
	}
	c.mu.Unlock()
	c.running.Wait()
}

// firstCheckWithin spreads first checks, so that not all come in one moment.
const firstCheckWithin = time.Second

// run checks the endpoint until ctx ends: soon, and then at each interval, give or
// take a tenth, so that many instances that began together do not stay together.
func (c *check) run(ctx context.Context) {
	soon := func() time.Duration {
		return time.Duration(rand.Float64() * float64(min(firstCheckWithin, c.how.Load().Interval/10)))
	}
	timer := time.NewTimer(soon())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.changed:
			timer.Reset(soon())
			continue
		case <-timer.C:
		}
		how, began := c.how.Load(), time.Now()
		failure := c.server.look(ctx, how, &c.key.Endpoint)
		if ctx.Err() != nil {
			return
		}
		c.take(how, failure)
		next := time.Duration((0.9 + 0.2*rand.Float64()) * float64(how.Interval))
		timer.Reset(next - time.Since(began))
	}
}

// take draws the conclusion from a check. One that failed for want of something on
// this machine says nothing of the endpoint.
func (c *check) take(how *checkWay, failure error) {
	if isLocal(failure) || errors.Is(failure, errCheckPanic) || !c.found.Observe(&how.HealthCheck, failure == nil) {
		return
	}
	c.unhealthy.Store(c.found.Unhealthy())
	attrs := []slog.Attr{slog.String("upstream", c.key.upstream), slog.String("endpoint", endpointName(c.key.Endpoint))}
	if failure == nil {
		attrs = append(attrs, slog.String("from", "unhealthy"), slog.String("to", "healthy"))
		c.server.log.LogAttrs(context.Background(), slog.LevelInfo, "an endpoint is well again", attrs...)
		return
	}
	attrs = append(attrs, slog.String("from", "healthy"), slog.String("to", "unhealthy"), slog.String("reason", whyUnwell(failure)))
	c.server.log.LogAttrs(context.Background(), slog.LevelWarn, "an endpoint fails its health checks, and is skipped where there is another", attrs...)
}
