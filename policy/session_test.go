package policy_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"mulligan/policy"
)

// scene is all that a decision depends on.
type scene struct {
	route   *policy.Route
	budget  policy.BudgetConfig
	request policy.Request
	outcome policy.Outcome
	state   policy.State
}

// retried is a scene in which a retry follows.
func retried(t testing.TB) *scene {
	r := builtin(t)
	r.Retry.Backoff.Jitter = policy.NoJitter
	return &scene{
		route:   r,
		budget:  builtinBudget,
		request: policy.Request{Method: "GET"},
		outcome: policy.Outcome{Status: 503},
		state:   ready(),
	}
}

func (s *scene) next() (policy.Decision, *policy.Budget) {
	b := policy.NewBudget(s.budget, s.state.Now)
	session := policy.NewSession(s.route, b, s.request)
	return session.Next(s.outcome, s.state, 0.5), b
}

// causes make a stop apply to a scene, in the contract's order.
var causes = []struct {
	stop  policy.Stop
	apply func(*scene)
}{
	{policy.Success, func(s *scene) { s.outcome.Status = 200 }},
	{policy.Permanent, func(s *scene) { s.outcome.Status = 404 }},
	{policy.ClientGone, func(s *scene) { s.state.ClientGone = true }},
	{policy.Draining, func(s *scene) { s.state.Draining = true }},
	{policy.Nested, func(s *scene) { s.request.Nested = true }},
	{policy.NotIdempotent, func(s *scene) { s.request.Method = "POST" }},
	{policy.MaxAttempts, func(s *scene) { s.route.Retry.MaxAttempts = 1 }},
	{policy.BodyNotReplayable, func(s *scene) { s.state.Replayable = false }},
	{policy.RetryAfter, func(s *scene) { s.outcome.Hint, s.outcome.HasHint = time.Hour, true }},
	{policy.Window, func(s *scene) { s.state.Left = 100 * ms }},
	{policy.BudgetExhausted, func(s *scene) { s.budget.Burst = 0 }},
	{policy.Disabled, func(s *scene) { s.route.Retry.Mode = policy.ModeObserve }},
}

func TestStopOrder(t *testing.T) {
	if d, b := retried(t).next(); !d.Retry || d.Stop != policy.Going || b.Remaining(t0) != 2 {
		t.Fatalf("nothing stops it, but: %+v", d)
	}
	for i, first := range causes {
		alone := retried(t)
		first.apply(alone)
		check := func(s *scene, with policy.Stop) {
			t.Helper()
			d, b := s.next()
			if d.Retry || d.Stop != first.stop {
				t.Errorf("%s with %s: retry %v, stop %q", first.stop, with, d.Retry, d.Stop)
			}
			if n := b.Remaining(s.state.Now); n < int(s.budget.Burst) {
				t.Errorf("%s with %s took a token", first.stop, with)
			}
		}
		check(alone, policy.Going)
		everything := retried(t)
		for j := len(causes) - 1; j >= i; j-- {
			if j == i || causes[j].stop != policy.Permanent {
				causes[j].apply(everything)
			}
		}
		check(everything, policy.Stop(200))
		for _, second := range causes[i+1:] {
			if first.stop == policy.Success && second.stop == policy.Permanent {
				continue // they cannot meet
			}
			s := retried(t)
			second.apply(s)
			first.apply(s)
			check(s, second.stop)
			s = retried(t)
			first.apply(s)
			if first.stop != policy.Success && first.stop != policy.Permanent {
				second.apply(s)
				check(s, second.stop)
			}
		}
	}
}

// With mode off nothing is kept, so that not being kept is no reason.
func TestModeOff(t *testing.T) {
	off := causes[len(causes)-1]
	for _, c := range append(causes, off) {
		s := retried(t)
		c.apply(s)
		s.route.Retry.Mode = policy.ModeOff
		want := c.stop
		if want == policy.BodyNotReplayable {
			want = policy.Disabled
		}
		if d, _ := s.next(); d.Retry || d.Stop != want {
			t.Errorf("%s: retry %v, stop %q", c.stop, d.Retry, d.Stop)
		}
	}
}

