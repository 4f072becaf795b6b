package h1

import (
	"math"
	"slices"
	"time"
)

// expires returns when an idle connection must no longer be used: by the pool's
// own limit, and a margin before what the server said in Keep-Alive.
func (p *Pool) expires(c *ClientConn) int64 {
	since, at := c.IdleSince(), int64(math.MaxInt64)
	if p.cfg.Idle > 0 {
		if at = since + int64(p.cfg.Idle); at < since {
			at = math.MaxInt64
		}
	}
	if c.keepAlive >= 0 && c.keepAlive < math.MaxInt64/int64(2*time.Second) {
		at = min(at, since+c.keepAlive*int64(time.Second)-keepAliveMargin)
	}
	return at
}

// pick takes out the most recently used connection that w allows and that has not
// expired, or returns nil.
func (p *Pool) pick(w *Want) *ClientConn {
	if w.MaxIdle <= 0 || len(p.idle) == 0 {
		return nil
	}
	now, last := Now(), -1
	for i := len(p.idle) - 1; i >= 0 && now-p.idle[i].IdleSince() < int64(w.MaxIdle); i-- {
		// The server of the last one may have promised less than the others'.
		c := p.idle[i]
		switch {
		case now >= p.expires(c):
		case !w.avoids(c):
			p.remove(i)
			return c
		case last < 0 && !w.Other:
			last = i
		}
	}
	if last < 0 {
		return nil
	}
	c := p.idle[last]
	p.remove(last)
	return c
}

// avoids reports whether a connection is to one of the addresses to avoid.
func (w *Want) avoids(c *ClientConn) bool {
	return len(w.Avoid) > 0 && slices.Contains(w.Avoid, c.RemoteAddr())
}

// keep adds a connection to the idle ones.
func (p *Pool) keep(c *ClientConn) {
	p.idle = append(p.idle, c)
	if at := p.expires(c); at != math.MaxInt64 && (p.timer == nil || at < p.wakes) {
		p.schedule()
	}
}

// remove takes idle[i] out.
func (p *Pool) remove(i int) { p.idle = slices.Delete(p.idle, i, i+1) }

// drop closes idle[i].
func (p *Pool) drop(i int) {
	p.idle[i].Close()
	p.remove(i)
	p.open--
}

// sweep closes what was idle for too long.
func (p *Pool) sweep() {
	now := Now()
	for i := len(p.idle) - 1; i >= 0; i-- {
		if now >= p.expires(p.idle[i]) {
			p.drop(i)
		}
	}
	p.schedule()
}

// schedule sets the timer for the idle connection that expires first. It is
// left alone while connections come and go: a timer that fires too early only
// sets itself anew.
func (p *Pool) schedule() {
	first := int64(math.MaxInt64)
	for _, c := range p.idle {
		first = min(first, p.expires(c))
	}
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	if first == math.MaxInt64 {
		return
	}
	p.wakes = first
	p.timer = time.AfterFunc(time.Duration(first-Now()), p.wake)
}

// wake is the timer's.
func (p *Pool) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweep()
	p.serve()
}

// waiter is somebody who waits for a connection or a slot. Its fields are
// guarded by the pool's lock until ready is closed.
type waiter struct {
	Want
	ready  chan struct{}
	conn   *ClientConn // nil: a slot
	closed bool        // the pool was closed
}

// waiters is a queue, first come first served.
type waiters struct{ queue []*waiter }

func (w *waiters) len() int       { return len(w.queue) }
func (w *waiters) first() *waiter { return w.queue[0] }
func (w *waiters) push(x *waiter) { w.queue = append(w.queue, x) }

// remove takes x out and reports whether it was in.
func (w *waiters) remove(x *waiter) bool {
	i := slices.Index(w.queue, x)
	if i < 0 {
		return false
	}
	w.queue = slices.Delete(w.queue, i, i+1)
	return true
}
