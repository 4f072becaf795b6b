package policy

import (
	"math"
	"math/bits"
	"sync"
	"time"
)

// BudgetConfig says what retries may cost.
type BudgetConfig struct {
	Ratio        float64       // tokens for each answer that policy would not retry
	Burst        float64       // tokens at the start, and what the bucket always has room for
	Window       time.Duration // how long an answer makes room for its ratio
	MinPerSecond float64       // tokens that time alone brings
}

// Budget is the bucket of tokens that retries are paid from, one each. It is
// safe for concurrent use.
//
// It never holds more than its most: burst + ratio * (answers in the last
// window). So whatever happens, the retries paid for in any span of time, less
// the payments given back in it, are at most
//
//	burst + ratio * (answers in the span and the window before it) + min_per_second * span
//
// since at the span's begin the bucket holds no more than the first two terms
// allow. Where min_per_second is set the most is at least one token: a floor
// that could never add up to a retry would be none. (With a burst of 0 that one
// token is what the bound is loose by.)
//
// Answers of the window are counted in slots, and a slot leaves as soon as its
// oldest answer could: the last slot's worth of the window may be missing,
// never is an older answer counted. Callers' clocks may be a little out of
// order, or go backwards: that brings no token.
type Budget struct {
	mu      sync.Mutex
	ratio   int64 // in tokenUnits, like all amounts
	burst   int64
	floor   float64 // tokenUnits per nanosecond, which is tokens per second
	window  time.Duration
	start   time.Time     // slots and dripped count from here
	dripped time.Duration // up to where min_per_second has been paid out
	part    float64       // of a tokenUnit, dripped but not yet in tokens
	tokens  int64
	answers slots
}

// Amounts are integers of a billionth of a token: sums of any ratio that
// configuration can spell stay exact.
const (
	tokenUnits = 1_000_000_000
	maxAmount  = math.MaxInt64 / 4 // sums of two still fit
)

// NewBudget returns a budget that holds its burst.
func NewBudget(cfg BudgetConfig, now time.Time) *Budget {
	b := &Budget{start: now}
	b.set(cfg)
	b.tokens = b.burst
	return b
}

func (b *Budget) set(cfg BudgetConfig) {
	b.ratio = amount(cfg.Ratio)
	b.burst = amount(cfg.Burst)
	b.floor = 0
	if cfg.MinPerSecond > 0 { // not NaN
		b.floor = cfg.MinPerSecond
	}
	b.window = cfg.Window
	b.answers.width = max(1, cfg.Window/numSlots)
}

func amount(tokens float64) int64 {
	if !(tokens > 0) {
		return 0
	}
	return int64(math.Round(min(tokens*tokenUnits, maxAmount)))
}

// Answered pays in for an attempt that was answered with a status that policy
// would not retry.
func (b *Budget) Answered(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	elapsed := b.advance(now)
	b.answers.add(elapsed)
	b.put(b.ratio)
}

// Withdraw takes one token, if there is one, in one step.
func (b *Budget) Withdraw(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	if b.tokens < tokenUnits {
		return false
	}
	b.tokens -= tokenUnits
	return true
}

// Refund gives back the token of a retry that was not sent.
func (b *Budget) Refund(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	b.put(tokenUnits)
}

// Remaining returns how many retries would be allowed now.
func (b *Budget) Remaining(now time.Time) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	return int(b.tokens / tokenUnits)
}

// Configure goes on under another configuration, with the tokens there are as
// far as the new most allows. Answers are remembered, so that a reload neither
// forgives nor punishes.
func (b *Budget) Configure(cfg BudgetConfig, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	old, oldWindow := b.answers, b.window
	b.set(cfg)
	if cfg.Window != oldWindow {
		b.answers.refill(&old)
	}
	b.put(0)
}

// advance brings the bucket up to now, which never goes back for it, and
// returns how far after the start the caller's now is.
func (b *Budget) advance(now time.Time) time.Duration {
	elapsed := max(0, now.Sub(b.start))
	b.answers.advance(elapsed)
	b.put(b.drip(elapsed))
	return elapsed
}

// drip returns what min_per_second brought since the last call.
func (b *Budget) drip(elapsed time.Duration) int64 {
	since := elapsed - b.dripped
	if since <= 0 {
		return 0
	}
	b.dripped = elapsed
	whole, part := math.Modf(min(b.floor*float64(since)+b.part, maxAmount))
	b.part = part
	return int64(whole)
}

// put adds to the tokens, up to the most.
func (b *Budget) put(units int64) { b.tokens = min(b.tokens+units, b.most()) }

func (b *Budget) most() int64 {
	var earned int64
	if b.window >= numSlots { // in nanoseconds: what cannot be parted counts nothing
		earned = saturatingMul(b.ratio, b.answers.sum)
	}
	most := min(b.burst+earned, maxAmount)
	if b.floor > 0 {
		most = max(most, tokenUnits)
	}
	return most
}

func saturatingMul(x, y int64) int64 {
	hi, lo := bits.Mul64(uint64(x), uint64(y))
	if hi != 0 || lo > maxAmount {
		return maxAmount
	}
	return int64(lo)
}
