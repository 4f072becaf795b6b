package main

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// linesPerSecond is how many requests a second are told of: as many as can be
// read. What is told for the first time, and its reason, comes on top.
const linesPerSecond = 3

// story tells what happens, as it happens. Everything it knows of requests it
// has from the proxy's access log. One goroutine tells; the others hand it what
// to tell, so that nobody waits for a terminal.
type story struct {
	out    io.Writer
	paint  paint
	config string
	flaky  *flaky

	events  chan func()
	over    chan struct{}
	telling sync.WaitGroup

	// what the telling goroutine keeps
	began    time.Time
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
		out: out, paint: newPaint(out), config: config, flaky: f,
		events: make(chan func(), 4096), over: make(chan struct{}), known: map[string]bool{}, outcomes: map[string]int{},
	}
}

// logger is the proxy's log, which ends up in the story.
func (s *story) logger() *logger {
	return &logger{Logger: slog.New(listener{s}), level: new(slog.LevelVar), asJSON: new(atomic.Bool)}
}

// begin says what is there, and starts to tell.
func (s *story) begin(a *app, requests int) {
	s.began, s.admin = time.Now(), a.adminAddr()
	s.say("upstream   http://%s answers 30 %% of requests with 504, and some with resets, hangs, truncations, 503 or 422", s.flaky.addr())
	s.say("mulligan   http://%s, before it; admin port http://%s; its configuration:", a.proxyAddr(), s.admin)
	s.say("\n%s", s.paint.dim("    "+strings.ReplaceAll(strings.TrimSuffix(s.config, "\n"), "\n", "\n    ")))
	s.say("\nclients    %d, which make %d requests through mulligan, and the same at a twin of the upstream without it\n",
		clientsAtOnce, requests)
	s.telling.Go(s.run)
}

// run is the telling goroutine.
func (s *story) run() {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		select {
		case event := <-s.events:
			event()
		case <-second.C:
			s.progress()
		case <-s.over:
			return
		}
	}
}

// tell hands something over to be told.
func (s *story) tell(event func()) {
	select {
	case s.events <- event:
	case <-s.over:
	}
}

// tellNow does the same and waits until it, and all before it, is told.
func (s *story) tellNow(event func()) {
	told := make(chan struct{})
	s.tell(func() { event(); close(told) })
	<-told
}

// stop ends the story, whether it has begun or not.
func (s *story) stop() {
	close(s.over)
	s.telling.Wait()
}

func (s *story) say(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }

// sayAt says something with its time.
func (s *story) sayAt(format string, args ...any) {
	s.say("%5.1fs  %s", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// outage tells that the upstream is down, or back.
func (s *story) outage(down bool) {
	text := s.paint.good("the upstream is back, and fails a third of the time as before")
	if down {
		text = s.paint.bad("OUTAGE: from now on the upstream answers 503 to everything")
	}
	s.tell(func() { s.sayAt("%s", text) })
}

// progress is the line of each second: how it goes, and what the budget has.
func (s *story) progress() {
	s.lines = 0
	o := s.outcomes
	requests := o["success"] + o["success_after_retry"] + o["permanent"] + o["failed"] + o["client_gone"]
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
		s.sayAt("%s", s.paint.good("the budget is open again: answers have paid for "+plural(budget, "retry", "retries")))
	}
	s.sayAt("%s", s.paint.dim(fmt.Sprintf("%d requests: %d at once, %d saved by a retry, %d failed, %d refused; load %.2f; budget %d",
		requests, o["success"], o["success_after_retry"], o["failed"], o["permanent"],
		float64(s.attempts)/float64(requests), budget)))
}

// told is a request as the access log has it.
type told struct {
	method, path, outcome, stop string
	attempts                    []attempt
	down                        bool // it ended while the upstream was down
}

// attempt is one of its attempts.
type attempt struct {
	result string
	wait   time.Duration // after it; 0 none
}

// request takes a request into the tallies and tells of it, if it is new or
// there is time.
func (s *story) request(t told) {
	s.outcomes[t.outcome]++
	s.attempts += len(t.attempts)
	if t.stop == "budget" && !s.closed {
		s.closed = true
		s.sayAt("%s", s.paint.bad("the budget is empty: failures are passed on at once until answers pay for retries again"))
	}
	if t.outcome == "success" {
		return
	}
	reasons := s.news(t)
	if len(reasons) == 0 && s.lines >= linesPerSecond {
		return
	}
	s.lines++
	s.sayAt("%s %-4s %-11s %s", s.verdict(t), t.method, t.path, t.chain())
	for _, reason := range reasons {
		s.say("%s", s.paint.dim(fmt.Sprintf("%33s%s", "", reason)))
	}
}

// chain writes the attempts: what each ended with, and the wait after it.
func (t told) chain() string {
	var b strings.Builder
	for _, a := range t.attempts {
		b.WriteString(a.result)
		if a.wait > 0 {
			fmt.Fprintf(&b, ", after %d ms ", a.wait.Milliseconds())
		}
	}
	if t.outcome != "success_after_retry" {
		b.WriteString(", stop=" + t.stop)
	}
	return b.String()
}