// Observing decides as retrying would, wait included, but moves no token.
func TestModeObserve(t *testing.T) {
	s := retried(t)
	s.route.Retry.Mode = policy.ModeObserve
	d, b := s.next()
	if d.Retry || d.Stop != policy.Disabled || d.Verdict != policy.Retryable || d.Wait != 250*ms {
		t.Errorf("%+v", d)
	}
	if n := b.Remaining(t0); n != 3 {
		t.Errorf("%d tokens remain", n)
	}
	session := policy.NewSession(s.route, b, s.request)
	session.Next(s.outcome, s.state, 0)
	session.Undo(t0)
	if d, cut := session.Cut(s.state, 0); cut || d.Stop != policy.Disabled {
		t.Errorf("cut for a retry that will not follow: %+v", d)
	}
}

func TestDisabledFeedsTheBudget(t *testing.T) {
	for _, mode := range []policy.Mode{policy.ModeObserve, policy.ModeOff} {
		s := retried(t)
		s.route.Retry.Mode, s.budget.Ratio, s.outcome.Status = mode, 1, 200
		if _, b := s.next(); b.Remaining(t0) != 4 {
			t.Errorf("mode %d: %d", mode, b.Remaining(t0))
		}
	}
}

func TestNestedMayBeAllowed(t *testing.T) {
	s := retried(t)
	s.request.Nested, s.route.Retry.Nested = true, true
	if d, _ := s.next(); !d.Retry {
		t.Errorf("%+v", d)
	}
}

func TestMaxAttempts(t *testing.T) {
	for _, tt := range []struct{ route, client, want int }{
		{4, 0, 4}, {4, 2, 2}, {4, 9, 4}, {1, 0, 1}, {1, 5, 1}, {0, 0, 1}, {-3, 0, 1}, {10, 1, 1}, {4, -1, 4},
	} {
		s := retried(t)
		s.route.Retry.MaxAttempts = tt.route
		s.request.MaxAttempts = tt.client
		b := policy.NewBudget(policy.BudgetConfig{Burst: 100}, t0)
		session := policy.NewSession(s.route, b, s.request)
		if session.Attempts() != 0 || session.MaxAttempts() != tt.want {
			t.Errorf("%+v: %d of %d", tt, session.Attempts(), session.MaxAttempts())
		}
		n := 1
		for ; session.Next(s.outcome, s.state, 0.5).Retry; n++ {
		}
		if n != tt.want || session.Attempts() != n {
			t.Errorf("%+v: %d attempts, counted %d", tt, n, session.Attempts())
		}
	}
}

// The waits of a whole request, without jitter and with it.
func TestSchedule(t *testing.T) {
	s := retried(t)
	s.route.Retry.MaxAttempts, s.budget.Burst = 6, 10
	session := policy.NewSession(s.route, policy.NewBudget(s.budget, t0), s.request)
	for i, want := range []time.Duration{250 * ms, 750 * ms, 2250 * ms, 5000 * ms, 5000 * ms} {
		if d := session.Next(s.outcome, s.state, 0.5); d.Wait != want || d.Lo != want || d.Hi != want {
			t.Errorf("retry %d: %+v", i+1, d)
		}
	}
	s.route.Retry.Backoff.Jitter = policy.Full
	session = policy.NewSession(s.route, policy.NewBudget(s.budget, t0), s.request)
	for i, hi := range []time.Duration{250 * ms, 750 * ms, 2250 * ms, 5000 * ms, 5000 * ms} {
		if d := session.Next(s.outcome, s.state, 0.5); d.Lo != 0 || d.Hi != hi || d.Wait != hi/2 {
			t.Errorf("retry %d: %+v", i+1, d)
		}
	}
}

