package policy

import (
	"slices"
	"sync"
	"time"
)

// BreakerConfig says when an endpoint is left alone, and for how long. The zero
// value is no breaker.
type BreakerConfig struct {
	FailureRatio float64       // of the window's attempts; 0 = no breaker
	MinRequests  int           // that the window has to hold before the ratio counts
	Window       time.Duration // that is looked back on
	OpenFor      time.Duration // the first time; twice as long each time in a row
	MaxOpenFor   time.Duration // never longer than this; 0 = OpenFor
	Probes       int           // attempts let through at once while half-open, and successes that close
}

// On reports whether there is a breaker at all.
func (c *BreakerConfig) On() bool { return c.FailureRatio > 0 }

// Mark is what an attempt says of the endpoint that it went to.
type Mark uint8

// The marks.
const (
	Neutral Mark = iota // nothing: it was cancelled, or never sent
	Good                // it answered, in time
	Bad                 // it failed by what policy retries, or was slow
)

// Breaker is a circuit breaker (Nygard, Release It!): closed it counts, open it
// lets nothing through, half-open it lets a few probes through and judges by them.
// It is safe for concurrent use.
//
// The marks of attempts that began before the circuit changed do not count any
// more: they tell of how the endpoint was then.
type Breaker struct {
	mu     sync.Mutex
	cfg    BreakerConfig // with values that make sense; see set
	start  time.Time     // slots count from here
	all    slots
	bad    slots
	phase  breakerPhase
	change uint32    // of the phase, so far, from 1: what was let through before the last says nothing
	inRow  int       // openings without a close
	until  time.Time // open: when it is half-open
	probes []probe   // half-open: under way, and within their lease
	last   uint32    // number of the last probe
	passed int       // half-open: probes that were good
}

type breakerPhase uint8

const (
	closed breakerPhase = iota
	open
	halfOpen
)

// probe is an attempt that finds out whether the endpoint is well again. One that
// hangs keeps its place until its lease ends, and no longer. What it says after
// that still counts: an endpoint whose answers take longer than a lease could
// never be found well otherwise.
type probe struct {
	number uint32
	lease  time.Time // ends then
}

// Permit is what Allow lets an attempt through with, to be given back once, with
// its mark. The zero value is none, and giving it back does nothing.
type Permit struct {
	change uint32
	probe  uint32 // 0: none
}

// Probe reports whether the attempt is one by which a half-open circuit is judged.
func (p Permit) Probe() bool { return p.probe != 0 }

// NewBreaker returns a closed breaker.
func NewBreaker(cfg BreakerConfig, now time.Time) *Breaker {
	b := &Breaker{start: now, change: 1}
	b.set(cfg)
	return b
}

func (b *Breaker) set(cfg BreakerConfig) {
	if cfg.MaxOpenFor <= 0 {
		cfg.MaxOpenFor = cfg.OpenFor
	}
	cfg.MaxOpenFor = max(1, cfg.MaxOpenFor)
	cfg.OpenFor = max(1, min(cfg.OpenFor, cfg.MaxOpenFor))
	cfg.Probes = max(1, cfg.Probes)
	b.cfg = cfg
	b.all.width = max(1, cfg.Window/numSlots)
	b.bad.width = b.all.width
}

// Allow asks to let an attempt through. Where it does not, wait is the time after
// which asking again is of use: for an open circuit what is left of it, for a
// half-open one the longest that the next place of a probe is taken.
func (b *Breaker) Allow(now time.Time) (p Permit, wait time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if wait := b.wait(now); wait > 0 {
		return Permit{}, wait, false
	}
	p.change = b.change
	if b.phase == halfOpen {
		b.last = max(1, b.last+1) // 0 is none
		p.probe = b.last
		b.probes = append(b.probes, probe{b.last, now.Add(b.cfg.OpenFor)})
	}
	return p, 0, true
}

// Wait returns what Allow would as its wait; 0: it would let an attempt through.
func (b *Breaker) Wait(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.wait(now)
}

// Open reports whether the circuit is open or half-open.
func (b *Breaker) Open(time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.phase != closed
}

func (b *Breaker) wait(now time.Time) time.Duration {
	b.turn(now)
	switch {
	case b.phase == open:
		return b.until.Sub(now)
	case b.phase == halfOpen && b.passed+len(b.probes) >= b.cfg.Probes: // as many as it takes to close
		return b.nextLease().Sub(now)
	}
	return 0
}

