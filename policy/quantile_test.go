package policy_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"mulligan/policy"
)

func TestP95(t *testing.T) {
	up := func(n int) (all []time.Duration) {
		for i := range n {
			all = append(all, time.Duration(i+1)*ms)
		}
		return all
	}
	for name, c := range map[string]struct {
		added []time.Duration
		want  time.Duration
		ok    bool
	}{
		"none":                         {nil, 0, false},
		"too few":                      {up(19), 0, false},
		"just enough: one is above":    {up(20), 19 * ms, true},
		"a hundred":                    {up(100), 95 * ms, true},
		"all alike":                    {slices.Repeat([]time.Duration{7 * ms}, 300), 7 * ms, true},
		"one of twenty is slow":        {append(slices.Repeat([]time.Duration{ms}, 19), time.Minute), ms, true},
		"two of twenty are":            {append(slices.Repeat([]time.Duration{ms}, 18), time.Minute, time.Minute), time.Minute, true},
		"only the latest 256 count":    {append(slices.Repeat([]time.Duration{time.Minute}, 500), slices.Repeat([]time.Duration{ms}, 260)...), ms, true},
		"a fifth is slow, of late":     {append(slices.Repeat([]time.Duration{ms}, 1000), slices.Repeat([]time.Duration{time.Second}, 64)...), time.Second, true},
		"none of them took any time":   {make([]time.Duration, 20), 0, true},
		"the slow ones do not come on": {append(slices.Repeat([]time.Duration{ms}, 1000), slices.Repeat([]time.Duration{time.Second}, 12)...), ms, true},
	} {
		var r policy.Recent
		for _, d := range c.added {
			r.Add(d)
		}
		got, ok := r.P95()
		if got != c.want || ok != c.ok {
			t.Errorf("%s: %v, %v, want %v, %v", name, got, ok, c.want, c.ok)
		}
	}
}

// Compared with sorting them all and counting.
func TestP95AgainstSorting(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	var recent policy.Recent
	var all []time.Duration
	for n := 1; n <= 2000; n++ {
		d := time.Duration(r.ExpFloat64() * float64(50*ms))
		recent.Add(d)
		all = append(all, d)
		if n < 20 || n > 300 && n%7 != 0 {
			continue
		}
		latest := slices.Sorted(slices.Values(all[max(0, n-256):]))
		// The least that at least 95 of 100 are not above.
		want := time.Duration(-1)
		for i, d := range latest {
			if notAbove := i + 1; notAbove*100 >= len(latest)*95 {
				want = d
				break
			}
		}
		if got, ok := recent.P95(); !ok || got != want {
			t.Fatalf("after %d: %v, %v, want %v", n, got, ok, want)
		}
	}
}

func TestRecentUnderACrowd(t *testing.T) {
	var r policy.Recent
	var crowd sync.WaitGroup
	for range 8 {
		crowd.Go(func() {
			for i := range 2000 {
				r.Add(time.Duration(i))
				r.P95()
			}
		})
	}
	crowd.Wait()
	if _, ok := r.P95(); !ok {
		t.Error("nothing is known")
	}
}

func TestRecentAllocatesNothing(t *testing.T) {
	var r policy.Recent
	if n := testing.AllocsPerRun(1000, func() { r.Add(ms); r.P95() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRecent(b *testing.B) {
	var r policy.Recent
	random := rand.New(rand.NewPCG(1, 2))
	b.ReportAllocs()
	for b.Loop() {
		r.Add(time.Duration(random.Int64N(int64(time.Second))))
		r.P95()
	}
}
