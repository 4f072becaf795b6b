package policy_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"mulligan/policy"
)

// breakerModel is a circuit breaker written for being read: it keeps every mark
// and every probe.
type breakerModel struct {
	cfg    policy.BreakerConfig
	phase  string
	since  int // changes of the phase so far
	until  time.Time
	inRow  int
	marks  []modelMark
	leases map[int]time.Time // probes' numbers → end of lease
	good   int
}

type modelMark struct {
	at  time.Time
	bad bool
}

func (m *breakerModel) change(phase string) {
	m.phase, m.marks, m.leases, m.good = phase, nil, map[int]time.Time{}, 0
	m.since++
}

func (m *breakerModel) turn(now time.Time) {
	if m.phase == "open" && !now.Before(m.until) {
		m.change("half-open")
	}
	for n, end := range m.leases {
		if !now.Before(end) {
			delete(m.leases, n)
		}
	}
}

func (m *breakerModel) allows(now time.Time) bool {
	m.turn(now)
	return m.phase == "closed" || m.phase == "half-open" && m.good+len(m.leases) < m.cfg.Probes
}

// done returns what changes.
func (m *breakerModel) done(p *modelPermit, mark policy.Mark, now time.Time) (opened, reclosed bool) {
	m.turn(now)
	if p.since != m.since {
		return false, false
	}
	delete(m.leases, p.number)
	switch {
	case mark == policy.Neutral:
	case m.phase == "half-open" && mark == policy.Bad:
		return true, false
	case m.phase == "half-open":
		m.good++
		return false, m.good == m.cfg.Probes
	default:
		m.marks = append(m.marks, modelMark{now, mark == policy.Bad})
		all, bad := m.window(now)
		ratio := float64(bad) / float64(all)
		return all >= m.cfg.MinRequests && ratio >= m.cfg.FailureRatio && (mark == policy.Bad || all == m.cfg.MinRequests), false
	}
	return false, false
}

// window counts what is in it, in 32 slots of which the newest is the one of now.
func (m *breakerModel) window(now time.Time) (all, bad int) {
	slot := func(t time.Time) int64 { return int64(t.Sub(t0) / (m.cfg.Window / 32)) }
	m.marks = slices.DeleteFunc(m.marks, func(k modelMark) bool { return slot(k.at) <= slot(now)-32 })
	for _, k := range m.marks {
		all++
		if k.bad {
			bad++
		}
	}
	return all, bad
}

type modelPermit struct {
	permit policy.Permit
	since  int
	number int
	lease  time.Time
	probe  bool
}

