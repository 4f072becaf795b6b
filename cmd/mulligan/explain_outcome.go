package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"mulligan/policy"
	"mulligan/proxy/h1"
)

// explainOutcome says what follows the outcome that was asked for.
func (q *question) explainOutcome(s *sheet, p *place) {
	r := &p.route.Retry
	o := q.outcome
	if o.Status != 0 {
		o.ReadHeader(r, q.responseField, q.key(p.route) != "", q.now)
	}
	s.row("outcome", "%s", meaning(o))
	if why := q.never(p, o); why != "" {
		s.row("retried", "no: %s", why)
		return
	}
	rule := q.findRule(p, &o)
	found := weigh(r, o, rule)
	s.row("verdict", "%s: %s", verdictWords[found.verdict], found.why)
	if note := q.bodyNote(p, o); note != "" {
		s.row("body", "%s", note)
	}
	if o.HasHint && found.verdict == policy.Retryable {
		note := ""
		if !p.tunnel && len(p.upstream.Endpoints) > 1 && r.RetryAfter > 0 && o.Source != policy.HintPushback {
			note = " (of this endpoint: one that was not asked yet is asked without it)"
		}
		s.row("hint", "%s%s", q.whyHint(r, o), note)
	}
	q.explainCourse(s, p, o)
}

// responseField returns a field of the answer. A grpc-status says of it what it
// is, or its body does, where no Content-Type does.
func (q *question) responseField(name string) string {
	if strings.EqualFold(name, "Content-Type") && !q.response.Has(name) {
		switch {
		case q.response.Has("grpc-status"):
			return "application/grpc"
		case q.body != nil:
			return "application/json"
		}
	}
	return string(q.response.Get(name))
}

// unmet says why no attempt ends with the class there, "" where one can.
func (p *place) unmet(c policy.Class) string {
	switch buffer := p.route.Buffer; {
	case c == policy.ErrorEvent && !buffer.FirstEvent:
		return "it takes buffer.first_event, which is off"
	case c == policy.ErrorEvent && buffer.Response == 0:
		return "no event stream is held for its first event (buffer.response)"
	case c == policy.RefusedStream && !p.secure:
		return "it is HTTP/2's, which mulligan speaks to upstreams over TLS only"
	}
	return ""
}

// never says why no attempt there ends with the outcome; "" where one can.
func (q *question) never(p *place, o policy.Outcome) string {
	switch {
	case p.tunnel && !dialCan(o) && q.target.HTTPS:
		return "it would be inside the tunnel, where mulligan does not see it"
	case p.tunnel && !dialCan(o):
		return "it would be inside the tunnel; for what is plain HTTP there, ask about its http:// URL"
	case p.unmet(o.Class) != "":
		return "no attempt ends so: " + p.unmet(o.Class)
	case o.Status != 0 && o.Status < 200 && o.Status != 101:
		return "an interim response ends no attempt; it is passed on, and the final one decides"
	case o.Class == policy.ErrorEvent && h1.Bodiless(200, q.method):
		return "such a response has no events"
	case o.Class == policy.Truncated && h1.Bodiless(cmp.Or(o.Status, 200), q.method):
		return "such a response has no body that could break off"
	case o.Class == policy.Truncated && min(p.route.Buffer.Response, q.cfg.BufferTotal) == 0:
		return "no response is held (buffer.response, buffer_total): the client gets it as it comes, and breaks off"
	case o.Class == policy.Timeout && q.longestAttempt(p, o) == 0:
		return "without timeout.attempt and timeout.total there is no timeout"
	}
	return ""
}

// meaning writes an outcome, a class with what it stands for.
func meaning(o policy.Outcome) string {
	text := outcomeName(o)
	if o.Class == policy.ClassNone {
		return text
	}
	if o.Status != 0 {
		text += fmt.Sprintf(", of a %d", o.Status)
	}
	return text + " (" + outcomes[o.Class] + ")"
}

// dialCan reports whether a dial, which is all of a tunnel that mulligan sees,
// can end so. A certificate is the client's business there.
func dialCan(o policy.Outcome) bool {
	return o.Class == policy.ConnectFailure || o.Class == policy.DNSNotFound || o.Class == policy.Denied
}

func (q *question) whyHint(r *policy.Retry, o policy.Outcome) string {
	says := "the server asks for " + length(o.Hint)
	switch o.Source {
	case policy.HintReset:
		says = "the rate limit is over in " + length(o.Hint)
	case policy.HintFull:
		says = "the whole allowance is back in " + length(o.Hint) + " or later"
	}
	switch {
	case r.RetryAfter == 0:
		return says + ", which retry_after: 0s ignores"
	case o.Hint > r.RetryAfter && o.Source == policy.HintFull:
		return says + ", which is not waited for: it is more than retry_after (" + length(r.RetryAfter) + ")"
	case o.Hint > r.RetryAfter:
		return says + ", which is more than retry_after (" + length(r.RetryAfter) + ")"
	}
	return says + ": the least that a wait may be"
}

