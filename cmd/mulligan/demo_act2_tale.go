package main

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"
)

// tale tells of the second act. What it knows of requests and of circuits it has
// from the proxy's log.
type tale struct {
	*narrator
	act    *actTwo
	config string

	// what the telling goroutine keeps
	known    map[string]bool // what was told of already
	lines    int             // told in this second
	open     map[string]bool // whose circuit is open
	outcomes map[string]int
	told     int    // requests
	before   [3]int // at the last progress line: requests told of, and what A and B had seen
}

func newTale(out io.Writer, config string, a *actTwo) *tale {
	return &tale{narrator: newNarrator(out), act: a, config: config, known: map[string]bool{}, open: map[string]bool{}, outcomes: map[string]int{}}
}

// begin says what is there, and starts to tell.
func (s *tale) begin() {
	s.say("\n%s\n", wrapped("SECOND ACT: an upstream of two endpoints. One takes only so many requests, the other fails for a while.", 0))
	s.row("A", "http://%s takes %d requests in %v and answers 429 to more, with when to come back", s.act.ends[0].addr(), callsPerSlot, slotLength)
	s.row("B", "http://%s takes all that come, until it fails", s.act.ends[1].addr())
	s.row("mulligan", "http://%s, before both; admin port http://%s; its configuration:", s.act.app.proxyAddr(), s.act.app.adminAddr())
	s.show(s.config)
	s.row("clients", "%d, which make %d requests a second through mulligan; %d others make the same without it, to A and B in turn (twins of them)",
		clientsAtOnce, time.Second/actTwoPace, clientsAtOnce)
	s.say("")
	s.began = time.Now()
	s.start(s.progress)
}

// name is what the tale calls an endpoint by its address.
func (s *tale) name(addr string) string {
	for i, e := range s.act.ends {
		if strings.TrimPrefix(addr, "http://") == e.addr() {
			return string(rune('A' + i))
		}
	}
	return addr
}

// hear takes a line of the proxy's log. Events move the play on at once, and are
// told in their turn.
func (s *tale) hear(r slog.Record) {
	switch r.Message {
	case "request":
		t := readLine(r)
		s.tell(func() { s.request(t) })
	case "circuit opened", "circuit closed":
		e := readCircuit(r)
		e.endpoint, e.failed = s.name(e.endpoint), s.act.ends[1].answered(http.StatusServiceUnavailable)
		switch {
		case e.endpoint != "B":
		case e.openFor > 0:
			s.act.opened.Add(1)
		default:
			s.act.closed.Add(1)
		}
		s.tell(func() { s.circuit(e) })
	}
}

// circuitEvent is that a circuit opened or closed.
type circuitEvent struct {
	endpoint string
	openFor  time.Duration // 0: it closed
	failed   int           // of B: how often it has by then
}

// readCircuit reads such a line of the log.
func readCircuit(r slog.Record) (e circuitEvent) {
	r.Attrs(func(a slog.Attr) bool {
		switch v := a.Value.Resolve(); a.Key {
		case "endpoint":
			e.endpoint = v.String()
		case "open_for":
			e.openFor = max(v.Duration(), time.Nanosecond)
		}
		return true
	})
	return e
}

// circuit tells of it.
func (s *tale) circuit(e circuitEvent) {
	again := s.open[e.endpoint]
	s.open[e.endpoint] = e.openFor > 0
	until := e.openFor.Round(10 * time.Millisecond)
	switch {
	case e.openFor == 0:
		s.sayAt(s.paint.good, "CIRCUIT CLOSED: a probe went to %s, and was answered, so it gets requests again", e.endpoint)
	case again:
		s.sayAt(s.paint.bad, "a probe went to %s, and failed: its circuit is open for another %v", e.endpoint, until)
	case e.endpoint == "B":
		s.sayAt(s.paint.bad, "CIRCUIT OPEN: B has failed %s, and that is 80 %% or more of the last second; for %v it gets nothing",
			plural(e.failed, "time", "times"), until)
	default:
		s.sayAt(s.paint.bad, "CIRCUIT OPEN: 80 %% or more of the last second failed at %s; for %v it gets nothing", e.endpoint, until)
	}
}

// outage tells that B fails, or is back.
func (s *tale) outage(down bool) {
	if down {
		s.tell(func() { s.sayAt(s.paint.bad, "B FAILS: from now on it answers 503 to everything") })
		return
	}
	s.tell(func() {
		s.sayAt(s.paint.good, "B is well again; mulligan does not know, before a probe has found out")
	})
}

// progress is the line of each second: what clients got, and where it came from.
func (s *tale) progress() {
	s.lines = 0
	now := [3]int{s.told, s.act.ends[0].count(), s.act.ends[1].count()}
	was := s.before
	if now == was {
		return
	}
	s.before = now
	s.sayAt(s.paint.dim, "%d at once, %d saved, %d failed; of late A was asked %s, B %s", s.outcomes["success"],
		s.outcomes["success_after_retry"], s.told-s.outcomes["success"]-s.outcomes["success_after_retry"],
		plural(now[1]-was[1], "time", "times"), plural(now[2]-was[2], "time", "times"))
}

// request takes a request into the tallies and tells of it, if it is new or there
// is time.
func (s *tale) request(t told) {
	s.told++
	s.outcomes[t.outcome]++
	if t.outcome == "success" {
		return
	}
	reason := s.news(t)
	if reason == "" && s.lines >= linesPerSecond {
		return
	}
	s.lines++
	s.say("%s", s.line(t))
	if reason != "" {
		margin := strings.Repeat(" ", storyIndent)
		s.say("%s", s.paint.dim(wrapped(margin+reason, storyIndent)))
	}
}

// news explains what the request is the first example of.
func (s *tale) news(t told) string {
	key, reason := "", ""
	switch where := s.name(t.host); {
	case len(t.attempts) != 2 || t.outcome != "success_after_retry":
		return ""
	case t.attempts[0].result == "503" && where == "A":
		key, reason = "503", "503 was B's: a retry goes to another endpoint where there is one"
	case t.attempts[0].result == "429" && where == "B":
		key, reason = "429 B", "429 was A's; the retry goes to B, which has not refused it"
	case t.attempts[0].result == "429" && where == "A":
		key, reason = "429 A", "429 was A's, which said when to come back (retry-after-ms): the wait is at least that long; B is left alone, so the retry goes to A again"
	}
	if s.known[key] {
		return ""
	}
	s.known[key] = true
	return reason
}

// invite says where everything is that was left running.
func (s *tale) invite() {
	s.say("\nThe second act's:\n")
	s.say("  curl -i -x http://%s http://%s%s", s.act.app.proxyAddr(), actTwoHost, searchPath(1))
	s.say("  curl http://%s/metrics", s.act.app.adminAddr())
}
