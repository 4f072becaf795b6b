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
	MaxOpenFor   time.Duration // the longest
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
// Times between openings and probes are the caller's now. The marks of attempts
// that began before the circuit changed do not count any more.
type Breaker struct {
	mu     sync.Mutex
	cfg    BreakerConfig
	start  time.Time // slots count from here
	all    slots
	bad    slots
	phase  breakerPhase
	change uint32    // of the phase, so far: what was let through before the last says nothing
	inRow  int       // openings without a close
	until  time.Time // open: when it is half-open
	probes []probe   // half-open: under way
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
// hangs keeps its place until its lease ends, and no longer.
type probe struct {
	number uint32
	lease  time.Time
}

// Permit is what Allow lets an attempt through with, to be given back with its
// mark.
type Permit struct {
	change uint32
	probe  uint32 // 0: none
}

// Probe reports whether the attempt is one by which a half-open circuit is judged.
func (p Permit) Probe() bool { return p.probe != 0 }

// NewBreaker returns a closed breaker.
func NewBreaker(cfg BreakerConfig, now time.Time) *Breaker {
	b := &Breaker{start: now}
	b.set(cfg)
	return b
}

func (b *Breaker) set(cfg BreakerConfig) {
	b.cfg = cfg
	b.cfg.Probes = max(1, cfg.Probes)
	b.all.width = max(1, cfg.Window/numSlots)
	b.bad.width = b.all.width
}

// Allow asks to let an attempt through. Where it does not, wait is how long it
// will certainly not.
func (b *Breaker) Allow(now time.Time) (p Permit, wait time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn(now)
	switch {
	case b.phase == closed:
		return Permit{change: b.change}, 0, true
	case b.phase == open:
		return Permit{}, b.until.Sub(now), false
	case len(b.probes) >= b.cfg.Probes:
		return Permit{}, b.nextLease().Sub(now), false
	}
	b.last++
	if b.last == 0 {
		b.last = 1
	}
	b.probes = append(b.probes, probe{b.last, now.Add(b.cfg.OpenFor)})
	return Permit{b.change, b.last}, 0, true
}

// Wait returns for how long certainly nothing is let through; 0: now it would be.
func (b *Breaker) Wait(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn(now)
	switch {
	case b.phase == open:
		return b.until.Sub(now)
	case b.phase == halfOpen && len(b.probes) >= b.cfg.Probes:
		return b.nextLease().Sub(now)
	}
	return 0
}

// Open reports whether the circuit is open or half-open.
func (b *Breaker) Open(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn(now)
	return b.phase != closed
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
	b.change++
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
	b.turn(now)
	if p.change != b.change {
		return false, false
	}
	if b.phase == halfOpen {
		return b.judge(p, mark, now, random)
	}
	if mark == Neutral {
		return false, false
	}
	at := max(0, now.Sub(b.start))
	b.all.advance(at)
	b.bad.advance(at)
	b.all.add(at)
	if mark == Bad {
		b.bad.add(at)
		if b.all.sum >= int64(b.cfg.MinRequests) && float64(b.bad.sum) >= b.cfg.FailureRatio*float64(b.all.sum) {
			b.open(now, random)
			return true, false
		}
	}
	return false, false
}

// judge takes the mark of a probe.
func (b *Breaker) judge(p Permit, mark Mark, now time.Time, random float64) (opened, reclosed bool) {
	i := slices.IndexFunc(b.probes, func(o probe) bool { return o.number == p.probe })
	if i < 0 {
		return false, false // its place was taken
	}
	b.probes = slices.Delete(b.probes, i, i+1)
	switch mark {
	case Bad:
		b.open(now, random)
		return true, false
	case Good:
		if b.passed++; b.passed >= b.cfg.Probes {
			b.inRow = 0
			b.forget()
			b.enter(closed)
			return false, true
		}
	}
	return false, false
}

// open opens the circuit: for open_for, doubling with each time in a row up to
// max_open_for, and up to a fifth longer by chance, within that: many instances
// that saw one outage are not to probe at once.
func (b *Breaker) open(now time.Time, random float64) {
	longest := max(b.cfg.MaxOpenFor, b.cfg.OpenFor)
	least := b.cfg.OpenFor
	for i := 0; i < b.inRow && least < longest; i++ {
		least = saturatingDouble(least)
	}
	b.inRow++
	most := min(least+least/5, longest)
	least = min(least, most-most/6)
	b.until = now.Add(draw(least, most, random))
	b.forget()
	b.enter(open)
}

func saturatingDouble(d time.Duration) time.Duration {
	if d > maxDuration/2 {
		return maxDuration
	}
	return 2 * d
}

// forget empties the window.
func (b *Breaker) forget() {
	b.all.counts, b.all.sum = [numSlots]int64{}, 0
	b.bad.counts, b.bad.sum = [numSlots]int64{}, 0
}

// Configure goes on under another configuration. An open circuit stays open for
// no longer than the new one allows.
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
	if latest := now.Add(max(cfg.MaxOpenFor, cfg.OpenFor)); b.phase == open && b.until.After(latest) {
		b.until = latest
	}
}
