package proxy

import (
	"math/rand/v2"
	"time"

	"mulligan/metrics"
	"mulligan/policy"
)

// settle ends the race, now that the attempt itself has ended with r, and returns
// what it came to. Every other attempt has then ended and been counted.
func (h *race) settle(r result) result {
	h.mu.Lock()
	h.over = true
	lanes, winner, before := h.lanes, h.winner, len(h.lanes)-h.running
	h.mu.Unlock()
	x := h.main
	if unused := h.disarm(); len(lanes) == 0 {
		if unused { // and so nobody else knows of it
			x.spareRace = h
		}
		return r
	}
	x.number += len(lanes)
	x.c.watch.attemptAt.Store(0) // of a failure it still runs
	x.c.watch.calm(causeBeaten|causeAttempt, x.uc)
	f := finish{race: h, stands: r, before: before}
	switch {
	case winner != nil:
		f.take(winner)
		f.cancel()
	case r.cancelled:
		f.cancel()
	case x.acceptable(r):
		f.cancel()
		x.first = h.like.number == 1
	default:
		f.wait()
	}
	return f.stands
}

// finish is what is left of a race once the attempt itself has ended.
type finish struct {
	*race
	stands  result // what it comes to, as things are; the exchange has the response
	before  int    // lanes that ended before the attempt itself, and whose ends were not taken in yet
	counted bool   // the attempt that this is of is accounted for
	taken   *lane  // whose result it was that stands, at last
}

// wait waits for the lanes, after the attempt itself has failed. Of failures the
// last stands; but one for good, without a response, never in the place of another.
func (f *finish) wait() {
	x := f.main
	for f.left > 0 {
		switch seen := x.c.watch.seen(); {
		case seen&causesEnd != 0:
			f.giveUp(result{cancelled: true})
			return
		case seen&causeWindow != 0:
			f.giveUp(result{outcome: policy.Outcome{Class: policy.Timeout}, fault: timeoutFault})
			return
		}
		select {
		case l := <-f.ended:
			f.left--
			last := f.isLast()
			switch {
			case x.acceptable(l.result):
				f.take(l)
				f.cancel()
				return
			case l.sent() && last && f.gives(l):
				f.take(l)
			default:
				f.lose(l)
			}
		case l := <-f.asks:
			if len(f.ended) > 0 {
				f.asks <- l // the others first
				continue
			}
			if f.cut() {
				return
			}
			w := &l.c.watch // an interruption tells the lane so, which may be holding a response
			l.c.x.uncut.Store(true)
			w.start(&w.attemptAt, x.s.now(), 1)
		case <-x.c.watch.wake:
		}
	}
}

// isLast reports whether the lane whose end is taken in now ended after what stands:
// its failure then takes that one's place. Ends are taken in as they came. What was
// never sent comes after nothing.
func (f *finish) isLast() bool {
	f.before--
	return f.before < 0 || !f.main.sent(&f.stands)
}

// gives reports whether a lane's failure may stand: not one for good, in the place
// of one that may be retried.
func (f *finish) gives(l *lane) bool {
	x := f.main
	return f.counted || !x.sent(&f.stands) || x.route.Retry.Classify(l.result.outcome) == policy.Retryable
}

// cut is asked when the last lane under way is past timeout.attempt. Where a retry
// follows, the lane ends with that.
func (f *finish) cut() bool {
	x := f.main
	f.count()
	st := x.state(false)
	st.Hedges = 0 // all are counted, but for the one that this is about
	x.outlook(&st)
	d, cut := x.session.Cut(st, rand.Float64())
	if cut {
		f.giveUp(result{outcome: policy.Outcome{Class: policy.Timeout}, fault: timeoutFault, decided: true, decision: d})
	}
	return cut
}

// giveUp ends the lanes that are under way, and lets r stand, as what one of them
// has come to. What a lane has come to by itself stands all the same.
func (f *finish) giveUp(r result) {
	x := f.main
	f.stop(!r.cancelled && !r.decided)
	var as *lane
	for ; f.left > 0; f.left-- {
		l := <-f.ended
		last := f.isLast()
		switch {
		case r.cancelled || !l.sent() || x.acceptable(f.stands):
			f.lose(l)
		case l.result.cancelled && as == nil:
			as = l
		case !l.result.cancelled && (last && f.gives(l) || x.acceptable(l.result)):
			f.take(l)
		default:
			f.lose(l)
		}
	}
	switch {
	case r.cancelled:
		f.count()
		f.stands = r
	case as != nil && !x.acceptable(f.stands):
		f.take(as)
		f.stands = r
	default:
		if r.decided {
			x.session.Uncut(time.Now())
		}
		if as != nil {
			f.lose(as)
		}
	}
}

