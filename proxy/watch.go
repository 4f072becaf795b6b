package proxy

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"mulligan/proxy/h1"
)

// cause says why the watcher broke into a request; several may apply at once.
type cause uint32

const (
	causeGone    cause = 1 << iota // the client closed its connection or its writing side
	causeAttempt                   // timeout.attempt passed
	causeWindow                    // timeout.total passed
	causeIdle                      // a body moved no byte for timeout.idle
	causeBroken                    // the client's body cannot be read to its end
	causeCut                       // shutdown_grace is over
	causeBeaten                    // an attempt beside this one has got an answer

	// causesEnd are those after which there is no client to answer, or nothing
	// more to wait for.
	causesEnd = causeGone | causeIdle | causeBroken | causeCut
)

// tick is how often the watcher looks, and so how late it may notice anything.
const tick = 10 * time.Millisecond

// watch is what the watcher sees of one client connection. One watcher for all
// requests replaces a timer and a goroutine for each: a request that succeeds at
// once pays two uncontended atomics for it.
type watch struct {
	sc        clientSide
	wire      *h1.ServerConn // sc, where it is a connection of its own and not a stream
	busySince atomic.Int64   // when the current request began; 0 = none
	attemptAt atomic.Int64   // when timeout.attempt passes; 0 = not armed
	windowAt  atomic.Int64   // when the window ends; 0 = not armed
	sending   upstreamRef    // what the attempt is written to and waited for in one go
	sendLimit atomic.Int64   // that attempt's limit: its clock stands while the write is held up
	idleLimit atomic.Int64   // ns that a moving body may stand still; 0 = no limit
	movers    atomic.Int32   // bodies that are being moved now
	moves     atomic.Int32   // how many bodies have begun to be
	reading   atomic.Bool    // the client is waited for with its body, not the upstream
	withheld  atomic.Bool    // the client holds its body back until it gets a 100
	telling   atomic.Bool    // a 1xx is being written, which the window may break into
	moved     upstreamRef
	hedgeAt   atomic.Int64 // when another attempt is to be begun beside the one under way; 0 = not armed
	race      atomic.Pointer[race]
	tunnel    atomic.Bool // a half-close is not the end, and is passed on

	mu       sync.Mutex
	awaiting bool // a response header is awaited: only then do clocks start
	answered bool // a whole answer is in hand: see answer
	causes   cause
	stalled  bool        // with causeIdle: it was the upstream that did not move
	target   interrupter // what the request waits for now
	cancel   context.CancelFunc
	wake     chan struct{} // capacity 1: ends a wait

	// the watcher's own notes
	lastSince    int64
	lastProgress uint64
	lastMoves    int32
	lastUnsent   uint64
	lastMove     int64
	nextPoll     int64
	nextAsk      int64
}

// on names the connection that the request waits for from now on. What has
// already happened to the request breaks into it at once.
func (w *watch) on(t interrupter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.target = t
	if t != nil && w.causes != 0 {
		t.Interrupt()
	}
}

// seen returns what has happened to the request.
func (w *watch) seen() cause {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.causes
}

// await says that a response header is awaited from now on, or that none is;
// then no clock runs: what has begun to go to the client is never cut by one.
func (w *watch) await(yes bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.awaiting = yes
	if !yes {
		w.attemptAt.Store(0)
		w.windowAt.Store(0)
	}
}

// answer says that a whole answer is in hand, and goes to the client: that the
// rest of its body turns out to be malformed does not break into that any more.
func (w *watch) answer(uc upstreamSide) {
	w.mu.Lock()
	w.answered = true
	broken := w.causes&causesEnd == causeBroken
	w.mu.Unlock()
	if broken {
		w.calm(causeBroken, uc)
		w.sc.ClearInterrupt()
	}
}

// start sets a clock to d after now, if a response header is awaited. What is
// further away than the clock can say needs none.
func (w *watch) start(clock *atomic.Int64, now, d int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at := now + d; w.awaiting && at > now {
		clock.Store(at)
	}
}

