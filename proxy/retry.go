package proxy

import (
	"io"
	"math/rand/v2"
	"time"

	"mulligan/policy"
	"mulligan/proxy/h1"
)

// run makes attempts until policy says stop, and gives the client the last one's
// response, or the reason why there is none. What it decides is policy's; what
// it knows is what attempt saw on the wire.
func (x *exchange) run() {
	var before result // what the attempt under way is the retry of,
	reason := ""      // and why
	for {
		if x.up.limited {
			if no := x.admit(); no.stop != policy.Going {
				x.refused(no, before)
				return
			}
		}
		var r result
		if x.route.Hedge.Max == 0 {
			r = x.attempt()
			x.countRetry(&r, reason)
		} else {
			r = x.race(reason)
		}
		if r.cancelled || r.queued {
			x.mark(policy.Neutral)
		}
		switch {
		case r.cancelled:
			x.finish(r, policy.Decision{Stop: policy.ClientGone})
			return
		case r.queued:
			x.finishQueued(r, before)
			return
		}
		x.dropLast()
		d := r.decision
		if !r.decided {
			d = x.session.Next(r.outcome, x.after(r.outcome), rand.Float64())
		}
		x.noteAttempt(r, d)
		if !d.Retry {
			x.finish(r, d)
			return
		}
		x.failedWith(r.outcome)
		began := time.Now()
		if stop := x.wait(d); stop != policy.Going {
			x.log.waited(time.Since(began))
			x.session.Undo(time.Now()) // the retry that was paid for is not sent
			d.Retry, d.Stop = false, stop
			x.finish(r, d)
			return
		}
		before, reason = r, d.Reason
	}
}

// sent reports whether the attempt that ended with r was made.
func (x *exchange) sent(r *result) bool { return !r.queued && (!r.cancelled || x.wrote) }

// countRetry counts a retry that was sent. One that was not has been paid for
// nevertheless.
func (x *exchange) countRetry(r *result, reason string) {
	switch {
	case !x.sent(r):
		x.session.Undo(time.Now())
	case reason != "":
		x.count.Retry(reason)
	}
}

// after is what policy has to know when an attempt has ended with o, of which the
// upstream's circuit breaker and other requests have been told.
func (x *exchange) after(o policy.Outcome) policy.State {
	if x.grant.breaker != nil {
		x.mark(x.route.Retry.Mark(o, x.slow || x.overdue()))
	}
	st := x.state(x.c.gone())
	if o.Class == policy.ClassNone && o.Status < 400 && o.Ruled == policy.NotRuled && o.GRPC == 0 && o.Exhausted == 0 {
		return st // the straight path
	}
	x.notePause(o, st.Now)
	x.outlook(&st)
	return st
}

// finishQueued ends a request whose next attempt r got no connection: with what
// the attempt before came to, where there was one.
func (x *exchange) finishQueued(r, before result) {
	d := policy.Decision{Stop: policy.Window, Verdict: policy.Retryable}
	if x.number > 1 && x.s.draining() {
		d.Stop = policy.Draining
	}
	if x.number == 1 {
		x.lastClass = r.fault.class.String()
	}
	x.grant.leave()
	x.takeBack()
	if x.resp != nil || before.fault.kind != "" {
		r = before
	}
	x.finish(r, d)
}

// wait waits before a retry. The failed attempt's response is kept meanwhile:
// if the wait is cut short, it is what the client gets.
func (x *exchange) wait(next policy.Decision) policy.Stop {
	d := next.Wait
	x.up.metrics.BackoffSeconds.Observe(d.Seconds())
	x.up.metrics.Waiting.Inc()
	defer x.up.metrics.Waiting.Dec()
	began := time.Now()
	x.keepForWait(d)
	if !x.body.replayable() {
		return policy.BodyNotReplayable // it outgrew its buffer between the decision and now
	}
	timer := time.NewTimer(d - time.Since(began))
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			if stop := x.interruption(); stop != policy.Going {
				return stop
			}
			more, stop := x.heldBack(next.Hi - next.Lo)
			if more <= 0 {
				return stop
			}
			timer.Reset(more)
		case <-x.c.watch.wake:
			if stop := x.interruption(); stop != policy.Going {
				return stop
			}
		case <-x.s.drain:
			return policy.Draining
		}
	}
}

// salvageFor is how long the rest of a failed attempt's response is read before
// a wait, where it has no length that would have been held.
const salvageFor = 5 * tick

// keepForWait readies the request for a wait: nothing more is sent, the body
// that is kept is booked, and a short response is taken off its connection, so
// that the connection can be used again.
func (x *exchange) keepForWait(d time.Duration) {
	defer x.grant.leave()
	x.body.stopPump(x.uc)
	if x.uc == nil {
		return
	}
	defer x.freeSlot()
	if x.whole || x.broken {
		return
	}
	next := x.uc.ArrivedBody
	if d >= tick {
		next = x.uc.NextBody
		w := &x.c.watch
		w.attemptAt.Store(x.s.now() + int64(min(salvageFor, d)))
		defer func() {
			w.attemptAt.Store(0)
			w.calm(causeAttempt, x.uc)
		}()
	}
	for x.held.size < x.route.Buffer.Response {
		p, err := next()
		switch {
		case err == nil && len(p) == 0: // no more has arrived
			return
		case err == io.EOF:
			x.whole = true
			return
		case err != nil:
			x.broken = h1.KindOf(err) != h1.Interrupted
			return
		case !x.s.buffered.take(int64(len(p))):
			x.held.add(p) // it has left the connection; the next will not
			return
		}
		x.charged += int64(len(p))
		x.held.add(p)
	}
}

// freeSlot lets others have the connection of a request that only waits. A
// response that is whole is copied off it; one that is not keeps it, outside the
// pool.
func (x *exchange) freeSlot() {
	x.c.watch.on(nil)
	if !x.whole {
		x.from.links.Detach(x.uc)
		x.detached = true
		return
	}
	if x.held.size == 0 {
		x.charged += int64(len(x.heldWhole))
		x.s.buffered.used.Add(int64(len(x.heldWhole)))
		x.held.add(x.heldWhole)
		x.heldWhole = nil
	}
	x.resp = x.resp.Clone()
	x.from.links.Put(x.uc)
	x.uc = nil
}

// interruption returns why a wait must end, or Going.
func (x *exchange) interruption() policy.Stop {
	seen := x.c.watch.seen()
	switch {
	case seen&causesEnd != 0:
		return policy.ClientGone
	case x.s.draining():
		return policy.Draining
	case seen&causeWindow != 0:
		return policy.Window
	}
	return policy.Going
}
