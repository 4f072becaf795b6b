package policy_test

import (
	"testing"
	"time"

	"mulligan/policy"
)

// TestOtherHints: what a server said to another request is a lower bound of this
// one's wait, as its own hint is; the longer counts, and it ends retries where it is
// longer than is obeyed or than the window.
func TestOtherHints(t *testing.T) {
	const s = time.Second
	hinted := func(d time.Duration, from policy.HintSource) policy.Outcome {
		return policy.Outcome{Status: 503, Hint: d, HasHint: true, Source: from}
	}
	plain := policy.Outcome{Status: 503}
	for name, c := range map[string]struct {
		o      policy.Outcome
		pause  time.Duration
		left   time.Duration // of the window; 0: there is none
		stop   policy.Stop
		lo, hi time.Duration
	}{
		"neither":                         {plain, 0, 600 * s, policy.Going, 250 * ms, 250 * ms},
		"a pause alone":                   {plain, 8 * s, 600 * s, policy.Going, 8 * s, 10 * s},
		"a short one has base for spread": {plain, 400 * ms, 600 * s, policy.Going, 400 * ms, 650 * ms},
		"a pause of nothing":              {plain, -s, 600 * s, policy.Going, 250 * ms, 250 * ms},
		"own hint, longer":                {hinted(12*s, policy.HintStandard), 8 * s, 600 * s, policy.Going, 12 * s, 15 * s},
		"pause, longer":                   {hinted(4*s, policy.HintStandard), 8 * s, 600 * s, policy.Going, 8 * s, 10 * s},
		"own hint: at once":               {hinted(0, policy.HintStandard), 8 * s, 600 * s, policy.Going, 8 * s, 10 * s},
		"as long as is obeyed":            {plain, 30 * s, 600 * s, policy.Going, 30 * s, 37500 * ms},
		"longer than is obeyed":           {plain, 30*s + 1, 600 * s, policy.RetryAfter, 0, 0},
		"the same beside a shorter hint":  {hinted(4*s, policy.HintStandard), 31 * s, 600 * s, policy.RetryAfter, 0, 0},
		"beyond the window":               {plain, 8 * s, 7 * s, policy.RetryAfter, 0, 0},
		"spread up to the window":         {plain, 8 * s, 9 * s, policy.Going, 8 * s, 9 * s},
		"without a window":                {plain, 8 * s, 0, policy.Going, 8 * s, 10 * s},
		"a whole allowance":               {hinted(12*s, policy.HintFull), 0, 600 * s, policy.Going, 12 * s, 15 * s},
		"a whole one, too far off":        {hinted(40*s, policy.HintFull), 0, 600 * s, policy.Going, 250 * ms, 250 * ms},
		"a whole one, beyond the window":  {hinted(8*s, policy.HintFull), 0, 7 * s, policy.Going, 250 * ms, 250 * ms},
		"that beside a pause":             {hinted(40*s, policy.HintFull), 8 * s, 600 * s, policy.Going, 8 * s, 10 * s},
	} {
		scene := retried(t)
		scene.outcome = c.o
		scene.state.Pause, scene.state.Left, scene.state.Unlimited = c.pause, c.left, c.left == 0
		d, b := scene.next()
		if d.Stop != c.stop || d.Retry != (c.stop == policy.Going) || d.Lo != c.lo || d.Hi != c.hi {
			t.Errorf("%s: %+v", name, d)
		}
		if tokens := b.Remaining(t0); tokens != 2 && d.Retry || tokens != 3 && !d.Retry {
			t.Errorf("%s: %d tokens remain", name, tokens)
		}
	}
	ignored := retried(t)
	ignored.route.Retry.RetryAfter, ignored.state.Pause = 0, 8*s
	if d, _ := ignored.next(); d.Wait != 250*ms {
		t.Errorf("retry_after: 0s, but %+v", d)
	}
}

// TestPauseIsNoPreviousWait: decorrelated jitter goes on from waits that backoff drew,
// not from what a server said, to whomever.
func TestPauseIsNoPreviousWait(t *testing.T) {
	s := retried(t)
	s.route.Retry.Backoff.Jitter = policy.Decorrelated
	session := policy.NewSession(s.route, policy.NewBudget(s.budget, t0), s.request)
	paused := s.state
	paused.Pause = 20 * time.Second
	session.Next(s.outcome, paused, 0.5)
	if d := session.Next(s.outcome, s.state, 0.5); d.Lo != 250*ms || d.Hi != 750*ms {
		t.Errorf("%+v", d)
	}
}

