package main

import (
	"fmt"
	"net/http"
	"slices"
	"time"
)

// tally is what the clients of one side saw, and what it cost its upstream.
type tally struct {
	requests    int
	atOnce      int // succeeded at the first attempt
	saved       int // succeeded at a later one
	failed      int
	notRepeated int // of those: requests that may not be sent twice
	noBudget    int // of those: failed while the budget was empty
	begunAtOnce int // of those: a good answer, to the first attempt, that broke off under way
	begunLater  int // the same to a later one
	permanent   int // ended with 422
	beside      int // requests that were not made in the outage
	goodBeside  int // of those: succeeded
	seen        int // requests that the upstream counted
	seenDown    int // of those: for requests that were made in the outage
	p50, p95    time.Duration
}

func newTally(results []result, upstream *flaky) tally {
	t := tally{requests: len(results), seen: upstream.count()}
	out := outageOf(len(results))
	times := make([]time.Duration, 0, len(results))
	for i, r := range results {
		times = append(times, r.took)
		t.add(r)
		if out.has(i) {
			t.seenDown += upstream.countOf(pathOf(i))
			continue
		}
		t.beside++
		if r.good() {
			t.goodBeside++
		}
	}
	slices.Sort(times)
	t.p50, t.p95 = quantile(times, 50), quantile(times, 95)
	return t
}

// add counts what one client saw.
func (t *tally) add(r result) {
	switch {
	case r.good() && r.attempts > 1:
		t.saved++
	case r.good():
		t.atOnce++
	case r.status == http.StatusUnprocessableEntity && !r.broke:
		t.permanent++
	default:
		t.failed++
	}
	switch {
	case r.good():
	case r.begun() && r.attempts > 1:
		t.begunLater++
	case r.begun():
		t.begunAtOnce++
	case r.stop == "not_idempotent":
		t.notRepeated++
	case r.stop == "budget":
		t.noBudget++
	}
}

// quantile returns the least time that so many of a hundred do not exceed.
func quantile(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)*percent+99)/100-1]
}

func (t tally) good() int { return t.atOnce + t.saved }

// comparison is the same calls with mulligan and without.
type comparison struct{ with, without tally }

// table writes both sides beside each other.
func (s *story) table(c comparison) {
	s.say("\n%-46s %14s %10s", "measured in this run", "with mulligan", "without")
	row := func(name string, cell func(tally) string) {
		s.say("%-46s %14s %10s", name, cell(c.with), cell(c.without))
	}
	number := func(name string, of func(tally) int) {
		row(name, func(t tally) string { return fmt.Sprint(of(t)) })
	}
	ours := func(name string, n int) { s.say("%-46s %14d %10s", name, n, "-") }
	number("requests", func(t tally) int { return t.requests })
	number("  succeeded at once", func(t tally) int { return t.atOnce })
	ours("  saved by a retry", c.with.saved)
	number("  ended with 422, which is not retried", func(t tally) int { return t.permanent })
	number("  failed", func(t tally) int { return t.failed })
	ours("    of these POSTs that must not be repeated", c.with.notRepeated)
	ours("    of these while the budget was empty", c.with.noBudget)
	number("    of these answers that broke off under way", func(t tally) int { return t.begunAtOnce + t.begunLater })
	row("success rate", func(t tally) string { return percent(t.good(), t.requests) })
	row("success rate, outage aside", func(t tally) string { return percent(t.goodBeside, t.beside) })
	ours("retries sent", c.with.seen-c.with.requests)
	number("requests counted by the upstream", func(t tally) int { return t.seen })
	row("load factor (counted / requests)", func(t tally) string { return ratio(t.seen, t.requests) })
	row("load factor of requests made in the outage", func(t tally) string { return ratio(t.seenDown, t.requests-t.beside) })
	row("latency p50", func(t tally) string { return fmt.Sprint(t.p50.Round(time.Millisecond)) })
	row("latency p95", func(t tally) string { return fmt.Sprint(t.p95.Round(time.Millisecond)) })
	s.say("\n%s", wrapped(fmt.Sprintf("Without mulligan %d requests failed, with it %d, for %s times the requests at the upstream.",
		c.without.failed, c.with.failed, ratio(c.with.seen, c.with.requests)), 0))
}

func percent(part, whole int) string { return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(whole)) }
func ratio(part, whole int) string   { return fmt.Sprintf("%.2f", float64(part)/float64(whole)) }
