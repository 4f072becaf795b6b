package main

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// share is what the clients of one side saw, and what each endpoint did.
type share struct {
	requests int
	atOnce   int // succeeded at the first attempt
	saved    int // succeeded at a later one
	failed   int
	seen     [2][numScenes]int // requests, by endpoint and by when their call began
	limited  [2]int            // of those: answered 429
	failing  [2]int            // of those: answered 503
	probing  int               // of B's: answered 503, for calls that began when its circuit had opened
}

func newShare(results []result, ends [2]*endpoint, s scenes) share {
	h := share{requests: len(results)}
	for _, r := range results {
		switch {
		case !r.good():
			h.failed++
		case r.attempts > 1:
			h.saved++
		default:
			h.atOnce++
		}
	}
	for i, e := range ends {
		for _, v := range e.record() {
			scene := s.of(v.call)
			h.seen[i][scene]++
			switch v.status {
			case http.StatusTooManyRequests:
				h.limited[i]++
			case http.StatusServiceUnavailable:
				h.failing[i]++
				if i == 1 && scene == 2 {
					h.probing++
				}
			}
		}
	}
	return h
}

func (h share) good() int { return h.atOnce + h.saved }

// asked is how many requests the endpoints saw.
func (h share) asked() (sum int) {
	for _, scenes := range h.seen {
		for _, n := range scenes {
			sum += n
		}
	}
	return sum
}

// ending is what came of the second act.
type ending struct {
	with, without  share
	opened, closed int // B's circuit
}

// mostProbes is how many probes B can have seen while it was down: there is one in
// open_for at most, and none in the first. The time is measured from before B's
// circuit opened until after the last of them, so that a machine that stands still
// only makes it longer.
func (a *actTwo) mostProbes() int { return int(a.back.Sub(a.down) / actTwoOpenFor) }

// verify compares what the endpoints, the clients and /metrics have counted, and
// sees whether everything worked that the act is there to show.
func (a *actTwo) verify(r ending, seen counts) error {
	of := func(name string) int { return seen.of("search", name) }
	for _, pair := range []struct {
		what         string
		ours, theirs int
	}{
		{"attempts: the endpoints and mulligan_attempts_total", r.with.asked(), of("mulligan_attempts_total")},
		{"retries: the endpoints and mulligan_retries_total", r.with.asked() - r.with.requests, of("mulligan_retries_total")},
		{"429: the endpoints and result=4xx", r.with.limited[0], int(seen.sum("mulligan_attempts_total", "result", "4xx"))},
		{"503: the endpoints and result=5xx", r.with.failing[1], int(seen.sum("mulligan_attempts_total", "result", "5xx"))},
		{"requests: the clients and mulligan_requests_total", r.with.requests, of("mulligan_requests_total")},
		{"succeeded at once: the clients and outcome=success", r.with.atOnce, seen.outcome("success")},
		{"saved: the clients and outcome=success_after_retry", r.with.saved, seen.outcome("success_after_retry")},
		{"failed: the clients and outcome=failed", r.with.failed, seen.outcome("failed") + seen.outcome("client_gone")},
		{"requests without mulligan: the clients and the endpoints", r.without.requests, r.without.asked()},
	} {
		if pair.ours != pair.theirs {
			return fmt.Errorf("counts disagree about %s: %d and %d", pair.what, pair.ours, pair.theirs)
		}
	}
	if err := a.worked(r); err != nil {
		return err
	}
	a.tale.tellNow(func() {
		a.tale.say("%s", wrapped(fmt.Sprintf(
			"The endpoints, the clients and /metrics agree on %d attempts. While B was down, %s of calls made after its circuit had opened reached it, at most one in %v. "+
				"No retry came back to A before the time that A had said.",
			r.with.asked(), plural(r.with.probing, "request", "requests"), actTwoOpenFor), 0))
	})
	return nil
}

// worked sees whether there is what the act is there to show.
func (a *actTwo) worked(r ending) error {
	switch early := a.ends[0].early(); {
	case r.opened == 0, r.closed == 0:
		return errors.New("the circuit did not open and close")
	case r.with.probing > a.mostProbes():
		return fmt.Errorf("an endpoint whose circuit was open was asked %d times in %v", r.with.probing, a.back.Sub(a.down).Round(time.Millisecond))
	case r.with.limited[0] == 0:
		return errors.New("the endpoint with a limit was not asked for too much")
	case early > 0:
		return fmt.Errorf("%d retries came back before they were to", early)
	case r.with.saved == 0 || r.with.good() <= r.without.good():
		return errors.New("mulligan saved nothing")
	}
	return nil
}
