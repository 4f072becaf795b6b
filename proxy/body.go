package proxy

import (
	"errors"
	"io"
	"sync/atomic"
	"time"

	"mulligan/metrics"
	"mulligan/policy"
	"mulligan/proxy/h1"
)

// requestBody is a request's body: sent while it arrives, and kept on the way
// so that it can be sent again. It has one owner at a time: the connection's
// goroutine, or the pump while one runs.
type requestBody struct {
	x      *exchange
	none   bool
	here   bool   // all of it lay in the client connection's buffer:
	whole  []byte // this
	oneWay bool   // whole, but past buffer.request: it can be sent once
	booked int64  // bytes of whole that the ledger has
	kept   blocks
	pump   chan error // not nil while a pump runs; gets its end

	malformed error // what is wrong with the part that came with the head
	failure   error // what is wrong with what came later; the pump's until it ends

	counted bool         // a retry may want it
	watched bool         // mode observe: its length is not known, and is wanted
	came    atomic.Int64 // bytes of it that came, where nothing is kept

	sent    atomic.Bool // some of it was sent
	keeping atomic.Bool // all that was taken is kept
	done    atomic.Bool // the client has sent all of it
}

// begin looks at what the request brings. Nothing is read yet.
func (b *requestBody) begin(x *exchange) {
	b.x = x
	b.none, b.here, b.whole, b.oneWay, b.malformed = false, false, nil, false, nil
	b.failure = nil
	b.watched = false
	if b.came.Load() > 0 { // mostly not, and a store costs more than a look
		b.came.Store(0)
	}
	b.sent.Store(false)
	limit := x.route.Buffer.Request
	if x.req.Framing == h1.NoBody {
		b.none = true
		b.done.Store(true)
		return
	}
	wanted := x.session.WouldRetry()
	refusable := !wanted && x.session.RetriesRefused() && x.auth.links.mayRefuse()
	b.counted = wanted
	if p, ok := x.c.sc.BufferedBody(); ok {
		b.here, b.whole = true, p
		b.done.Store(true)
		b.oneWay = int64(len(p)) > limit
		if (wanted || refusable) && len(p) > 0 {
			b.book(int64(len(p)))
		}
		return
	}
	b.done.Store(false)
	keep := x.session.MayRetry(true) || refusable
	if x.req.ContentLength > limit {
		keep = false
		b.tooLong(metrics.RequestLimit)
	}
	b.keeping.Store(keep)
	b.watched = wanted && !keep && x.req.ContentLength < 0
	if x.req.Framing == h1.Chunked {
		b.takeArrived()
	}
}

// takeArrived takes what came of a chunked body together with the head: so that
// a malformed one reaches no upstream, and a short one is sent in one piece.
func (b *requestBody) takeArrived() {
	for {
		p, err := b.x.c.sc.ArrivedBody()
		switch {
		case err == io.EOF:
			b.done.Store(true)
		case err != nil:
			b.malformed = err
		case len(p) > 0:
			b.x.s.buffered.used.Add(int64(len(p))) // it is off the connection, and must be somewhere
			b.kept.add(p)
			b.count(int64(len(p)))
			continue
		}
		break
	}
	switch {
	case b.kept.size > b.x.route.Buffer.Request:
		b.stopKeeping(metrics.RequestLimit)
	case b.kept.size > 0 && b.x.s.buffered.over():
		b.stopKeeping(metrics.TotalLimit)
	}
	if b.done.Load() && b.kept.size <= blockSize {
		b.here, b.whole, b.oneWay = true, b.kept.piece(0), !b.keeping.Load()
	}
}

// count notes what came of a body where nothing is ever sent again: in mode observe
// it is to be said whether it could have been.
func (b *requestBody) count(n int64) {
	if b.x.route.Retry.Mode == policy.ModeOn {
		return
	}
	limit := b.x.route.Buffer.Request
	if came := b.came.Add(n); b.watched && came > limit && came-n <= limit {
		b.x.up.metrics.NotReplayable(metrics.RequestLimit)
	}
}

// stopKeeping gives up that the body could be sent again.
func (b *requestBody) stopKeeping(over metrics.Limit) {
	if b.keeping.Swap(false) {
		b.tooLong(over)
	}
}

// letGo says that the body will not be sent again: an answer goes to the client. What
// is kept of it is given back with its next piece, by who moves it.
func (b *requestBody) letGo() {
	if b.pump != nil && b.keeping.Load() {
		b.keeping.Store(false)
	}
}

// tooLong counts a body that cannot be sent again, where a retry may want to. Of
// others only what the upstream refuses could be: that is no loss to speak of.
func (b *requestBody) tooLong(over metrics.Limit) {
	if b.counted {
		b.x.up.metrics.NotReplayable(over)
	}
}

// replayable reports whether the body could be sent (again) from its beginning.
// Where nothing is ever sent again nothing is kept: then it is whether it would
// have been.
func (b *requestBody) replayable() bool {
	switch {
	case b.none || !b.sent.Load():
		return true
	case b.x.route.Retry.Mode != policy.ModeOn:
		return max(b.x.req.ContentLength, b.came.Load()) <= b.x.route.Buffer.Request
	case b.here:
		return !b.oneWay
	}
	return b.keeping.Load()
}

// repeatable reports whether the body could be sent again after the attempt that
// begins now.
func (b *requestBody) repeatable() bool {
	return b.none || b.here && !b.oneWay || !b.here && b.keeping.Load()
}

// unsent takes back that the body was sent: the connection had died before a
// byte of the request was written.
func (b *requestBody) unsent() {
	if b.here {
		b.sent.Store(false)
	}
}

// errPump is the end of a pump that panicked.
var errPump = errors.New("the body's pump ended early")

