package policy

import "time"

// Request is what a session has to know of the request.
type Request struct {
	Method      string
	Keyed       bool // carries an idempotency key
	Nested      bool // came through another mulligan
	MaxAttempts int  // the client's own limit, which only tightens; 0 = none
	ClientRetry bool // is a retry by the client's own library
}

// State is how things stand when an attempt has ended.
type State struct {
	Now        time.Time
	Left       time.Duration // of the window
	Unlimited  bool          // there is no window
	ClientGone bool
	Draining   bool
	Replayable bool // the request's body, if any, can be sent again

	CircuitOpen bool          // no endpoint would take a retry now
	Pause       time.Duration // for which a server's hint to another request holds back this one's retry
	Elsewhere   bool          // the next attempt goes to another endpoint, which has asked for nothing
	Hedges      int           // begun beside this attempt, and not counted yet
}

// Decision is what follows an attempt.
type Decision struct {
	Retry   bool
	Stop    Stop // why not; Going where Retry
	Verdict Verdict
	Wait    time.Duration // before the retry; also set where Stop is Window, BudgetExhausted or Disabled
	Lo, Hi  time.Duration // what Wait was drawn between
	hinted  bool          // by a server's hint
	Reason  string        // the class or status that the attempt ended with, safe as a metric's label
}

// Session decides for one request, attempt by attempt. It is a value, to be
// kept where the request is; not for concurrent use.
type Session struct {
	route    *Route
	budget   *Budget
	request  Request
	attempts int
	max      int
	previous time.Duration // the last wait that no hint governed; 0 none
	paid     bool          // the budget was asked for the retry that is next
}

// NewSession starts a request under the route's policy.
func NewSession(r *Route, b *Budget, req Request) Session {
	limit := max(1, r.Retry.MaxAttempts)
	if req.MaxAttempts > 0 {
		limit = min(limit, req.MaxAttempts)
	}
	return Session{route: r, budget: b, request: req, max: limit}
}

// Begin is called before the first attempt. A request that is its client's own
// retry pays a token here, where the route counts those and there is one, so that
// the retries of both together stay in the budget as far as this side can see to
// it. Without one it is sent nevertheless: what clients send is never refused for
// the budget's sake. The token does not come back, since the retry is made; and
// the mode does not matter, since it is the client who makes it.
func (s *Session) Begin(now time.Time) {
	if s.request.ClientRetry && s.route.Retry.CountClientRetries {
		s.budget.Withdraw(now)
	}
}

// Attempts returns how many attempts have ended.
func (s *Session) Attempts() int { return s.attempts }

// MaxAttempts returns how many attempts there may be in all, the first included.
func (s *Session) MaxAttempts() int { return s.max }

// MayRetry reports whether a retry could still follow the attempt that is under
// way, whatever the budget: whether recording its body and holding its response
// are worth it.
func (s *Session) MayRetry(replayable bool) bool {
	return s.route.Retry.Mode == ModeOn && replayable && s.WouldRetry()
}

// WouldRetry is MayRetry for a body that can be sent again, also where retries
// are only counted (ModeObserve): whether it matters that the body can be.
func (s *Session) WouldRetry() bool {
	r := &s.route.Retry
	return r.Mode != ModeOff && s.attempts+1 < s.max && !s.nested() &&
		r.Repeatable(s.request.Method, s.request.Keyed, Truncated)
}

// RetriesRefused reports whether a retry could follow an attempt that the peer says
// it did not process: that is for any method.
func (s *Session) RetriesRefused() bool {
	r := &s.route.Retry
	return r.Mode == ModeOn && s.attempts+1 < s.max && !s.nested() && r.RetryOn.hasClass(RefusedStream) && !r.DoNotRetryOn.hasClass(RefusedStream)
}

// MayHedge returns how many attempts may go beside the one under way at most,
// whatever the budget: there are that many left, and the request may be repeated.
func (s *Session) MayHedge() int {
	if !s.MayRetry(true) {
		return 0
	}
	return s.max - s.attempts - 1
}

// Hedged counts an attempt that ended with o beside another, whose end decides; the
// zero outcome is one that was cancelled.
func (s *Session) Hedged(o Outcome, now time.Time) {
	s.attempts++
	if r := &s.route.Retry; r.feeds(o, r.Classify(o)) {
		s.budget.Answered(now)
	}
}

func (s *Session) nested() bool { return s.request.Nested && !s.route.Retry.Nested }

