package policy_test

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mulligan/policy"
)

// breakerConfig is the contract's example.
var breakerConfig = policy.BreakerConfig{
	FailureRatio: 0.5, MinRequests: 20, Window: 10 * time.Second,
	OpenFor: 5 * time.Second, MaxOpenFor: time.Minute, Probes: 1,
}

// quick opens at the first failure.
func quick(probes int) policy.BreakerConfig {
	c := breakerConfig
	c.MinRequests, c.Probes = 1, probes
	return c
}

// attempt goes through the breaker and leaves its mark at once.
func attempt(t *testing.T, b *policy.Breaker, m policy.Mark, now time.Time) (opened, reclosed bool) {
	t.Helper()
	p, _, ok := b.Allow(now)
	if !ok {
		t.Fatal("not let through")
	}
	return b.Done(p, m, now, 0)
}

// halfOpen returns a breaker that has just become half-open, and since when.
func halfOpen(t *testing.T, cfg policy.BreakerConfig) (*policy.Breaker, time.Time) {
	t.Helper()
	b := policy.NewBreaker(cfg, t0)
	for range max(1, cfg.MinRequests) {
		attempt(t, b, policy.Bad, t0)
	}
	left := b.Wait(t0)
	if left <= 0 || !b.Open(t0) {
		t.Fatal("not open")
	}
	return b, t0.Add(left)
}

func TestBreakerOpens(t *testing.T) {
	at := func(ratio float64, least int) policy.BreakerConfig {
		c := breakerConfig
		c.FailureRatio, c.MinRequests = ratio, least
		return c
	}
	repeat := func(s string, n int) (all string) {
		for range n {
			all += s
		}
		return all
	}
	for name, c := range map[string]struct {
		cfg    policy.BreakerConfig
		marks  string // g good, b bad, n neutral
		opened int    // by which of them, from 1; 0: by none
	}{
		"all bad":                         {at(0.5, 20), repeat("b", 30), 20},
		"too few":                         {at(0.5, 20), repeat("b", 19), 0},
		"half, the last one bad":          {at(0.5, 20), repeat("gb", 15), 20},
		"half, the last one good":         {at(0.5, 20), repeat("bg", 15), 20},
		"half, later":                     {at(0.5, 4), "bgggbb", 6},
		"under the ratio":                 {at(0.5, 20), repeat("ggb", 100), 0},
		"neutral ones are none":           {at(0.5, 4), "nnnnbnnbnnnb" + "b", 13},
		"neutral ones do not dilute":      {at(1, 2), "bnnnnb", 6},
		"all have to fail":                {at(1, 3), "gbbbbbbb", 0},
		"the first failure":               {at(0.5, 1), "gb", 2},
		"no least":                        {at(0.5, 0), "b", 1},
		"good ones only":                  {at(0.5, 1), repeat("g", 50), 0},
		"as written: 55 of 100 is 0.55":   {at(0.55, 100), repeat("g", 45) + repeat("b", 55), 100},
		"as written: 54 of 100 is not":    {at(0.55, 100), repeat("g", 46) + repeat("b", 54), 0},
		"as written: 7 of 100 is 0.07":    {at(0.07, 100), repeat("g", 93) + repeat("b", 7), 100},
		"no breaker":                      {at(0, 1), repeat("b", 50), 0},
		"a ratio that nothing can be":     {at(math.NaN(), 1), repeat("b", 50), 0},
		"more than all: never":            {at(1.01, 1), repeat("b", 50), 0},
		"a least below none is like none": {at(0.5, -3), "b", 1},
	} {
		b := policy.NewBreaker(c.cfg, t0)
		opened := 0
		for i, m := range c.marks {
			o, reclosed := attempt(t, b, map[rune]policy.Mark{'g': policy.Good, 'b': policy.Bad, 'n': policy.Neutral}[m], t0)
			if reclosed {
				t.Errorf("%s: closed again by %d", name, i+1)
			}
			if o {
				opened = i + 1
				break
			}
		}
		if opened != c.opened {
			t.Errorf("%s: opened by %d, want %d", name, opened, c.opened)
		}
		if b.Open(t0) != (opened > 0) {
			t.Errorf("%s: Open is %v", name, b.Open(t0))
		}
	}
}

