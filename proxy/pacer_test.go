package proxy

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/policy"
)

const milli = time.Millisecond

// pacerTester takes turns.
type pacerTester struct {
	t   *testing.T
	p   *pacer
	now time.Time
}

func newPacerTester(t *testing.T, perSecond float64, burst int, maxWait time.Duration) *pacerTester {
	return &pacerTester{t, newPacer(policy.RateLimit{PerSecond: perSecond, Burst: burst, MaxWait: maxWait}), gateAt}
}

// turn wants a turn after the wait.
func (d *pacerTester) turn(retry bool, want time.Duration) reservation {
	d.t.Helper()
	r, wait, ok := d.p.enter(d.now, time.Time{}, retry)
	if !ok || (wait-want).Abs() > time.Microsecond {
		d.t.Fatalf("retry %v: a turn in %v (%v), want in %v", retry, wait, ok, want)
	}
	return r
}

func (d *pacerTester) refused(retry bool) {
	d.t.Helper()
	if r, wait, ok := d.p.enter(d.now, time.Time{}, retry); ok || wait != 0 || r.of != nil {
		d.t.Fatalf("retry %v: not refused, a turn in %v", retry, wait)
	}
}

func TestPacerSpaces(t *testing.T) {
	d := newPacerTester(t, 10, 3, 250*milli)
	for range 3 {
		d.turn(false, 0)
	}
	d.turn(false, 100*milli)
	d.turn(false, 200*milli)
	for range 5 {
		d.refused(false) // and nothing is taken by it
	}
	d.now = d.now.Add(100 * milli)
	d.turn(false, 200*milli)
	d.refused(false)
	d.now = d.now.Add(time.Hour)
	for range 3 {
		d.turn(false, 0)
	}
	d.turn(false, 100*milli)
}

func TestPacerWaitIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		maxWait, deadline time.Duration
		ok                bool
	}{
		"within max_wait":         {100 * milli, 0, true},
		"longer than max_wait":    {99 * milli, 0, false},
		"no wait":                 {0, 0, false},
		"within the window":       {time.Second, 101 * milli, true},
		"longer than the window":  {time.Second, 99 * milli, false},
		"the window has ended":    {time.Second, -milli, false},
		"max_wait, though a long": {99 * milli, time.Hour, false},
	} {
		d := newPacerTester(t, 10, 1, c.maxWait)
		d.turn(false, 0)
		var deadline time.Time
		if c.deadline != 0 {
			deadline = d.now.Add(c.deadline)
		}
		if _, wait, ok := d.p.enter(d.now, deadline, false); ok != c.ok || ok && (wait-100*milli).Abs() > time.Microsecond {
			t.Errorf("%s: %v, %v", name, wait, ok)
		}
	}
	// A turn that comes at once needs no wait to be allowed.
	d := newPacerTester(t, 10, 1, 0)
	d.turn(false, 0)
	d.refused(false)
	d.now = d.now.Add(100 * milli)
	d.turn(false, 0)
}

func TestPacerRetriesLeaveSomeToFirstAttempts(t *testing.T) {
	t.Run("of what may go at once", func(t *testing.T) {
		for burst, retries := range map[int]int{1: 1, 2: 1, 7: 6, 8: 7, 15: 14, 16: 14, 50: 44} {
			d := newPacerTester(t, 10, burst, 0)
			for range retries {
				d.turn(true, 0)
			}
			d.refused(true)
			for range burst - retries {
				d.turn(false, 0)
			}
			d.refused(false)
		}
	})
	t.Run("of the line", func(t *testing.T) {
		d := newPacerTester(t, 10, 1, time.Second)
		d.turn(true, 0)
		for i := range 5 {
			d.turn(true, time.Duration(i+1)*100*milli)
		}
		d.refused(true) // half of max_wait
		for i := range 5 {
			d.turn(false, time.Duration(i+6)*100*milli)
		}
		d.refused(false)
		d.refused(true)
	})
	t.Run("they wait until some are left", func(t *testing.T) {
		d := newPacerTester(t, 10, 16, time.Second)
		for range 14 {
			d.turn(true, 0)
		}
		d.turn(true, 100*milli)
		d.turn(true, 200*milli)
		d.turn(false, 100*milli) // the tokens that are taken are taken
		d.turn(true, 400*milli)
		d.turn(true, 500*milli)
		d.refused(true)
	})
}

