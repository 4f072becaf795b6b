package proxy

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"mulligan/policy"
	"mulligan/proxy/h1"
)

// result is how one attempt ended.
type result struct {
	outcome   policy.Outcome
	fault     fault // where there was no whole response
	cancelled bool  // the client left: nobody asks for a verdict
	queued    bool  // all connections stayed busy while there was time: no attempt was made
	decided   bool  // timeout.attempt passed, and policy has spoken already
	decision  policy.Decision
}

// Idle times within which a pooled connection may be used: any for a request
// that can be repeated, under a second for one that cannot.
const (
	anyIdle   = time.Duration(math.MaxInt64)
	freshIdle = time.Second
)

// attempt makes one try to get a response. On return x.resp is the response, if
// there is one, held where it is small.
func (x *exchange) attempt() result {
	x.number++
	x.wrote = false
	x.slow, x.timed = false, x.grant.breaker != nil
	if x.noted { // mostly not, here and below, and a store costs more than a look
		x.noted = false
	}
	if x.sentAt.Load() != 0 {
		x.sentAt.Store(0)
	}
	x.attemptAt, x.lasted = time.Now(), 0
	x.c.watch.attemptAt.Store(0)
	x.c.watch.calm(causeAttempt, nil)
	if x.number > 1 {
		x.setAside()
	}
	x.from, x.fromAt = x.auth, x.at
	if x.connect {
		return x.dialTunnel()
	}
	for {
		reused, err := x.acquire()
		if err != nil {
			return x.failed(err)
		}
		resp, err := x.exchangeHeads()
		if err == nil {
			x.resp = resp
			return x.answered()
		}
		if x.unsent(reused, err) {
			continue
		}
		if r, over := x.interrupted(err); over {
			return r
		}
		return x.failed(err)
	}
}

// unsent reports whether what failed was no attempt, since nothing was written:
// the connection had died while pooled, or the clock of timeout.attempt, which
// starts only with the last byte sent, broke in before the first. It is taken
// back then, so that the request can go onto another connection.
func (x *exchange) unsent(reused bool, err error) bool {
	w := &x.c.watch
	if w.seen()&^causeAttempt != 0 || x.cut.Retry {
		return false
	}
	switch h1.KindOf(err) {
	case h1.NothingWritten:
		if !reused {
			return false
		}
	case h1.Interrupted:
		if x.uc.Written() > 0 || x.body.pump != nil {
			return false
		}
	default:
		return false
	}
	x.keepGrant(x.dropConn)
	x.body.unsent()
	x.wrote = false
	w.attemptAt.Store(0) // what follows may be a dial, which has timeout.connect
	w.calm(causeAttempt, nil)
	return true
}

// acquire gets a connection to the authority: pooled, or new.
func (x *exchange) acquire() (reused bool, err error) {
	w := wanted{maxIdle: freshIdle, http1: x.upgrades()}
	if x.session.MayRetry(x.body.repeatable()) {
		w.maxIdle = anyIdle
	}
	x.uc, reused, err = x.fromPool(w)
	if err != nil {
		x.uc = nil
		return false, err
	}
	x.uc.Start()
	x.c.watch.on(x.uc)
	return reused, nil
}

// fromPool takes a connection from the authority's pool. Where that is closed,
// the authority was forgotten by a reload, or for a busier one, while this
// connection still knew it: it is made anew.
func (x *exchange) fromPool(w wanted) (upstreamSide, bool, error) {
	if x.number > 1 { // a retry is not queued for any more once no more are begun
		w.quit = x.s.drain
	}
	for {
		if x.failedAt.n > 0 {
			x.elsewhere(&w)
		}
		uc, reused, err := x.auth.links.Get(x.contextFn, w)
		if !errors.Is(err, h1.ErrPoolClosed) {
			return uc, reused, err
		}
		x.c.last, x.c.lastPlaces = lastAuthority{}, lastPlaces{}
		x.auth = x.up.authority(x.auth.key, time.Now())
		x.from = x.auth
		if x.c.inside != nil {
			x.c.inside.use(x.auth)
		}
	}
}

// dialContext ends when the request is broken into; a dial under it also ends
// with timeout.connect.
func (x *exchange) dialContext() context.Context {
	ctx := withConnectTimeout(x.c.watch.context(), x.route.Timeout.Connect)
	ctx = withFailedAddrs(ctx, &x.failedAt)
	if x.connect && x.auth.peer.parent != nil { // a tunnel of its own: a parent is told of all hops
		if via := x.req.Header.Joined(h1.NameVia); via != "" {
			ctx = context.WithValue(ctx, receivedViaKey{}, via)
		}
	}
	return ctx
}