func TestBreakerLooksBackOnItsWindow(t *testing.T) {
	for after, opens := range map[time.Duration]bool{
		0: true, 9 * time.Second: true, 10 * time.Second: false, time.Hour: false,
		290 * 365 * 24 * time.Hour: false, math.MaxInt64: false,
	} {
		b := policy.NewBreaker(breakerConfig, t0)
		for range 19 {
			attempt(t, b, policy.Bad, t0)
		}
		if opened, _ := attempt(t, b, policy.Bad, t0.Add(after)); opened != opens {
			t.Errorf("the last failure %v after the others: opened %v", after, opened)
		}
		if after > time.Hour { // whatever has passed, it counts on
			for range 18 {
				attempt(t, b, policy.Bad, t0.Add(after))
			}
			if opened, _ := attempt(t, b, policy.Bad, t0.Add(after)); !opened {
				t.Errorf("does not open after %v", after)
			}
		}
	}
}

// What is old leaves the window, and then a good answer opens nothing.
func TestGoodAnswerDoesNotOpenByAgeing(t *testing.T) {
	b := policy.NewBreaker(breakerConfig, t0)
	for range 25 {
		attempt(t, b, policy.Good, t0)
	}
	for range 21 {
		attempt(t, b, policy.Bad, t0.Add(5*time.Second))
	}
	late := t0.Add(11 * time.Second) // when the 21 failures are all that is left
	if opened, _ := attempt(t, b, policy.Good, late); opened {
		t.Error("opened by a good answer")
	}
	if opened, _ := attempt(t, b, policy.Bad, late); !opened {
		t.Error("not opened by a bad one")
	}
}

func TestOpenLetsNothingThrough(t *testing.T) {
	b := policy.NewBreaker(quick(1), t0)
	attempt(t, b, policy.Bad, t0)
	for _, after := range []time.Duration{0, time.Second, 5*time.Second - 1} {
		p, wait, ok := b.Allow(t0.Add(after))
		if ok || p != (policy.Permit{}) || wait != 5*time.Second-after || b.Wait(t0.Add(after)) != wait {
			t.Errorf("after %v: %v %v, %v to wait", after, ok, p, wait)
		}
	}
	if p, wait, ok := b.Allow(t0.Add(5 * time.Second)); !ok || !p.Probe() || wait != 0 {
		t.Errorf("then: %v %v, %v to wait", ok, p, wait)
	}
}

func TestHalfOpenLetsProbesThroughAndNoMore(t *testing.T) {
	for _, probes := range []int{1, 2, 5} {
		b, now := halfOpen(t, quick(probes))
		var out []policy.Permit
		allow := func() bool {
			p, wait, ok := b.Allow(now)
			if ok {
				out = append(out, p)
			} else if wait <= 0 || wait > 5*time.Second {
				t.Errorf("%d probes: told to wait %v", probes, wait)
			}
			return ok
		}
		for allow() {
		}
		if len(out) != probes {
			t.Fatalf("%d probes: %d let through", probes, len(out))
		}
		// Who is cancelled frees one place, and only one.
		for range 3 {
			for _, p := range out[:probes] {
				b.Done(p, policy.Neutral, now, 0)
				if !allow() || allow() {
					t.Fatalf("%d probes: a cancelled one did not make room for one", probes)
				}
			}
			out = out[probes:]
		}
		// A good one frees its place to nobody: it is one fewer that is needed.
		for i, p := range out {
			if allow() {
				t.Fatalf("%d probes: one more after %d good ones", probes, i)
			}
			if _, reclosed := b.Done(p, policy.Good, now, 0); reclosed != (i == probes-1) {
				t.Fatalf("%d probes: closed %v after %d good ones", probes, reclosed, i+1)
			}
		}
		for range 100 {
			if !allow() {
				t.Fatalf("%d probes: closed and not letting through", probes)
			}
		}
		if b.Open(now) {
			t.Errorf("%d probes: still open", probes)
		}
	}
}

func TestBadProbeOpensAgain(t *testing.T) {
	b, now := halfOpen(t, quick(3))
	one, _, _ := b.Allow(now)
	two, _, _ := b.Allow(now)
	three, _, _ := b.Allow(now)
	b.Done(one, policy.Good, now, 0)
	if opened, _ := b.Done(two, policy.Bad, now, 0); !opened {
		t.Fatal("not opened")
	}
	if wait := b.Wait(now); wait != 10*time.Second {
		t.Errorf("open for %v", wait)
	}
	if opened, reclosed := b.Done(three, policy.Good, now, 0); opened || reclosed || b.Wait(now) != 10*time.Second {
		t.Error("the mark of a probe from before counted")
	}
	// And the good ones from before do not count in the next round either.
	now = now.Add(10 * time.Second)
	for i := range 3 {
		if _, reclosed := attempt(t, b, policy.Good, now); reclosed != (i == 2) {
			t.Errorf("good probe %d: closed %v", i+1, reclosed)
		}
	}
}

