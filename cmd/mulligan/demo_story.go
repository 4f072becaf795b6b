package main

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"
)

// linesPerSecond is how many requests a second are told of: as many as can be
// read. What is told for the first time, and its reason, comes on top.
const linesPerSecond = 3

// story tells what happens, as it happens. Everything it knows of requests it
// has from the proxy's access log.
type story struct {
	*narrator
	config string
	flaky  *flaky

	// what the telling goroutine keeps
	admin    string
	known    map[string]bool // what was told of already
	lines    int             // told in this second
	outcomes map[string]int
	counted  int // requests at the last progress line
	attempts int
	closed   bool // the budget is empty
}

func newStory(out io.Writer, config string, f *flaky) *story {
	return &story{
		narrator: newNarrator(out), config: config, flaky: f, known: map[string]bool{}, outcomes: map[string]int{},
	}
}

// logger is the proxy's log, which ends up in the story.
func (s *story) logger() *logger { return heardBy(s.hear) }

// hear takes a line of the proxy's log.
func (s *story) hear(r slog.Record) {
	if r.Message == "request" {
		t := readLine(r)
		s.tell(func() { s.request(t) })
	}
}

// begin says what is there, and starts to tell.
func (s *story) begin(a *app, requests int) {
	s.began, s.admin = time.Now(), a.adminAddr()
	s.row("upstream", "http://%s answers 30 %% of requests with 504, and some with resets, hangs, truncations, 503 or 422", s.flaky.addr())
	s.row("mulligan", "http://%s, before it; admin port http://%s; its configuration:", a.proxyAddr(), s.admin)
	s.show(s.config)
	s.row("clients", "%d, which make %d requests through mulligan; %d others make the same at a twin of the upstream, without it",
		clientsAtOnce, requests, clientsAtOnce)
	s.say("")
	s.start(s.progress)
}

// total is how many requests have been told of.
func (s *story) total() (sum int) {
	for _, n := range s.outcomes {
		sum += n
	}
	return sum
}

// outage tells that the upstream is down, or back.
func (s *story) outage(down bool) {
	if down {
		s.tell(func() { s.sayAt(s.paint.bad, "OUTAGE: from now on the upstream answers 503 to everything") })
		return
	}
	s.tell(func() { s.sayAt(s.paint.good, "the upstream is back, and fails a third of the time as before") })
}

// progress is the line of each second: how it goes, and what the budget has.
func (s *story) progress() {
	s.lines = 0
	o := s.outcomes
	requests := s.total()
	if requests == s.counted {
		return
	}
	s.counted = requests
	counts, err := scrape(s.admin)
	if err != nil {
		return // the end will tell
	}
	budget := int(counts.sum("mulligan_retry_budget_remaining", "upstream", "orders"))
	if s.closed && budget > 0 && !s.flaky.down.Load() {
		s.closed = false
		s.sayAt(s.paint.good, "the budget is open again: answers have paid for %s", plural(budget, "retry", "retries"))
	}
	s.sayAt(s.paint.dim, "%d at once, %d saved, %d failed, %d refused; load %.2f; budget %d",
		o["success"], o["success_after_retry"], o["failed"], o["permanent"], float64(s.attempts)/float64(requests), budget)
}

// told is a request as the access log has it.
type told struct {
	method, path, outcome, stop string
	host                        string // that the last attempt went to
	attempts                    []attempt
}

// attempt is one of its attempts.
type attempt struct {
	result string
	wait   time.Duration // after it, if another followed; 0 none
}

// request takes a request into the tallies and tells of it, if it is new or
// there is time.
func (s *story) request(t told) {
	s.outcomes[t.outcome]++
	s.attempts += len(t.attempts)
	if t.stop == "budget" && !s.closed {
		s.closed = true
		s.sayAt(s.paint.bad, "the budget is empty: failures are passed on at once until answers pay for retries again")
	}
	if t.outcome == "success" {
		return
	}
	reasons := s.news(t)
	if len(reasons) == 0 && s.lines >= linesPerSecond {
		return
	}
	s.lines++
	s.say("%s", s.line(t))
	margin := strings.Repeat(" ", storyIndent)
	for _, reason := range reasons {
		s.say("%s", s.paint.dim(wrapped(margin+reason, storyIndent)))
	}
}

// chain writes the attempts: what each ended with, and the waits between them.
// A wait that no attempt followed was cut short, and is none.
func (t told) chain() string {
	var parts []string
	for i, a := range t.attempts {
		part := a.result
		if i > 0 {
			part = strings.Join([]string{"after", fmt.Sprint(t.attempts[i-1].wait.Milliseconds()), "ms", a.result}, glue)
		}
		parts = append(parts, part)
	}
	if t.outcome != "success_after_retry" {
		parts = append(parts, "stop="+t.stop)
	}
	return strings.Join(parts, ", ")
}
