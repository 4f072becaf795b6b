package policy

import (
	"math"
	"sync"
	"time"
)

// Load is what a choice between endpoints goes by.
type Load struct {
	InFlight int           // attempts under way
	Latency  time.Duration // recent; 0 = nothing is known
	Skip     bool          // not to be chosen
}

// less reports whether another attempt would have less to wait for than one at the
// other endpoint, as far as one can tell. One that nothing is known of is taken to
// be as fast as the other: believed to be faster it would get a crowd before its
// first answer.
func (l *Load) less(other *Load) bool {
	mine, others := max(l.Latency, leastLatency), max(other.Latency, leastLatency)
	if l.Latency <= 0 || other.Latency <= 0 {
		mine, others = 1, 1
	}
	return (float64(l.InFlight)+1)*float64(mine) < (float64(other.InFlight)+1)*float64(others)
}

// leastLatency is where differences stop to matter: among the fast only the number
// in flight decides. Else one answer that was a few milliseconds late, on a busy
// machine, would leave an endpoint that is as good without requests for seconds,
// since the average falls slowly.
const leastLatency = 10 * time.Millisecond

// Choose picks one of the endpoints that are not to be skipped, by the power of
// two choices (Mitzenmacher 2001): of two at random the one with less to do. The
// result is -1 where there is none. one and two are random, in [0,1).
func Choose(loads []Load, one, two float64) int {
	n := 0
	for i := range loads {
		if !loads[i].Skip {
			n++
		}
	}
	if n < 2 {
		return nth(loads, 0)
	}
	i := pick(one, n)
	j := pick(two, n-1)
	if j >= i { // another than i
		j++
	}
	i, j = nth(loads, i), nth(loads, j)
	if loads[j].less(&loads[i]) {
		return j
	}
	return i
}

// pick is a number under n.
func pick(random float64, n int) int {
	switch {
	case !(random > 0): // NaN too
		return 0
	case random >= 1:
		return n - 1
	}
	return min(int(random*float64(n)), n-1)
}

// nth returns the index of the n-th load that is not to be skipped.
func nth(loads []Load, n int) int {
	for i := range loads {
		if loads[i].Skip {
			continue
		}
		if n == 0 {
			return i
		}
		n--
	}
	return -1
}

// Latency is the recent latency of an endpoint: an average that a slow answer
// raises at once and that fast ones lower with time (peak EWMA, as in Twitter's
// Finagle). Failures come on top for a few seconds: the endpoint that fails fastest
// is not the best, but one failure among many answers is no reason to leave it
// alone for long. It is safe for concurrent use.
type Latency struct {
	mu       sync.Mutex
	cost     float64 // ns
	at       time.Time
	penalty  float64 // ns, for failures
	failedAt time.Time
}

// The times in which what is old loses all but 1/e of its weight.
const (
	latencyTau = 10 * time.Second
	failureTau = 2 * time.Second
)

const (
	leastPenalty = 10 * time.Millisecond // what a failure counts as; the next twice as much as is left of it
	mostPenalty  = 10 * time.Second
	maxLatency   = time.Minute // the most that anything counts as
)

// Observe takes in how long an attempt took to its response header, or until it
// failed.
func (l *Latency) Observe(took time.Duration, failed bool, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := float64(min(max(1, took), maxLatency)) // 0 would be that nothing is known
	switch {
	case failed:
		left := l.penalty * faded(now.Sub(l.failedAt), failureTau)
		l.penalty = min(max(2*left, float64(leastPenalty)), float64(mostPenalty))
		l.failedAt = latest(l.failedAt, now)
		if seen < l.cost {
			return // that it failed fast does not make it fast
		}
	case seen < l.cost:
		old := faded(now.Sub(l.at), latencyTau)
		seen = old*l.cost + (1-old)*seen
	}
	l.cost = seen
	l.at = latest(l.at, now)
}

// faded is what is left after a time of a weight of 1.
func faded(after, tau time.Duration) float64 {
	return math.Exp(-float64(max(0, after)) / float64(tau))
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Value returns the average with what failures add; 0 where nothing is known. One
// that nothing was added to for long fades, so that an endpoint that was slow once
// is tried again; by one attempt, and not by a crowd: while any is under way there
// the average is what it was.
func (l *Latency) Value(now time.Time, inFlight int) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cost == 0 {
		return 0
	}
	cost := l.cost
	if inFlight == 0 {
		cost *= faded(now.Sub(l.at), latencyTau)
	}
	if l.penalty > 0 {
		cost += l.penalty * faded(now.Sub(l.failedAt), failureTau)
	}
	return max(1, time.Duration(cost))
}

// Forget drops all, as of an endpoint that has been found well again: what was
// before says nothing of how fast it is now.
func (l *Latency) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cost, l.at, l.penalty, l.failedAt = 0, time.Time{}, 0, time.Time{}
}