// upstreamStalled reports whether the request was broken into because its body
// stood still, by the upstream's fault.
func (w *watch) upstreamStalled() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.causes&causesEnd == causeIdle && w.stalled
}

// calm withdraws causes that led to nothing, and lets the connection go on.
func (w *watch) calm(c cause, uc upstreamSide) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.causes&c == 0 {
		return
	}
	w.causes &^= c
	if uc != nil && w.causes == 0 {
		uc.ClearInterrupt()
	}
}

// goOn lets both connections go on that were interrupted for another reason, if
// nothing has happened meanwhile.
func (w *watch) goOn(uc *h1.ClientConn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.causes == 0 {
		uc.ClearInterrupt()
		w.sc.ClearInterrupt()
	}
}

// begin starts watching a request. Whoever found the connection idle and broke
// in has come too late.
func (w *watch) begin(now int64) {
	w.mu.Lock()
	w.busySince.Store(now)
	w.mu.Unlock()
	w.sc.ClearInterrupt()
}

// breakIdle breaks into a connection that waits for a request, unless one has
// begun meanwhile.
func (w *watch) breakIdle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busySince.Load() == 0 && w.wire != nil {
		w.wire.InterruptRead()
	}
}

// end stops watching; what was armed is disarmed.
func (w *watch) end() {
	w.busySince.Store(0)
	w.idleLimit.Store(0)
	w.await(false)
	w.mu.Lock()
	w.target, w.causes, w.awaiting, w.answered = nil, 0, false, false
	w.sending.Store(nil)
	if w.cancel != nil {
		w.cancel()
		w.cancel = nil
	}
	w.mu.Unlock()
	select {
	case <-w.wake:
	default:
	}
}

// beginTunnel watches a tunnel to uc: all that ends it is that no byte moves.
func (w *watch) beginTunnel(now int64, uc *h1.ClientConn, idle time.Duration) {
	w.tunnel.Store(true)
	w.idleLimit.Store(int64(idle))
	w.moving(uc)
	w.on(uc)
	w.begin(now)
}

// moving says that a body, to or from uc, is being moved from now on; rested
// that it is not any more.
func (w *watch) moving(uc upstreamSide) {
	w.moved.Store(uc)
	w.moves.Add(1)
	w.movers.Add(1)
}

func (w *watch) rested() { w.movers.Add(-1) }

func (w *watch) endTunnel() {
	w.end()
	w.rested()
	w.tunnel.Store(false)
}

// context returns a context that ends when the request is broken into. It is
// made only by those who dial or queue: the straight path needs none.
func (w *watch) context() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cancel != nil {
		w.cancel()
	}
	w.cancel = cancel
	if w.causes&^causeAttempt != 0 {
		cancel()
	}
	return ctx
}

