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
	{policy.CircuitOpen, func(s *scene) { s.state.CircuitOpen = true }},
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
		{"a gRPC status of retry_on", policy.Outcome{Status: 200, GRPC: named(t, "grpc_unavailable")}, 0},
		{"a gRPC status of retry_on, final by word", policy.Outcome{Status: 200, GRPC: named(t, "grpc_unavailable"), Word: policy.FinalWord}, 0},
		{"a gRPC status of both lists", policy.Outcome{Status: 200, GRPC: named(t, "grpc_internal")}, 1},
		{"another gRPC status", policy.Outcome{Status: 200, GRPC: named(t, "grpc_not_found")}, 1},
		{"nothing known", policy.Outcome{}, 0},
	} {
		// POST: the verdict counts, not what the method lets happen.
		r := builtin(t)
		r.Retry.RetryOn = set(t, append(builtinRetryOn, "grpc_unavailable", "grpc_internal")...)
		r.Retry.DoNotRetryOn = set(t, "grpc_internal")
		b := policy.NewBudget(policy.BudgetConfig{Ratio: 1, Window: time.Second}, t0)
		session := policy.NewSession(r, b, policy.Request{Method: "POST"})
		session.Next(tt.o, ready(), 0)
		if n := b.Remaining(t0); n != tt.want {
			t.Errorf("%s: %d", tt.name, n)
		}
	}
}

// The pushback of a gRPC call that failed is its hint, though HTTP's status is 200.
func TestPushbackOfACall(t *testing.T) {
	for _, tt := range []struct {
		pushback string
		retry    bool
		lo, hi   time.Duration
	}{
		{"", true, 250 * ms, 250 * ms}, {"2000", true, 2 * time.Second, 2500 * ms}, {"0", true, 0, 250 * ms},
		{"-1", false, 0, 0}, {"soon", false, 0, 0}, {"60000", false, 0, 0},
	} {
		s := retried(t)
		s.route.Retry.RetryOn = set(t, "grpc_unavailable")
		s.outcome = policy.Outcome{Status: 200}
		s.outcome.ReadHeader(&policy.Retry{}, fields("content-type", "application/grpc", "grpc-status", "14", "grpc-retry-pushback-ms", tt.pushback), false, t0)
		d, _ := s.next()
		if d.Retry != tt.retry || d.Reason != "grpc_unavailable" || tt.retry && (d.Lo != tt.lo || d.Hi != tt.hi) {
			t.Errorf("pushback %q: %+v", tt.pushback, d)
		}
		if tt.pushback == "60000" && d.Stop != policy.RetryAfter || !tt.retry && tt.pushback != "60000" && d.Stop != policy.Permanent {
			t.Errorf("pushback %q: stop %s", tt.pushback, d.Stop)
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
	b.Withdraw(t0) // somebody else's, so that there is room for one too many
	session.Undo(t0)
	session.Undo(t0)
	if n := b.Remaining(t0); n != 2 {
		t.Errorf("%d remain after it was taken back twice", n)
	}
	b.Refund(t0)
	session.Next(s.outcome, s.state, 0)
	session.Next(policy.Outcome{Status: 404}, s.state, 0)
	session.Undo(t0)
	if n := b.Remaining(t0); n != 2 {
		t.Errorf("%d remain: a retry that was sent is not given back", n)
	}
}

// A client's own retry takes a token where that is configured, in every mode: it is
// made, whatever the proxy makes itself.
func TestClientRetryPays(t *testing.T) {
	for _, mode := range []policy.Mode{policy.ModeOn, policy.ModeObserve, policy.ModeOff} {
		for _, tt := range []struct {
			counted, retry bool
			burst, remain  int
		}{{true, true, 3, 2}, {true, false, 3, 3}, {false, true, 3, 3}, {true, true, 0, 0}} {
			s := retried(t)
			s.route.Retry.Mode, s.route.Retry.CountClientRetries = mode, tt.counted
			s.request.ClientRetry, s.budget.Burst = tt.retry, float64(tt.burst)
			b := policy.NewBudget(s.budget, t0)
			session := policy.NewSession(s.route, b, s.request)
			session.Begin(t0)
			session.Undo(t0)
			if n := b.Remaining(t0); n != tt.remain {
				t.Errorf("mode %d, %+v: %d remain", mode, tt, n)
			}
		}
	}
}

// The token that a client's retry took is not there for ours, and is not what
// comes back where ours is not sent.
func TestClientRetryLeavesLess(t *testing.T) {
	s := retried(t)
	s.route.Retry.CountClientRetries, s.request.ClientRetry, s.budget.Burst = true, true, 2
	b := policy.NewBudget(s.budget, t0)
	session := policy.NewSession(s.route, b, s.request)
	session.Begin(t0)
	if d := session.Next(s.outcome, s.state, 0); !d.Retry {
		t.Fatalf("%+v", d)
	}
	if d := session.Next(s.outcome, s.state, 0); d.Stop != policy.BudgetExhausted {
		t.Errorf("%+v, want stop=budget: both tokens are spent", d)
	}
	b = policy.NewBudget(s.budget, t0)
	session = policy.NewSession(s.route, b, s.request)
	session.Begin(t0)
	session.Next(s.outcome, s.state, 0)
	session.Undo(t0)
	if n := b.Remaining(t0); n != 1 {
		t.Errorf("%d remain, want the one that our retry had taken", n)
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
		policy.CircuitOpen: true, policy.RetryAfter: true, policy.Window: true, policy.BudgetExhausted: true,
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
				Class: classes[rng.IntN(len(classes))], Status: 500 + rng.IntN(6), GRPC: policy.GRPC(max(0, rng.IntN(32)-15)),
				Hint: time.Duration(rng.Int64N(int64(40 * time.Second))), HasHint: one(2), Word: policy.Word(rng.IntN(3)),
			}
			st := ready()
			st.Left = time.Duration(rng.Int64N(int64(time.Minute)))
			st.Unlimited, st.ClientGone, st.Draining, st.Replayable = one(4), one(30), one(30), !one(30)
			st.CircuitOpen, st.Pause = one(30), time.Duration(max(0, rng.Int64N(int64(40*time.Second))-int64(20*time.Second)))
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
		{Status: 503, Hint: time.Second, HasHint: true}, {Status: 200, GRPC: named(t, "grpc_unavailable")},
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
