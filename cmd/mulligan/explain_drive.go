package main

import (
	"math"
	"time"

	"mulligan/policy"
)

// step is one attempt of a course: the range of the wait before it, and when it
// begins, counted from the first.
type step struct {
	lo, hi time.Duration
	begins time.Duration
}

// course is how a request goes on whose attempts all end alike.
type course struct {
	steps []step
	last  policy.Decision // after the last attempt
	end   policy.Outcome  // of the last attempt: the window may have ended it
	// uncut is why timeout.attempt, which had passed, did not cut the last attempt:
	// it does so only where a retry follows. Going: nothing of the kind.
	uncut   policy.Stop
	endless bool // and nothing else ends it
}

// The draws at the ends of each wait's range: policy wants them in [0,1).
const shortest = 0.0

var longest = math.Nextafter(1, 0)

// drive runs the policy's own session through virtual time: every attempt takes
// so long and ends with o, and every wait is drawn with random. The budget is a
// new one that nobody else draws on.
func (q *question) drive(p *place, o policy.Outcome, takes time.Duration, random float64, cfg policy.BudgetConfig) course {
	session := policy.NewSession(p.route, policy.NewBudget(cfg, q.now), q.request(p))
	c := course{steps: []step{{}}, end: o}
	total := q.window(p)
	for elapsed := time.Duration(0); ; {
		elapsed = plus(elapsed, takes)
		st := policy.State{Now: q.now.Add(elapsed), Unlimited: total == 0, Left: total - elapsed, Replayable: q.replayable(p, o.Class)}
		st.Elsewhere = !p.tunnel && len(c.steps) < len(p.upstream.Endpoints) // the worst case: all of them say the same
		if total > 0 && elapsed >= total {
			c.end, st.Left = policy.Outcome{Class: policy.Timeout}, 0
		}
		if c.last = q.next(&c, &session, st, random); !c.last.Retry {
			return c
		}
		elapsed = plus(elapsed, c.last.Wait)
		c.steps = append(c.steps, step{c.last.Lo, c.last.Hi, elapsed})
	}
}

// next is what follows an attempt. When timeout.attempt has passed, policy is
// asked as the proxy asks it: an attempt that is not cut goes on until the
// window ends.
func (q *question) next(c *course, session *policy.Session, st policy.State, random float64) policy.Decision {
	if c.end.Class != policy.Timeout || !st.Unlimited && st.Left <= 0 {
		return session.Next(c.end, st, random)
	}
	d, cut := session.Cut(st, random)
	if cut {
		return d
	}
	c.uncut, c.endless = d.Stop, st.Unlimited
	if !st.Unlimited {
		st.Now, st.Left = st.Now.Add(st.Left), 0
		d = session.Next(c.end, st, random)
	}
	return d
}

// rich is the budget as it is at best, where earlier answers, and time, have
// paid in all that it can hold.
func rich(b policy.BudgetConfig) policy.BudgetConfig {
	switch {
	case b.Ratio > 0:
		b.Burst += plenty
	case b.MinPerSecond > 0:
		b.Burst = max(b.Burst, 1) // that much it has room for in any case
	}
	return b
}

// plenty is more tokens than a request can spend.
const plenty = 100

// request is what the session has to know.
func (q *question) request(p *place) policy.Request {
	if p.tunnel {
		return policy.Request{Method: "CONNECT", Nested: q.asked.Nested, MaxAttempts: q.asked.MaxAttempts}
	}
	return policy.Request{
		Method: q.method, Keyed: q.key(p.route) != "", Nested: q.asked.Nested, MaxAttempts: q.asked.MaxAttempts,
	}
}

// window is timeout.total, or what the client asked for where that is less; 0
// is none.
func (q *question) window(p *place) time.Duration {
	total := p.route.Timeout.Total
	tighten := func(asked time.Duration) {
		if asked > 0 && (total == 0 || asked < total) {
			total = asked
		}
	}
	tighten(q.asked.Total)
	if d, ok := q.deadline(p); ok {
		tighten(max(d, 1)) // 0 is a time that is over
	}
	return total
}

// deadline is what a gRPC call allows for all of itself.
func (q *question) deadline(p *place) (time.Duration, bool) {
	if p.tunnel || !policy.IsGRPC(string(q.header.Get("Content-Type"))) {
		return 0, false
	}
	return policy.GRPCTimeout(string(q.header.Get("grpc-timeout")))
}

// replayable reports whether the body can be sent again after attempts that end
// with class c: nothing of it was sent, or it is kept, as far as its length is
// given.
func (q *question) replayable(p *place, c policy.Class) bool {
	if p.tunnel || c.NothingSent() {
		return true
	}
	n, ok := q.contentLength()
	return !ok || n <= min(p.route.Buffer.Request, q.settings.BufferTotal)
}

// leastAttempt is how long an attempt takes at least that ends with the outcome.
func (q *question) leastAttempt(p *place, o policy.Outcome) time.Duration {
	if o.Class == policy.Timeout {
		return q.longestAttempt(p, o)
	}
	return 0
}

// longestAttempt is how long an attempt may take that ends with the outcome; 0
// is without limit.
func (q *question) longestAttempt(p *place, o policy.Outcome) time.Duration {
	limit := p.route.Timeout.Attempt
	if o.Class == policy.ConnectFailure {
		limit = p.route.Timeout.Connect
	}
	if limit == 0 {
		return q.window(p)
	}
	return limit
}

// plus adds durations; what does not fit is the longest there is.
func plus(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
