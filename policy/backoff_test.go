package policy_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"mulligan/policy"
)

const ms = time.Millisecond

func TestBase(t *testing.T) {
	for _, tt := range []struct {
		name string
		b    policy.Backoff
		want []time.Duration
	}{
		{"exponential", policy.Backoff{Strategy: policy.Exponential, Initial: 250 * ms, Max: 5000 * ms, Multiplier: 3},
			[]time.Duration{250 * ms, 750 * ms, 2250 * ms, 5000 * ms, 5000 * ms}},
		{"exponential by 1", policy.Backoff{Strategy: policy.Exponential, Initial: 250 * ms, Max: 5000 * ms, Multiplier: 1},
			[]time.Duration{250 * ms, 250 * ms}},
		{"exponential by 1.5", policy.Backoff{Strategy: policy.Exponential, Initial: 100 * ms, Max: 5000 * ms, Multiplier: 1.5},
			[]time.Duration{100 * ms, 150 * ms, 225 * ms}},
		{"exponential that shrinks", policy.Backoff{Strategy: policy.Exponential, Initial: 100 * ms, Max: 5000 * ms, Multiplier: 0.5},
			[]time.Duration{100 * ms, 50 * ms, 25 * ms}},
		{"linear", policy.Backoff{Strategy: policy.Linear, Initial: 250 * ms, Max: 700 * ms, Multiplier: 3},
			[]time.Duration{250 * ms, 500 * ms, 700 * ms, 700 * ms}},
		{"constant", policy.Backoff{Strategy: policy.Constant, Initial: 250 * ms, Max: 700 * ms, Multiplier: 3},
			[]time.Duration{250 * ms, 250 * ms, 250 * ms}},
		{"initial over max", policy.Backoff{Strategy: policy.Constant, Initial: 900 * ms, Max: 700 * ms},
			[]time.Duration{700 * ms, 700 * ms}},
	} {
		for i, want := range tt.want {
			if got := tt.b.Base(i + 1); got != want {
				t.Errorf("%s: base(%d) = %v, want %v", tt.name, i+1, got, want)
			}
		}
		if got := tt.b.Base(0); got != tt.want[0] {
			t.Errorf("%s: base(0) = %v", tt.name, got)
		}
	}
}

func TestInterval(t *testing.T) {
	b := policy.Backoff{Strategy: policy.Linear, Initial: 100 * ms, Max: 250 * ms}
	for _, tt := range []struct {
		jitter       policy.Jitter
		n            int
		prev, lo, hi time.Duration
	}{
		{policy.NoJitter, 1, 0, 100 * ms, 100 * ms},
		{policy.NoJitter, 9, 0, 250 * ms, 250 * ms},
		{policy.Full, 1, 0, 0, 100 * ms},
		{policy.Full, 9, 0, 0, 250 * ms},
		{policy.Equal, 2, 0, 100 * ms, 200 * ms},
		{policy.Equal, 9, 0, 125 * ms, 250 * ms},
		{policy.Proportional, 1, 0, 50 * ms, 150 * ms},
		{policy.Proportional, 2, 0, 100 * ms, 250 * ms}, // 300, but for the cap
		{policy.Proportional, 9, 0, 125 * ms, 250 * ms},
		{policy.Decorrelated, 1, 0, 100 * ms, 250 * ms}, // 300, but for the cap
		{policy.Decorrelated, 5, 70 * ms, 100 * ms, 210 * ms},
		{policy.Decorrelated, 5, 20 * ms, 100 * ms, 100 * ms},
		{policy.Decorrelated, 5, 200 * ms, 100 * ms, 250 * ms},
		{policy.Decorrelated, 5, math.MaxInt64, 100 * ms, 250 * ms},
	} {
		b.Jitter = tt.jitter
		if lo, hi := b.Interval(tt.n, tt.prev); lo != tt.lo || hi != tt.hi {
			t.Errorf("%v, n=%d, prev=%v: [%v, %v], want [%v, %v]", tt.jitter, tt.n, tt.prev, lo, hi, tt.lo, tt.hi)
		}
	}
}

// absurd values for what configuration or a bug might hand over.
var (
	durations   = []time.Duration{math.MinInt64, -1, 0, 1, 2, 3, 999, ms, 250 * ms, time.Second, time.Hour, 1 << 53, 1<<53 + 1, 1 << 60, 1<<60 + 1, math.MaxInt64 - 1, math.MaxInt64}
	multipliers = []float64{math.Inf(-1), -3, -0.5, 0, math.SmallestNonzeroFloat64, 0.1, 1, 1.0000001, 1.5, 2, 3, 10, 1e18, math.MaxFloat64, math.Inf(1), math.NaN()}
	randoms     = []float64{math.Inf(-1), -1, 0, math.SmallestNonzeroFloat64, 0.25, 0.5, math.Nextafter(1, 0), 1, 2, math.Inf(1), math.NaN()}
)

