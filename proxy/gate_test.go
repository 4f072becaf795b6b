package proxy

import (
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/policy"
)

// gateAt is when tests of gates begin that take the time as an argument.
var gateAt = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func newTestGate(most, queue int, maxWait time.Duration) *gate {
	return &gate{cfg: policy.Concurrency{Max: most, Queue: queue, MaxWait: maxWait}}
}

// state of a ticket: whether it is decided, and how.
func told(tk *ticket) string {
	select {
	case <-tk.ready:
		if tk.admitted {
			return "admitted"
		}
		return "refused"
	default:
		return "waits"
	}
}

// gateTester drives a gate.
type gateTester struct {
	t   *testing.T
	g   *gate
	now time.Time
}

// in asks for a place that is to be had at once.
func (d *gateTester) in(n int, retry bool) {
	d.t.Helper()
	for range n {
		if tk, ok := d.g.enter(d.now, time.Time{}, retry); tk != nil || !ok {
			d.t.Fatalf("no place at once with %d under way", d.g.inUse)
		}
	}
}

// queued asks for a place that is to be waited for.
func (d *gateTester) queued(retry bool) *ticket {
	d.t.Helper()
	tk, ok := d.g.enter(d.now, time.Time{}, retry)
	if tk == nil || ok || told(tk) != "waits" {
		d.t.Fatalf("does not queue: %v, %v", tk, ok)
	}
	return tk
}

// refused asks for a place that is not to be had.
func (d *gateTester) refused(retry bool) {
	d.t.Helper()
	if tk, ok := d.g.enter(d.now, time.Time{}, retry); tk != nil || ok {
		d.t.Fatalf("not refused: %v, %v", tk, ok)
	}
}

// tells compares what tickets are told.
func (d *gateTester) tells(want string, tickets ...*ticket) {
	d.t.Helper()
	for i, tk := range tickets {
		if got := told(tk); got != want {
			d.t.Fatalf("ticket %d: %s, want %s", i, got, want)
		}
	}
}

func TestGateBoundsWhatIsUnderWay(t *testing.T) {
	for _, c := range []struct{ most, firsts, retries int }{
		{1, 1, 1}, {2, 2, 1}, {3, 3, 2}, {8, 8, 7}, {15, 15, 14}, {16, 16, 14}, {64, 64, 56}, {0, 1000, 1000},
	} {
		for retry, want := range map[bool]int{false: c.firsts, true: c.retries} {
			d := gateTester{t, newTestGate(c.most, 1, time.Second), gateAt}
			d.in(want, retry)
			if c.most == 0 {
				continue
			}
			d.queued(retry)
			d.refused(retry)
			if retry { // the places that are left are for first attempts, though a retry waits
				d.in(c.firsts-c.retries, false)
			}
		}
	}
}

func TestGateWaitIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		maxWait  time.Duration
		deadline time.Duration // from now; 0 none
		want     time.Duration // that the ticket waits; 0: refused
	}{
		"max_wait":                {time.Second, 0, time.Second},
		"the window ends before":  {time.Second, 300 * time.Millisecond, 300 * time.Millisecond},
		"the window ends later":   {time.Second, time.Minute, time.Second},
		"no wait is allowed":      {0, time.Minute, 0},
		"the window has ended":    {time.Second, -time.Second, 0},
		"the window ends just so": {time.Second, 1, 1},
	} {
		d := gateTester{t, newTestGate(1, 5, c.maxWait), gateAt}
		d.in(1, false)
		var deadline time.Time
		if c.deadline != 0 {
			deadline = d.now.Add(c.deadline)
		}
		tk, ok := d.g.enter(d.now, deadline, false)
		if ok || (tk != nil) != (c.want > 0) || tk != nil && !tk.deadline.Equal(d.now.Add(c.want)) {
			t.Errorf("%s: %+v, %v", name, tk, ok)
		}
	}
}