// explainCourse says whether the outcome is retried and, if so, when.
func (q *question) explainCourse(s *sheet, p *place, o policy.Outcome) {
	takes := q.leastAttempt(p, o)
	best := q.drive(p, o, takes, shortest, rich(p.upstream.Budget))
	fresh := q.drive(p, o, takes, shortest, p.upstream.Budget)
	if len(best.steps) == 1 {
		s.row("retried", "no, %s", q.ending(p, best)+unearned(best, fresh))
		s.row("client", "%s", clientGets(best))
		return
	}
	s.row("retried", "yes, up to %s in all, while the budget has tokens", count(len(best.steps), "attempt"))
	s.text("")
	q.schedule(s, p, o, takes, best, len(fresh.steps))
	s.text("")
	if len(fresh.steps) < len(best.steps) {
		s.row("*", "needs a token that %s brought: at first there are %s", sources(p.upstream.Budget), number(p.upstream.Budget.Burst))
	}
	s.row("then", "%s", q.ending(p, best)+unearned(best, fresh))
	s.row("client", "%s", clientGets(best))
}

// unearned says how a course ends with the tokens that there are at first, where
// that is sooner or for another reason.
func unearned(best, fresh course) string {
	switch n := len(fresh.steps); {
	case n < len(best.steps):
		return fmt.Sprintf("; where nothing was earned, stop=%s after attempt %d", fresh.last.Stop, n)
	case fresh.last.Stop != best.last.Stop:
		return fmt.Sprintf("; where nothing was earned, stop=%s", fresh.last.Stop)
	}
	return ""
}

// ending says how a course ends, and why.
func (q *question) ending(p *place, c course) string {
	if c.endless {
		return fmt.Sprintf("nothing ends the attempt: timeout.attempt cuts only where a retry follows (%s), and there is no timeout.total", c.uncut)
	}
	return fmt.Sprintf("stop=%s: %s", c.last.Stop, q.whyStop(p, c))
}

