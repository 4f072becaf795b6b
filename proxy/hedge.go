package proxy

import (
	"bytes"
	"sync"
	"time"

	"mulligan/policy"
)

// race is an attempt and those that are begun beside it where it has no answer yet
// (hedge; Dean and Barroso, The Tail at Scale, 2013). The first acceptable response
// wins; a failure waits for the others. The attempt itself runs where it always
// does, on the exchange; the others are lanes, with a goroutine each.
type race struct {
	main  *exchange
	like  lanePattern
	delay time.Duration

	mu      sync.Mutex
	most    int  // lanes that may be begun
	over    bool // none is any more: the attempt itself has ended
	lanes   []*lane
	running int        // lanes that have not ended
	left    int        // lanes whose end was not taken in yet
	winner  *lane      // the first to get an acceptable response, if it was before the attempt itself
	late    bool       // the attempt itself is past timeout.attempt, and goes on for the lanes' sake
	ended   chan *lane // in the order of their ends
	asks    chan *lane // past timeout.attempt, and nothing else under way
}

// lanePattern is what a lane has of the exchange: copied before the attempt, which
// changes some of it.
type lanePattern struct {
	snap    *snapshot
	seen    fields
	to      target
	auth    *authority
	places  []*authority
	at      int
	tried   uint64
	path    []byte
	session policy.Session
	failed  failedAddrs
	number  int
}

// lane is one attempt beside another.
type lane struct {
	c        *clientConn // has no client: its exchange is what counts
	result   result
	answered bool // it has a response, which may be held
}

// sent reports whether the lane's attempt was made.
func (l *lane) sent() bool { return l.c.x.sent(&l.result) }

// race makes an attempt, with others beside it where policy has it so. reason is why
// it is made, where it is a retry.
func (x *exchange) race(reason string) result {
	delay, most := x.hedging()
	if most <= 0 {
		r := x.attempt()
		x.countRetry(&r, reason)
		return r
	}
	h := x.spareRace
	if h == nil {
		h = &race{main: x}
	}
	x.spareRace = nil
	h.delay, h.most, h.over = delay, most, false
	h.like = lanePattern{
		snap: x.snap, seen: x.seen, to: x.to, auth: x.auth, places: x.places, at: x.at, tried: x.tried, path: x.path,
		session: x.session, failed: x.failedAt, number: x.number + 1,
	}
	x.beside = h
	h.arm()
	r := x.attempt()
	x.countRetry(&r, reason) // whatever those beside it come to
	x.ended(&r)
	r = h.settle(r)
	x.beside = nil
	return r
}

// arm sets the time at which the watcher has another lane begun. A timer for each
// request would cost more than the rest of it.
func (h *race) arm() {
	w := &h.main.c.watch
	w.race.Store(h)
	w.hedgeAt.Store(h.main.s.now() + int64(h.delay))
}

// disarm takes that back, and reports whether it was not too late.
func (h *race) disarm() bool {
	w := &h.main.c.watch
	if w.hedgeAt.Swap(0) == 0 {
		return false
	}
	w.race.Store(nil)
	return true
}

// hedging returns after which time an attempt gets company, and of how many at
// most; 0: of none.
func (x *exchange) hedging() (delay time.Duration, most int) {
	hedge := &x.route.Hedge
	if hedge.Max == 0 || x.connect || x.upgrades() || x.s.draining() {
		return 0, 0
	}
	if delay = hedge.Delay; delay == 0 {
		var known bool
		if delay, known = x.auth.recent.P95(); !known {
			return 0, 0
		}
	}
	return delay, min(hedge.Max, x.session.MayHedge())
}

// begin begins a lane, if it is still wanted, and everything allows it.
func (h *race) begin() {
	defer func() {
		if fault := recover(); fault != nil { // the attempt goes on alone
			h.main.s.logPanic(fault)
		}
	}()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over || len(h.lanes) >= h.most || h.main.s.draining() {
		return
	}
	if b := &h.main.body; !b.buffered() {
		if b.keeping.Load() {
			h.arm() // its end is still on its way
		}
		return
	}
	l := h.newLane()
	if l == nil {
		return
	}
	if h.ended == nil {
		h.ended, h.asks = make(chan *lane, h.most), make(chan *lane, h.most)
	}
	h.lanes = append(h.lanes, l)
	h.running++
	h.left++
	if len(h.lanes) < h.most {
		h.arm()
	}
	go h.run(l)
}

