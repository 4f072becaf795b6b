package policy

import "time"

// Mark says what an attempt's outcome is to a circuit breaker: Bad where its class
// or status is one that policy retries, whatever the method and the upstream's word;
// Neutral where it says nothing of the endpoint's health: a 4xx, and a class that
// policy does not retry. Any other response is Good, a 500 that policy does not
// retry too: it is an answer. slow says that the response took longer than
// timeout.attempt, which is as bad, whatever it says.
func (r *Retry) Mark(o Outcome, slow bool) Mark {
	switch {
	case r.listed(o), slow && o.Class == ClassNone:
		return Bad
	case o.Class != ClassNone, o.Status == 0, 400 <= o.Status && o.Status < 500:
		return Neutral
	}
	return Good
}

// Holds returns for how long what a response says of when to come back holds back
// other requests' retries to the authority, and whether only those with the same
// credentials: a 503's hint all of them, any other's, and what is said of a rate
// limit, those. It is 0 where the time is longer than is obeyed, or a hint's response
// is none that policy would retry, whoever asked.
func (r *Retry) Holds(o Outcome) (d time.Duration, sameCredentials bool) {
	switch {
	case o.Class != ClassNone:
		return 0, false
	case o.HasHint && o.Source != HintFull && r.Classify(o) == Retryable:
		d, sameCredentials = o.Hint, o.Status != 503 || o.Source == HintReset
	default:
		d, sameCredentials = o.Exhausted, true
	}
	if d > r.RetryAfter {
		return 0, false
	}
	return d, sameCredentials
}
