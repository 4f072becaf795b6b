package policy

import (
	"sync"
	"sync/atomic"
	"time"
)

// maxPauses bounds the credentials that one authority's pauses are kept for.
const maxPauses = 1024

// Pause is what a server's hints hold back beyond the request that got them: a
// 503's everything that goes to the authority, a 429's what has the same
// credentials. It is safe for concurrent use.
type Pause struct {
	any atomic.Bool // something was ever held: mostly not, and then nothing needs the lock
	mu  sync.Mutex
	all time.Time
	by  map[uint64]time.Time // credentials' hash → until when
}

// Everybody is the key of what holds back all credentials, and of requests that
// have none.
const Everybody = 0

// Hold holds back until the time, for one credential's key or Everybody. A later
// time that is known already stays.
func (p *Pause) Hold(key uint64, until, now time.Time) {
	if !until.After(now) {
		return
	}
	p.any.Store(true)
	p.mu.Lock()
	defer p.mu.Unlock()
	if key == Everybody {
		if until.After(p.all) {
			p.all = until
		}
		return
	}
	if p.by == nil {
		p.by = map[uint64]time.Time{}
	}
	if until.After(p.by[key]) {
		p.by[key] = until
	}
	if len(p.by) > maxPauses {
		p.shrink(now)
	}
}

// shrink forgets what is over; where nothing is, what will be first.
func (p *Pause) shrink(now time.Time) {
	var first uint64
	for key, until := range p.by {
		switch {
		case !until.After(now):
			delete(p.by, key)
		case first == Everybody || until.Before(p.by[first]): // which is no key in there
			first = key
		}
	}
	if len(p.by) > maxPauses {
		delete(p.by, first)
	}
}

// Any reports whether there may be something to be held back at all.
func (p *Pause) Any() bool { return p.any.Load() }

// Left returns for how long a request with the credentials is held back.
func (p *Pause) Left(key uint64, now time.Time) time.Duration {
	if !p.any.Load() {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	left := p.all.Sub(now)
	if key != Everybody {
		left = max(left, p.by[key].Sub(now))
	}
	return max(0, left)
}
