package policy_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"mulligan/policy"
)

func TestChoose(t *testing.T) {
	const idle, skip = 0, -1
	load := func(inFlight int, latency time.Duration) policy.Load {
		if inFlight == skip {
			return policy.Load{Skip: true}
		}
		return policy.Load{InFlight: inFlight, Latency: latency}
	}
	for name, c := range map[string]struct {
		loads []policy.Load
		want  int // whatever is drawn; -2: either of two
	}{
		"none":                          {nil, -1},
		"none but those to be skipped":  {[]policy.Load{load(skip, 0), load(skip, 0)}, -1},
		"one":                           {[]policy.Load{load(9, time.Minute)}, 0},
		"one not to be skipped":         {[]policy.Load{load(skip, 0), load(9, time.Minute), load(skip, 0)}, 1},
		"fewer under way":               {[]policy.Load{load(3, 10*ms), load(2, 10*ms)}, 1},
		"faster":                        {[]policy.Load{load(1, 10*ms), load(1, 20*ms)}, 0},
		"fast and busy, slow and idle":  {[]policy.Load{load(9, 10*ms), load(idle, 90*ms)}, 1},
		"fast and busy, slower by more": {[]policy.Load{load(9, 10*ms), load(idle, 110*ms)}, 0},
		"very fast, both":               {[]policy.Load{load(1, 10), load(idle, 900*1000)}, 1},
		"one unknown, and idle":         {[]policy.Load{load(1, 10*ms), load(idle, 0)}, 1},
		"one unknown, and busier":       {[]policy.Load{load(1, time.Minute), load(2, 0)}, 0},
		"both unknown":                  {[]policy.Load{load(1, 0), load(idle, 0)}, 1},
		"alike":                         {[]policy.Load{load(1, 10*ms), load(1, 10*ms)}, -2},
		"unknown and alike":             {[]policy.Load{load(1, 0), load(1, 10*ms)}, -2},
		"as much as there can be":       {[]policy.Load{load(math.MaxInt, math.MaxInt64), load(math.MaxInt, ms)}, 1},
	} {
		seen := map[int]bool{}
		for _, one := range randoms {
			for _, two := range randoms {
				seen[policy.Choose(c.loads, one, two)] = true
			}
		}
		if c.want == -2 && (!seen[0] || !seen[1] || len(seen) != 2) || c.want != -2 && (len(seen) != 1 || !seen[c.want]) {
			t.Errorf("%s: chose %v, want %d", name, seen, c.want)
		}
	}
}

// Of equals each gets its share, those to be skipped none, and each pair is drawn.
func TestChooseIsFair(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	loads := make([]policy.Load, 9)
	for i := range loads {
		loads[i].Skip = i%3 == 1
	}
	const n = 60_000
	chosen := make([]int, len(loads))
	for range n {
		chosen[policy.Choose(loads, r.Float64(), r.Float64())]++
	}
	for i, got := range chosen {
		if want := n / 6; loads[i].Skip && got != 0 || !loads[i].Skip && (got < want*9/10 || got > want*11/10) {
			t.Errorf("endpoint %d (skip %v): chosen %d times of %d", i, loads[i].Skip, got, n)
		}
	}
	// The one with most to do is chosen never: of two there is always another.
	loads[0].InFlight = 1
	for range n {
		if policy.Choose(loads, r.Float64(), r.Float64()) == 0 {
			t.Fatal("chose the one with more to do than all others")
		}
	}
}

