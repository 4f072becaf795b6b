package policy_test

import (
	"math"
	"testing"
	"time"

	"mulligan/policy"
)

func TestBudgetStartsWithItsBurst(t *testing.T) {
	for _, burst := range []float64{0, 1, 3, 1000} {
		b := policy.NewBudget(policy.BudgetConfig{Ratio: 0.2, Burst: burst, Window: 10 * time.Second}, t0)
		if n := b.Remaining(t0); n != int(burst) {
			t.Errorf("burst %v: %d remain", burst, n)
		}
		if n := drain(b, t0); n != int(burst) {
			t.Errorf("burst %v: %d withdrawn", burst, n)
		}
		if n := drain(b, t0.Add(time.Hour)); n != 0 {
			t.Errorf("burst %v: %d more after an hour without an answer", burst, n)
		}
	}
}

// drain withdraws what there is.
func drain(b *policy.Budget, now time.Time) (n int) {
	for b.Withdraw(now) {
		n++
	}
	return n
}

// answer pays in n answers.
func answer(b *policy.Budget, now time.Time, n int) {
	for range n {
		b.Answered(now)
	}
}

// Over a million answers every ratio gives its share of retries, to the token.
func TestRatioIsExactInTheLongRun(t *testing.T) {
	const answers = 1_000_000
	for _, ratio := range []float64{0.01, 0.1, 0.3, 0.6, 1, 1.5} {
		b := policy.NewBudget(policy.BudgetConfig{Ratio: ratio, Burst: 3, Window: 10 * time.Second}, t0)
		now, retries := t0, drain(b, t0)
		for i := range answers {
			now = now.Add(ms)
			b.Answered(now)
			if b.Withdraw(now) {
				retries++
			}
			if i%2 == 1 && ratio > 1 && b.Withdraw(now) {
				retries++
			}
		}
		if want := int(math.Round(ratio*answers)) + 3; retries != want {
			t.Errorf("ratio %v: %d retries, want %d", ratio, retries, want)
		}
	}
}

// With a burst of 0 the answers of the window alone make room.
func TestRatioWithoutBurst(t *testing.T) {
	b := policy.NewBudget(policy.BudgetConfig{Ratio: 0.3, Window: 10 * time.Second}, t0)
	retries := 0
	for i := range 100_000 {
		now := t0.Add(time.Duration(i) * 10 * ms)
		b.Answered(now)
		if b.Withdraw(now) {
			retries++
		}
	}
	if retries < 29_999 || retries > 30_000 {
		t.Errorf("%d retries of 100,000 answers", retries)
	}
}

func TestMostFollowsTheWindow(t *testing.T) {
	cfg := policy.BudgetConfig{Ratio: 0.5, Burst: 3, Window: 10 * time.Second}
	b := policy.NewBudget(cfg, t0)
	answer(b, t0, 20)
	if n := b.Remaining(t0); n != 13 {
		t.Fatalf("after 20 answers: %d", n)
	}
	// A slot of slack: the last answers may leave the window that much early.
	almost := t0.Add(cfg.Window - cfg.Window/32 - 1)
	if n := b.Remaining(almost); n != 13 {
		t.Errorf("at the end of the window: %d", n)
	}
	if n := b.Remaining(t0.Add(cfg.Window)); n != 3 {
		t.Errorf("after the window: %d", n)
	}
}

// Tokens that the most no longer has room for are gone for good.
func TestTokensDoNotComeBack(t *testing.T) {
	b := policy.NewBudget(policy.BudgetConfig{Ratio: 0.5, Burst: 3, Window: 10 * time.Second}, t0)
	answer(b, t0, 20)
	later := t0.Add(time.Minute)
	if n := b.Remaining(later); n != 3 {
		t.Fatalf("%d", n)
	}
	drain(b, later)
	answer(b, later, 2)
	if n := b.Remaining(later); n != 1 {
		t.Errorf("%d, want the one that two answers bring", n)
	}
}

func TestRefund(t *testing.T) {
	b := policy.NewBudget(policy.BudgetConfig{Ratio: 0.5, Burst: 3, Window: 10 * time.Second}, t0)
	drain(b, t0)
	b.Refund(t0)
	b.Refund(t0)
	if n := b.Remaining(t0); n != 2 {
		t.Errorf("two given back: %d", n)
	}
	for range 10 {
		b.Refund(t0)
	}
	if n := b.Remaining(t0); n != 3 {
		t.Errorf("given back more than it can hold: %d", n)
	}
}