// exchangeHeads sends the request and reads the response's head.
func (x *exchange) exchangeHeads() (*h1.Response, error) {
	x.wrote = true
	x.writeHead()
	x.forgetInterim()
	x.couldRetry = x.session.MayRetry(true)
	method := x.req.Method
	var resp *h1.Response
	var err error
	if x.body.none || x.body.here {
		x.body.sent.Store(true)
		x.armAttempt()
		x.c.watch.sendLimit.Store(int64(x.route.Timeout.Attempt))
		x.c.watch.sending.Store(x.uc)
		resp, err = x.finishAndReadResponse(method)
		x.c.watch.sending.Store(nil) // the pool may give it to others before the request ends
	} else {
		// The head goes at once: what follows may take its time.
		x.c.watch.sending.Store(x.uc)
		ferr := x.uc.Flush()
		x.c.watch.sending.Store(nil) // from now on who writes is the pump
		if ferr == nil {
			x.dropLast()
			x.body.startPump(x.uc)
		}
		resp, err = x.uc.ReadResponse(method)
	}
	for {
		if err == nil && (resp.Status >= 200 || resp.Status == 101) {
			return resp, nil
		}
		if err == nil {
			x.passInterim(resp)
		} else if !x.resume(err) {
			return nil, err
		}
		resp, err = x.uc.ReadResponse(method)
	}
}

// finishAndReadResponse sends all of the request's body and reads the response's
// head: in one go, but where the response of the attempt before is still in hand.
// That is wanted until something is written, and no longer.
func (x *exchange) finishAndReadResponse(method string) (*h1.Response, error) {
	if x.last.resp == nil {
		return x.uc.FinishAndReadResponse(x.body.whole, x.requestTrailer(), method)
	}
	switch err := x.uc.FinishWith(x.body.whole, x.requestTrailer()); h1.KindOf(err) {
	case h1.Malformed, h1.Broken, h1.Interrupted:
		return nil, err
	case h1.NothingWritten:
	default:
		x.dropLast()
	}
	return x.uc.ReadResponse(method)
}

// armAttempt starts timeout.attempt, where a retry could follow: only then does
// it cut anything.
func (x *exchange) armAttempt() {
	if x.timed {
		x.sentAt.Store(x.s.now())
	}
	if d := x.route.Timeout.Attempt; d > 0 && (x.timed || x.couldRetry && x.body.replayable()) {
		w := &x.c.watch
		w.start(&w.attemptAt, x.s.now(), int64(d))
	}
}

// overdue reports whether timeout.attempt has passed since the request was sent,
// whether the watcher has seen it or not.
func (x *exchange) overdue() bool {
	d, at := x.route.Timeout.Attempt, x.sentAt.Load()
	return d > 0 && at != 0 && x.s.now()-at > int64(d)
}

// resume decides what an interrupted read means. True: nothing, read on. When
// timeout.attempt passed, policy is asked; where no retry would follow, the
// attempt goes on until the window ends.
func (x *exchange) resume(err error) bool {
	if h1.KindOf(err) != h1.Interrupted || x.c.watch.seen() != causeAttempt {
		return false
	}
	if x.body.pump == nil && x.uc.Failed() {
		return false // it was the request that was broken into: no answer will come to it
	}
	x.c.watch.attemptAt.Store(0)
	x.slow = true
	x.mark(policy.Bad)
	if x.beside != nil && x.beside.goesOn(x) {
		x.c.watch.calm(causeAttempt, x.uc)
		return true
	}
	if x.isLane {
		return false
	}
	st := x.state(false)
	x.outlook(&st)
	if d, cut := x.session.Cut(st, rand.Float64()); cut {
		x.cut = d
		return false
	}
	x.c.watch.calm(causeAttempt, x.uc)
	return true
}

