package metrics

import "github.com/prometheus/client_golang/prometheus"

// Outcome says how a request ended for its client.
type Outcome uint8

// The outcomes.
const (
	Success           Outcome = iota // under 400 at the first attempt
	SuccessAfterRetry                // under 400 at a later attempt
	Permanent                        // an end that policy would not retry, whatever came before
	Failed                           // a retryable failure that stayed one
	ClientGone                       // the client left before its answer
	numOutcomes
)

var outcomeNames = [numOutcomes]string{"success", "success_after_retry", "permanent", "failed", "client_gone"}

// String returns the outcome's label value.
func (o Outcome) String() string { return outcomeNames[o] }

// statusClasses are the results of attempts that were answered.
var statusClasses = [...]string{"1xx", "2xx", "3xx", "4xx", "5xx"}

// Route counts for one route of an upstream. Its methods are safe for
// concurrent use.
type Route struct {
	upstream *Upstream
	name     string
	requests [numOutcomes]prometheus.Counter
	statuses [len(statusClasses)]prometheus.Counter
}

// newRoute resolves the series that the path of a request needs. Those of
// failures are left to their vectors, which find them without allocating:
// a failure costs more than a look-up anyhow, and most would stay 0 for ever.
func (u *Upstream) newRoute(name string) *Route {
	r := &Route{upstream: u, name: name}
	for outcome, word := range outcomeNames {
		r.requests[outcome] = u.m.requests.WithLabelValues(u.name, name, word)
	}
	for i, word := range statusClasses {
		r.statuses[i] = u.m.attempts.WithLabelValues(u.name, name, word)
	}
	return r
}

// Request counts a request.
func (r *Route) Request(outcome Outcome) { r.requests[outcome].Inc() }

// AttemptStatus counts an attempt that was answered with status.
func (r *Route) AttemptStatus(status int) {
	last := len(r.statuses) - 1
	r.statuses[min(max(status/100-1, 0), last)].Inc() // over 599 is as good as 5xx (RFC 9110 15)
}

// AttemptClass counts an attempt that ended with a failure class, or
// "cancelled" where the client left.
func (r *Route) AttemptClass(class string) { r.attempt(listed(classes, class)) }

// attempt counts an attempt by its label value.
func (r *Route) attempt(result string) {
	r.upstream.m.attempts.WithLabelValues(r.upstream.name, r.name, result).Inc()
}

// Retry counts a retry by what came before it: a status as three digits or a
// failure class.
func (r *Route) Retry(after string) {
	r.upstream.m.retries.WithLabelValues(r.upstream.name, r.name, reason(after)).Inc()
}

// Denied counts a failed request that was not retried further, by its stop.
func (r *Route) Denied(stop string) {
	r.upstream.m.denied.WithLabelValues(r.upstream.name, r.name, listed(stops, stop)).Inc()
}
