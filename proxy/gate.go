package proxy

import (
	"container/list"
	"sync"
	"time"

	"mulligan/policy"
)

// gate bounds how many attempts of an upstream are under way at once
// (`concurrency`). Who finds no place queues; the queue is bounded, and so is the
// time in it.
//
// First come, first served, as long as that is of use: where the queue is full of
// those who will not get a place in time, serving the oldest means that everybody
// waits and nobody arrives. Then the newest is served first, and the oldest is
// turned away to make room for it, until the queue is empty again.
type gate struct {
	mu      sync.Mutex
	cfg     policy.Concurrency
	inUse   int
	waiting list.List // of *ticket, the oldest first
	newest  bool      // serve the newest first
	left    [leavesKept]time.Time
	leaves  int // places given back so far
}

// leavesKept is over how many ends of attempts their pace is measured.
const leavesKept = 16

// ticket is a place in the queue.
type ticket struct {
	at       *list.Element
	retry    bool
	deadline time.Time
	ready    chan struct{} // closed when it is decided
	admitted bool          // then it has a place
}

// enter asks for a place, until the deadline. Without one to be had at once, the
// ticket says when there is; nil: there will be none.
func (g *gate) enter(now, deadline time.Time, retry bool) (t *ticket, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting.Len() == 0 && g.hasRoom(retry) {
		g.inUse++
		return nil, true
	}
	if longest := now.Add(g.cfg.MaxWait); deadline.IsZero() || longest.Before(deadline) {
		deadline = longest
	}
	if !deadline.After(now) {
		return nil, false
	}
	if g.waiting.Len() >= g.cfg.Queue && !g.makeRoom(now) {
		return nil, false
	}
	t = &ticket{retry: retry, deadline: deadline, ready: make(chan struct{})}
	t.at = g.waiting.PushBack(t)
	g.serve() // a first attempt may have room where the retries before it have none
	return t, false
}

// makeRoom turns the oldest waiter away where the queue is longer than can be
// served in the time that is allowed; else nobody.
func (g *gate) makeRoom(now time.Time) bool {
	oldest := g.waiting.Front()
	if oldest == nil {
		return false // there is no queue
	}
	if pace, known := g.pace(now); known && time.Duration(g.waiting.Len())*pace <= g.cfg.MaxWait {
		return false
	}
	g.newest = true
	g.decide(oldest.Value.(*ticket), false)
	return true
}

// pace returns the time between two ends of attempts, of late.
func (g *gate) pace(now time.Time) (time.Duration, bool) {
	if g.leaves < leavesKept {
		return 0, false
	}
	return now.Sub(g.left[g.leaves%leavesKept]) / leavesKept, true
}

// hasRoom reports whether there is a place: retries leave the last ones to first
// attempts.
func (g *gate) hasRoom(retry bool) bool {
	most := g.cfg.Max
	if retry && most > 1 {
		most -= max(1, most/8)
	}
	return g.inUse < most
}

// leave gives a place back.
func (g *gate) leave(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inUse--
	g.left[g.leaves%leavesKept] = now
	g.leaves++
	g.serve()
}

// serve admits who waits, as far as there is room.
func (g *gate) serve() {
	for {
		t := g.next()
		if t == nil {
			break
		}
		g.inUse++
		g.decide(t, true)
	}
	if g.waiting.Len() == 0 {
		g.newest = false
	}
}

// next is who is served next; nil: nobody can be.
func (g *gate) next() *ticket {
	first := g.hasRoom(false)
	retry := g.hasRoom(true)
	at, on := g.waiting.Front(), (*list.Element).Next
	if g.newest {
		at, on = g.waiting.Back(), (*list.Element).Prev
	}
	for ; at != nil && first; at = on(at) {
		if t := at.Value.(*ticket); retry || !t.retry {
			return t
		}
	}
	return nil
}

func (g *gate) decide(t *ticket, admitted bool) {
	g.waiting.Remove(t.at)
	t.at = nil
	t.admitted = admitted
	close(t.ready)
}

// abandon gives a ticket up that nobody waits for any more, and its place where it
// has got one meanwhile.
func (g *gate) abandon(t *ticket, now time.Time) {
	g.mu.Lock()
	if t.at != nil {
		g.waiting.Remove(t.at)
		t.at = nil
		if g.waiting.Len() == 0 {
			g.newest = false
		}
		g.mu.Unlock()
		return
	}
	admitted := t.admitted
	g.mu.Unlock()
	if admitted {
		g.leave(now)
	}
}

// configure goes on under another configuration: who has a place keeps it.
func (g *gate) configure(cfg policy.Concurrency) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cfg = cfg
	for g.waiting.Len() > cfg.Queue {
		g.decide(g.waiting.Front().Value.(*ticket), false)
	}
	g.serve()
}

func (g *gate) retryAfter() time.Duration { return time.Second }