// newLane readies a lane; nil where limits or the budget have no room for it.
func (h *race) newLane() *lane {
	like, s := &h.like, h.main.s
	c := s.newSide(h.main.c.listen)
	c.sc, c.watch.sc = nobody{}, nobody{}
	x := &c.x
	x.req, x.up, x.route, x.count = h.main.req, h.main.up, h.main.route, h.main.count
	x.snap, x.seen, x.to, x.auth, x.places, x.at, x.tried, x.path = like.snap, like.seen, like.to, like.auth, like.places, like.at, like.tried, like.path
	x.session, x.number = like.session, like.number+len(h.lanes)
	x.failedAt = like.failed
	x.beside, x.isLane = h, true
	if left, limited := h.main.windowLeft(); limited {
		x.windowFor.Store(int64(max(1, left))) // to be told of; it is not the lane's to end with it
	}
	x.body.x = x
	l := &lane{c: c}
	if !l.copyBody(&h.main.body) {
		return nil
	}
	if !x.auth.budget.Withdraw(time.Now()) {
		x.body.end()
		return nil
	}
	if !x.admitBeside() {
		x.auth.budget.Refund(time.Now())
		x.dropGrant()
		x.body.end()
		return nil
	}
	like.tried = x.tried
	return l
}

// buffered reports whether all of the body is kept, so that it can be sent beside
// itself. It may be asked from anywhere.
func (b *requestBody) buffered() bool {
	return b.none || b.here && !b.oneWay || !b.here && b.done.Load() && b.keeping.Load()
}

// copyBody lets the lane have the body, which is buffered.
func (l *lane) copyBody(from *requestBody) bool {
	b := &l.c.x.body
	b.done.Store(true)
	b.none = from.none
	if from.none {
		return true
	}
	b.here, b.whole = true, from.whole
	if from.here {
		return true
	}
	if !b.x.s.buffered.take(from.kept.size) {
		return false
	}
	b.booked = from.kept.size
	var pieces [][]byte
	for i := 0; ; i++ {
		p := from.kept.piece(i)
		if p == nil {
			break
		}
		pieces = append(pieces, p)
	}
	b.whole = bytes.Join(pieces, nil)
	return true
}

// run makes the lane's attempt.
func (h *race) run(l *lane) {
	c := l.c
	c.watch.idleLimit.Store(int64(c.x.route.Timeout.Idle))
	c.watch.begin(c.s.now())
	c.watch.await(true)
	c.s.watcher.add(&c.watch)
	defer h.end(l)
	defer c.s.watcher.remove(&c.watch)
	l.result = result{cancelled: true} // should it panic
	defer func() {
		if fault := recover(); fault != nil {
			c.s.logPanic(fault)
		}
	}()
	l.result = c.x.attempt()
	c.x.ended(&l.result)
}

// ended notes that an attempt of a race has ended, however long the others go on:
// what it took, what it says of its endpoint and to other requests, and that its
// place is free.
func (x *exchange) ended(r *result) {
	x.lasted = max(1, time.Since(x.attemptAt)) // 0 is not known
	if !r.cancelled && !r.queued {
		x.mark(x.route.Retry.Mark(r.outcome, x.slow || x.overdue()))
		x.notePause(r.outcome, time.Now())
		x.noted = true
	}
	if x.whole {
		x.grant.leave()
	}
}

// acceptable reports whether a result is one that ends the race: a response that
// policy would not retry.
func (x *exchange) acceptable(r result) bool {
	return !r.cancelled && !r.queued && r.outcome.Class == policy.ClassNone && x.route.Retry.Classify(r.outcome) != policy.Retryable
}

// end takes a lane's result. The first that is acceptable breaks into the attempt
// itself.
func (h *race) end(l *lane) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running--
	if h.winner == nil && l.c.x.acceptable(l.result) {
		h.winner = l
		if !h.over {
			h.main.c.watch.fire(causeBeaten, func() bool { return true })
		}
	} else if h.running == 0 && !h.over && h.late {
		w := &h.main.c.watch // what was put off for this lane
		w.start(&w.attemptAt, h.main.s.now(), 1)
	}
	h.ended <- l
}

// goesOn decides for an attempt of the race that is past timeout.attempt. The
// attempt itself goes on as long as there are lanes. A lane ends, unless it is the
// last thing under way: then the exchange is asked whether a retry would follow.
func (h *race) goesOn(x *exchange) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !x.isLane:
		h.late = h.running > 0
		return h.late
	case x.uncut.Load():
		return true
	case !h.over || h.running > 1:
		return false
	}
	for _, l := range h.lanes {
		if &l.c.x == x {
			h.asks <- l
		}
	}
	return true
}

// undecided reports, of an attempt that goes on though it is past timeout.attempt,
// whether something may yet come of that: another attempt may get an answer, or a
// retry may follow.
func (h *race) undecided(x *exchange) bool {
	if x.isLane {
		return !x.uncut.Load()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.late
}

// answered says that an attempt of the race has a response. Where it is the attempt
// itself, whether that is whole is not worth another one.
func (h *race) answered(x *exchange) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !x.isLane {
		h.most = len(h.lanes)
	}
	for _, l := range h.lanes {
		l.answered = l.answered || &l.c.x == x
	}
}

// drop ends a race that nobody settles any more.
func (h *race) drop() {
	h.mu.Lock()
	h.over = true
	h.mu.Unlock()
	h.disarm()
	f := finish{race: h, counted: true}
	f.cancel()
}

// begun is how many lanes there are.
func (h *race) begun() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.lanes)
}