func TestMinPerSecond(t *testing.T) {
	for _, burst := range []float64{0, 3} {
		b := policy.NewBudget(policy.BudgetConfig{Burst: burst, Window: 10 * time.Second, MinPerSecond: 0.25}, t0)
		retries := drain(b, t0) - int(burst)
		for i := range 100_000 {
			if b.Withdraw(t0.Add(time.Duration(i) * 100 * ms)) {
				retries++
			}
		}
		if retries < 2499 || retries > 2500 { // 10,000 s
			t.Errorf("burst %v: %d retries", burst, retries)
		}
		if n, want := b.Remaining(t0.Add(1000*time.Hour)), max(1, int(burst)); n != want {
			t.Errorf("burst %v: %d after a long quiet, want %d", burst, n, want)
		}
	}
}

// A busy upstream's steps in time are tiny, and nothing of them is lost: here
// each brings a tenth of the smallest amount there is.
func TestMinPerSecondInTinySteps(t *testing.T) {
	b := policy.NewBudget(policy.BudgetConfig{Ratio: 0.999_999, Window: time.Hour, MinPerSecond: 0.001}, t0)
	b.Answered(t0)
	for i := range time.Duration(10_010) {
		n := b.Remaining(t0.Add(i * 100))
		if i < 9_990 && n != 0 {
			t.Fatalf("a token after %d steps", i)
		}
	}
	if n := b.Remaining(t0.Add(10_010 * 100)); n != 1 {
		t.Error("the token did not come")
	}
}

// A clock that goes back neither panics nor brings tokens, again and again.
func TestClockGoesBack(t *testing.T) {
	b := policy.NewBudget(policy.BudgetConfig{Ratio: 1, Burst: 2, Window: time.Second, MinPerSecond: 1}, t0)
	drain(b, t0)
	retries := 0
	for range 1000 {
		for _, at := range []time.Duration{0, 900 * ms, -time.Hour, 100 * ms} {
			if b.Withdraw(t0.Add(at)) {
				retries++
			}
		}
	}
	if retries != 0 {
		t.Errorf("%d retries in less than a second", retries)
	}
	b.Answered(t0.Add(900 * ms))
	if n := b.Remaining(t0.Add(-time.Hour)); n != 1 {
		t.Errorf("%d remain", n)
	}
	if n := b.Remaining(t0.Add(900 * ms)); n != 1 {
		t.Errorf("%d remain", n)
	}
}

// An answer whose clock lags by more than the window makes no room.
func TestLateAnswer(t *testing.T) {
	b := policy.NewBudget(policy.BudgetConfig{Ratio: 1, Burst: 2, Window: time.Second}, t0)
	b.Remaining(t0.Add(time.Minute))
	answer(b, t0, 10)
	if n := b.Remaining(t0.Add(time.Minute)); n != 2 {
		t.Errorf("%d remain", n)
	}
	answer(b, t0.Add(time.Minute-500*ms), 10)
	if n := b.Remaining(t0.Add(time.Minute)); n != 12 {
		t.Errorf("%d remain after answers of half a window ago", n)
	}
	if n := b.Remaining(t0.Add(time.Minute + 500*ms)); n != 2 {
		t.Errorf("%d remain when those are a window old", n)
	}
}

func TestAbsurdBudgets(t *testing.T) {
	values := []float64{math.Inf(-1), -1, 0, 1e-12, 0.1, 1e18, math.MaxFloat64, math.Inf(1), math.NaN()}
	windows := []time.Duration{math.MinInt64, -1, 0, 1, 31, 32, time.Second, math.MaxInt64}
	for _, ratio := range values {
		for _, burst := range values {
			for _, window := range windows {
				for _, floor := range values {
					cfg := policy.BudgetConfig{Ratio: ratio, Burst: burst, Window: window, MinPerSecond: floor}
					b := policy.NewBudget(cfg, t0)
					for _, at := range []time.Duration{0, 1, time.Second, -time.Hour, 200 * 365 * 24 * time.Hour} {
						now := t0.Add(at)
						answer(b, now, 2)
						b.Withdraw(now)
						b.Refund(now)
						b.Configure(cfg, now)
						if n := b.Remaining(now); n < 0 {
							t.Fatalf("%+v: %d remain", cfg, n)
						}
					}
				}
			}
		}
	}
}