// fire breaks into the request, if still holds when asked under the lock.
func (w *watch) fire(c cause, still func() bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.causes&c != 0 || c == causeBroken && w.answered || !still() {
		return
	}
	if c == causeIdle {
		w.stalled = !w.reading.Load() || w.withheld.Load() // asked before the interruption changes it
	}
	w.causes |= c
	switch {
	case w.target == nil:
	case c&causesEnd == 0 && w.sending.Load() == nil:
		w.target.InterruptRead() // the answer is late; a body may still be on its way
	default:
		w.target.Interrupt()
	}
	switch {
	case c&causesEnd != 0:
		w.sc.Interrupt() // a body is being read from or written to the client
	case c == causeWindow && w.telling.Load():
		w.sc.InterruptWrite()
	}
	if w.cancel != nil && c != causeAttempt {
		w.cancel()
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// look is one visit of the watcher; now is in nanoseconds of the server's clock.
func (w *watch) look(now int64) (busy bool) {
	since := w.busySince.Load()
	if since == 0 {
		w.lookIdle(now)
		return false
	}
	if since != w.lastSince {
		w.lastSince, w.lastMove, w.nextPoll = since, 0, since
	}
	same := func() bool { return w.busySince.Load() == since }
	if uc := w.sending.Load(); uc != nil && uc.Writing() {
		if at := w.attemptAt.Load(); at != 0 { // the clock starts with the last byte sent
			w.attemptAt.CompareAndSwap(at, now+w.sendLimit.Load())
		}
	}
	if at := w.attemptAt.Load(); at != 0 && now >= at {
		w.fire(causeAttempt, func() bool { return same() && w.attemptAt.Load() == at })
	}
	if at := w.windowAt.Load(); at != 0 && now >= at {
		w.fire(causeWindow, func() bool { return same() && w.windowAt.Load() == at })
	}
	if at := w.hedgeAt.Load(); at != 0 && now >= at {
		h := w.race.Load() // before it is taken: after that it may be the next request's
		if w.hedgeAt.CompareAndSwap(at, 0) && h != nil {
			go h.begin()
		}
	}
	if age := now - since; age >= int64(tick) && now >= w.nextPoll && !w.tunnel.Load() {
		// The longer it lasts, the rarer the look: a thousand waiting requests are
		// not to cost a hundred thousand system calls a second.
		w.nextPoll = now + min(age/20, int64(5*tick))
		if w.sc.PeerGone() {
			w.fire(causeGone, same)
		}
	}
	w.lookBody(now, same)
	return true
}

// lookBody enforces timeout.idle on a body that is being moved.
func (w *watch) lookBody(now int64, same func() bool) {
	limit := w.idleLimit.Load()
	if limit == 0 || !w.isMoving() {
		w.lastMove = 0
		return
	}
	progress := w.sc.Progress()
	if uc := w.moved.Load(); uc != nil {
		progress += uc.Progress()
	}
	if uc := w.sending.Load(); uc != nil {
		progress += uc.Progress()
	}
	// A body that has begun anew has moved, even if it came as far as the one before.
	moves := w.moves.Load()
	if w.lastMove == 0 || progress != w.lastProgress || moves != w.lastMoves {
		w.lastProgress, w.lastMoves, w.lastMove, w.nextAsk = progress, moves, now, now
		return
	}
	still := now - w.lastMove
	if now >= w.nextAsk || still >= limit {
		w.nextAsk = now + limit/20 // it is a system call for each that waits
		if unsent := w.unsent(); unsent != w.lastUnsent {
			w.lastUnsent, w.lastMove = unsent, now
			return
		}
	}
	if still >= limit {
		w.fire(causeIdle, func() bool { return same() && w.isMoving() })
	}
}

// unsent returns what the peers have not taken yet of what is being written.
func (w *watch) unsent() uint64 {
	n := w.sc.Unsent()
	for _, uc := range [...]upstreamSide{w.moved.Load(), w.sending.Load()} {
		if uc != nil {
			n += uc.Unsent()
		}
	}
	return n
}

// isMoving reports whether a body is being moved, or held up in being sent. One
// that the client holds back for a 100 is not.
func (w *watch) isMoving() bool {
	if n := w.movers.Load(); n > 0 {
		return n > 1 || !w.withheld.Load()
	}
	uc := w.sending.Load()
	return uc != nil && uc.Writing()
}

// lookIdle closes connections between requests: idle for too long, or too slow
// with a head.
func (w *watch) lookIdle(now int64) {
	if w.wire == nil {
		return // a stream is never between requests
	}
	limit := int64(clientIdle)
	phase, phaseSince := w.wire.State()
	switch phase {
	case h1.ReadingHead:
		limit = int64(headTimeout)
	case h1.InRequest:
		return
	}
	if now-phaseSince >= limit {
		w.breakIdle()
	}
}

// Limits of the client side, fixed by the contract.
const (
	headTimeout = 10 * time.Second
	clientIdle  = 2 * time.Minute
)
