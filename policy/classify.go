package policy

import "slices"

// Verdict says what policy makes of an attempt, the method aside.
type Verdict uint8

// The verdicts.
const (
	Succeeded        Verdict = iota // a response under 400, unless a list has its gRPC status
	PermanentFailure                // a failure that policy does not retry
	Retryable                       // policy would try again
)

// Classify says what policy makes of an outcome. Who decides, in this order:
// what never heals, do_not_retry_on, the upstream's own word, retry_on. The
// method's veto is not its business (Repeatable).
//
// An attempt that broke after the response header has a class and a status, and
// a failed gRPC call two statuses, its own and that of HTTP (200): lists match
// any of them. A gRPC status that no list has is the client's business, and the
// HTTP status counts alone.
//
// Only of a failure (400 and above, or gRPC's), or of a whole response, does the
// upstream's word count: a success that broke off on its way is not what it spoke
// of. An outcome without class or status is an attempt that was given up: no
// answer, so Retryable; why it was given up shows in the State.
func (r *Retry) Classify(o Outcome) Verdict {
	switch {
	case o.Class.Never():
		return PermanentFailure
	case o.Class == ProtocolError:
		o.Status, o.GRPC = 0, 0 // what came cannot be trusted; without a status no word counts
	case o.Class == ClassNone && o.Status == 0:
		return Retryable
	}
	if r.repeats(o) {
		return Retryable
	}
	if o.Class == ClassNone && o.Status < 400 && !r.knows(o.GRPC) {
		return Succeeded
	}
	return PermanentFailure
}

func (r *Retry) repeats(o Outcome) bool {
	if o.Ruled != NotRuled {
		return o.Ruled == RuledRetry
	}
	if o.in(&r.DoNotRetryOn) {
		return false
	}
	switch {
	case o.Word == FinalWord && (o.failed() || o.Class == ClassNone):
		return false
	case o.Word == RetryWord && o.Status >= 400: // a success is not repeated for a header
		return true
	}
	return o.in(&r.RetryOn)
}

// in reports whether the set lists the outcome's class or a status of it.
func (o *Outcome) in(s *Set) bool {
	return s.hasClass(o.Class) || s.hasStatus(o.Status) || s.hasGRPC(o.GRPC)
}

// knows reports whether a list has the gRPC status, so that policy takes it for
// a failure.
func (r *Retry) knows(g GRPC) bool { return r.RetryOn.hasGRPC(g) || r.DoNotRetryOn.hasGRPC(g) }

// Repeatable reports whether a request may be sent again after an attempt that
// ended with class c: always where nothing was sent, else where the method is
// listed or the request carries an idempotency key.
func (r *Retry) Repeatable(method string, keyed bool, c Class) bool {
	return c.NothingSent() || keyed || slices.Contains(r.Methods, method)
}

// Heeds reports whether the fields of a response with this status can matter
// to a decision, so that Outcome.ReadHeader is worth its look-ups. A gRPC call
// that failed has a status that says nothing of it.
func (r *Retry) Heeds(status int) bool {
	return status >= 400 || r.RetryOn.hasStatus(status) ||
		r.RetryOn.grpc|r.DoNotRetryOn.grpc != 0 && 200 <= status && status < 300
}

// feeds reports whether the outcome is an answer that earns the budget its
// ratio: one with statuses that the lists would not retry, whatever the
// upstream's word was, and that arrived whole.
func (r *Retry) feeds(o Outcome, v Verdict) bool {
	return v != Retryable && o.Class == ClassNone && (!o.in(&r.RetryOn) || o.in(&r.DoNotRetryOn))
}
