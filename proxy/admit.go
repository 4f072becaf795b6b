package proxy

import (
	"hash/maphash"
	"log/slog"
	"math/rand/v2"
	"time"

	"mulligan/policy"
)

// refusal says why an attempt is not made; the zero value that it is.
type refusal struct {
	stop  policy.Stop
	after time.Duration // when it might be, with CircuitOpen and Overloaded
}

// admit lets the next attempt through: it chooses the endpoint, waits for a turn
// (rate_limit) and a place (concurrency), and asks the circuit breaker. The order
// is such that nothing is held while something else is waited for: the turn comes
// first, since who has it and waits holds up nobody; a probe of the breaker's last.
// It is for upstreams that have anything of the kind (upstream.limited).
func (x *exchange) admit() refusal {
	now := time.Now()
	i, wait := x.pick(now)
	if i < 0 {
		return refusal{policy.CircuitOpen, wait}
	}
	waited, no := x.pass(now)
	if no.stop != policy.Going {
		return no
	}
	for range max(1, len(x.places)) {
		if waited { // meanwhile others may have opened a circuit
			now = time.Now()
			if i, wait = x.pick(now); i < 0 {
				break
			}
		}
		if len(x.places) > 1 {
			x.place(i)
		}
		if no = x.probe(now); no.stop == policy.Going {
			x.countInFlight()
			return refusal{}
		}
		wait, waited = no.after, true
	}
	x.dropGrant()
	return refusal{policy.CircuitOpen, wait}
}

// pick chooses the endpoint, where there is a choice; -1 where circuits leave none.
func (x *exchange) pick(now time.Time) (i int, wait time.Duration) {
	if len(x.places) > 1 {
		return x.choose(now)
	}
	if b := x.auth.circuit(); b != nil {
		if wait = b.Wait(now); wait > 0 {
			return -1, wait
		}
	}
	return 0, 0
}

// countInFlight counts the attempt as under way, where that matters to a choice.
func (x *exchange) countInFlight() {
	if len(x.places) > 1 {
		x.grant.counted = x.auth
		x.auth.inFlight.Add(1)
	}
}

// probe asks the circuit breaker of the attempt's endpoint.
func (x *exchange) probe(now time.Time) refusal {
	b := x.auth.circuit()
	if b == nil {
		return refusal{}
	}
	permit, wait, ok := b.Allow(now)
	if !ok {
		return refusal{policy.CircuitOpen, wait}
	}
	x.grant.breaker, x.grant.permit = b, permit
	return refusal{}
}

// pass waits for a turn and for a place, in this order, and reports whether that
// took any time.
func (x *exchange) pass(now time.Time) (waited bool, no refusal) {
	p, g := x.auth.pacer.Load(), x.auth.gate.Load()
	if p == nil && g == nil {
		return false, refusal{}
	}
	var until time.Time // when the window ends
	if left, limited := x.windowLeft(); limited {
		until = now.Add(left)
	}
	var turn reservation
	if p != nil {
		if turn, waited, no = x.takeTurn(p, now, until); no.stop != policy.Going {
			return waited, no
		}
		if waited {
			now = time.Now()
		}
	}
	if g != nil {
		queued, no := x.takePlace(g, now, until)
		if no.stop != policy.Going {
			turn.giveBack(time.Now())
			return true, no
		}
		x.grant.gate = g
		waited = waited || queued
	}
	return waited, refusal{}
}

// takeTurn waits until the upstream's pace lets the attempt go (rate_limit). What
// the upstream's hints hold back is not sent before, as spread as the hint is long.
func (x *exchange) takeTurn(p *pacer, now, until time.Time) (turn reservation, waited bool, no refusal) {
	retry := x.number > 0
	deadline := now.Add(x.up.RateLimit.MaxWait)
	if !until.IsZero() && until.Before(deadline) {
		deadline = until
	}
	if left := x.pauseLeft(now); left > 0 && !retry { // a retry's wait has it in it
		if now.Add(left).After(deadline) {
			return turn, false, refusal{policy.Overloaded, left}
		}
		spread := min(left/4, deadline.Sub(now)-left)
		if no = x.idle(left + time.Duration(rand.Float64()*float64(spread))); no.stop != policy.Going {
			return turn, true, no
		}
		now, waited = time.Now(), true
	}
	turn, wait, ok := p.enter(now, deadline, retry)
	if !ok {
		return turn, waited, refusal{policy.Overloaded, p.retryAfter(now)}
	}
	if wait > 0 {
		waited = true
		if no = x.idle(wait); no.stop != policy.Going {
			turn.giveBack(time.Now())
		}
	}
	return turn, waited, no
}