func TestGateServesTheOldestFirst(t *testing.T) {
	d := gateTester{t, newTestGate(1, 3, time.Second), gateAt}
	d.in(1, false)
	one, two, three := d.queued(false), d.queued(true), d.queued(false)
	d.refused(true) // full
	first := d.queued(false)
	d.tells("refused", two)
	d.g.abandon(first, d.now)
	d.g.leave(at(d.now))
	d.tells("admitted", one)
	d.tells("waits", three)
	d.g.leave(at(d.now))
	d.tells("admitted", three)
}

func TestGateRetriesMakeRoomForFirstAttempts(t *testing.T) {
	d := gateTester{t, newTestGate(8, 2, time.Second), gateAt}
	d.in(7, true)
	older, newer := d.queued(true), d.queued(true)
	d.refused(true)
	d.in(1, false) // the last place, past the queue
	first := d.queued(false)
	d.tells("refused", newer) // it would have been served last
	d.tells("waits", older)
	another := d.queued(false)
	d.tells("refused", older)
	d.refused(false)
	d.refused(true)
	d.g.leave(at(d.now))
	d.tells("admitted", first)
	d.tells("waits", another)
	d.g.abandon(another, d.now)

	late := d.queued(true)
	d.g.leave(at(d.now)) // 7 are under way: what is left is the last place
	d.tells("waits", late)
	d.g.leave(at(d.now))
	d.tells("admitted", late)
}

func TestGateServesTheNewestFirstWhereWaitingIsLost(t *testing.T) {
	const step = 100 * time.Millisecond
	d := gateTester{t, newTestGate(1, 4, time.Second), gateAt}
	d.in(1, false)
	// A place becomes free each 500 ms: three in the queue will not make it in 1 s.
	var queue []*ticket
	arrive := func() {
		d.now = d.now.Add(step)
		queue = append(queue, d.queued(false))
	}
	arrive()
	arrive()
	d.now = d.now.Add(step)
	d.g.leave(at(d.now))
	d.tells("admitted", queue[0])
	d.now = d.now.Add(5 * step)
	d.g.leave(at(d.now))
	d.tells("admitted", queue[1])
	d.tells("waits", queue[2:]...)

	// Of an empty queue nothing is known: the oldest first.
	queue = nil
	arrive() // 0
	arrive() // 1
	d.now = d.now.Add(4 * step)
	d.g.leave(at(d.now))
	d.tells("admitted", queue[0])
	arrive() // 2
	arrive() // 3
	d.now = d.now.Add(2 * step)
	d.g.leave(at(d.now)) // one each 500 ms, and a second has passed
	d.tells("admitted", queue[1])
	if d.g.newest {
		t.Fatal("the newest first already")
	}
	arrive() // 4, which would be the third: 1.5 s
	arrive() // 5: full
	if !d.g.newest {
		t.Fatal("the oldest still first")
	}
	d.tells("waits", queue[2:]...)
	arrive() // 6
	d.tells("refused", queue[2])
	d.g.leave(at(d.now))
	d.tells("admitted", queue[6])
	d.tells("waits", queue[3:6]...)
	d.g.leave(at(d.now))
	d.tells("admitted", queue[5])
	d.g.leave(at(d.now))
	d.tells("admitted", queue[4])
	d.g.leave(at(d.now))
	d.tells("admitted", queue[3])

	// Once the queue was empty: the oldest first again.
	one, two := d.queued(false), d.queued(false)
	d.g.leave(at(d.now))
	d.tells("admitted", one)
	d.tells("waits", two)
}

// A burst that the pace suffices for, or of which nothing is known yet, is served
// in order, and whom the queue has no room for is refused.
func TestGateServesABurstInOrder(t *testing.T) {
	d := gateTester{t, newTestGate(4, 8, time.Second), gateAt}
	d.in(4, false)
	d.now = d.now.Add(time.Hour) // how long nobody waited says nothing
	for round := range 5 {
		var queue []*ticket
		for range 8 {
			queue = append(queue, d.queued(false))
		}
		d.refused(false)
		for i, tk := range queue {
			d.now = d.now.Add(20 * time.Millisecond)
			d.tells("waits", queue[i:]...)
			d.g.leave(at(d.now))
			d.tells("admitted", tk)
		}
		if d.g.newest {
			t.Fatalf("round %d: the newest first", round)
		}
	}
}

