package policy

import "slices"

// Verdict says what policy makes of an attempt, the method aside.
type Verdict uint8

// The verdicts.
const (
	Succeeded        Verdict = iota // a response under 400
	PermanentFailure                // a failure that policy does not retry
	Retryable                       // policy would try again
)

// Classify says what policy makes of an outcome. Who decides, in this order:
// what never heals, do_not_retry_on, the upstream's own word, retry_on. The
// method's veto is not its business (Repeatable).
//
// An attempt that broke after the response header has a class and a status;
// lists match either. Only of a failure (400 and above), or of a whole
// response, does the upstream's word count: a success that broke off on its way
// is not what it spoke of. An outcome with neither is an attempt that was given up:
// no answer, so Retryable; why it was given up shows in the State.
func (r *Retry) Classify(o Outcome) Verdict {
	switch {
	case o.Class.Never():
		return PermanentFailure
	case o.Class == ProtocolError:
		o.Status = 0 // what came cannot be trusted; without a status no word counts
	case o.Class == ClassNone && o.Status == 0:
		return Retryable
	}
	if r.repeats(o) {
		return Retryable
	}
	if o.Class == ClassNone && o.Status < 400 {
		return Succeeded
	}
	return PermanentFailure
}

func (r *Retry) repeats(o Outcome) bool {
	if o.in(&r.DoNotRetryOn) {
		return false
	}
	switch {
	case o.Word == FinalWord && (o.Status >= 400 || o.Class == ClassNone):
		return false
	case o.Word == RetryWord && o.Status >= 400: // a success is not repeated for a header
		return true
	}
	return o.in(&r.RetryOn)
}

// in reports whether the set lists the outcome's class or status.
func (o *Outcome) in(s *Set) bool { return s.hasClass(o.Class) || s.hasStatus(o.Status) }

// Repeatable reports whether a request may be sent again after an attempt that
// ended with class c: always where nothing was sent, else where the method is
// listed or the request carries an idempotency key.
func (r *Retry) Repeatable(method string, keyed bool, c Class) bool {
	return c.NothingSent() || keyed || slices.Contains(r.Methods, method)
}

// Heeds reports whether the fields of a response with this status can matter
// to a decision, so that Outcome.ReadHeader is worth its look-ups.
func (r *Retry) Heeds(status int) bool { return status >= 400 || r.RetryOn.hasStatus(status) }

// feeds reports whether the outcome is an answer that earns the budget its
// ratio: one with a status that the lists would not retry, whatever the
// upstream's word was, and that arrived whole.
func (r *Retry) feeds(o Outcome, v Verdict) bool {
	return v != Retryable && o.Class == ClassNone &&
		(!r.RetryOn.hasStatus(o.Status) || r.DoNotRetryOn.hasStatus(o.Status))
}
