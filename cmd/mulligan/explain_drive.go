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
}

// The draws at the ends of each wait's range: policy wants them in [0,1).
const shortest = 0.0

var longest = math.Nextafter(1, 0)

// drive runs the policy's own session through virtual time: every attempt takes
// so long and ends with o, and every wait is drawn with random. The budget is
// one that never runs out: what it allows depends on other requests.
func (q *question) drive(p *place, o policy.Outcome, takes time.Duration, random float64) course {
	budget := policy.NewBudget(policy.BudgetConfig{Burst: 100, Window: time.Minute}, q.now)
	session := policy.NewSession(p.route, budget, q.request(p))
	c := course{steps: []step{{}}, end: o}
	total := q.window(p)
	for elapsed := time.Duration(0); ; {
		elapsed = plus(elapsed, takes)
		st := policy.State{Now: q.now.Add(elapsed), Unlimited: total == 0, Left: total - elapsed, Replayable: q.replayable(p)}
		if total > 0 && elapsed >= total {
			c.end, st.Left = policy.Outcome{Class: policy.Timeout}, 0
		}
		if c.last = session.Next(c.end, st, random); !c.last.Retry {
			return c
		}
		elapsed = plus(elapsed, c.last.Wait)
		c.steps = append(c.steps, step{c.last.Lo, c.last.Hi, elapsed})
	}
}

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
	total, asked := p.route.Timeout.Total, q.asked.Total
	if asked > 0 && (total == 0 || asked < total) {
		return asked
	}
	return total
}

// replayable reports whether the body, as far as its length is given, is kept.
func (q *question) replayable(p *place) bool {
	n, ok := q.contentLength()
	return !ok || n <= p.route.Buffer.Request
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