func TestHangingProbeDoesNotKeepItsPlace(t *testing.T) {
	b, now := halfOpen(t, quick(1))
	hangs, _, _ := b.Allow(now)
	if _, wait, ok := b.Allow(now.Add(5*time.Second - 1)); ok || wait != 1 {
		t.Fatalf("before the lease ends: %v, %v", ok, wait)
	}
	now = now.Add(5 * time.Second)
	second, _, ok := b.Allow(now)
	if !ok {
		t.Fatal("the place is still taken")
	}
	if _, _, ok := b.Allow(now); ok {
		t.Fatal("two at once within their lease")
	}
	// What is given back late frees no place of another.
	b.Done(hangs, policy.Neutral, now, 0)
	if _, _, ok := b.Allow(now); ok {
		t.Fatal("its end freed the place of another")
	}
	if _, reclosed := b.Done(second, policy.Good, now, 0); !reclosed {
		t.Fatal("not closed")
	}
}

// An endpoint whose answers take longer than a lease is found well all the same,
// or not.
func TestLateProbeIsHeard(t *testing.T) {
	for _, mark := range []policy.Mark{policy.Good, policy.Bad} {
		b, now := halfOpen(t, quick(1))
		slow, _, _ := b.Allow(now)
		now = now.Add(8 * time.Second)
		other, _, _ := b.Allow(now)
		opened, reclosed := b.Done(slow, mark, now, 0)
		if opened != (mark == policy.Bad) || reclosed != (mark == policy.Good) {
			t.Errorf("mark %v: opened %v, closed %v", mark, opened, reclosed)
		}
		if opened, reclosed := b.Done(other, policy.Bad, now, 0); opened || reclosed {
			t.Error("the other was heard after the change")
		}
	}
}

func TestMarksFromBeforeAChangeDoNotCount(t *testing.T) {
	b := policy.NewBreaker(quick(1), t0)
	var before []policy.Permit
	for range 4 {
		p, _, _ := b.Allow(t0)
		before = append(before, p)
	}
	attempt(t, b, policy.Bad, t0)
	quiet := func(p policy.Permit, m policy.Mark, now time.Time) {
		t.Helper()
		if opened, reclosed := b.Done(p, m, now, 0); opened || reclosed {
			t.Errorf("mark %v: opened %v, closed %v", m, opened, reclosed)
		}
	}
	quiet(before[0], policy.Good, t0) // open
	quiet(before[1], policy.Bad, t0)
	if b.Wait(t0) != 5*time.Second {
		t.Error("open for longer")
	}
	now := t0.Add(5 * time.Second)
	probe, _, _ := b.Allow(now)
	quiet(before[2], policy.Bad, now) // half-open
	b.Done(probe, policy.Good, now, 0)
	quiet(before[3], policy.Bad, now) // closed again
	quiet(policy.Permit{}, policy.Bad, now)
	if b.Open(now) {
		t.Error("opened by what was before")
	}
}

func TestNoPermitIsNone(t *testing.T) {
	b := policy.NewBreaker(quick(1), t0)
	if opened, _ := b.Done(policy.Permit{}, policy.Bad, t0, 0); opened || b.Open(t0) {
		t.Error("opened by an attempt that was never let through")
	}
}