func TestWaitStaysInItsInterval(t *testing.T) {
	check := func(b policy.Backoff, n int, prev time.Duration, random float64) {
		t.Helper()
		lo, hi := b.Interval(n, prev)
		wait := b.Wait(n, prev, random)
		if lo < 0 || hi < lo || hi > max(0, b.Max) || wait < lo || wait > hi {
			t.Fatalf("%+v n=%d prev=%d random=%v: wait %d in [%d, %d]", b, n, prev, random, wait, lo, hi)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	attempts := []int{math.MinInt, -1, 0, 1, 2, 3, 4, 63, 64, 65, 10_000, math.MaxInt}
	for jitter := policy.Full; jitter <= policy.NoJitter; jitter++ {
		for strategy := policy.Exponential; strategy <= policy.Constant; strategy++ {
			for _, initial := range durations {
				for _, maximum := range durations {
					for _, m := range multipliers {
						b := policy.Backoff{Strategy: strategy, Initial: initial, Max: maximum, Multiplier: m, Jitter: jitter}
						for _, n := range attempts {
							check(b, n, durations[rng.IntN(len(durations))], randoms[rng.IntN(len(randoms))])
						}
					}
				}
			}
			b := policy.Backoff{Strategy: strategy, Initial: 250 * ms, Max: 5 * time.Second, Multiplier: 3, Jitter: jitter}
			prev := time.Duration(0)
			for n := range 10_001 {
				random := rng.Float64()
				check(b, n, prev, random)
				prev = b.Wait(n, prev, random)
			}
		}
	}
}

// Base never shrinks with n (unless the multiplier makes it) and reaches the cap.
func TestBaseGrowsToTheCap(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		b := policy.Backoff{
			Strategy:   policy.Strategy(rng.IntN(2)),
			Initial:    1 + time.Duration(rng.Int64N(int64(time.Hour))),
			Max:        1 + time.Duration(rng.Int64N(int64(time.Hour))),
			Multiplier: 1.1 + 10*rng.Float64(),
		}
		last := time.Duration(0)
		for n := 1; n <= 10_000; n++ {
			base := b.Base(n)
			if base < last || base > b.Max {
				t.Fatalf("%+v: base(%d) = %v after %v", b, n, base, last)
			}
			last = base
		}
		if b.Strategy == policy.Exponential && last != b.Max {
			t.Fatalf("%+v: ends at %v", b, last)
		}
	}
}

// Waits are uniform over their interval, at the cap as before it: each of ten
// parts gets its tenth, within five standard deviations.
func TestWaitsAreSpread(t *testing.T) {
	const draws, parts = 100_000, 10
	rng := rand.New(rand.NewPCG(5, 6))
	limit := 5 * math.Sqrt(draws*0.1*0.9)
	for jitter := policy.Full; jitter < policy.NoJitter; jitter++ {
		for _, n := range []int{1, 2, 3, 20, 10_000} {
			b := policy.Backoff{Initial: 250 * ms, Max: 5 * time.Second, Multiplier: 3, Jitter: jitter}
			const prev = 2 * time.Second // thrice that is over the cap
			lo, hi := b.Interval(n, prev)
			if hi <= lo {
				t.Fatalf("%v n=%d: no interval", jitter, n)
			}
			var counts [parts]int
			for range draws {
				wait := b.Wait(n, prev, rng.Float64())
				counts[min(parts-1, (wait-lo)*parts/(hi-lo))]++
			}
			for i, c := range counts {
				if math.Abs(float64(c)-draws/parts) > limit {
					t.Errorf("%v n=%d: part %d of the interval got %d of %d", jitter, n, i, c, draws)
				}
			}
		}
	}
}

func TestBackoffNames(t *testing.T) {
	for s := policy.Exponential; s <= policy.Constant; s++ {
		if got, ok := policy.ParseStrategy(s.String()); !ok || got != s {
			t.Errorf("strategy %q: %d, %v", s, got, ok)
		}
	}
	for j := policy.Full; j <= policy.NoJitter; j++ {
		if got, ok := policy.ParseJitter(j.String()); !ok || got != j {
			t.Errorf("jitter %q: %d, %v", j, got, ok)
		}
	}
	if _, ok := policy.ParseStrategy("full"); ok {
		t.Error("full is no strategy")
	}
	if _, ok := policy.ParseJitter(""); ok {
		t.Error(`"" is no jitter`)
	}
	if s := policy.Strategy(9).String() + policy.Jitter(9).String(); s != "" {
		t.Errorf("what has no name is called %q", s)
	}
}
