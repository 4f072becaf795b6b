package policy

import (
	"slices"
	"sync"
	"time"
)

// Recent knows a quantile of the latest durations, for a hedge's delay. It is safe
// for concurrent use.
//
// An attempt that lost against its hedge has to be added too, with the time after
// which it was given up: without the slow ones the quantile would sink, and the
// hedges become more and more.
type Recent struct {
	mu     sync.Mutex
	n      int                       // added so far
	ring   [recentSize]time.Duration // in the order in which they came
	sorted [recentSize]time.Duration // the same by size
}

const (
	recentSize = 256
	// recentLeast is how many there have to be before they say anything: of fewer
	// than 20 the 95th percentile is the longest.
	recentLeast = 20
)

// Add takes in a duration.
func (r *Recent) Add(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.sorted[:min(r.n, recentSize)]
	if len(all) == recentSize {
		i, _ := slices.BinarySearch(all, r.ring[r.n%recentSize])
		all = slices.Delete(all, i, i+1)
	}
	i, _ := slices.BinarySearch(all, d)
	all = r.sorted[:len(all)+1]
	copy(all[i+1:], all[i:])
	all[i] = d
	r.ring[r.n%recentSize] = d
	r.n++
}

// P95 returns the 95th percentile of the latest durations by nearest rank, the
// least that 95 % of them are not above; false where there are too few to say.
func (r *Recent) P95() (time.Duration, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n < recentLeast {
		return 0, false
	}
	return r.sorted[(min(r.n, recentSize)*95+99)/100-1], true
}