func TestOpenTime(t *testing.T) {
	cfg := func(open, longest time.Duration) policy.BreakerConfig {
		c := quick(1)
		c.OpenFor, c.MaxOpenFor = open, longest
		return c
	}
	const s = time.Second
	for name, c := range map[string]struct {
		cfg    policy.BreakerConfig
		lo, hi []time.Duration // of each time in a row
	}{
		"doubling":                  {cfg(5*s, 60*s), []time.Duration{4 * s, 8 * s, 16 * s, 32 * s, 48 * s, 48 * s}, []time.Duration{5 * s, 10 * s, 20 * s, 40 * s, 60 * s, 60 * s}},
		"constant":                  {cfg(5*s, 5*s), []time.Duration{4 * s, 4 * s}, []time.Duration{5 * s, 5 * s}},
		"no max":                    {cfg(5*s, 0), []time.Duration{4 * s, 4 * s}, []time.Duration{5 * s, 5 * s}},
		"max is less than open_for": {cfg(60*s, 5*s), []time.Duration{4 * s, 4 * s}, []time.Duration{5 * s, 5 * s}},
		"for ever":                  {cfg(math.MaxInt64/2, math.MaxInt64), []time.Duration{math.MaxInt64 / 10 * 4, math.MaxInt64 / 5 * 4}, []time.Duration{math.MaxInt64 / 2, math.MaxInt64}},
		"none":                      {cfg(0, 0), []time.Duration{1, 1}, []time.Duration{1, 1}},
		"negative":                  {cfg(-s, -s), []time.Duration{1, 1}, []time.Duration{1, 1}},
	} {
		for random, at := range map[float64]func(lo, hi time.Duration) time.Duration{
			0:          func(lo, hi time.Duration) time.Duration { return hi },
			0.5:        func(lo, hi time.Duration) time.Duration { return lo + (hi-lo)/2 },
			1:          func(lo, hi time.Duration) time.Duration { return lo },
			math.NaN(): func(lo, hi time.Duration) time.Duration { return hi },
			7:          func(lo, hi time.Duration) time.Duration { return lo },
		} {
			b, now := policy.NewBreaker(c.cfg, t0), t0
			for i := range c.lo {
				p, _, ok := b.Allow(now)
				if !ok {
					t.Fatal(name, "not half-open in time")
				}
				b.Done(p, policy.Bad, now, random)
				want, got := at(c.lo[i], c.hi[i]), b.Wait(now)
				if off := (got - want).Abs(); off > 1 && off > want/1e9 {
					t.Errorf("%s, time %d, random %v: open for %v, want %v", name, i+1, random, got, want)
				}
				if longest := c.cfg.MaxOpenFor; got > longest && longest > 0 {
					t.Errorf("%s: open for %v, longer than %v", name, got, longest)
				}
				now = now.Add(min(got, 1000*time.Hour))
				if got > 1000*time.Hour {
					now = now.Add(got - 1000*time.Hour)
				}
			}
		}
	}
}

// However often it opens in a row.
func TestOpenTimeStaysAtItsMost(t *testing.T) {
	b, now := policy.NewBreaker(quick(1), t0), t0
	for range 10_000 {
		attempt(t, b, policy.Bad, now)
		wait := b.Wait(now)
		if wait <= 0 || wait > time.Minute {
			t.Fatalf("open for %v", wait)
		}
		now = now.Add(wait)
	}
	attempt(t, b, policy.Good, now)
	attempt(t, b, policy.Bad, now)
	if wait := b.Wait(now); wait != 5*time.Second {
		t.Errorf("once closed, open for %v", wait)
	}
}