// schedule writes a line for each attempt: the range of its wait, and when it
// begins at the latest, for attempts that fail fast and for slow ones. A star is
// for attempts beyond those that a budget pays for in which nothing was earned.
func (q *question) schedule(s *sheet, p *place, o policy.Outcome, takes time.Duration, best course, unearned int) {
	atBest := rich(p.upstream.Budget)
	columns := []course{q.drive(p, o, takes, longest, atBest)}
	heads := []string{"attempt", "wait before it", "begins at the latest"}
	if slow := q.longestAttempt(p, o); slow > takes {
		heads = append(heads, "the same, if each takes "+length(slow))
		columns = append(columns, q.drive(p, o, slow, longest, atBest))
	}
	table := tabwriter.NewWriter(s.w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, strings.Join(heads, "\t"))
	for i := range best.steps {
		cells := []string{fmt.Sprint(i + 1), "-"}
		if i > 0 {
			cells[1] = span(widest(i, columns[0], best))
		}
		if i >= unearned {
			cells[0] += " *"
		}
		for _, c := range columns {
			cells = append(cells, beginning(c, i))
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	table.Flush()
}

// widest returns the step of the course with the longest waits, since ranges may
// grow with what was drawn; where that course has ended already, the other's.
func widest(i int, long, short course) step {
	if i < len(long.steps) {
		return long.steps[i]
	}
	return short.steps[i]
}

func span(s step) string {
	if s.lo == s.hi {
		return shown(s.lo)
	}
	return shown(s.lo) + " to " + shown(s.hi)
}

// beginning says when an attempt begins, or what comes before it.
func beginning(c course, i int) string {
	if i < len(c.steps) {
		return shown(c.steps[i].begins)
	}
	return "never: stop=" + c.last.Stop.String()
}

// shown writes a duration rounded to what matters in it: draws end a nanosecond
// before their range does.
func shown(d time.Duration) string {
	switch {
	case d >= time.Second:
		d = d.Round(time.Millisecond)
	case d >= time.Millisecond:
		d = d.Round(time.Microsecond)
	}
	return length(d)
}

// clientGets says with what the client is left at the end of a course.
func clientGets(c course) string {
	switch c.end.Class {
	case policy.ClassNone:
		return "gets the upstream's last response, as it came"
	case policy.ErrorEvent:
		return "gets the upstream's last event stream, as it came"
	case policy.Denied:
		return "gets 403 from mulligan"
	case policy.Timeout:
		if c.endless {
			return "waits for as long as the upstream does"
		}
		return "gets 504 from mulligan"
	case policy.ConnectFailure:
		return "gets 502 from mulligan, or 504 where it timed out"
	}
	return "gets 502 from mulligan"
}

// explainAll says of every outcome whether it is retried, and why; then how an
// outcome that is retried goes on.
func (q *question) explainAll(s *sheet, p *place) {
	table := tabwriter.NewWriter(s.w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "outcome\tretried\twhy")
	var retried []policy.Outcome
	for _, line := range q.lines(p) {
		fmt.Fprintf(table, "%s\t%s\t%s\n", line.names(), line.retried, line.why)
		if line.retried == "yes" {
			retried = append(retried, line.outcomes[0])
		}
	}
	table.Flush()
	s.text("")
	if len(retried) == 0 {
		s.text("Nothing is retried.")
		return
	}
	example := retried[0]
	if last := retried[len(retried)-1]; last.Status != 0 {
		example = last // more telling than a class
	}
	s.text("Where it is retried and the upstream does not say when, as after %s:", outcomeName(example))
	s.text("")
	q.explainCourse(s, p, example)
}

// line is what has the same fate, for the same reason.
type line struct {
	outcomes     []policy.Outcome
	retried, why string
}

// lines asks policy about every class, and about every status that people use
// or that the policy lists.
func (q *question) lines(p *place) []line {
	var lines []line
	for _, c := range policy.Classes() {
		if o := (policy.Outcome{Class: c}); !p.tunnel || dialCan(o) {
			lines = append(lines, q.line(p, o))
		}
	}
	if p.tunnel {
		return lines
	}
	classes := len(lines)
	for status := 200; status <= 999; status++ {
		r := &p.route.Retry
		if status > 599 && !r.RetryOn.HasStatus(status) && !r.DoNotRetryOn.HasStatus(status) {
			continue
		}
		l := q.line(p, policy.Outcome{Status: status})
		same := slices.IndexFunc(lines[classes:], func(x line) bool { return x.retried == l.retried && x.why == l.why })
		if same < 0 {
			lines = append(lines, l)
			continue
		}
		lines[classes+same].outcomes = append(lines[classes+same].outcomes, l.outcomes...)
	}
	return append(lines, q.grpcLines(p)...)
}

// grpcLines asks policy about the gRPC statuses that it lists.
func (q *question) grpcLines(p *place) []line {
	var lines []line
	for _, g := range policy.GRPCStatuses() {
		if r := &p.route.Retry; r.RetryOn.HasGRPC(g) || r.DoNotRetryOn.HasGRPC(g) {
			lines = append(lines, q.line(p, policy.Outcome{Status: 200, GRPC: g}))
		}
	}
	return lines
}

func (q *question) line(p *place, o policy.Outcome) line {
	if why := q.never(p, o); why != "" {
		return line{[]policy.Outcome{o}, "-", why}
	}
	rule, may := statusRule(&p.route.Retry, &o)
	found := weigh(&p.route.Retry, o, rule)
	if may {
		found.why += " (a rule may say otherwise)"
	}
	l := line{[]policy.Outcome{o}, "no", verdictWords[found.verdict] + ": " + found.why}
	takes := q.leastAttempt(p, o)
	c := q.drive(p, o, takes, shortest, rich(p.upstream.Budget))
	switch {
	case found.verdict == policy.Succeeded:
		l.retried, l.why = "-", found.why
	case len(c.steps) > 1:
		l.retried, l.why = "yes", found.why
	case found.verdict == policy.Retryable && c.uncut != policy.Going:
		l.why = c.uncut.String() + ", so timeout.attempt does not cut it, though " + found.why
	case found.verdict == policy.Retryable:
		fresh := q.drive(p, o, takes, shortest, p.upstream.Budget)
		l.why = c.last.Stop.String() + ", though " + found.why + unearned(c, fresh)
	}
	return l
}

// names writes the outcomes, neighbouring statuses as ranges.
func (l line) names() string {
	switch first := l.outcomes[0]; {
	case first.Class != policy.ClassNone:
		return first.Class.String()
	case first.GRPC != 0:
		return first.GRPC.String()
	}
	var parts []string
	for i := 0; i < len(l.outcomes); {
		first, end := l.outcomes[i].Status, i+1
		for end < len(l.outcomes) && l.outcomes[end].Status == first+end-i {
			end++
		}
		switch last := l.outcomes[end-1].Status; {
		case last == first:
			parts = append(parts, fmt.Sprint(first))
		default:
			parts = append(parts, fmt.Sprintf("%d-%d", first, last))
		}
		i = end
	}
	return strings.Join(parts, ", ")
}