// Decorrelated waits grow from the drawn ones; a hint's wait is not drawn.
func TestDecorrelatedForgetsHints(t *testing.T) {
	s := retried(t)
	s.route.Retry.Backoff.Jitter = policy.Decorrelated
	s.route.Retry.MaxAttempts, s.budget.Burst = 10, 10
	hinted := policy.Outcome{Status: 503, Hint: 20 * time.Second, HasHint: true}
	session := policy.NewSession(s.route, policy.NewBudget(s.budget, t0), s.request)
	for i, step := range []struct {
		o      policy.Outcome
		lo, hi time.Duration
	}{
		{s.outcome, 250 * ms, 750 * ms}, // draws 500
		{hinted, 20 * time.Second, 25 * time.Second},
		{s.outcome, 250 * ms, 1500 * ms}, // draws 875
		{s.outcome, 250 * ms, 2625 * ms},
	} {
		if d := session.Next(step.o, s.state, 0.5); d.Lo != step.lo || d.Hi != step.hi || d.Wait != (step.lo+step.hi)/2 {
			t.Errorf("step %d: %+v", i+1, d)
		}
	}
	// Where hints are ignored, the wait before one is drawn like any other.
	s.route.Retry.RetryAfter = 0
	session = policy.NewSession(s.route, policy.NewBudget(s.budget, t0), s.request)
	session.Next(hinted, s.state, 0.5)
	if d := session.Next(hinted, s.state, 0.5); d.Hi != 1500*ms {
		t.Errorf("%+v", d)
	}
}

func TestHints(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct {
		name   string
		hint   time.Duration
		obeyed time.Duration // retry_after
		left   time.Duration // 0 = no window
		jitter policy.Jitter
		stop   policy.Stop
		lo, hi time.Duration
	}{
		{"small: the base is the spread", 1 * s / 2, 30 * s, 60 * s, policy.Full, policy.Going, 500 * ms, 750 * ms},
		{"large: a quarter is the spread", 20 * s, 30 * s, 60 * s, policy.Full, policy.Going, 20 * s, 25 * s},
		{"the spread is added without jitter too", 20 * s, 30 * s, 60 * s, policy.NoJitter, policy.Going, 20 * s, 25 * s},
		{"zero is a hint", 0, 30 * s, 60 * s, policy.NoJitter, policy.Going, 0, 250 * ms},
		{"as long as retry_after", 30 * s, 30 * s, 60 * s, policy.Full, policy.Going, 30 * s, 37500 * ms},
		{"longer than retry_after", 30*s + 1, 30 * s, 60 * s, policy.Full, policy.RetryAfter, 0, 0},
		{"longer than retry_after, no window", 30*s + 1, 30 * s, 0, policy.Full, policy.RetryAfter, 0, 0},
		{"no window", 20 * s, 30 * s, 0, policy.Full, policy.Going, 20 * s, 25 * s},
		{"cut to the window", 20 * s, 30 * s, 21 * s, policy.Full, policy.Going, 20 * s, 21 * s},
		{"all but the window", 20 * s, 30 * s, 20*s + 1, policy.Full, policy.Going, 20 * s, 20*s + 1},
		{"as long as the window", 20 * s, 30 * s, 20 * s, policy.Full, policy.Window, 20 * s, 20 * s},
		{"longer than the window", 20*s + 1, 30 * s, 20 * s, policy.Full, policy.RetryAfter, 0, 0},
		{"the longest there is", forever, forever, 0, policy.Full, policy.Going, forever, forever},
		{"the longest there is, obeyed", forever, 30 * s, 0, policy.Full, policy.RetryAfter, 0, 0},
		{"ignored", 20 * s, 0, 60 * s, policy.NoJitter, policy.Going, 250 * ms, 250 * ms},
		{"ignored, however long", forever, 0, 1 * s, policy.NoJitter, policy.Going, 250 * ms, 250 * ms},
	} {
		sc := retried(t)
		sc.route.Retry.Backoff.Jitter = tt.jitter
		sc.route.Retry.RetryAfter = tt.obeyed
		sc.outcome.Hint, sc.outcome.HasHint = tt.hint, true
		sc.state.Left, sc.state.Unlimited = tt.left, tt.left == 0
		for _, random := range randoms {
			session := policy.NewSession(sc.route, policy.NewBudget(sc.budget, t0), sc.request)
			d := session.Next(sc.outcome, sc.state, random)
			if random >= 1 && tt.hi == tt.left {
				continue // not a draw: only draws below 1 stay within the window
			}
			if d.Stop != tt.stop || d.Lo != tt.lo || d.Hi != tt.hi || d.Wait < d.Lo || d.Wait > d.Hi {
				t.Errorf("%s, random %v: %+v", tt.name, random, d)
			}
			if d.Retry && !sc.state.Unlimited && d.Wait >= tt.left {
				t.Errorf("%s, random %v: waits %v of %v", tt.name, random, d.Wait, tt.left)
			}
		}
	}
}

