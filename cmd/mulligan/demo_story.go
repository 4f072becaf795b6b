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
	row := func(label, format string, args ...any) {
		s.say("%s", wrapped(fmt.Sprintf("%-10s ", label)+fmt.Sprintf(format, args...), 11))
	}
	row("upstream", "http://%s answers 30 %% of requests with 504, and some with resets, hangs, truncations, 503 or 422", s.flaky.addr())
	row("mulligan", "http://%s, before it; admin port http://%s; its configuration:", a.proxyAddr(), s.admin)
	s.say("\n%s\n", s.paint.dim("    "+strings.ReplaceAll(strings.TrimSuffix(s.config, "\n"), "\n", "\n    ")))
	row("clients", "%d, which make %d requests through mulligan; %d others make the same at a twin of the upstream, without it",
		clientsAtOnce, requests, clientsAtOnce)
	s.say("")
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

// await waits until so many requests were told of, or it is clear that they will
// not be: their lines in the log come a moment after their answers.
func (s *story) await(requests int) {
	for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		total := 0
		s.tellNow(func() { total = s.total() })
		if total >= requests {
			return
		}
	}
}

// total is how many requests have been told of.
func (s *story) total() (sum int) {
	for _, n := range s.outcomes {
		sum += n
	}
	return sum
}

// stop ends the story, whether it has begun or not.
func (s *story) stop() {
	close(s.over)
	s.telling.Wait()
}

func (s *story) say(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }

// sayAt says something with its time, in a colour.
func (s *story) sayAt(in func(string) string, format string, args ...any) {
	at := s.at()
	s.say("%s%s", at, in(wrapped(at+fmt.Sprintf(format, args...), len(at))[len(at):]))
}

// at is the time, as lines begin with it.
func (s *story) at() string { return fmt.Sprintf("%5.1fs  ", time.Since(s.began).Seconds()) }

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

// storyIndent is where a request's method stands, and below it what is said of it.
const storyIndent = 16

// line is what became of a request.
func (s *story) line(t told) string {
	at := s.at()
	verdict, in := s.verdict(t)
	text := wrapped(fmt.Sprintf("%s%-7s %-4s %-12s %s", at, verdict, t.method, t.path, t.chain()), storyIndent)
	end := len(at) + len(verdict)
	return at + in(text[len(at):end]) + text[end:]
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
