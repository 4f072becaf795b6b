package main

import "fmt"

// table writes what came of it, with mulligan and without.
func (s *tale) table(r ending) {
	s.say("\n%-46s %14s %10s", "measured in this run", "with mulligan", "without")
	row := func(name string, with, without any) { s.say("%-46s %14v %10v", name, with, without) }
	row("requests", r.with.requests, r.without.requests)
	row("  succeeded at once", r.with.atOnce, r.without.atOnce)
	row("  saved by a retry", r.with.saved, "-")
	row("  failed", r.with.failed, r.without.failed)
	row("success rate", percent(r.with.good(), r.with.requests), percent(r.without.good(), r.without.requests))
	row("B's circuit opened", r.opened, "-")
	row("B's circuit closed", r.closed, "-")

	s.say("\n%-40s %19s %19s", "", "with mulligan", "without")
	s.say("%-40s %9s %9s %9s %9s", "requests that an endpoint saw", "A", "B", "A", "B")
	ends := func(name string, of func(share, int) int) {
		s.say("%-40s %9d %9d %9d %9d", name, of(r.with, 0), of(r.with, 1), of(r.without, 0), of(r.without, 1))
	}
	for scene, name := range [numScenes]string{
		"  of calls before B failed", "  of calls until its circuit opened",
		"  of calls while its circuit was open", "  of calls after it had closed",
	} {
		ends(name, func(h share, end int) int { return h.seen[end][scene] })
	}
	ends("answered 429", func(h share, end int) int { return h.limited[end] })
	ends("answered 503", func(h share, end int) int { return h.failing[end] })
	s.say("\n%s", wrapped(fmt.Sprintf("Without mulligan %s failed, with it %d. While its circuit was open B was asked %s, without mulligan %d.",
		plural(r.without.failed, "request", "requests"), r.with.failed, plural(r.with.seen[1][2], "time", "times"), r.without.seen[1][2]), 0))
}