func TestPacerGiveBack(t *testing.T) {
	t.Run("the last turn goes to the next newcomer", func(t *testing.T) {
		d := newPacerTester(t, 10, 1, time.Second)
		d.turn(false, 0)
		d.turn(false, 100*milli)
		r := d.turn(false, 200*milli)
		r.giveBack(d.now)
		d.turn(false, 200*milli)
		d.turn(false, 300*milli)
	})
	t.Run("all of them, from the last", func(t *testing.T) {
		d := newPacerTester(t, 10, 1, time.Second)
		d.turn(false, 0)
		one, two, three := d.turn(false, 100*milli), d.turn(false, 200*milli), d.turn(false, 300*milli)
		for _, r := range []reservation{three, two, one} {
			r.giveBack(d.now)
		}
		d.turn(false, 100*milli)
	})
	t.Run("one that others come after is lost", func(t *testing.T) {
		d := newPacerTester(t, 10, 1, time.Second)
		d.turn(false, 0)
		r := d.turn(false, 100*milli)
		d.turn(false, 200*milli)
		r.giveBack(d.now)
		d.turn(false, 300*milli)
	})
	t.Run("one that has come is lost", func(t *testing.T) {
		d := newPacerTester(t, 10, 1, time.Second)
		r := d.turn(false, 0)
		d.now = d.now.Add(10 * milli)
		r.giveBack(d.now)
		d.turn(false, 90*milli)
	})
	t.Run("one that comes now is not", func(t *testing.T) {
		d := newPacerTester(t, 10, 1, time.Second)
		d.turn(false, 0).giveBack(d.now)
		d.turn(false, 0)
	})
	t.Run("none", func(t *testing.T) {
		reservation{}.giveBack(gateAt)
	})
}

func TestPacerClockThatGoesBackPaysOnce(t *testing.T) {
	d := newPacerTester(t, 10, 5, 0)
	for range 5 {
		d.turn(false, 0)
	}
	for range 50 { // two callers, one a second behind
		d.now = d.now.Add(time.Second)
		d.p.enter(d.now, time.Time{}, false)
		d.now = d.now.Add(-time.Second)
		d.p.enter(d.now, time.Time{}, false)
	}
	d.now = d.now.Add(400 * milli)
	if _, _, ok := d.p.enter(d.now, time.Time{}, false); ok {
		t.Error("paid twice for the same second")
	}
	// And one that is behind is not made to wait for that.
	d = newPacerTester(t, 10, 5, 0)
	d.turn(false, 0)
	d.now = d.now.Add(-time.Second)
	d.turn(false, 0)
}

func TestPacerNoLimit(t *testing.T) {
	var none *pacer
	if r, wait, ok := none.enter(gateAt, time.Time{}, true); !ok || wait != 0 || r.of != nil || none.retryAfter(gateAt) != time.Second {
		t.Error("a nil pacer limits")
	}
	for _, perSecond := range []float64{0, -1, math.NaN(), math.Inf(1), math.MaxFloat64} {
		d := newPacerTester(t, perSecond, 1, 0)
		for range 100 {
			d.turn(false, 0)
		}
	}
	d := newPacerTester(t, 1e-300, 0, math.MaxInt64) // a turn in more years than there are
	d.turn(false, 0)
	d.now = d.now.Add(milli)
	d.turn(false, maxTurnWait)
}

func TestPacerRetryAfter(t *testing.T) {
	d := newPacerTester(t, 2, 1, 10*time.Second)
	if got := d.p.retryAfter(d.now); got != time.Second {
		t.Errorf("with a turn at once: %v", got)
	}
	for i := range 20 {
		d.turn(false, time.Duration(i)*500*milli)
	}
	d.turn(false, 10*time.Second)
	d.refused(false)
	if got := d.p.retryAfter(d.now); (got - 10500*milli).Abs() > time.Microsecond {
		t.Errorf("behind 20 at 2 a second: %v", got)
	}
}

func TestPacerConfigure(t *testing.T) {
	limit := func(perSecond float64, burst int, maxWait time.Duration) policy.RateLimit {
		return policy.RateLimit{PerSecond: perSecond, Burst: burst, MaxWait: maxWait}
	}
	for name, c := range map[string]struct {
		taken int // of 10 a second, 5 at once, before
		next  policy.RateLimit
		turns []time.Duration // after that
	}{
		"slower: after those that are taken": {7, limit(1, 5, time.Hour), []time.Duration{1200 * milli, 2200 * milli}},
		"faster: after those that are taken": {7, limit(100, 5, time.Hour), []time.Duration{210 * milli, 220 * milli}},
		"a larger burst brings no tokens":    {5, limit(10, 50, time.Hour), []time.Duration{100 * milli, 200 * milli}},
		"a smaller one takes them":           {0, limit(10, 2, time.Hour), []time.Duration{0, 0, 100 * milli}},
		"tokens that are left are kept":      {2, limit(1, 5, time.Hour), []time.Duration{0, 0, 0, time.Second}},
		"max_wait alone changes no turn":     {7, limit(10, 5, time.Hour), []time.Duration{300 * milli, 400 * milli}},
		"the same":                           {7, limit(10, 5, time.Second), []time.Duration{300 * milli, 400 * milli}},
		"off":                                {7, limit(0, 0, 0), []time.Duration{0, 0, 0}},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newPacerTester(t, 10, 5, time.Second)
			d.now = time.Now()
			for i := range c.taken {
				d.turn(false, time.Duration(max(0, i-4))*100*milli)
			}
			d.p.configure(c.next)
			for i, want := range c.turns {
				_, wait, ok := d.p.enter(d.now, time.Time{}, false)
				if !ok || (wait-want).Abs() > time.Microsecond {
					t.Errorf("%s: turn %d in %v (%v), want %v", name, i, wait, ok, want)
				}
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		d := newPacerTester(t, 10, 1, time.Second)
		d.now = time.Now()
		d.turn(false, 0)
		old := d.turn(false, 100*milli)
		d.p.configure(limit(0, 0, 0))
		d.p.configure(limit(1, 2, time.Minute)) // on again: as new
		d.turn(false, 0)
		d.turn(false, 0)
		d.turn(false, time.Second)
		old.giveBack(d.now) // of the limit before
		d.turn(false, 2*time.Second)
	})
}