// A crowd told the same comes back spread.
func TestHintedWaitsAreSpread(t *testing.T) {
	s := retried(t)
	s.outcome.Hint, s.outcome.HasHint = 20*time.Second, true
	s.budget.Burst = 1e6
	b := policy.NewBudget(s.budget, t0)
	rng := rand.New(rand.NewPCG(8, 9))
	var counts [10]int
	for range 50_000 {
		session := policy.NewSession(s.route, b, s.request)
		wait := session.Next(s.outcome, s.state, rng.Float64()).Wait
		counts[(wait-20*time.Second)/(500*ms)]++
	}
	for i, n := range counts {
		if n < 4600 || n > 5400 { // six standard deviations
			t.Errorf("tenth %d: %d", i, n)
		}
	}
}

func TestWindow(t *testing.T) {
	for _, tt := range []struct {
		name string
		left time.Duration
		o    policy.Outcome
		stop policy.Stop
	}{
		{"room for the wait and a moment", 250*ms + 1, policy.Outcome{Status: 503}, policy.Going},
		{"the wait would end with it", 250 * ms, policy.Outcome{Status: 503}, policy.Window},
		{"over", 0, policy.Outcome{Status: 503}, policy.Window},
		{"long over", -time.Hour, policy.Outcome{Status: 503}, policy.Window},
		{"over, and a hint of nothing", -time.Hour, policy.Outcome{Status: 503, HasHint: true}, policy.Window},
		{"over, and a hint of something", 0, policy.Outcome{Status: 503, Hint: 1, HasHint: true}, policy.RetryAfter},
		{"it ended the attempt", 0, policy.Outcome{Class: policy.Timeout}, policy.Window},
		{"it ended a response that hinted", 0, policy.Outcome{Class: policy.Timeout, Status: 503, Hint: 1, HasHint: true}, policy.Window},
	} {
		s := retried(t)
		s.state.Left, s.outcome = tt.left, tt.o
		if d, _ := s.next(); d.Stop != tt.stop {
			t.Errorf("%s: stop %q, want %q", tt.name, d.Stop, tt.stop)
		}
		s.state.Unlimited = true // then Left means nothing
		if d, _ := s.next(); !d.Retry {
			t.Errorf("%s, but unlimited: stop %q", tt.name, d.Stop)
		}
	}
}

func TestWhatFeedsTheBudget(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    policy.Outcome
		want int
	}{
		{"success", policy.Outcome{Status: 200}, 1},
		{"redirect", policy.Outcome{Status: 304}, 1},
		{"permanent", policy.Outcome{Status: 404}, 1},
		{"permanent 5xx", policy.Outcome{Status: 500}, 1},
		{"permanent, final by word", policy.Outcome{Status: 404, Word: policy.FinalWord}, 1},
		{"retried by word", policy.Outcome{Status: 404, Word: policy.RetryWord}, 0},
		{"retried by status", policy.Outcome{Status: 503}, 0},
		{"a status of retry_on, final by word", policy.Outcome{Status: 503, Word: policy.FinalWord}, 0},
		{"truncated", policy.Outcome{Class: policy.Truncated, Status: 200}, 0},
		{"timeout with a header", policy.Outcome{Class: policy.Timeout, Status: 404}, 0},
		{"never sent", policy.Outcome{Class: policy.Denied}, 0},
		{"nothing known", policy.Outcome{}, 0},
	} {
		// POST: the verdict counts, not what the method lets happen.
		r := builtin(t)
		b := policy.NewBudget(policy.BudgetConfig{Ratio: 1, Window: time.Second}, t0)
		session := policy.NewSession(r, b, policy.Request{Method: "POST"})
		session.Next(tt.o, ready(), 0)
		if n := b.Remaining(t0); n != tt.want {
			t.Errorf("%s: %d", tt.name, n)
		}
	}
}