// Next counts the attempt that ended with o and decides what follows. random,
// in [0,1), draws the wait. Where a retry follows it has been paid for: who
// does not send it calls Undo.
func (s *Session) Next(o Outcome, st State, random float64) Decision {
	d := s.decide(o, st, random)
	if s.route.Retry.feeds(o, d.Verdict) {
		s.budget.Answered(st.Now)
	}
	s.commit(o, d)
	return d
}

// Cut is asked when timeout.attempt has passed. Where a retry follows it is
// Next for a Timeout, and the attempt is to be cut; else it changes nothing,
// returns false, and the attempt goes on.
func (s *Session) Cut(st State, random float64) (Decision, bool) {
	o := Outcome{Class: Timeout}
	d := s.decide(o, st, random)
	if d.Retry {
		s.commit(o, d)
	}
	return d, d.Retry
}

// Uncut takes back what Cut decided last: the attempt has ended by itself after all.
func (s *Session) Uncut(now time.Time) {
	s.Undo(now)
	s.attempts--
}

// Undo gives the token of the retry back that was decided last and will not be
// sent; once, however often it is called.
func (s *Session) Undo(now time.Time) {
	if s.paid {
		s.paid = false
		s.budget.Refund(now)
	}
}

func (s *Session) commit(o Outcome, d Decision) {
	s.attempts++
	s.paid = d.Retry
	if d.Retry && !d.hinted {
		s.previous = d.Wait
	}
}

// decide is the order of the stops. It changes nothing of the session, and of
// the budget only where it decides for a retry.
func (s *Session) decide(o Outcome, st State, random float64) Decision {
	r := &s.route.Retry
	d := Decision{Verdict: r.Classify(o), Reason: r.reason(o)}
	switch {
	case d.Verdict == Succeeded:
		d.Stop = Success
	case d.Verdict == PermanentFailure:
		d.Stop = Permanent
	case st.ClientGone:
		d.Stop = ClientGone
	case o.Class == Timeout && !st.Unlimited && st.Left <= 0:
		d.Stop = Window // the window ends an attempt in any case, one that nothing could follow too
	case st.Draining:
		d.Stop = Draining
	case s.nested():
		d.Stop = Nested
	case !r.Repeatable(s.request.Method, s.request.Keyed, o.Class):
		d.Stop = NotIdempotent
	case s.attempts+st.Hedges+1 >= s.max:
		d.Stop = MaxAttempts
	case !st.Replayable && r.Mode != ModeOff: // with ModeOff nothing is kept that could be
		d.Stop = BodyNotReplayable
	case st.CircuitOpen:
		d.Stop = CircuitOpen
	default:
		s.schedule(&d, o, st, random)
	}
	d.Retry = d.Stop == Going
	return d
}

// schedule goes through the stops that depend on the wait, draws it, and pays.
func (s *Session) schedule(d *Decision, o Outcome, st State, random float64) {
	r := &s.route.Retry
	left := max(0, st.Left)
	if st.Unlimited {
		left = maxDuration
	}
	n := s.attempts + st.Hedges + 1 // the retry that would follow
	most := min(r.RetryAfter, left)
	if hint, ok := s.hint(o, st, most); ok {
		d.hinted = true
		if hint > most {
			d.Stop = RetryAfter
			return
		}
		d.Lo, d.Hi = hint, hint+min(max(r.Backoff.Base(n), hint/4), left-hint)
	} else {
		d.Lo, d.Hi = r.Backoff.Interval(n, s.previous)
	}
	d.Wait = draw(d.Lo, d.Hi, random)
	switch {
	case d.Wait >= left && !st.Unlimited:
		d.Stop = Window
	case r.Mode == ModeOn:
		if !s.budget.Withdraw(st.Now) {
			d.Stop = BudgetExhausted
		}
	case s.budget.Remaining(st.Now) < 1:
		d.Stop = BudgetExhausted
	default:
		d.Stop = Disabled
	}
}

const maxDuration = time.Duration(1<<63 - 1)

// hint returns the server's hint, to this request or to others, if there is one
// and hints are not to be ignored. When a whole allowance is back does not matter
// where that is later than most: one request may go long before. What one endpoint
// asks for does not hold for another, but for a pushback, which is about the call.
func (s *Session) hint(o Outcome, st State, most time.Duration) (time.Duration, bool) {
	if s.route.Retry.RetryAfter <= 0 {
		return 0, false
	}
	hint := max(0, st.Pause)
	if o.HasHint && (!st.Elsewhere || o.Source == HintPushback) && !(o.Source == HintFull && o.Hint > most) {
		return max(hint, o.Hint), true
	}
	return hint, hint > 0
}
