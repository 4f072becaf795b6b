package policy_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/policy"
)

// event is one thing that happened to a budget.
type event struct {
	at     time.Time
	paid   int // 1 for a withdrawal, -1 for one given back
	answer int
}

// checkBound checks, for every span that begins and ends with an event, that
// what was paid in it, less what was given back in it, is within burst + ratio*(answers in the span and in the
// window before it) + min_per_second*span. Events are in the order of their times.
func checkBound(t *testing.T, cfg policy.BudgetConfig, events []event) {
	t.Helper()
	answers := make([]int, len(events)+1) // before each event
	for i, e := range events {
		answers[i+1] = answers[i] + e.answer
	}
	old := 0 // the first event that is in the window before the span
	for i, from := range events {
		if i > 0 && from.at.Equal(events[i-1].at) {
			continue // the span that begins there was looked at
		}
		for !events[old].at.After(from.at.Add(-cfg.Window)) {
			old++
		}
		paid := 0
		for j := i; j < len(events); j++ {
			paid += events[j].paid
			if j+1 < len(events) && events[j+1].at.Equal(events[j].at) {
				continue // the span ends after all that happens at that time
			}
			span := events[j].at.Sub(from.at)
			bound := cfg.Burst + cfg.Ratio*float64(answers[j+1]-answers[old]) + cfg.MinPerSecond*span.Seconds()
			if float64(paid) > bound+1e-6 {
				t.Fatalf("%+v: %d paid for in %v, from %v on, where %v are allowed", cfg, paid, span, from.at.Sub(t0), bound)
			}
		}
	}
}

// budgets are the configurations that the bound is checked for.
var budgets = []policy.BudgetConfig{
	{Ratio: 0.2, Burst: 3, Window: 10 * time.Second},
	{Ratio: 0.01, Burst: 1, Window: time.Second},
	{Ratio: 0.3, Burst: 0, Window: 7 * time.Second},
	{Ratio: 1.5, Burst: 10, Window: 3 * time.Second},
	{Ratio: 0, Burst: 5, Window: 10 * time.Second},
	{Ratio: 0.1, Burst: 2, Window: 5 * time.Second, MinPerSecond: 0.5},
}

// Random traffic, one call after the other, with calms and bursts, answers
// that stop, and payments given back long after.
func TestBoundHolds(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 7))
		cfg := budgets[seed%uint64(len(budgets))]
		b := policy.NewBudget(cfg, t0)
		var events []event
		now, open := t0, 0
		for range 60 { // phases
			answers, pays, gives := rng.IntN(10), rng.IntN(10), rng.IntN(3)
			pause := time.Duration(rng.Int64N(int64(cfg.Window) / 20))
			for range 30 {
				if rng.IntN(4) == 0 {
					now = now.Add(time.Duration(rng.Int64N(int64(pause) + 1)))
				}
				if rng.IntN(10) < answers {
					b.Answered(now)
					events = append(events, event{at: now, answer: 1})
				}
				if rng.IntN(10) < pays && b.Withdraw(now) {
					open++
					events = append(events, event{at: now, paid: 1})
				}
				if rng.IntN(10) < gives && open > 0 {
					open--
					b.Refund(now)
					events = append(events, event{at: now, paid: -1})
				}
			}
		}
		checkBound(t, cfg, events)
	}
}

// A thousand requests at once, in virtual time: an upstream that fails more and
// more and then altogether, waits of up to three windows, clients that leave
// while they wait.
func TestBoundHoldsForAThousand(t *testing.T) {
	for _, cfg := range budgets {
		t.Run(fmt.Sprintf("%+v", cfg), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { thousand(t, cfg) })
		})
	}
}

func thousand(t *testing.T, cfg policy.BudgetConfig) {
	begin := time.Now()
	b := policy.NewBudget(cfg, begin)
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		events []event
	)
	note := func(e event) {
		e.at = time.Now()
		mu.Lock()
		events = append(events, e)
		mu.Unlock()
	}
	for id := range uint64(1000) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(id, 11))
			for range 4 {
				time.Sleep(time.Duration(rng.Int64N(int64(3 * cfg.Window))))
				// Answers stop halfway.
				failing := time.Since(begin).Seconds() / (2 * cfg.Window.Seconds())
				if rng.Float64() >= failing {
					b.Answered(time.Now())
					note(event{answer: 1})
					continue
				}
				if !b.Withdraw(time.Now()) {
					continue
				}
				note(event{paid: 1})
				time.Sleep(time.Duration(rng.Int64N(int64(3 * cfg.Window))))
				if rng.IntN(3) == 0 {
					b.Refund(time.Now())
					note(event{paid: -1})
				}
			}
		})
	}
	wg.Wait()
	paid := 0
	for _, e := range events {
		paid += max(0, e.paid)
	}
	if paid < int(cfg.Burst) || paid == 0 && cfg.Ratio >= 0.1 {
		t.Errorf("only %d retries: this checks little", paid)
	}
	checkBound(t, cfg, events)
}

// Real parallelism, for the race detector: no token is made or lost.
func TestBudgetInParallel(t *testing.T) {
	b := policy.NewBudget(policy.BudgetConfig{Ratio: 0.25, Burst: 100, Window: time.Hour}, t0)
	var wg sync.WaitGroup
	paid := make([]int, 1000)
	for id := range paid {
		wg.Go(func() {
			for i := range 40 {
				now := t0.Add(time.Duration(i+id%7) * time.Second)
				b.Answered(now)
				if b.Withdraw(now) {
					paid[id]++
				}
				if i%5 == 4 && paid[id] > 0 {
					paid[id]--
					b.Refund(now)
				}
				if b.Remaining(now) < 0 {
					t.Error("less than nothing remains")
				}
			}
		})
	}
	wg.Wait()
	total := b.Remaining(t0.Add(time.Minute))
	for _, n := range paid {
		total += n
	}
	if total != 100+1000*40/4 {
		t.Errorf("%d tokens in all", total)
	}
}
