package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"mulligan/policy"
)

// logLines says which lines of the log are shown.
type logLines struct {
	access bool       // those of the access log
	from   slog.Level // of all others, those from this level on
}

// spectator stands before a log: it reads the access log, whether or not that is
// shown, for what metrics do not tell: how many requests were retried, not how
// often, and where tunnels went.
type spectator struct {
	next  slog.Handler
	shown logLines
	seen  *seen
}

// seen is what a spectator knows.
type seen struct {
	mu      sync.Mutex
	retried int
	tunnels map[string]int  // that were opened, by host:port
	shut    map[string]int  // that could not be
	dialled int             // tunnels that took more than one dial
	refused int             // requests that got no further than us
	why     string          // the first of them
	asking  int             // of those, the ones that were only asked for credentials
	noted   int             // requests and tunnels that went further
	asked   map[string]bool // host:port of requests that were no tunnels
}

// mostHosts is how many hosts are told apart: of more it is not known where their
// tunnels went.
const mostHosts = 10_000

func newSpectator(next slog.Handler, shown logLines) *spectator {
	return &spectator{next, shown, &seen{tunnels: map[string]int{}, shut: map[string]int{}, asked: map[string]bool{}}}
}

// Enabled implements slog.Handler. The access log is written for us, too.
func (s *spectator) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || s.next.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (s *spectator) Handle(ctx context.Context, r slog.Record) error {
	shown := r.Level >= s.shown.from
	switch r.Message {
	case "request":
		s.seen.note(r)
		shown = s.shown.access
	case "refused":
		s.seen.noteRefused(r)
		shown = s.shown.access
	}
	if !shown || !s.next.Enabled(ctx, r.Level) {
		return nil
	}
	return s.next.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (s *spectator) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &spectator{s.next.WithAttrs(attrs), s.shown, s.seen}
}

// WithGroup implements slog.Handler.
func (s *spectator) WithGroup(name string) slog.Handler {
	return &spectator{s.next.WithGroup(name), s.shown, s.seen}
}

// note reads a line of the access log.
func (s *seen) note(r slog.Record) {
	var method, host, outcome string
	attempts := 0
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "method":
			method = a.Value.String()
		case "host":
			host = a.Value.String()
		case "outcome":
			outcome = a.Value.String()
		case "attempts":
			attempts = len(a.Value.Resolve().Group())
		}
		return true
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noted++
	switch {
	case method != "CONNECT":
		if attempts > 1 {
			s.retried++
		}
		if len(s.asked) < mostHosts {
			s.asked[host] = true
		}
	case len(s.tunnels) >= mostHosts || len(s.shut) >= mostHosts:
	case strings.HasPrefix(outcome, "success"):
		s.tunnels[host]++
	case outcome != "client_gone":
		s.shut[host]++
	}
	if method == "CONNECT" && attempts > 1 {
		s.dialled++
	}
}

// noteRefused reads a line of the access log about a request that went nowhere.
func (s *seen) noteRefused(r slog.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var status int64
	var why string
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "status":
			status = a.Value.Int64()
		case "detail":
			why = a.Value.String()
		}
		return true
	})
	s.refused++
	asking := status == http.StatusProxyAuthRequired
	if asking {
		s.asking++
	}
	if s.refused == 1 || !asking && s.refused == s.asking+1 { // the first, but rather another than that
		s.why = why
	}
}

// trouble says what went wrong before anything could be sent.
func (s *seen) trouble() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := ""
	// Some clients show credentials only to who asks for them.
	if refused := s.refused - min(s.asking, s.noted); refused > 0 {
		text += fmt.Sprintf("; plus %d refused (%s)", refused, s.why)
	}
	if s.dialled > 0 {
		text += fmt.Sprintf("; plus %s dialled more than once", count(s.dialled, "tunnel"))
	}
	if len(s.shut) > 0 {
		total, hosts := ranked(s.shut)
		text += fmt.Sprintf("; plus %s that could not be opened (%s)", count(total, "tunnel"), someOf(hosts, 3))
	}
	return text
}

// ranked returns the sum of the counts, and whose they are, the most first.
func ranked(counts map[string]int) (total int, names []string) {
	for _, n := range counts {
		total += n
	}
	return total, slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
}

// opaque are the tunnels whose insides stayed unknown, by host:port: what turned
// out to be HTTP has requests.
func (s *seen) opaque() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := maps.Clone(s.tunnels)
	maps.DeleteFunc(left, func(host string, _ int) bool { return s.asked[host] })
	return left
}

func (s *seen) retriedRequests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.retried
}

// tallied are an app's requests by how they ended, and its attempts: by the
// metric's name and the label, with a blank between; and its requests in flight.
type tallied map[string]int

const inFlight = "mulligan_requests_in_flight"

func (o tallied) all() int {
	sum := 0
	for what, n := range o {
		if strings.HasPrefix(what, "mulligan_requests_total ") {
			sum += n
		}
	}
	return sum
}

// counts reads the app's own metrics.
func (a *app) counts() (tallied, error) {
	families, err := a.registry.Gather()
	if err != nil {
		return nil, err
	}
	o := tallied{}
	labels := map[string]string{"mulligan_requests_total": "outcome", "mulligan_attempts_total": "result"}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == inFlight {
				o[inFlight] += int(metric.GetGauge().GetValue())
			}
			for _, label := range metric.GetLabel() {
				if label.GetName() == labels[family.GetName()] {
					o[family.GetName()+" "+label.GetValue()] += int(metric.GetCounter().GetValue())
				}
			}
		}
	}
	return o, nil
}

// failed are the requests that got no answer, or one that a retry might have made
// better: those without an answer for good are told by their one attempt.
func (o tallied) failed() int {
	n := o["mulligan_requests_total failed"]
	for _, class := range policy.Classes() {
		if class.Never() {
			n += o["mulligan_attempts_total "+class.String()]
		}
	}
	return n
}

// summary says what was done: a request is saved that a retry made succeed.
// explain is how mulligan is asked to explain with the same configuration.
func (s *spectator) summary(o tallied, explain string) string {
	text := fmt.Sprintf("mulligan: %s, %d retried, %d saved, %d failed",
		count(o.all(), "request"), s.seen.retriedRequests(), o["mulligan_requests_total success_after_retry"], o.failed()) + s.seen.trouble()
	opaque := s.seen.opaque()
	if len(opaque) == 0 {
		return text
	}
	tunnels, hosts := ranked(opaque)
	return text + fmt.Sprintf("; plus %s that it could not see into (%s)\nhint: `%s https://%s/` says how to have the requests in it retried",
		count(tunnels, "tunnel"), someOf(hosts, 3), explain, strings.TrimSuffix(hosts[0], ":443"))
}

// someOf lists so many of the words, and says how many more there are.
func someOf(words []string, most int) string {
	if len(words) <= most {
		return strings.Join(words, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(words[:most], ", "), len(words)-most)
}