func TestUndo(t *testing.T) {
	s := retried(t)
	b := policy.NewBudget(s.budget, t0)
	session := policy.NewSession(s.route, b, s.request)
	session.Undo(t0)
	session.Next(s.outcome, s.state, 0)
	if n := b.Remaining(t0); n != 2 {
		t.Fatalf("%d remain after a retry was decided", n)
	}
	session.Undo(t0)
	session.Undo(t0)
	if n := b.Remaining(t0); n != 3 {
		t.Errorf("%d remain after it was taken back twice", n)
	}
	session.Next(s.outcome, s.state, 0)
	session.Next(policy.Outcome{Status: 404}, s.state, 0)
	session.Undo(t0)
	if n := b.Remaining(t0); n != 2 {
		t.Errorf("%d remain: a retry that was sent is not given back", n)
	}
}

func TestCut(t *testing.T) {
	s := retried(t)
	b := policy.NewBudget(s.budget, t0)
	session := policy.NewSession(s.route, b, s.request)
	d, cut := session.Cut(s.state, 0.5)
	if !cut || !d.Retry || d.Reason != "timeout" || d.Wait != 250*ms || session.Attempts() != 1 || b.Remaining(t0) != 2 {
		t.Errorf("%v, %+v, %d attempts, %d remain", cut, d, session.Attempts(), b.Remaining(t0))
	}
	session.Undo(t0)
	if n := b.Remaining(t0); n != 3 {
		t.Errorf("%d remain after it was taken back", n)
	}
	if d := session.Next(s.outcome, s.state, 0.5); d.Wait != 750*ms {
		t.Errorf("the retry after a cut one: %+v", d)
	}
}

// An attempt is cut only where a retry follows: else nothing changes at all.
func TestCutLeavesAlone(t *testing.T) {
	for _, c := range causes[2:] {
		if c.stop == policy.RetryAfter {
			continue // a timeout brings no hint
		}
		s := retried(t)
		c.apply(s)
		if c.stop == policy.MaxAttempts {
			s.route.Retry.MaxAttempts = 2
		}
		b := policy.NewBudget(policy.BudgetConfig{Burst: 1 + s.budget.Burst}, t0)
		session := policy.NewSession(s.route, b, s.request)
		session.Next(policy.Outcome{Status: 503}, ready(), 0.5)
		if c.stop == policy.BudgetExhausted {
			drain(b, t0)
		}
		before, tokens := session, b.Remaining(t0)
		if d, cut := session.Cut(s.state, 0.5); cut || d.Retry || d.Stop != c.stop {
			t.Errorf("%s: %v, %+v", c.stop, cut, d)
		}
		if session != before || b.Remaining(t0) != tokens {
			t.Errorf("%s: changed %+v to %+v, %d tokens to %d", c.stop, before, session, tokens, b.Remaining(t0))
		}
	}
	s := retried(t)
	s.route.Retry.RetryOn = set(t, "503")
	session := policy.NewSession(s.route, policy.NewBudget(s.budget, t0), s.request)
	if d, cut := session.Cut(s.state, 0.5); cut || d.Stop != policy.Permanent {
		t.Errorf("timeouts are not listed: %+v", d)
	}
}

func TestMayRetry(t *testing.T) {
	yes := map[policy.Stop]bool{ // stops that cannot be known beforehand, or are asked elsewhere
		policy.Success: true, policy.Permanent: true, policy.ClientGone: true, policy.Draining: true,
		policy.RetryAfter: true, policy.Window: true, policy.BudgetExhausted: true,
	}
	for _, c := range causes {
		s := retried(t)
		c.apply(s)
		session := policy.NewSession(s.route, policy.NewBudget(s.budget, t0), s.request)
		if got := session.MayRetry(s.state.Replayable); got != yes[c.stop] {
			t.Errorf("%s: %v", c.stop, got)
		}
	}
	s := retried(t)
	s.route.Retry.MaxAttempts = 2
	session := policy.NewSession(s.route, policy.NewBudget(s.budget, t0), s.request)
	if !session.MayRetry(true) {
		t.Error("the first of two attempts")
	}
	session.Next(s.outcome, s.state, 0)
	if session.MayRetry(true) {
		t.Error("the last attempt")
	}
	s.request = policy.Request{Method: "POST", Keyed: true}
	session = policy.NewSession(s.route, policy.NewBudget(s.budget, t0), s.request)
	if !session.MayRetry(true) {
		t.Error("a request with a key")
	}
}