// interrupted turns an error that the watcher made into the attempt's end; over
// is false, and nothing changed, where the error is the upstream's.
func (x *exchange) interrupted(err error) (r result, over bool) {
	if h1.KindOf(err) != h1.Interrupted {
		if seen := x.c.watch.seen(); seen&(causeGone|causeBroken|causeCut|causeBeaten) == 0 {
			return result{}, false
		}
	}
	seen, stalled, f := x.c.watch.seen(), x.c.watch.upstreamStalled(), x.stallFault()
	x.endAttempt()
	if stalled {
		x.c.watch.calm(causeIdle, nil)
		x.c.sc.ClearInterrupt()
		if !x.cut.Retry { // else policy has spoken already
			return result{outcome: policy.Outcome{Class: policy.Timeout}, fault: f}, true
		}
		seen &^= causeIdle
	}
	switch {
	case seen&(causesEnd|causeBeaten) != 0:
		if x.cut.Retry {
			x.cut = policy.Decision{}
			x.session.Undo(time.Now())
		}
		return result{cancelled: true}, true
	case x.cut.Retry:
		r := result{outcome: policy.Outcome{Class: policy.Timeout}, fault: timeoutFault, decided: true, decision: x.cut}
		x.cut = policy.Decision{}
		x.c.watch.calm(causeAttempt, nil)
		return r, true
	case seen&causeWindow != 0 && !x.wrote: // it was over before anything was sent
		return result{queued: true, fault: busyFault}, true
	case seen&(causeWindow|causeAttempt) != 0:
		return result{outcome: policy.Outcome{Class: policy.Timeout}, fault: timeoutFault}, true
	}
	f = wireFault(&h1.Error{Kind: h1.ResetBeforeHeader}) // a pump that panicked
	return result{outcome: policy.Outcome{Class: f.class}, fault: f}, true
}

// stallFault is what it means that no byte moves by the upstream's fault: it
// does not read the request, or its held response stands still.
func (x *exchange) stallFault() fault {
	if x.resp == nil || x.body.pumping() && !x.c.watch.withheld.Load() {
		return writeFault
	}
	f := timeoutFault
	f.received = x.resp.Status
	return f
}

// endAttempt leaves the connection of an attempt that failed on it, and notes
// whether the upstream can have seen anything.
func (x *exchange) endAttempt() {
	x.body.stopPump(x.uc)
	x.wrote = x.wrote && x.uc != nil && x.uc.Written() > 0
	x.failedHere()
	x.dropConn()
}

// failed is an attempt without a response.
func (x *exchange) failed(err error) result {
	x.endAttempt()
	if x.c.watch.seen()&(causesEnd|causeBeaten) != 0 {
		return result{cancelled: true}
	}
	if errors.Is(err, h1.ErrPoolFull) {
		return result{queued: true, fault: busyFault}
	}
	if h1.KindOf(err) == h1.NothingWritten {
		x.body.unsent() // whether it was kept or not, it can be sent
	}
	if resetCode(err) == http11Required {
		x.auth.links.require1()
	}
	f := faultOf(err)
	if x.c.watch.seen()&causeWindow != 0 {
		f = timeoutFault
	}
	return result{outcome: policy.Outcome{Class: f.class}, fault: f}
}

// http11Required is the code of HTTP/2 by which a server says that it wants
// HTTP/1.1 for a request (RFC 9113 7).
const http11Required = 0xd

// answered is an attempt with a response head: its body is held as far as that
// matters, then policy gets to know what came.
func (x *exchange) answered() result {
	if x.beside != nil {
		x.beside.answered(x)
	}
	if x.resp.Status == 101 {
		switch x.body.stopPump(x.uc); {
		case !x.upgrades() || !x.body.done.Load() || !x.uc.Finished():
			return x.failed(&h1.Error{Kind: h1.Malformed, Reason: "101 to no request to upgrade, or to half of one"})
		case len(x.resp.Header.GetKnown(h1.NameUpgrade)) == 0: // RFC 9110 7.8
			return x.failed(&h1.Error{Kind: h1.Malformed, Reason: "101 that does not say to what protocol"})
		}
	}
	if r, over := x.hold(); over {
		return r
	}
	x.c.watch.attemptAt.Store(0)
	x.c.watch.calm(causeAttempt, x.uc)
	x.moveOn()
	o := policy.Outcome{Status: x.resp.Status}
	var f fault
	switch {
	case x.broken:
		// None of it has gone to the client: it is no response that could be given.
		o.Class = policy.Truncated
		f = wireFault(&h1.Error{Kind: h1.Broken})
		f.received = o.Status
	case x.eventFailed():
		o.Class = policy.ErrorEvent
	case len(x.route.Retry.Rules) > 0:
		o.Ruled = x.ruled()
	}
	if x.route.Retry.Heeds(o.Status) || o.Class == policy.ErrorEvent || x.resp.Header.Get("RateLimit") != nil {
		o.ReadHeader(&x.route.Retry, x.respField, x.keyed(), time.Now())
	}
	if x.broken {
		x.failedHere()
		x.body.stopPump(x.uc)
		x.dropConn()
	}
	return result{outcome: o, fault: f}
}

// moveOn withdraws that a body stood still, where it has moved after all before
// that could end anything.
func (x *exchange) moveOn() {
	if w := &x.c.watch; w.seen()&causesEnd == causeIdle {
		w.calm(causeIdle, x.uc)
		x.c.sc.ClearInterrupt()
	}
}

func (x *exchange) respField(name string) string { return string(x.resp.Header.Get(name)) }
