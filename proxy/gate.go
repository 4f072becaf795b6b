package proxy

import (
	"container/list"
	"sync"
	"time"

	"mulligan/policy"
)

// gate bounds how many attempts of an upstream are under way at once
// (`concurrency`). Who finds no place queues; the queue is bounded, and so is the
// time in it. It is made with its cfg; no Max is no bound.
//
// First come, first served, as long as that is of use. Where those who queue will
// not all get a place in time, serving the oldest means that everybody waits and
// who arrives at all arrives late. Then the newest is served first, and the oldest
// turned away where the queue is full, until it is empty again (adaptive LIFO:
// Maurer, Fail at Scale, ACM Queue 13-8, 2015).
//
// Retries leave an eighth of the places to first attempts, but of a single one, and
// make room in a full queue for them.
//
// Nobody waits who could have a place: whatever makes room serves.
type gate struct {
	mu     sync.Mutex
	cfg    policy.Concurrency
	inUse  int
	firsts list.List // who waits, *ticket, the oldest first
	again  list.List // the same of retries
	seq    uint64    // of the last ticket
	newest bool      // serve the newest first
	left   leavings
}

// ticket is a place in the queue.
type ticket struct {
	at       *list.Element // in its queue; nil: it is decided
	queue    *list.List
	seq      uint64
	deadline time.Time     // until when it waits
	ready    chan struct{} // closed when it is decided
	admitted bool          // then it has a place, to be left
}

// enter asks for a place. With ok it is had, and has to be left. A ticket says that
// it may be had later: its owner waits until ready is closed and looks whether it is
// admitted, but no longer than until the ticket's deadline, which is no later than
// the given one (zero: none); who stops waiting, then or before, abandons it. With
// neither there is no place to be had.
func (g *gate) enter(now, deadline time.Time, retry bool) (t *ticket, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.hasRoom(retry) { // and so nobody waits whom it would be taken from
		g.inUse++
		return nil, true
	}
	if longest := now.Add(g.cfg.MaxWait); deadline.IsZero() || longest.Before(deadline) {
		deadline = longest
	}
	if !deadline.After(now) {
		return nil, false
	}
	g.expire(now)
	// A retry's window may be short for its own reasons.
	if !retry && g.late(now, deadline.Sub(now)) {
		g.newest = true
	}
	t = g.queue(deadline, retry)
	if g.waiting() == 1 {
		g.left.begin(now)
	}
	if g.trim(); t.at == nil {
		return nil, false
	}
	return t, false
}

func (g *gate) queue(deadline time.Time, retry bool) *ticket {
	g.seq++
	t := &ticket{queue: &g.firsts, seq: g.seq, deadline: deadline, ready: make(chan struct{})}
	if retry {
		t.queue = &g.again
	}
	t.at = t.queue.PushBack(t)
	return t
}

// trim turns away whom the queue has no room for: who would be served last.
func (g *gate) trim() {
	for g.waiting() > max(0, g.cfg.Queue) {
		g.decide(g.last(), false)
	}
}

func (g *gate) waiting() int { return g.firsts.Len() + g.again.Len() }

// hasRoom reports whether there is a place: retries leave the last ones to first
// attempts.
func (g *gate) hasRoom(retry bool) bool {
	most := g.cfg.Max
	if most <= 0 {
		return true
	}
	if retry && most > 1 {
		most -= max(1, most/8)
	}
	return g.inUse < most
}

// last is who would be served last: retries, of them the newest, or where the
// newest is served first the oldest.
func (g *gate) last() *ticket {
	queue, end := &g.again, (*list.List).Back
	if queue.Len() == 0 {
		queue = &g.firsts
	}
	if g.newest {
		end = (*list.List).Front
	}
	return end(queue).Value.(*ticket)
}

// late reports whether who queues now would, first come first served, wait for
// longer than that.
func (g *gate) late(now time.Time, wait time.Duration) bool {
	pace, known := g.left.pace(now, g.cfg.MaxWait)
	return known && g.waiting() > 0 && float64(pace)*float64(g.waiting()+1) > float64(wait)
}

// expire turns away who is over time and has not noticed yet.
func (g *gate) expire(now time.Time) {
	for _, queue := range []*list.List{&g.firsts, &g.again} {
		for at := queue.Front(); at != nil && !at.Value.(*ticket).deadline.After(now); at = queue.Front() {
			g.decide(at.Value.(*ticket), false)
		}
	}
}

// leave gives a place back whose attempt has ended. The clock is asked where somebody
// waits for a place.
func (g *gate) leave(clock func() time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inUse--
	if g.waiting() > 0 {
		now := clock()
		g.left.add(now)
		g.serve(now)
	}
}

// serve admits who waits, as far as there is room.
func (g *gate) serve(now time.Time) {
	for t := g.next(); t != nil; t = g.next() {
		g.decide(t, t.deadline.After(now))
		if t.admitted {
			g.inUse++
		}
	}
}

// next is who is served next; nil: nobody can be.
func (g *gate) next() *ticket {
	end := (*list.List).Front
	if g.newest {
		end = (*list.List).Back
	}
	var next *ticket
	if at := end(&g.firsts); at != nil && g.hasRoom(false) {
		next = at.Value.(*ticket)
	}
	if at := end(&g.again); at != nil && g.hasRoom(true) {
		if t := at.Value.(*ticket); next == nil || t.seq < next.seq != g.newest {
			next = t
		}
	}
	return next
}

func (g *gate) decide(t *ticket, admitted bool) {
	t.admitted = admitted
	g.remove(t)
	close(t.ready)
}

func (g *gate) remove(t *ticket) {
	t.queue.Remove(t.at)
	t.at = nil
	if g.waiting() == 0 {
		g.newest = false
	}
}

// abandon gives a ticket up that nobody waits for any more, and its place where it
// has got one meanwhile.
func (g *gate) abandon(t *ticket, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case t.at != nil:
		g.remove(t)
	case t.admitted:
		g.inUse-- // no attempt has ended: that says nothing of their pace
		g.serve(now)
	}
}

// configure goes on under another configuration: who has a place keeps it, and who
// waits waits for as long as before.
func (g *gate) configure(cfg policy.Concurrency) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cfg = cfg
	g.serve(time.Now())
	g.trim()
}

// retryAfter is how long who was turned away is to stay away: until those who queue
// have been served, at the pace of late; from one second to maxRetryAfter.
func (g *gate) retryAfter() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting() == 0 {
		return minRetryAfter // the pace is known only of queues
	}
	pace, _ := g.left.pace(time.Now(), g.cfg.MaxWait)
	wait := min(float64(pace)*float64(g.waiting()+1), float64(maxRetryAfter))
	return max(minRetryAfter, time.Duration(wait))
}

// What is told to who was turned away is in whole seconds, 0 of which would be an
// invitation to come back at once; and what is computed from a moment's load is no
// ground for sending anybody away for long.
const (
	minRetryAfter = time.Second
	maxRetryAfter = 30 * time.Second
)
