package proxy

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"mulligan/policy"
)

// pacer spaces an upstream's attempts (`rate_limit`), by a bucket of tokens that
// each takes one of. Where there is none it takes one that is yet to come, which is
// its turn, unless that is further away than it may wait: so the line is bounded by
// time. A nil one is no limit.
//
// Retries take a token only where one for each eight of burst stays behind for
// first attempts (at least one, where burst is more than that; else they wait until
// that would be so), and only as long as that is within half of max_wait: the rest
// of the line is for first attempts. So a first attempt is never turned away for
// retries alone.
//
// A turn that is given back goes to the next newcomer only while nobody has taken a
// later one, and it has not come: turns that are told already do not move, and two
// at once would be faster than the limit (rate.Reservation.CancelAt). The upstream
// then gets one fewer.
type pacer struct {
	mu     sync.Mutex
	cfg    policy.RateLimit
	bucket *rate.Limiter
	latest time.Time // of the callers' clocks: rate would pay twice for a time that goes back
	from   time.Time // turns begin no earlier: those before are of another configuration
}

// reservation is a turn.
type reservation struct {
	of   *pacer // nil: there was no limit
	turn rate.Reservation
}

func newPacer(cfg policy.RateLimit) *pacer {
	p := &pacer{cfg: cfg}
	p.bucket = rate.NewLimiter(p.limit(), p.burst())
	return p
}

func (p *pacer) limit() rate.Limit { return min(rate.Limit(p.cfg.PerSecond), rate.Inf) }
func (p *pacer) burst() int        { return max(1, p.cfg.Burst) }

// enter takes a turn, which comes after wait; 0: now. It is not ok where that is
// later than max_wait or the deadline (zero: none); then no turn is taken.
func (p *pacer) enter(now, deadline time.Time, retry bool) (r reservation, wait time.Duration, ok bool) {
	if p == nil {
		return reservation{}, 0, true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !(p.cfg.PerSecond > 0) {
		return reservation{}, 0, true
	}
	now = p.clock(now)
	longest := p.cfg.MaxWait
	if retry {
		longest /= 2
	}
	if !deadline.IsZero() {
		longest = min(longest, deadline.Sub(now))
	}
	wait = p.wait(now, retry)
	if wait > max(0, longest) {
		return reservation{}, 0, false
	}
	return reservation{p, *p.bucket.ReserveN(later(now, p.from), 1)}, wait, true
}

// wait is how long it is until a newcomer's turn.
func (p *pacer) wait(now time.Time, retry bool) time.Duration {
	from := later(now, p.from)
	need := 1.0
	if b := p.burst(); retry && b > 1 {
		need += float64(max(1, b/8))
	}
	missing := need - p.bucket.TokensAt(from)
	if missing <= 0 {
		return from.Sub(now)
	}
	seconds := missing/float64(p.bucket.Limit()) + from.Sub(now).Seconds()
	return time.Duration(min(seconds, maxTurnWait.Seconds()) * float64(time.Second))
}

// maxTurnWait is the longest wait that is told apart from others.
const maxTurnWait = 24 * time.Hour

// clock is the caller's, or that of one before who has seen a later time.
func (p *pacer) clock(now time.Time) time.Time {
	p.latest = later(p.latest, now)
	return p.latest
}

// giveBack gives up a turn that was not used, as far as that still helps others.
func (r reservation) giveBack(now time.Time) {
	if r.of == nil {
		return
	}
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	r.turn.CancelAt(later(r.of.clock(now), r.of.from))
}

// retryAfter is how long who was turned away is to stay away: until a first attempt
// would not have to wait; a second at least.
func (p *pacer) retryAfter(now time.Time) time.Duration {
	if p == nil {
		return minRetryAfter
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !(p.cfg.PerSecond > 0) {
		return minRetryAfter
	}
	return max(minRetryAfter, p.wait(p.clock(now), false))
}

// configure goes on under another configuration. Turns that are taken stay as they
// are, and the new rate begins after them.
func (p *pacer) configure(cfg policy.RateLimit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.cfg
	p.cfg = cfg
	switch {
	case !(cfg.PerSecond > 0) || old.PerSecond == cfg.PerSecond && old.Burst == cfg.Burst:
		return
	case !(old.PerSecond > 0):
		p.bucket = rate.NewLimiter(p.limit(), p.burst())
		return
	}
	from := later(p.clock(time.Now()), p.from)
	if debt := -p.bucket.TokensAt(from); debt > 0 {
		from = from.Add(time.Duration(math.Ceil(debt / float64(p.bucket.Limit()) * float64(time.Second))))
	}
	p.from = from
	p.bucket.SetLimitAt(from, p.limit())
	p.bucket.SetBurstAt(from, p.burst())
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