// A retry at the end of its window does not change the order for everybody.
func TestGateRetrysShortWindowSaysNothing(t *testing.T) {
	for retry, newest := range map[bool]bool{true: false, false: true} {
		d := gateTester{t, newTestGate(8, 8, time.Second), gateAt}
		d.in(8, false)
		d.queued(false)
		for range 20 {
			d.now = d.now.Add(30 * time.Millisecond)
			d.queued(false)
			d.g.leave(at(d.now))
		}
		d.g.enter(d.now, d.now.Add(20*time.Millisecond), retry)
		if d.g.newest != newest {
			t.Errorf("retry %v: the newest first %v", retry, d.g.newest)
		}
	}
}

func TestGateDoesNotServeWhoIsOverTime(t *testing.T) {
	d := gateTester{t, newTestGate(1, 2, time.Second), gateAt}
	d.in(1, false)
	late := d.queued(false)
	d.now = d.now.Add(999 * time.Millisecond)
	other := d.queued(false)
	d.now = d.now.Add(time.Millisecond)
	another := d.queued(false) // has the place in the queue of who is late
	d.tells("refused", late)
	d.g.abandon(late, d.now)
	d.now = d.now.Add(998 * time.Millisecond)
	d.g.leave(at(d.now))
	d.tells("admitted", another) // a second without a place: the newest first
	d.now = d.now.Add(time.Millisecond)
	d.g.leave(at(d.now))
	d.tells("refused", other)
	if d.g.inUse != 0 {
		t.Errorf("%d under way", d.g.inUse)
	}
}

func TestGateQueueHasRoomOnceWhoWaitsIsOverTime(t *testing.T) {
	d := gateTester{t, newTestGate(1, 1, time.Second), gateAt}
	d.in(1, false)
	late := d.queued(true)
	d.refused(true)
	d.now = d.now.Add(time.Second)
	d.queued(true)
	d.tells("refused", late)
}

func TestGateAbandoned(t *testing.T) {
	d := gateTester{t, newTestGate(1, 3, time.Second), gateAt}
	d.in(1, false)
	one, two, three := d.queued(false), d.queued(false), d.queued(false)
	d.g.abandon(two, d.now) // while it waits: its place in the queue is free
	four := d.queued(false)
	d.refused(false)
	d.g.leave(at(d.now))
	d.tells("admitted", one)
	d.g.abandon(one, d.now) // it has got a place meanwhile, which goes to the next
	d.tells("admitted", three)
	d.tells("waits", four)
	d.g.abandon(four, d.now)
	d.g.leave(at(d.now))
	if d.g.inUse != 0 || d.g.waiting() != 0 {
		t.Errorf("%d under way, %d wait", d.g.inUse, d.g.waiting())
	}
	if n := d.g.left.n; n != 1 {
		t.Errorf("%d ends of attempts seen: what was abandoned is none", n)
	}
}