// stop ends the lanes that are under way, but does not wait for that. Where it is the
// window that ends, that ends with the header of those that have one.
func (f *finish) stop(window bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.lanes {
		why := causeGone
		if window && l.answered {
			why = causeWindow
		}
		if l != f.taken {
			l.c.watch.fire(why, func() bool { return true })
		}
	}
}

// cancel ends all other lanes: the upstream sees their connections closed, or their
// streams reset.
func (f *finish) cancel() {
	f.stop(false)
	for ; f.left > 0; f.left-- {
		if l := <-f.ended; l != f.taken {
			f.lose(l)
		}
	}
}

// take lets a lane's result stand, in the place of what stood until now.
func (f *finish) take(l *lane) {
	f.count()
	x, from := f.main, &l.c.x
	x.count.Retry(metrics.Hedge)
	x.inHand, from.inHand = from.inHand, x.inHand
	x.auth, x.at, x.to = from.auth, from.at, from.to
	x.tried |= from.tried
	x.grant, from.grant = from.grant, grant{}
	x.attemptAt, x.lasted, x.slow, x.wrote = from.attemptAt, from.lasted, from.slow, from.wrote
	x.sentAt.Store(from.sentAt.Load())
	x.noted = from.noted
	from.body.end()
	from.c.watch.on(nil) // the connection may soon be another's
	x.c.watch.on(x.uc)
	f.stands, f.counted, f.taken = l.result, false, l
}

// lose counts a lane's attempt, whose result is not wanted.
func (f *finish) lose(l *lane) {
	x, from := f.main, &l.c.x
	if l.sent() {
		x.count.Retry(metrics.Hedge)
		from.countBeside(l.result)
		x.log.attempts = append(x.log.attempts, from.log.attempts...)
		x.session.Hedged(l.result.outcome, time.Now())
	} else {
		x.auth.budget.Refund(time.Now())
	}
	from.endBeside()
	from.body.end()
}

// count counts the attempt whose result stands, once: another will. Its response
// is not wanted any more.
func (f *finish) count() {
	if f.counted {
		return
	}
	f.counted = true
	x, r := f.main, f.stands
	switch {
	case r.queued, r.cancelled && !x.wrote:
	case r.decided:
		x.session.Undo(time.Now()) // the retry for which it was cut
		x.countBeside(r)
	default:
		x.countBeside(r)
		x.session.Hedged(r.outcome, time.Now())
	}
	x.wrote = false
	x.endBeside()
}

// countBeside counts an attempt that ended beside one that decides.
func (x *exchange) countBeside(r result) {
	if r.cancelled {
		if x.up.p95 && !x.isLane { // it took longer than this: without it, only fast ones would be known
			x.auth.recent.Add(x.took())
		}
		x.noteCancelled()
		return
	}
	x.mark(x.route.Retry.Mark(r.outcome, x.slow || x.overdue()))
	x.notePause(r.outcome, time.Now())
	x.noteAttempt(r, policy.Decision{Verdict: x.route.Retry.Classify(r.outcome)})
}

// endBeside lets go of the response of such an attempt.
func (x *exchange) endBeside() {
	x.body.stopPump(x.uc)
	if x.whole && x.uc != nil {
		x.release()
	} else {
		x.dropConn()
	}
	x.forgetInterim()
	x.dropGrant()
}

// nobody is the client of a lane: it neither leaves nor gets anything.
type nobody struct{ clientSide }

func (nobody) PeerGone() bool   { return false }
func (nobody) Progress() uint64 { return 0 }
func (nobody) Unsent() uint64   { return 0 }
func (nobody) Interrupt()       {}
func (nobody) InterruptRead()   {}
func (nobody) InterruptWrite()  {}
func (nobody) ClearInterrupt()  {}