func TestLatency(t *testing.T) {
	type seen struct {
		after  time.Duration // the one before
		took   time.Duration
		failed bool
	}
	near := func(got, want time.Duration) bool { return (got - want).Abs() <= want/100 }
	tau := 10 * time.Second
	for name, c := range map[string]struct {
		seen []seen
		want time.Duration
	}{
		"nothing":                   {nil, 0},
		"one":                       {[]seen{{0, 20 * ms, false}}, 20 * ms},
		"slower: at once":           {[]seen{{0, 20 * ms, false}, {0, 900 * ms, false}}, 900 * ms},
		"faster: not at once":       {[]seen{{0, 900 * ms, false}, {0, 20 * ms, false}}, 900 * ms},
		"faster: with time":         {[]seen{{0, 1000 * ms, false}, {tau, 0, false}}, 368 * ms},
		"faster: in the end":        {[]seen{{0, time.Minute, false}, {20 * tau, 20 * ms, false}}, 20 * ms},
		"failed at once":            {[]seen{{0, 0, true}}, 10 * ms},
		"failed slowly":             {[]seen{{0, time.Second, true}}, 1010 * ms},
		"failed again":              {[]seen{{0, 0, true}, {0, 0, true}, {0, 0, true}}, 40 * ms},
		"failed where it was slow":  {[]seen{{0, time.Second, false}, {0, ms, true}}, 1010 * ms},
		"one failure fades soon":    {[]seen{{0, ms, false}, {0, 0, true}, {10 * time.Second, ms, false}}, ms + 67*time.Microsecond},
		"at most":                   {[]seen{{0, math.MaxInt64, false}}, time.Minute},
		"took less than no time":    {[]seen{{0, -time.Second, false}}, 1},
		"took no time, is known":    {[]seen{{0, 0, false}}, 1},
		"a clock that goes back":    {[]seen{{0, 900 * ms, false}, {-tau, 20 * ms, false}}, 900 * ms},
		"and on: counts from later": {[]seen{{0, 900 * ms, false}, {-tau, 20 * ms, false}, {tau, 0, false}}, 900 * ms},
	} {
		var l policy.Latency
		now := t0
		for _, s := range c.seen {
			now = now.Add(s.after)
			l.Observe(s.took, s.failed, now)
		}
		if got := l.Value(now, 0); !near(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}

	var l policy.Latency
	for range 100 {
		l.Observe(0, true, t0)
	}
	if got := l.Value(t0, 0); !near(got, 10*time.Second) {
		t.Errorf("after 100 failures: %v", got)
	}
	l.Forget()
	if got := l.Value(t0, 0); got != 0 {
		t.Errorf("forgotten: %v", got)
	}
	l.Observe(time.Minute, false, t0)
	for after, want := range map[time.Duration]time.Duration{
		-tau: time.Minute, 0: time.Minute, tau: 22073 * ms, 10 * tau: 2724 * time.Microsecond, math.MaxInt64: 1,
	} {
		if got := l.Value(t0.Add(after), 0); !near(got, want) {
			t.Errorf("%v later: %v, want %v", after, got, want)
		}
		if got := l.Value(t0.Add(after), 1); got != time.Minute {
			t.Errorf("%v later, with one under way: %v", after, got)
		}
	}
}

// TestBalanceOfUnequals plays two endpoints, of which one answers in 10 ms and the
// other in 1 s. The slow one gets what tells how it is by now, and never a crowd.
func TestBalanceOfUnequals(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	took := []time.Duration{10 * ms, time.Second}
	var latency [2]policy.Latency
	var under [2][]time.Time // when each attempt under way began
	var got [2]int
	most := 0
	for tick := range 120_000 { // of 1 ms: two minutes, a request each
		now := t0.Add(time.Duration(tick) * ms)
		loads := make([]policy.Load, 2)
		for i := range loads {
			for len(under[i]) > 0 && now.Sub(under[i][0]) >= took[i] {
				latency[i].Observe(took[i], false, now)
				under[i] = under[i][1:]
			}
			n := len(under[i])
			loads[i] = policy.Load{InFlight: n, Latency: latency[i].Value(now, n)}
		}
		i := policy.Choose(loads, r.Float64(), r.Float64())
		under[i] = append(under[i], now)
		got[i]++
		most = max(most, len(under[1]))
	}
	if share := float64(got[1]) / float64(got[0]); share > 0.01 || got[1] < 5 {
		t.Errorf("the slow one got %d, the fast one %d", got[1], got[0])
	}
	if most > 20 {
		t.Errorf("%d at once went to the slow one", most)
	}
}

func TestChooseAllocatesNothing(t *testing.T) {
	loads := make([]policy.Load, 8)
	var l policy.Latency
	if n := testing.AllocsPerRun(1000, func() {
		i := policy.Choose(loads, 0.3, 0.7)
		l.Observe(ms, false, t0)
		loads[i].Latency = l.Value(t0, 1)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkChoose(b *testing.B) {
	loads := make([]policy.Load, 2)
	var l policy.Latency
	now := t0
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(ms)
		i := policy.Choose(loads, 0.3, 0.7)
		l.Observe(ms, false, now)
		loads[i].Latency = l.Value(now, 0)
	}
}

// TestFastEndpointsAreEqual: a few milliseconds are no reason to leave out an
// endpoint; many are.
func TestFastEndpointsAreEqual(t *testing.T) {
	for _, tt := range []struct {
		other time.Duration
		want  int // for the other, of two draws
	}{{2 * time.Millisecond, 1}, {9 * time.Millisecond, 1}, {50 * time.Millisecond, 0}} {
		loads := []policy.Load{{Latency: 2 * time.Millisecond}, {Latency: tt.other}}
		if got := policy.Choose(loads, 0, 0) + policy.Choose(loads, 0.9, 0); got != tt.want {
			t.Errorf("%v: %d of 2 go there, want %d", tt.other, got, tt.want)
		}
	}
}