// takePlace waits for one of the places that attempts at once have (concurrency).
func (x *exchange) takePlace(g *gate, now, until time.Time) (waited bool, no refusal) {
	ticket, ok := g.enter(now, until, x.number > 0)
	if ok {
		return false, refusal{}
	}
	full := refusal{policy.Overloaded, g.retryAfter()}
	if ticket == nil {
		return false, full
	}
	timer := time.NewTimer(ticket.deadline.Sub(now))
	defer timer.Stop()
	no = x.await(ticket.ready, timer.C, full)
	if no.stop != policy.Going {
		g.abandon(ticket, time.Now())
		return true, no
	}
	if !ticket.admitted {
		return true, full
	}
	return true, refusal{}
}

// idle lets time pass before an attempt.
func (x *exchange) idle(d time.Duration) refusal {
	timer := time.NewTimer(d)
	defer timer.Stop()
	return x.await(nil, timer.C, refusal{})
}

// await waits until ready is closed, or until late, which is then why not; or until
// the request ends otherwise. A retry also ends where no more are begun.
func (x *exchange) await(ready <-chan struct{}, late <-chan time.Time, why refusal) refusal {
	var drain <-chan struct{}
	if x.number > 0 {
		drain = x.s.drain
	}
	for {
		switch seen := x.c.watch.seen(); {
		case seen&causesEnd != 0:
			return refusal{stop: policy.ClientGone}
		case seen&causeWindow != 0:
			return refusal{stop: policy.Overloaded, after: max(why.after, time.Second)}
		}
		select {
		case <-ready:
			if !x.s.cutting.Load() {
				return refusal{}
			}
			ready = nil // who had the place was cut off, and so is this one now
		case <-late:
			return why
		case <-x.c.watch.wake:
		case <-drain:
			return refusal{stop: policy.Draining}
		}
	}
}

// dropGrant gives back what an attempt was let through with that is not made.
func (x *exchange) dropGrant() {
	x.mark(policy.Neutral)
	x.grant.leave()
}

// mark tells the circuit breaker what came of the attempt; only the first mark of
// an attempt counts.
func (x *exchange) mark(m policy.Mark) {
	if x.grant.breaker != nil { // else all this is a look
		x.giveMark(m)
	}
}

func (x *exchange) giveMark(m policy.Mark) {
	b := x.grant.breaker
	x.grant.breaker = nil
	now := time.Now()
	opened, closed := b.Done(x.grant.permit, m, now, rand.Float64())
	switch {
	case opened:
		x.s.log.Warn("circuit opened", slog.String("upstream", x.up.Name), slog.String("endpoint", x.endpointName()),
			slog.Duration("open_for", b.Wait(now)))
	case closed:
		x.auth.latency.Forget()
		x.s.log.Info("circuit closed", slog.String("upstream", x.up.Name), slog.String("endpoint", x.endpointName()))
	}
}

// endpointName is how the endpoint of the attempt is called; "-" where it is none.
func (x *exchange) endpointName() string {
	if !x.auth.key.endpoint {
		return "-"
	}
	return endpointName(x.up.ends[x.at].Endpoint)
}

// refused ends a request whose next attempt is not made: with what the attempt
// before came to, where there was one.
func (x *exchange) refused(no refusal, before result) {
	x.session.Undo(time.Now())
	d := policy.Decision{Stop: no.stop, Verdict: policy.Retryable}
	switch {
	case x.number > 0:
	case no.stop == policy.ClientGone: // nothing has failed
		d.Verdict = policy.Succeeded
	default:
		before = result{fault: no.fault()}
		x.lastClass = policy.ConnectFailure.String()
	}
	x.finish(before, d)
}

// fault is what the client is told of an attempt that was not made.
func (no refusal) fault() fault {
	f := fault{class: policy.ConnectFailure, kind: "connection_limit_reached", status: 503, retryAfter: no.after,
		detail: "the upstream has as many requests as concurrency or rate_limit allow"}
	if no.stop == policy.CircuitOpen {
		f.kind, f.detail = "destination_unavailable", "the circuit is open: too many requests to the upstream have failed of late"
	}
	return f
}

var credentialsSeed = maphash.MakeSeed()