// turn makes an open circuit half-open when its time has come, and takes the
// places of probes that hang.
func (b *Breaker) turn(now time.Time) {
	switch b.phase {
	case open:
		if !now.Before(b.until) {
			b.enter(halfOpen)
		}
	case halfOpen:
		b.probes = slices.DeleteFunc(b.probes, func(p probe) bool { return !now.Before(p.lease) })
	}
}

func (b *Breaker) enter(p breakerPhase) {
	b.phase, b.passed = p, 0
	b.probes = b.probes[:0]
	b.change = max(1, b.change+1) // 0 is no permit's
	b.forget()
}

// forget empties the window.
func (b *Breaker) forget() {
	b.all.counts, b.all.sum = [numSlots]int64{}, 0
	b.bad.counts, b.bad.sum = [numSlots]int64{}, 0
}

func (b *Breaker) nextLease() time.Time {
	next := b.probes[0].lease
	for _, p := range b.probes[1:] {
		if p.lease.Before(next) {
			next = p.lease
		}
	}
	return next
}

// Done gives a permit back. random, in [0,1), draws for how long a circuit is open
// that this opens. It reports whether the circuit changed.
func (b *Breaker) Done(p Permit, mark Mark, now time.Time, random float64) (opened, reclosed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.change != b.change {
		return false, false
	}
	if b.phase == halfOpen {
		return b.judge(p, mark, now, random)
	}
	if mark == Neutral || !b.cfg.On() {
		return false, false
	}
	if opened = b.count(mark, now); opened {
		b.open(now, random)
	}
	return opened, false
}

// count takes in the mark of an attempt of a closed circuit, and reports whether
// the window is one that opens it. A good answer does not bring that about, by
// making older ones leave the window, but where it is the one that makes the ratio
// count.
func (b *Breaker) count(mark Mark, now time.Time) bool {
	at := max(0, now.Sub(b.start))
	b.all.advance(at)
	b.bad.advance(at)
	b.all.add(at)
	if mark == Bad {
		b.bad.add(at)
	}
	if least := int64(b.cfg.MinRequests); b.all.sum < least || mark == Good && b.all.sum != least {
		return false
	}
	// Divided rather than multiplied: 55/100 is 0.55, and 0.55*100 more than 55.
	return b.bad.sum > 0 && float64(b.bad.sum)/float64(b.all.sum) >= b.cfg.FailureRatio
}

// judge takes the mark of a probe, and its place.
func (b *Breaker) judge(p Permit, mark Mark, now time.Time, random float64) (opened, reclosed bool) {
	b.probes = slices.DeleteFunc(b.probes, func(o probe) bool { return o.number == p.probe })
	switch mark {
	case Bad:
		b.open(now, random)
		return true, false
	case Good:
		b.passed++
		return false, b.closeIfWell()
	}
	return false, false
}

// closeIfWell closes a half-open circuit once enough probes were good.
func (b *Breaker) closeIfWell() bool {
	if b.phase != halfOpen || b.passed < b.cfg.Probes {
		return false
	}
	b.inRow = 0
	b.enter(closed)
	return true
}

// open opens the circuit.
func (b *Breaker) open(now time.Time, random float64) {
	b.until = now.Add(b.cfg.openTime(b.inRow, random))
	b.inRow++
	b.enter(open)
}

// openTime is how long a circuit is open that was opened inRow times before
// without a close: open_for, doubling each time up to max_open_for, less up to a
// fifth of it by chance: many instances that saw one outage are not to probe at once.
func (c *BreakerConfig) openTime(inRow int, random float64) time.Duration {
	most := c.OpenFor
	for ; inRow > 0 && most < c.MaxOpenFor; inRow-- {
		most += min(most, c.MaxOpenFor-most)
	}
	return most - draw(0, most/5, random)
}

// Configure goes on under another configuration, with what was counted. A circuit
// stays open for no longer than the new one allows, and a probe keeps its place for
// no longer; what is no breaker any more closes.
func (b *Breaker) Configure(cfg BreakerConfig, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn(now)
	all, bad, window := b.all, b.bad, b.cfg.Window
	b.set(cfg)
	if cfg.Window != window {
		b.all.refill(&all)
		b.bad.refill(&bad)
	}
	if !b.cfg.On() && b.phase != closed {
		b.inRow = 0
		b.enter(closed)
	}
	b.until = earlier(b.until, now.Add(b.cfg.MaxOpenFor))
	for i := range b.probes {
		b.probes[i].lease = earlier(b.probes[i].lease, now.Add(b.cfg.OpenFor))
	}
	b.closeIfWell()
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