// TestBreakerAgainstModel interleaves attempts that end well, badly, not at all or
// very late, at random, and compares each answer with the model's.
func TestBreakerAgainstModel(t *testing.T) {
	var changes, refused, hung, late int
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 4))
		cfg := policy.BreakerConfig{
			FailureRatio: []float64{0.1, 0.5, 1}[r.IntN(3)], MinRequests: 1 + r.IntN(8), Window: 3200 * ms,
			OpenFor: time.Duration(1+r.IntN(1000)) * ms, MaxOpenFor: time.Duration(1000+r.IntN(5000)) * ms, Probes: 1 + r.IntN(4),
		}
		b, now := policy.NewBreaker(cfg, t0), t0
		m := &breakerModel{cfg: cfg}
		m.change("closed")
		var out []*modelPermit
		illness := 0.0
		for step := range 1000 {
			if r.IntN(50) == 0 {
				illness = r.Float64() // the endpoint is sometimes better, sometimes worse
			}
			if r.IntN(3) > 0 {
				now = now.Add(time.Duration(r.ExpFloat64() * float64(40*ms)))
			}
			switch r.IntN(5) {
			case 0, 1:
				want := m.allows(now)
				if quiet := b.Wait(now) == 0; quiet != want {
					t.Fatalf("seed %d step %d: Wait %v in phase %s", seed, step, b.Wait(now), m.phase)
				}
				p, wait, ok := b.Allow(now)
				if ok != want || p.Probe() != (ok && m.phase == "half-open") {
					t.Fatalf("seed %d step %d: let through %v as probe %v in phase %s with %d good and %d out", seed, step, ok, p.Probe(), m.phase, m.good, len(m.leases))
				}
				if !ok {
					refused++
					if m.phase == "open" && wait != m.until.Sub(now) || wait <= 0 || wait > cfg.MaxOpenFor {
						t.Fatalf("seed %d step %d: told to wait %v", seed, step, wait)
					}
					continue
				}
				mine := &modelPermit{permit: p, since: m.since, number: step, lease: now.Add(cfg.OpenFor), probe: p.Probe()}
				if mine.probe {
					m.leases[step] = mine.lease
				}
				out = append(out, mine)
			case 2, 3:
				if len(out) == 0 {
					continue
				}
				i := r.IntN(len(out))
				p := out[i]
				mark := []policy.Mark{policy.Good, policy.Neutral}[r.IntN(8)/7]
				if r.Float64() < illness {
					mark = policy.Bad
				}
				if p.since != m.since {
					late++
				} else if p.probe && !now.Before(p.lease) {
					hung++
				}
				out = append(out[:i], out[i+1:]...)
				wantOpened, wantReclosed := m.done(p, mark, now)
				opened, reclosed := b.Done(p.permit, mark, now, r.Float64())
				if opened != wantOpened || reclosed != wantReclosed {
					t.Fatalf("seed %d step %d: mark %v in phase %s: opened %v, closed %v, want %v, %v", seed, step, mark, m.phase, opened, reclosed, wantOpened, wantReclosed)
				}
				switch {
				case opened:
					changes++
					least := min(cfg.OpenFor<<min(m.inRow, 20), cfg.MaxOpenFor)
					if wait := b.Wait(now); wait < least*4/5-1 || wait > least {
						t.Fatalf("seed %d step %d: open for %v after %d times in a row", seed, step, wait, m.inRow)
					}
					m.until = now.Add(b.Wait(now))
					m.inRow++
					m.change("open")
				case reclosed:
					changes++
					m.inRow = 0
					m.change("closed")
				}
			}
			// The promise, told apart from the model.
			probes := 0
			for _, p := range out {
				if p.probe && p.since == m.since && now.Before(p.lease) {
					probes++
				}
			}
			if probes > cfg.Probes {
				t.Fatalf("seed %d step %d: %d probes under way, and none of them hangs", seed, step, probes)
			}
			if b.Open(now) != (m.phase != "closed") {
				t.Fatalf("seed %d step %d: Open is %v in phase %s", seed, step, b.Open(now), m.phase)
			}
		}
	}
	if changes < 500 || refused < 500 || hung < 50 || late < 500 {
		t.Errorf("too little was tried: %d changes, %d refused, %d hung, %d late", changes, refused, hung, late)
	}
	t.Logf("%d changes, %d refused, %d hung, %d late", changes, refused, hung, late)
}

// Whatever the configuration and the clock, and in whatever order: no panic, no
// wait longer than is allowed, and no circuit that stays shut for good.
func TestBreakerUnderAnyConfiguration(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	durations := []time.Duration{-1 << 63, -1, 0, 1, 31, ms, time.Second, time.Hour, 1<<63 - 1}
	random := func() policy.BreakerConfig {
		d := func() time.Duration { return durations[r.IntN(len(durations))] }
		return policy.BreakerConfig{
			FailureRatio: []float64{-1, 0, 0.3, 1, 9}[r.IntN(5)], MinRequests: r.IntN(5) - 1,
			Window: d(), OpenFor: d(), MaxOpenFor: d(), Probes: r.IntN(5) - 1,
		}
	}
	for range 300 {
		cfg, now := random(), t0
		b := policy.NewBreaker(cfg, now)
		var out []policy.Permit
		for range 200 {
			now = now.Add(time.Duration(r.ExpFloat64()*float64(time.Second)) - 100*ms) // back too, now and then
			if p, _, ok := b.Allow(now); ok {
				out = append(out, p)
			}
			if len(out) > 0 && r.IntN(2) == 0 {
				b.Done(out[0], policy.Mark(r.IntN(3)), now, r.Float64()*2)
				out = out[1:]
			}
			if r.IntN(20) == 0 {
				cfg = random()
				b.Configure(cfg, now)
				if wait := b.Wait(now); wait > max(1, cfg.OpenFor, cfg.MaxOpenFor) {
					t.Fatalf("%+v: %v to wait", cfg, wait)
				}
			}
		}
		b.Configure(quick(1), now)
		if _, _, ok := b.Allow(now.Add(time.Minute)); !ok {
			t.Fatalf("%+v: shut for longer than the last configuration allows", cfg)
		}
	}
}