func TestGateConfigure(t *testing.T) {
	cfg := func(most, queue int) policy.Concurrency {
		return policy.Concurrency{Max: most, Queue: queue, MaxWait: time.Second}
	}
	synctest.Test(t, func(t *testing.T) {
		full := func() (d gateTester, first, retry, last *ticket) {
			d = gateTester{t, newTestGate(2, 4, time.Second), time.Now()}
			d.in(2, false)
			return d, d.queued(false), d.queued(true), d.queued(false)
		}
		d, first, retry, last := full()
		d.g.configure(cfg(3, 4)) // room for one
		d.tells("admitted", first)
		d.tells("waits", retry, last)
		d.g.configure(cfg(4, 4)) // the last place is no retry's
		d.tells("admitted", last)
		d.tells("waits", retry)
		d.g.configure(cfg(5, 4))
		d.tells("waits", retry)
		d.g.configure(cfg(6, 4))
		d.tells("admitted", retry)
		d.g.configure(cfg(2, 4)) // five are under way: they keep their places
		tk := d.queued(false)
		for range 3 {
			d.g.leave(at(d.now))
			d.tells("waits", tk)
		}
		d.g.leave(at(d.now))
		d.tells("admitted", tk)

		d, first, retry, last = full()
		d.g.configure(cfg(2, 2)) // a shorter queue
		d.tells("refused", retry)
		d.tells("waits", first, last)
		d.g.configure(cfg(2, 1))
		d.tells("refused", last)
		d.g.configure(cfg(2, 0))
		d.tells("refused", first)

		d, first, retry, last = full()
		d.g.newest = true
		d.g.configure(cfg(2, 1))
		d.tells("refused", first, retry)
		d.tells("waits", last)

		d, first, retry, last = full()
		d.g.configure(policy.Concurrency{}) // none any more
		d.tells("admitted", first, retry, last)
		d.in(1000, true)

		d, first, retry, last = full()
		d.g.configure(policy.Concurrency{Max: math.MaxInt, Queue: math.MaxInt})
		d.tells("admitted", first, retry, last)
	})
}

func TestGateRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gateTester{t, newTestGate(1, 20, time.Minute), time.Now()}
		if got := d.g.retryAfter(); got != time.Second {
			t.Errorf("of a gate that nobody waits at: %v", got)
		}
		d.in(1, false)
		for range 18 {
			d.queued(false)
		}
		if got := d.g.retryAfter(); got != time.Second {
			t.Errorf("of one that nothing is known of: %v", got)
		}
		for range 8 {
			time.Sleep(500 * time.Millisecond)
			d.g.leave(time.Now)
		}
		if got, want := d.g.retryAfter(), 11*500*time.Millisecond; got != want { // behind ten
			t.Errorf("at 2 a second: %v, want %v", got, want)
		}
		time.Sleep(6 * time.Second) // nothing ends: it takes longer
		if got, want := d.g.retryAfter(), 11*10*time.Second/8; got != want {
			t.Errorf("slower and slower: %v, want %v", got, want)
		}
		time.Sleep(time.Hour)
		if got := d.g.retryAfter(); got != 30*time.Second {
			t.Errorf("of one that is stuck: %v", got)
		}
	})
}