func TestConfigure(t *testing.T) {
	cfg := policy.BudgetConfig{Ratio: 0.5, Burst: 3, Window: 10 * time.Second}
	for _, tt := range []struct {
		name    string
		cfg     policy.BudgetConfig
		now     int // remaining after the reload
		answers int // more answers after that
		then    int
	}{
		{"the same", cfg, 8, 2, 9},
		{"a lower burst", policy.BudgetConfig{Ratio: 0.5, Burst: 1, Window: 10 * time.Second}, 6, 2, 7},
		{"a higher burst brings no token", policy.BudgetConfig{Ratio: 0.5, Burst: 9, Window: 10 * time.Second}, 8, 2, 9},
		{"a lower ratio", policy.BudgetConfig{Ratio: 0.2, Burst: 3, Window: 10 * time.Second}, 5, 5, 6},
		{"nothing allowed", policy.BudgetConfig{}, 0, 100, 0},
		{"a longer window keeps the answers", policy.BudgetConfig{Ratio: 0.5, Burst: 3, Window: time.Minute}, 8, 2, 9},
		{"a window that the answers have left", policy.BudgetConfig{Ratio: 0.5, Burst: 3, Window: time.Second}, 3, 2, 4},
	} {
		b := policy.NewBudget(cfg, t0)
		answer(b, t0, 10)
		now := t0.Add(5 * time.Second)
		b.Configure(tt.cfg, now)
		if n := b.Remaining(now); n != tt.now {
			t.Errorf("%s: %d remain, want %d", tt.name, n, tt.now)
		}
		answer(b, now, tt.answers)
		if n := b.Remaining(now); n != tt.then {
			t.Errorf("%s: %d remain then, want %d", tt.name, n, tt.then)
		}
	}
}

// A window that shrinks keeps the answers that are young enough.
func TestConfigureKeepsYoungAnswers(t *testing.T) {
	b := policy.NewBudget(policy.BudgetConfig{Ratio: 0.5, Burst: 3, Window: 10 * time.Second}, t0)
	now := t0.Add(20 * time.Second)
	answer(b, now, 10)
	b.Configure(policy.BudgetConfig{Ratio: 0.5, Burst: 3, Window: 2 * time.Second}, now.Add(time.Second))
	if n := b.Remaining(now.Add(time.Second)); n != 8 {
		t.Errorf("%d remain", n)
	}
	if n := b.Remaining(now.Add(2 * time.Second)); n != 3 {
		t.Errorf("%d remain when the answers are old", n)
	}
}

// Reloading over and over must not be a way to fill the bucket, nor to age its
// answers.
func TestConfigureMintsNothing(t *testing.T) {
	small := policy.BudgetConfig{Ratio: 0.5, Burst: 3, Window: 10 * time.Second}
	large := policy.BudgetConfig{Ratio: 2, Burst: 50, Window: 37 * time.Second}
	b := policy.NewBudget(small, t0)
	answer(b, t0, 10)
	for i := range 1000 {
		now := t0.Add(time.Duration(i) * ms)
		b.Configure(large, now)
		b.Configure(small, now)
	}
	now := t0.Add(time.Second)
	if n := b.Remaining(now); n != 8 {
		t.Errorf("%d remain", n)
	}
	b.Configure(large, now)
	answer(b, now, 100)
	if n, most := b.Remaining(now.Add(37*time.Second)), 50; n > most {
		t.Errorf("%d remain when every answer is old", n)
	}
}

func TestBudgetDoesNotAllocate(t *testing.T) {
	b := policy.NewBudget(builtinBudget, t0)
	now := t0
	if n := testing.AllocsPerRun(1000, func() {
		now = now.Add(ms)
		b.Answered(now)
		b.Withdraw(now)
		b.Refund(now)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAnswered(b *testing.B) {
	budget := policy.NewBudget(builtinBudget, t0)
	now := t0
	for b.Loop() {
		now = now.Add(time.Microsecond)
		budget.Answered(now)
	}
}
