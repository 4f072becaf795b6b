package policy

import (
	"slices"
	"sync"
	"time"
)

// Recent knows a quantile of the latest durations, for a hedge's delay. It is safe
// for concurrent use.
type Recent struct {
	mu    sync.Mutex
	ring  [recentSize]time.Duration
	n     int // added so far
	p95   time.Duration
	fresh int // added since p95 was computed
}

const (
	recentSize = 256
	// recentLeast is how many there have to be before they say anything: of fewer
	// than 20 the 95th percentile is the longest.
	recentLeast = 20
	recentEvery = 16 // the quantile is computed anew after so many
)

// Add takes in a duration.
func (r *Recent) Add(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ring[r.n%recentSize] = d
	r.n++
	r.fresh++
	if r.fresh >= recentEvery || r.n == recentLeast {
		r.fresh = 0
		r.compute()
	}
}

func (r *Recent) compute() {
	if r.n < recentLeast {
		return
	}
	sorted := r.ring
	all := sorted[:min(r.n, recentSize)]
	slices.Sort(all)
	r.p95 = all[len(all)*95/100]
}

// P95 returns the 95th percentile of the latest durations; false where there are
// too few to say.
func (r *Recent) P95() (time.Duration, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.p95, r.n >= recentLeast
}