func TestBreakerConfigure(t *testing.T) {
	change := func(f func(*policy.BreakerConfig)) policy.BreakerConfig {
		c := breakerConfig
		f(&c)
		return c
	}
	t.Run("what was counted stays", func(t *testing.T) {
		b := policy.NewBreaker(breakerConfig, t0)
		for range 19 {
			attempt(t, b, policy.Bad, t0)
		}
		b.Configure(change(func(c *policy.BreakerConfig) { c.Window = time.Minute }), t0.Add(time.Second))
		if opened, _ := attempt(t, b, policy.Bad, t0.Add(50*time.Second)); !opened {
			t.Error("forgotten by a longer window")
		}
	})
	t.Run("a shorter window", func(t *testing.T) {
		b := policy.NewBreaker(breakerConfig, t0)
		for range 19 {
			attempt(t, b, policy.Bad, t0)
		}
		b.Configure(change(func(c *policy.BreakerConfig) { c.Window = time.Second }), t0.Add(5*time.Second))
		if opened, _ := attempt(t, b, policy.Bad, t0.Add(5*time.Second)); opened {
			t.Error("what is too old by now counted")
		}
	})
	t.Run("open for no longer than allowed now", func(t *testing.T) {
		b := policy.NewBreaker(change(func(c *policy.BreakerConfig) { c.OpenFor, c.MinRequests = time.Minute, 1 }), t0)
		attempt(t, b, policy.Bad, t0)
		now := t0.Add(time.Second)
		b.Configure(change(func(c *policy.BreakerConfig) { c.OpenFor, c.MaxOpenFor = time.Second, 7*time.Second }), now)
		if wait := b.Wait(now); wait != 7*time.Second {
			t.Errorf("open for another %v", wait)
		}
		b.Configure(breakerConfig, now)
		if wait := b.Wait(now); wait != 7*time.Second {
			t.Errorf("open for another %v by a longer one", wait)
		}
	})
	t.Run("none any more", func(t *testing.T) {
		b, now := halfOpen(t, quick(1))
		probe, _, _ := b.Allow(now)
		b.Configure(policy.BreakerConfig{}, now)
		if b.Open(now) || b.Wait(now) != 0 {
			t.Error("still open")
		}
		b.Done(probe, policy.Bad, now, 0)
		for range 100 {
			if opened, _ := attempt(t, b, policy.Bad, now); opened {
				t.Fatal("opened without being a breaker")
			}
		}
		b.Configure(quick(1), now)
		attempt(t, b, policy.Bad, now)
		if wait := b.Wait(now); wait != 5*time.Second {
			t.Errorf("once it is one again, open for %v", wait)
		}
	})
	t.Run("fewer probes than are good already", func(t *testing.T) {
		b, now := halfOpen(t, quick(5))
		for range 3 {
			attempt(t, b, policy.Good, now)
		}
		b.Configure(quick(3), now)
		if b.Open(now) {
			t.Error("not closed")
		}
		b, now = halfOpen(t, quick(5))
		var out []policy.Permit
		for range 5 {
			p, _, _ := b.Allow(now)
			out = append(out, p)
		}
		b.Configure(quick(2), now)
		b.Done(out[0], policy.Good, now, 0)
		if _, _, ok := b.Allow(now); ok {
			t.Error("another one while four are under way")
		}
		if _, reclosed := b.Done(out[1], policy.Good, now, 0); !reclosed {
			t.Error("not closed by two good ones")
		}
	})
	t.Run("a probe keeps its place for no longer than allowed now", func(t *testing.T) {
		long := quick(1)
		long.OpenFor, long.MaxOpenFor = time.Hour, time.Hour
		b, now := halfOpen(t, long)
		b.Allow(now)
		b.Configure(quick(1), now)
		if wait := b.Wait(now); wait != 5*time.Second {
			t.Errorf("for another %v", wait)
		}
	})
	t.Run("more probes", func(t *testing.T) {
		b, now := halfOpen(t, quick(1))
		first, _, _ := b.Allow(now)
		b.Configure(quick(2), now)
		second, _, ok := b.Allow(now)
		if !ok {
			t.Fatal("not let through")
		}
		if _, reclosed := b.Done(first, policy.Good, now, 0); reclosed {
			t.Error("closed by the first of two")
		}
		if _, reclosed := b.Done(second, policy.Good, now, 0); !reclosed {
			t.Error("not closed by both")
		}
	})
}

// However many come at once, as many go to a half-open endpoint as there are
// probes.
func TestHalfOpenUnderACrowd(t *testing.T) {
	for _, probes := range []int{1, 3} {
		b, now := halfOpen(t, quick(probes))
		var let atomic.Int32
		var crowd sync.WaitGroup
		for range 16 {
			crowd.Go(func() {
				for range 200 {
					p, _, ok := b.Allow(now)
					if !ok {
						continue
					}
					if n := let.Add(1); int(n) > probes {
						t.Errorf("%d at once", n)
					}
					b.Wait(now)
					let.Add(-1)
					b.Done(p, policy.Neutral, now, 0)
				}
			})
		}
		crowd.Wait()
		if b.Wait(now) != 0 {
			t.Error("a place was lost")
		}
	}
}

func TestBreakerAllocatesNothing(t *testing.T) {
	b := policy.NewBreaker(breakerConfig, t0)
	now := t0
	if n := testing.AllocsPerRun(1000, func() {
		now = now.Add(ms)
		p, _, _ := b.Allow(now)
		b.Done(p, policy.Good, now, 0.5)
		b.Wait(now)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkBreaker(b *testing.B) {
	br := policy.NewBreaker(breakerConfig, t0)
	now := t0
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Millisecond)
		p, _, _ := br.Allow(now)
		br.Done(p, policy.Good, now, 0.5)
	}
}
