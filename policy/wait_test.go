package policy_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"mulligan/policy"
)

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

// TestWindowEndsAnAttemptInAnyCase: whatever else would have stopped a retry, an
// attempt that the window ended says so. Only a client that left comes first.
func TestWindowEndsAnAttemptInAnyCase(t *testing.T) {
	for _, also := range causes {
		s := retried(t)
		also.apply(s)
		s.outcome, s.state.Left = policy.Outcome{Class: policy.Timeout}, 0
		want := policy.Window
		if also.stop == policy.ClientGone {
			want = policy.ClientGone
		}
		if d, _ := s.next(); d.Retry || d.Stop != want {
			t.Errorf("with %q: retry %v, stop %q, want %q", also.stop, d.Retry, d.Stop, want)
		}
	}
}

// TestHintElsewhere: what an endpoint asks for does not hold for another, but what
// holds back the other does, and a pushback, which is about the call.
func TestHintElsewhere(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct {
		name        string
		hint, pause time.Duration
		source      policy.HintSource
		elsewhere   bool
		lo, hi      time.Duration
		stop        policy.Stop
	}{
		{"the same endpoint", 8 * s, 0, policy.HintStandard, false, 8 * s, 10 * s, policy.Going},
		{"another", 8 * s, 0, policy.HintStandard, true, 0, 250 * ms, policy.Going},
		{"another, however long", 800 * s, 0, policy.HintStandard, true, 0, 250 * ms, policy.Going},
		{"another, which is held back", 8 * s, 4 * s, policy.HintStandard, true, 4 * s, 5 * s, policy.Going},
		{"the same, and it is longer", 800 * s, 0, policy.HintStandard, false, 0, 0, policy.RetryAfter},
		{"another, for a call that is pushed back", 8 * s, 0, policy.HintPushback, true, 8 * s, 10 * s, policy.Going},
		{"the same, for longer", 800 * s, 0, policy.HintPushback, true, 0, 0, policy.RetryAfter},
	} {
		sc := retried(t)
		sc.route.Retry.Backoff.Jitter = policy.Full
		sc.outcome.Hint, sc.outcome.HasHint, sc.outcome.Source = tt.hint, true, tt.source
		sc.state.Pause, sc.state.Elsewhere = tt.pause, tt.elsewhere
		session := policy.NewSession(sc.route, policy.NewBudget(sc.budget, t0), sc.request)
		if d := session.Next(sc.outcome, sc.state, 0.5); d.Stop != tt.stop || d.Lo != tt.lo || d.Hi != tt.hi {
			t.Errorf("%s: %+v", tt.name, d)
		}
	}
}
