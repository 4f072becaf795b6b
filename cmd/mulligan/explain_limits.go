package main

import (
	"fmt"
	"strings"

	"mulligan/policy"
)

// describeLimits writes what else bears on the request's attempts, where it is
// configured.
func (q *question) describeLimits(s *sheet, p *place) {
	u, r := p.upstream, p.route
	if h := u.HealthCheck; h.Path != "" && !p.tunnel && !p.inside {
		s.row("health", "each endpoint is asked for %s every %s, and skipped while it is not well", h.Path, length(h.Interval))
	}
	if u.Breaker.On() {
		s.row("breaker", "%s", whyBreaker(u.Breaker))
	}
	if r.Hedge.Max > 0 && !p.tunnel {
		s.row("hedge", "%s", q.whyHedge(p))
	}
	if c := u.Concurrency; c.Max > 0 {
		s.row("at once", "%s; what is more gets 503, stop=overloaded", joined(
			count(c.Max, "attempt"), optional(c.Queue > 0 && c.MaxWait > 0, "%d may wait for a place, for up to %s", c.Queue, length(c.MaxWait))))
	}
	if l := u.RateLimit; l.PerSecond > 0 {
		s.row("rate", "%s attempts a second, %d of them at once; %swhat is more gets 503, stop=overloaded",
			number(l.PerSecond), l.Burst, optional(l.MaxWait > 0, "one waits for its turn, for up to %s; ", length(l.MaxWait)))
	}
	if r.Buffer.FirstEvent && !p.tunnel {
		s.row("stream", "an event stream is held until its first event, for %s at most; none, or an error, is an error_event",
			size(r.Buffer.Response))
	}
	if told := whatIsTold(r); told != "" && !p.tunnel {
		s.row("told", "%s", told)
	}
}

// whyBreaker says when a circuit opens, for how long, and what closes it.
func whyBreaker(b policy.BreakerConfig) string {
	text := fmt.Sprintf("opens where %s %% of %d attempts or more in %s fail or are slow: for %s", number(100*b.FailureRatio), b.MinRequests, length(b.Window), length(b.OpenFor))
	if b.MaxOpenFor > b.OpenFor {
		text += fmt.Sprintf(", twice as long each time in a row up to %s", length(b.MaxOpenFor))
	}
	return text + fmt.Sprintf(", stop=circuit_open; %s", plural(b.Probes, "good probe closes it", "good probes close it"))
}

// whyHedge says when an attempt gets company, or why this request's does not.
func (q *question) whyHedge(p *place) string {
	h, session := p.route.Hedge, policy.NewSession(p.route, nil, q.request(p))
	switch {
	case p.route.Retry.Mode != policy.ModeOn:
		return "none: retry.mode is not on"
	case session.MaxAttempts() < 2:
		return "none: there is one attempt at most"
	case !session.MayRetry(true):
		return "none: the request may not be sent twice"
	}
	after := length(h.Delay)
	if h.Delay == 0 {
		after = "the time that 95 % of recent answers took"
	}
	return fmt.Sprintf("%s made where there is no answer after %s; each takes a token and counts as an attempt",
		plural(h.Max, "attempt more is", "attempts more are"), after)
}

// whatIsTold says which fields tell the upstream of the attempt.
func whatIsTold(r *policy.Route) string {
	return joined(
		optional(r.AttemptHeader != "", "the upstream gets the attempt's number in %s", r.AttemptHeader),
		optional(r.RemainingHeader != "", "what is left of the window in %s", r.RemainingHeader))
}

// places writes what a request with the path is sent to, at each endpoint.
func places(u *policy.Upstream, path string) string {
	var urls []string
	for _, e := range u.Endpoints {
		urls = append(urls, e.Scheme+"://"+hostPortOf(e)+e.Path+path)
	}
	return strings.Join(urls, ", ")
}

// optional formats where the condition holds; else it is "".
func optional(holds bool, format string, args ...any) string {
	if !holds {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// joined puts commas between the texts that are not empty.
func joined(texts ...string) string {
	var kept []string
	for _, text := range texts {
		if text != "" {
			kept = append(kept, text)
		}
	}
	return strings.Join(kept, ", ")
}