// TestPacerAtRandom: whoever takes turns, in whatever order, with clocks that
// disagree a little, and gives them back or not, the upstream gets no more than the
// limit: burst and per_second times the span, in any span of time.
func TestPacerAtRandom(t *testing.T) {
	waited, back := 0, 0
	for seed := range uint64(15) {
		r := rand.New(rand.NewPCG(seed, 12))
		cfg := policy.RateLimit{PerSecond: 1 + 99*r.Float64(), Burst: 1 + r.IntN(30), MaxWait: time.Duration(r.IntN(2000)) * milli}
		p := newPacer(cfg)
		now := gateAt
		var sent []time.Time
		type turn struct {
			reservation
			at time.Time
		}
		var pending []turn
		for range 2000 {
			now = now.Add(time.Duration(r.ExpFloat64() * float64(time.Second) / cfg.PerSecond / 2))
			pending = slices.DeleteFunc(pending, func(t turn) bool {
				due := !t.at.After(now)
				if due {
					sent = append(sent, t.at)
				}
				return due
			})
			if len(pending) > 0 && r.IntN(10) == 0 {
				i := r.IntN(len(pending))
				pending[i].giveBack(now)
				pending = slices.Delete(pending, i, i+1)
				back++
				continue
			}
			retry := r.IntN(3) == 0
			res, wait, ok := p.enter(now, time.Time{}, retry)
			if !ok {
				continue
			}
			if limit := cfg.MaxWait; wait > limit || retry && wait > limit/2 {
				t.Fatalf("seed %d: a turn (retry %v) in %v of %v", seed, retry, wait, limit)
			}
			if wait > 0 {
				waited++
			}
			pending = append(pending, turn{res, now.Add(wait)})
		}
		slices.SortFunc(sent, time.Time.Compare)
		tokens, last := float64(cfg.Burst), gateAt
		for i, at := range sent {
			tokens = min(float64(cfg.Burst), tokens+at.Sub(last).Seconds()*cfg.PerSecond) - 1
			if last = at; tokens < -1e-3 {
				t.Fatalf("seed %d: %d sent after %v, which is %v too many", seed, i+1, at.Sub(gateAt), -tokens)
			}
		}
	}
	if waited < 1000 || back < 100 {
		t.Errorf("too little was tried: %d waited, %d given back", waited, back)
	}
}

// A first attempt is never turned away because of retries.
func TestPacerRetriesTurnAwayNoFirstAttempt(t *testing.T) {
	for _, c := range []policy.RateLimit{{PerSecond: 50, Burst: 50, MaxWait: time.Second}, {PerSecond: 1, Burst: 1, MaxWait: 4 * time.Second}, {PerSecond: 5, Burst: 8, MaxWait: 0}} {
		p, now := newPacer(c), gateAt
		for range 200 {
			for range 100 {
				p.enter(now, time.Time{}, true)
			}
			if _, _, ok := p.enter(now, time.Time{}, false); !ok {
				t.Fatalf("%+v: a first attempt was turned away", c)
			}
			now = now.Add(time.Duration(float64(time.Second) / c.PerSecond))
		}
	}
}

// Everybody who has a turn goes at it, at the rate, whoever else gives up.
func TestPacerUnderACrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(policy.RateLimit{PerSecond: 100, Burst: 5, MaxWait: time.Second})
		var mu sync.Mutex
		var sent []time.Time
		var crowd sync.WaitGroup
		for i := range 300 {
			crowd.Go(func() {
				time.Sleep(time.Duration(i%7) * milli)
				r, wait, ok := p.enter(time.Now(), time.Time{}, i%5 == 0)
				if !ok {
					return
				}
				time.Sleep(wait)
				if i%11 == 0 {
					r.giveBack(time.Now())
					return
				}
				mu.Lock()
				sent = append(sent, time.Now())
				mu.Unlock()
			})
		}
		crowd.Wait()
		if n := len(sent); n < 85 || n > 106 {
			t.Errorf("%d were sent in a second at 100 a second, 5 at once", n)
		}
	})
}

func TestPacerAllocatesNothing(t *testing.T) {
	p, now := newPacer(policy.RateLimit{PerSecond: 1000, Burst: 10}), gateAt
	if n := testing.AllocsPerRun(1000, func() {
		now = now.Add(milli)
		r, _, _ := p.enter(now, time.Time{}, false)
		r.giveBack(now)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkPacer(b *testing.B) {
	p, now := newPacer(policy.RateLimit{PerSecond: 1000, Burst: 10}), gateAt
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(milli)
		p.enter(now, time.Time{}, false)
	}
}
