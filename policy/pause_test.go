package policy_test

import (
	"sync"
	"testing"
	"time"

	"mulligan/policy"
)

func TestPause(t *testing.T) {
	const s = time.Second
	type hold struct {
		key uint64
		d   time.Duration
	}
	type left struct{ everybody, one, two time.Duration }
	for name, c := range map[string]struct {
		holds []hold
		after time.Duration
		want  left
	}{
		"nothing":                           {nil, 0, left{}},
		"everybody":                         {[]hold{{policy.Everybody, 9 * s}}, 0, left{9 * s, 9 * s, 9 * s}},
		"one's credentials":                 {[]hold{{1, 9 * s}}, 0, left{0, 9 * s, 0}},
		"one's, for less than everybody":    {[]hold{{1, 5 * s}, {policy.Everybody, 9 * s}}, 0, left{9 * s, 9 * s, 9 * s}},
		"one's, for more than everybody":    {[]hold{{1, 9 * s}, {policy.Everybody, 5 * s}}, 0, left{5 * s, 9 * s, 5 * s}},
		"each their own":                    {[]hold{{1, 9 * s}, {2, 5 * s}}, 0, left{0, 9 * s, 5 * s}},
		"what is left":                      {[]hold{{1, 9 * s}, {policy.Everybody, 5 * s}}, 4 * s, left{1 * s, 5 * s, 1 * s}},
		"over":                              {[]hold{{1, 9 * s}, {policy.Everybody, 5 * s}}, 9 * s, left{}},
		"a longer one first":                {[]hold{{1, 9 * s}, {1, s}, {policy.Everybody, 5 * s}, {policy.Everybody, s}}, 0, left{5 * s, 9 * s, 5 * s}},
		"a longer one later":                {[]hold{{1, s}, {1, 9 * s}, {policy.Everybody, s}, {policy.Everybody, 5 * s}}, 0, left{5 * s, 9 * s, 5 * s}},
		"until now, or before":              {[]hold{{1, 0}, {policy.Everybody, -s}}, 0, left{}},
		"a clock that is behind by a while": {[]hold{{1, 9 * s}}, -s, left{0, 10 * s, 0}},
	} {
		var p policy.Pause
		held := false
		for _, h := range c.holds {
			p.Hold(h.key, t0.Add(h.d), t0)
			held = held || h.d > 0
		}
		now := t0.Add(c.after)
		if got := (left{p.Left(policy.Everybody, now), p.Left(1, now), p.Left(2, now)}); got != c.want {
			t.Errorf("%s: left %v, want %v", name, got, c.want)
		}
		if p.Any() != held {
			t.Errorf("%s: Any is %v", name, p.Any())
		}
	}
}

// What is kept is bounded: what is over goes first, else what is over soonest.
func TestPauseIsBounded(t *testing.T) {
	const bound = 1024
	var p policy.Pause
	for key := uint64(1); key <= bound; key++ {
		p.Hold(key, t0.Add(time.Hour+time.Duration(key)*time.Second), t0)
	}
	p.Hold(7777, t0.Add(2*time.Hour), t0)
	held := func(now time.Time) (n int) {
		for key := range uint64(62_000) {
			if key != policy.Everybody && p.Left(key, now) > 0 {
				n++
			}
		}
		return n
	}
	if n := held(t0); n != bound || p.Left(1, t0) != 0 || p.Left(2, t0) == 0 || p.Left(7777, t0) != 2*time.Hour {
		t.Errorf("%d are held back; the first for %v, the last for %v", n, p.Left(1, t0), p.Left(7777, t0))
	}
	// A crowd of short ones does not push out the long ones.
	for key := uint64(50_000); key < 51_500; key++ {
		p.Hold(key, t0.Add(time.Second), t0)
	}
	if n := held(t0); n != bound || p.Left(7777, t0) != 2*time.Hour {
		t.Errorf("%d are held back after a crowd", n)
	}
	// Once all are over the next one has room, and what is over leaves no trace.
	late := t0.Add(3 * time.Hour)
	for key := uint64(60_000); key < 60_000+bound; key++ {
		p.Hold(key, late.Add(time.Second), late)
	}
	if n := held(late); n != bound {
		t.Errorf("%d are held back later", n)
	}
}

func TestPauseUnderACrowd(t *testing.T) {
	var p policy.Pause
	var crowd sync.WaitGroup
	for g := range uint64(8) {
		crowd.Go(func() {
			for i := range uint64(300) {
				p.Hold(g*1000+i, t0.Add(time.Duration(i)), t0)
				p.Left(i, t0)
				p.Any()
			}
		})
	}
	crowd.Wait()
}

func TestPauseThatHoldsNothingAllocatesNothing(t *testing.T) {
	var p policy.Pause
	if n := testing.AllocsPerRun(1000, func() { p.Left(1, t0) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