// startPump sends the body in a goroutine of its own, so that an answer that
// comes before the body's end is seen at once.
func (b *requestBody) startPump(uc upstreamSide) {
	b.pump = make(chan error, 1)
	b.x.c.watch.withheld.Store(b.withheld())
	b.x.c.watch.moving(uc)
	go func() {
		err := errPump
		defer func() {
			if fault := recover(); fault != nil {
				b.x.s.logPanic(fault)
				uc.Interrupt()
			}
			b.x.c.watch.rested()
			b.x.c.watch.withheld.Store(false)
			b.pump <- err
		}()
		err = b.copy(uc)
	}()
}

// pumpGrace is how long a pump that has all of the body is waited for: mostly it
// has sent it, and the answer was only faster than its last step. Interrupted,
// it would cost the connection.
const pumpGrace = tick

// stopPump makes the pump stop where it is and waits for it. What was read
// stays kept; the rest stays with the client.
func (b *requestBody) stopPump(uc upstreamSide) {
	if b.pump == nil {
		return
	}
	if !b.pumpEnded() {
		uc.InterruptWrite()
		b.x.c.sc.InterruptRead()
		<-b.pump
		b.x.c.sc.ClearInterrupt()
	}
	b.pump = nil
	b.x.resumeWindow() // where the pump did not come to it
}

// pumping reports whether a pump is still at it.
func (b *requestBody) pumping() bool { return b.pump != nil && len(b.pump) == 0 }

// withheld reports whether the client waits for a 100 before it sends its body:
// that none comes is the upstream's time, and no body that stands still.
func (b *requestBody) withheld() bool {
	return b.x.req.ExpectContinue && !b.x.continued && !b.sent.Load() && !b.done.Load()
}

func (b *requestBody) pumpEnded() bool {
	select {
	case <-b.pump:
		return true
	default:
	}
	if !b.done.Load() {
		return false
	}
	grace := time.NewTimer(pumpGrace)
	defer grace.Stop()
	select {
	case <-b.pump:
		return true
	case <-grace.C:
		return false
	}
}

// copy sends what is kept, then what still arrives.
func (b *requestBody) copy(uc upstreamSide) error {
	x := b.x
	if !b.done.Load() && (!x.req.ExpectContinue || b.sent.Load()) {
		x.pauseWindow()
	}
	if err := b.sendKept(uc); err != nil {
		return err
	}
	for !b.done.Load() {
		if err := uc.Flush(); err != nil {
			return err
		}
		if err := b.next(uc); err != nil {
			return err
		}
	}
	err := uc.Finish(x.requestTrailer())
	x.resumeWindow()
	x.armAttempt()
	return err
}

// sendKept sends what was taken before; it stays kept where that is wanted.
func (b *requestBody) sendKept(uc upstreamSide) error {
	for i := 0; ; i++ {
		p := b.kept.piece(i)
		if p == nil {
			break
		}
		b.sent.Store(true)
		if err := uc.Body(p); err != nil {
			return err
		}
	}
	if b.kept.size > 0 && !b.keeping.Load() {
		b.dropKept()
	}
	return nil
}

func (b *requestBody) dropKept() {
	b.x.s.buffered.giveBack(b.kept.size)
	b.kept.reset()
}

// next moves one piece from the client to the upstream.
func (b *requestBody) next(uc upstreamSide) error {
	sc := b.x.c.sc
	b.x.c.watch.reading.Store(true)
	p, err := sc.NextBody()
	b.x.c.watch.reading.Store(false)
	if err == io.EOF {
		b.done.Store(true)
		b.x.resumeWindow()
		return nil
	}
	if err != nil {
		return b.clientFailed(err)
	}
	if !b.sent.Swap(true) && b.x.req.ExpectContinue {
		b.x.pauseWindow() // until then it was the upstream's 100 that was waited for
	}
	b.x.c.watch.withheld.Store(false)
	b.keep(p)
	if sc.BodyDone() {
		b.done.Store(true)
		b.x.resumeWindow() // what it takes to send the rest is the upstream's time
	}
	return uc.Body(p)
}

// keep records a piece, up to buffer.request and, for all together, buffer_total.
func (b *requestBody) keep(p []byte) {
	n := int64(len(p))
	if !b.keeping.Load() {
		if b.kept.size > 0 {
			b.dropKept() // see letGo
		}
		b.count(n)
		return
	}
	var over metrics.Limit
	switch {
	case b.kept.size+n > b.x.route.Buffer.Request:
		over = metrics.RequestLimit
	case !b.x.s.buffered.take(n):
		over = metrics.TotalLimit
	default:
		b.kept.add(p)
		return
	}
	b.keeping.Store(false)
	b.dropKept()
	b.tooLong(over)
}

// clientFailed tells the exchange that its client's body will never be whole.
func (b *requestBody) clientFailed(err error) error {
	always := func() bool { return true }
	var wire *h1.Error
	if !errors.As(err, &wire) {
		return err
	}
	b.failure = err
	switch wire.Kind {
	case h1.Broken:
		b.x.c.watch.fire(causeGone, always)
	case h1.Malformed, h1.HeadTooLarge:
		b.x.c.watch.fire(causeBroken, always)
	}
	return err
}

// book counts a body that stays in the connection's own buffer as kept, within
// both limits: else how its bytes were cut into segments would decide whether it
// can be sent again.
func (b *requestBody) book(n int64) {
	switch {
	case b.oneWay:
		b.tooLong(metrics.RequestLimit)
	case !b.x.s.buffered.take(n):
		b.oneWay = true
		b.tooLong(metrics.TotalLimit)
	default:
		b.booked = n
	}
}

// end gives the memory back.
func (b *requestBody) end() {
	b.x.s.buffered.giveBack(b.booked)
	b.booked = 0
	b.dropKept()
	b.whole = nil
}