// Whatever happens, in any order: a token for each retry and none else, and
// never an attempt too many.
func TestSessionsKeepTheBooks(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 11))
	classes := append(policy.Classes(), policy.ClassNone, policy.ClassNone, policy.ClassNone)
	one := func(n int) bool { return rng.IntN(n) == 0 }
	b := policy.NewBudget(policy.BudgetConfig{Burst: 1e6}, t0)
	for range 20_000 {
		s := retried(t)
		s.route.Retry.Mode = policy.Mode(max(0, rng.IntN(6)-3))
		s.route.Retry.MaxAttempts = 1 + rng.IntN(10)
		s.route.Retry.Backoff.Jitter = policy.Jitter(rng.IntN(5))
		s.request = policy.Request{Method: "GET", Nested: one(20), MaxAttempts: rng.IntN(12)}
		session := policy.NewSession(s.route, b, s.request)
		for retry := true; retry; {
			o := policy.Outcome{
				Class: classes[rng.IntN(len(classes))], Status: 500 + rng.IntN(6),
				Hint: time.Duration(rng.Int64N(int64(40 * time.Second))), HasHint: one(2), Word: policy.Word(rng.IntN(3)),
			}
			st := ready()
			st.Left = time.Duration(rng.Int64N(int64(time.Minute)))
			st.Unlimited, st.ClientGone, st.Draining, st.Replayable = one(4), one(30), one(30), !one(30)
			attempts, tokens, may := session.Attempts(), b.Remaining(t0), session.MayRetry(st.Replayable)
			d := session.Next(o, st, rng.Float64())
			retry = d.Retry
			took := tokens - b.Remaining(t0)
			if session.Attempts() != attempts+1 || retry && took != 1 || !retry && took > 0 ||
				retry != (d.Stop == policy.Going) || retry && (d.Verdict != policy.Retryable || !may) ||
				retry && !st.Unlimited && d.Wait >= st.Left || d.Wait < d.Lo || d.Wait > d.Hi || d.Reason == "" {
				t.Fatalf("%+v, %+v: %+v, %d attempts, took %d", o, st, d, session.Attempts(), took)
			}
			if retry && one(2) {
				session.Undo(t0)
				if b.Remaining(t0) != tokens {
					t.Fatalf("undone, but %d tokens instead of %d", b.Remaining(t0), tokens)
				}
			}
		}
		if session.Attempts() > session.MaxAttempts() {
			t.Fatalf("%d attempts of %d", session.Attempts(), session.MaxAttempts())
		}
	}
}

func TestNextDoesNotAllocate(t *testing.T) {
	s := retried(t)
	b := policy.NewBudget(policy.BudgetConfig{Ratio: 0.2, Burst: 1000, Window: time.Second}, t0)
	for _, o := range []policy.Outcome{
		{Status: 200}, {Status: 404}, {Status: 503}, {Status: 599, Word: policy.RetryWord}, {Class: policy.Timeout},
		{Status: 503, Hint: time.Second, HasHint: true},
	} {
		if n := testing.AllocsPerRun(100, func() {
			session := policy.NewSession(s.route, b, s.request)
			session.MayRetry(true)
			session.Next(o, s.state, 0.5)
			session.Undo(t0)
		}); n != 0 {
			t.Errorf("%+v: %v allocations", o, n)
		}
	}
}

func BenchmarkSuccess(b *testing.B) {
	r, st := builtin(b), ready()
	budget := policy.NewBudget(builtinBudget, t0)
	for b.Loop() {
		session := policy.NewSession(r, budget, policy.Request{Method: "GET"})
		session.Next(policy.Outcome{Status: 200}, st, 0.5)
	}
}