// TestGateAtRandom lets attempts come, go, wait, give up and be reconfigured at
// random, and checks after each step what is promised.
func TestGateAtRandom(t *testing.T) {
	var newest, displaced int
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 11))
			random := func() policy.Concurrency {
				return policy.Concurrency{Max: 1 + r.IntN(20), Queue: r.IntN(12), MaxWait: time.Duration(r.IntN(500)) * time.Millisecond}
			}
			cfg := random()
			g := &gate{cfg: cfg}
			roomFor := func(retry bool, inUse int) bool {
				if retry && cfg.Max > 1 {
					return inUse < cfg.Max-max(1, cfg.Max/8)
				}
				return inUse < cfg.Max
			}
			type waiter struct {
				*ticket
				retry bool
			}
			held := 0 // places that somebody has
			var waiters []waiter
			collect := func() { // what waiters were told
				var still []waiter
				for _, w := range waiters {
					switch told(w.ticket) {
					case "waits":
						still = append(still, w)
					case "admitted":
						held++
						if !time.Now().Before(w.deadline) {
							t.Fatal("admitted after its deadline")
						}
					}
				}
				waiters = still
			}
			count := func(retry bool) (n int) {
				for _, w := range waiters {
					if w.retry == retry {
						n++
					}
				}
				return n
			}
			for step := range 1500 {
				if r.IntN(3) == 0 {
					time.Sleep(time.Duration(r.IntN(30)) * time.Millisecond)
				}
				before := held
				switch r.IntN(10) {
				case 0, 1, 2, 3, 4:
					retry := r.IntN(3) == 0
					firsts, retries := count(false), count(true)
					tk, ok := g.enter(time.Now(), time.Time{}, retry)
					if ok != roomFor(retry, before) {
						t.Fatalf("seed %d step %d: a place at once %v (retry %v) with %d of %d under way", seed, step, ok, retry, before, cfg.Max)
					}
					if ok {
						held++
					}
					if tk != nil {
						waiters = append(waiters, waiter{tk, retry})
					}
					if !ok && tk == nil && !retry && cfg.MaxWait > 0 && (firsts < cfg.Queue) {
						t.Fatalf("seed %d step %d: a first attempt refused with %d first attempts and %d retries in a queue of %d", seed, step, firsts, retries, cfg.Queue)
					}
					collect()
					if count(true) < retries {
						displaced++
					}
				case 5, 6, 7:
					if held > 0 {
						held--
						g.leave(time.Now)
						collect()
					}
				case 8:
					if n := len(waiters); n > 0 {
						i := r.IntN(n)
						w := waiters[i]
						if r.IntN(2) == 0 && held > 0 { // it is decided and nobody looked yet
							held--
							g.leave(time.Now)
						}
						waiters = append(waiters[:i:i], waiters[i+1:]...)
						g.abandon(w.ticket, time.Now())
						collect()
					}
				case 9:
					if r.IntN(10) == 0 {
						cfg = random()
						g.configure(cfg)
						collect()
					}
				}
				// Who is over time stops waiting, as its timer tells it.
				for _, w := range waiters {
					if !time.Now().Before(w.deadline) {
						g.abandon(w.ticket, time.Now())
					}
				}
				waiters = waiters[:len(waiters):len(waiters)]
				var still []waiter
				for _, w := range waiters {
					if time.Now().Before(w.deadline) {
						still = append(still, w)
					}
				}
				waiters = still

				if g.inUse != held {
					t.Fatalf("seed %d step %d: counts %d, %d are held", seed, step, g.inUse, held)
				}
				if held > before && held > cfg.Max {
					t.Fatalf("seed %d step %d: %d under way of %d", seed, step, held, cfg.Max)
				}
				if len(waiters) != g.waiting() || len(waiters) > cfg.Queue {
					t.Fatalf("seed %d step %d: %d wait, it counts %d, of %d", seed, step, len(waiters), g.waiting(), cfg.Queue)
				}
				for _, w := range waiters {
					if roomFor(w.retry, held) {
						t.Fatalf("seed %d step %d: one waits (retry %v) with %d of %d under way", seed, step, w.retry, held, cfg.Max)
					}
				}
				if g.newest {
					newest++
				}
				if g.newest && g.waiting() == 0 {
					t.Fatalf("seed %d step %d: the newest first, of none", seed, step)
				}
			}
			for held > 0 || len(waiters) > 0 {
				if held == 0 {
					t.Fatalf("seed %d: %d wait for ever", seed, len(waiters))
				}
				held--
				g.leave(time.Now)
				collect()
			}
			if g.inUse != 0 || g.waiting() != 0 {
				t.Fatalf("seed %d: %d under way in the end, %d wait", seed, g.inUse, g.waiting())
			}
		})
	}
	if newest < 1000 || displaced < 100 {
		t.Errorf("too little was tried: %d steps with the newest first, %d retries displaced", newest, displaced)
	}
}

func TestGateAllocatesNothingWhereThereIsRoom(t *testing.T) {
	g := newTestGate(8, 8, time.Second)
	if n := testing.AllocsPerRun(1000, func() {
		if _, ok := g.enter(gateAt, time.Time{}, false); ok {
			g.leave(at(gateAt))
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkGate(b *testing.B) {
	g := newTestGate(8, 8, time.Second)
	b.ReportAllocs()
	for b.Loop() {
		g.enter(gateAt, time.Time{}, false)
		g.leave(at(gateAt))
	}
}

// at is a clock that stands still.
func at(t time.Time) func() time.Time { return func() time.Time { return t } }