// TestHedgesCount: attempts under way beside the one that failed are attempts, and
// the wait that follows is that of as many.
func TestHedgesCount(t *testing.T) {
	for _, c := range []struct {
		hedges int
		stop   policy.Stop
		wait   time.Duration
	}{
		{0, policy.Going, 250 * ms}, {1, policy.Going, 750 * ms}, {2, policy.Going, 2250 * ms},
		{3, policy.MaxAttempts, 0}, {9, policy.MaxAttempts, 0},
	} {
		s := retried(t)
		s.state.Hedges = c.hedges
		if d, _ := s.next(); d.Stop != c.stop || d.Wait != c.wait {
			t.Errorf("%d beside it: %+v", c.hedges, d)
		}
		session := policy.NewSession(s.route, policy.NewBudget(s.budget, t0), s.request)
		if d, cut := session.Cut(s.state, 0.5); d.Stop != c.stop || cut != (c.stop == policy.Going) {
			t.Errorf("%d beside it, and none is in time: %+v", c.hedges, d)
		}
	}
}

// TestHedged: an attempt that lost is one, and what it was answered with feeds the
// budget as any answer does; it decides nothing.
func TestHedged(t *testing.T) {
	for name, c := range map[string]struct {
		o     policy.Outcome
		earns int
	}{
		"cancelled":     {policy.Outcome{}, 0},
		"failed":        {policy.Outcome{Status: 503}, 0},
		"reset":         {policy.Outcome{Class: policy.ConnectionReset}, 0},
		"succeeded":     {policy.Outcome{Status: 200}, 1},
		"permanent":     {policy.Outcome{Status: 404}, 1},
		"final by word": {policy.Outcome{Status: 503, Word: policy.FinalWord}, 0},
	} {
		s := retried(t)
		b := policy.NewBudget(policy.BudgetConfig{Ratio: 1, Burst: 2, Window: time.Second}, t0)
		session := policy.NewSession(s.route, b, s.request)
		session.Hedged(c.o, t0)
		if session.Attempts() != 1 || b.Remaining(t0) != 2+c.earns {
			t.Errorf("%s: %d attempts, %d tokens", name, session.Attempts(), b.Remaining(t0))
		}
		session.Undo(t0)
		if b.Remaining(t0) != 2+c.earns {
			t.Errorf("%s: it gave a token back that it did not take", name)
		}
		if d := session.Next(s.outcome, s.state, 0.5); d.Wait != 750*ms {
			t.Errorf("%s: what decides is the second attempt, but %+v", name, d)
		}
	}
}

// TestUncut: an attempt that ended by itself, after it was decided to cut it, has
// neither ended twice nor paid.
func TestUncut(t *testing.T) {
	s := retried(t)
	b := policy.NewBudget(s.budget, t0)
	session := policy.NewSession(s.route, b, s.request)
	if _, cut := session.Cut(s.state, 0.5); !cut || b.Remaining(t0) != 2 {
		t.Fatalf("not cut; %d tokens", b.Remaining(t0))
	}
	session.Uncut(t0)
	if session.Attempts() != 0 || b.Remaining(t0) != 3 {
		t.Errorf("%d attempts, %d tokens", session.Attempts(), b.Remaining(t0))
	}
	if d := session.Next(s.outcome, s.state, 0.5); !d.Retry || d.Wait != 250*ms || session.Attempts() != 1 || b.Remaining(t0) != 2 {
		t.Errorf("then: %+v, %d attempts, %d tokens", d, session.Attempts(), b.Remaining(t0))
	}
}

// TestMayHedge: only what may be sent twice gets company, and only as much as there
// are attempts left.
func TestMayHedge(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*scene)
		ended  int // attempts before
		want   int
	}{
		"the first of four":     {func(*scene) {}, 0, 3},
		"the third":             {func(*scene) {}, 2, 1},
		"the last":              {func(*scene) {}, 3, 0},
		"the only one":          {func(s *scene) { s.route.Retry.MaxAttempts = 1 }, 0, 0},
		"the client's own most": {func(s *scene) { s.request.MaxAttempts = 2 }, 0, 1},
		"POST":                  {func(s *scene) { s.request.Method = "POST" }, 0, 0},
		"POST with a key":       {func(s *scene) { s.request.Method, s.request.Keyed = "POST", true }, 0, 3},
		"nested":                {func(s *scene) { s.request.Nested = true }, 0, 0},
		"observe":               {func(s *scene) { s.route.Retry.Mode = policy.ModeObserve }, 0, 0},
		"off":                   {func(s *scene) { s.route.Retry.Mode = policy.ModeOff }, 0, 0},
		"whatever the budget":   {func(s *scene) { s.budget.Burst = 0 }, 0, 3},
	} {
		s := retried(t)
		c.change(s)
		session := policy.NewSession(s.route, policy.NewBudget(s.budget, t0), s.request)
		for range c.ended {
			session.Hedged(policy.Outcome{}, t0)
		}
		if got := session.MayHedge(); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
