package policy

import (
	"math"
	"time"
)

// Strategy says how the base of the wait grows from retry to retry.
type Strategy uint8

// The strategies of backoff.strategy.
const (
	Exponential Strategy = iota // initial * multiplier^(n-1)
	Linear                      // initial * n
	Constant                    // initial
	numStrategies
)

var strategyNames = [numStrategies]string{"exponential", "linear", "constant"}

// String returns the name that configuration uses; "" for no strategy.
func (s Strategy) String() string { return nameOf(strategyNames[:], int(s)) }

// ParseStrategy returns the strategy with this name.
func ParseStrategy(name string) (Strategy, bool) {
	i, ok := indexOf(strategyNames[:], name)
	return Strategy(i), ok
}

// Jitter says how a wait is drawn around its base.
type Jitter uint8

// The jitters of backoff.jitter; Interval says what each means.
const (
	Full Jitter = iota
	Equal
	Proportional
	Decorrelated
	NoJitter
	numJitters
)

var jitterNames = [numJitters]string{"full", "equal", "proportional", "decorrelated", "none"}

// String returns the name that configuration uses; "" for no jitter of ours.
func (j Jitter) String() string { return nameOf(jitterNames[:], int(j)) }

// ParseJitter returns the jitter with this name.
func ParseJitter(name string) (Jitter, bool) {
	i, ok := indexOf(jitterNames[:], name)
	return Jitter(i), ok
}

func nameOf(names []string, i int) string {
	if i >= len(names) {
		return ""
	}
	return names[i]
}

func indexOf(names []string, name string) (int, bool) {
	for i, n := range names {
		if n == name {
			return i, true
		}
	}
	return 0, false
}

// Backoff computes the waits before retries that no server hint governs. Any
// values are safe: what makes no sense saturates within [0, Max].
type Backoff struct {
	Strategy   Strategy
	Initial    time.Duration // the base before the first retry
	Max        time.Duration // no computed wait is ever longer, jitter included
	Multiplier float64       // exponential only
	Jitter     Jitter
}

// Base returns the wait before retry n (1, 2, ...) as it is before jitter.
func (b Backoff) Base(n int) time.Duration {
	initial := b.initial()
	if n < 1 {
		n = 1
	}
	switch b.Strategy {
	case Exponential:
		return b.exponential(initial, n)
	case Linear:
		// Divided rather than multiplied: the product may not fit.
		if initial > 0 && time.Duration(n) > b.Max/initial {
			return b.Max
		}
		return initial * time.Duration(n)
	default:
		return initial
	}
}

// initial is Initial within [0, Max]: a Max that a route inherits or sets may
// lie below it.
func (b Backoff) initial() time.Duration { return max(0, min(b.Initial, b.Max)) }

func (b Backoff) exponential(initial time.Duration, n int) time.Duration {
	if initial == 0 {
		return 0 // 0 * Inf would be NaN
	}
	base := float64(initial) * math.Pow(b.Multiplier, float64(n-1))
	if !(base < float64(b.Max)) { // so written for NaN and Inf: rather too long a wait than none
		return b.Max
	}
	return time.Duration(math.Round(max(0, base)))
}

// Interval returns the bounds between which the wait before retry n is
// uniform. prev is the wait drawn before, which only Decorrelated looks at;
// 0 means none yet.
func (b Backoff) Interval(n int, prev time.Duration) (lo, hi time.Duration) {
	base := b.Base(n)
	switch b.Jitter {
	case Full:
		return 0, base
	case Equal:
		return base / 2, base
	case Proportional:
		return base / 2, base + min(base/2, b.ceiling()-base)
	case Decorrelated:
		return b.decorrelated(prev)
	default:
		return base, base
	}
}

// decorrelated grows from what was drawn instead of from n, so neither the
// strategy nor the multiplier matters to it.
func (b Backoff) decorrelated(prev time.Duration) (lo, hi time.Duration) {
	lo = b.initial()
	if prev <= 0 {
		prev = lo
	}
	if prev > b.ceiling()/3 {
		return lo, b.ceiling()
	}
	return lo, max(lo, 3*prev)
}

// ceiling is Max, never negative.
func (b Backoff) ceiling() time.Duration { return max(0, b.Max) }

// Wait draws the wait before retry n: random, in [0,1), picks its place in the
// Interval.
func (b Backoff) Wait(n int, prev time.Duration, random float64) time.Duration {
	lo, hi := b.Interval(n, prev)
	return draw(lo, hi, random)
}

// draw maps random, in [0,1), onto [lo, hi]. Below 104 days (2^53 ns) it never
// returns hi itself unless lo is hi, which lets an interval end where a window
// does.
func draw(lo, hi time.Duration, random float64) time.Duration {
	if !(random > 0) { // NaN too
		return lo
	}
	span := hi - lo
	if random >= 1 {
		return hi
	}
	return lo + min(span, time.Duration(random*float64(span)))
}