// credentials tells requests apart by whom they are for, as far as a server's hint
// goes: by Authorization, else by x-api-key, else not at all.
func (x *exchange) credentials() uint64 {
	for i, name := range [...]string{"Authorization", "X-Api-Key"} {
		if value := x.req.Header.Get(name); len(value) > 0 {
			return max(1, maphash.Bytes(credentialsSeed, value)+uint64(i)) // 0 is everybody
		}
	}
	return policy.Everybody
}

// pauseLeft is for how long hints to other requests hold this one back: the least,
// where it has a choice.
func (x *exchange) pauseLeft(now time.Time) time.Duration {
	if len(x.places) <= 1 {
		if !x.auth.pause.Any() {
			return 0
		}
		return x.auth.pause.Left(x.credentials(), now)
	}
	least := time.Duration(-1)
	for _, a := range x.places {
		if b := a.circuit(); b != nil && b.Wait(now) > 0 {
			continue
		}
		if !a.pause.Any() {
			return 0
		}
		if left := a.pause.Left(x.credentials(), now); least < 0 || left < least {
			least = left
		}
	}
	return max(0, least)
}

// heldBack is how much longer a retry whose wait is over waits for what a server has
// said meanwhile, to another request; stop is why it is not made at all. spread is
// that of its own wait: what is left of a hint may be little, and all whose waits
// are over by then would come at its end.
func (x *exchange) heldBack(spread time.Duration) (d time.Duration, stop policy.Stop) {
	most := x.route.Retry.RetryAfter
	if most <= 0 {
		return 0, policy.Going
	}
	st := x.state(false)
	left := x.pauseLeft(st.Now)
	switch {
	case left <= 0:
		return 0, policy.Going
	case left > most, !st.Unlimited && left >= st.Left:
		return 0, policy.RetryAfter
	}
	spread = max(spread, left/4)
	if !st.Unlimited {
		spread = min(spread, st.Left-left)
	}
	return left + time.Duration(rand.Float64()*float64(spread)), policy.Going
}

// outlook fills in what policy has to know of the upstream where an attempt has
// failed.
func (x *exchange) outlook(st *policy.State) {
	st.CircuitOpen = x.circuitOpen(st.Now)
	st.Pause = x.pauseLeft(st.Now)
	st.Elsewhere = len(x.places) > 1 && x.untried(st.Now)
}

// untried reports whether there is an endpoint that this request has not been to,
// and against which there is nothing: the next attempt goes there.
func (x *exchange) untried(now time.Time) bool {
	for i, a := range x.places {
		if b := a.circuit(); (b == nil || b.Wait(now) == 0) && x.against(i, now) == 0 {
			return true
		}
	}
	return false
}

// circuitOpen reports whether no endpoint would take an attempt now.
func (x *exchange) circuitOpen(now time.Time) bool {
	if len(x.places) <= 1 {
		b := x.auth.circuit()
		return b != nil && b.Wait(now) > 0
	}
	for _, a := range x.places {
		if b := a.circuit(); b == nil || b.Wait(now) == 0 {
			return false
		}
	}
	return true
}

// notePause takes in a hint that holds back more than the request that got it.
func (x *exchange) notePause(o policy.Outcome, now time.Time) {
	if x.noted {
		return
	}
	d, sameCredentials := x.route.Retry.Holds(o)
	if d <= 0 {
		return
	}
	key := uint64(policy.Everybody)
	if sameCredentials {
		key = x.credentials()
	}
	x.auth.pause.Hold(key, now.Add(d), now)
}

// admitBeside lets an attempt go beside others, if that needs no waiting: it is a
// favour, and never a probe of an upstream in trouble.
func (x *exchange) admitBeside() bool {
	now := time.Now()
	if len(x.places) > 1 {
		i, _ := x.choose(now)
		if i < 0 {
			return false
		}
		x.place(i)
	}
	if x.auth.pause.Any() && x.auth.pause.Left(x.credentials(), now) > 0 {
		return false
	}
	if b := x.auth.circuit(); b != nil && (b.Open(now) || x.probe(now).stop != policy.Going) {
		return false
	}
	if g := x.auth.gate.Load(); g != nil {
		if _, ok := g.enter(now, now, true); !ok {
			return false
		}
		x.grant.gate = g
	}
	if p := x.auth.pacer.Load(); p != nil {
		if turn, wait, ok := p.enter(now, now, true); !ok || wait > 0 {
			if ok {
				turn.giveBack(now)
			}
			return false
		}
	}
	x.countInFlight()
	return true
}
