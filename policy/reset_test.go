package policy_test

import (
	"math/big"
	"testing"
	"time"

	"mulligan/policy"
)

// readUnder is Outcome.ReadHeader under reset headers, at t0 and with a max_delay
// of 5s.
func readUnder(resets []policy.ResetHeader, header ...string) policy.Outcome {
	o := policy.Outcome{Status: 429}
	r := &policy.Retry{ResetHeaders: resets, Backoff: policy.Backoff{Max: 5 * time.Second}}
	o.ReadHeader(r, fields(header...), false, t0)
	return o
}

func TestResetFormats(t *testing.T) {
	const none = time.Duration(-1)
	for _, tt := range []struct {
		format policy.ResetFormat
		value  string
		want   time.Duration
	}{
		// t0 is 1772600767.
		{policy.ResetEpoch, "1772600777", 10 * time.Second},
		{policy.ResetEpoch, "1772600777.25", 10250 * ms},
		{policy.ResetEpoch, "1772600767", 0},
		{policy.ResetEpoch, "1700000000", 0},
		{policy.ResetEpoch, "0", 0},
		{policy.ResetEpoch, "1772687167", 24 * time.Hour},
		{policy.ResetEpoch, "1772687168", none},
		{policy.ResetEpoch, "1772600777000", none}, // milliseconds
		{policy.ResetEpoch, "99999999999999999999", none},
		{policy.ResetEpoch, "-1", none},
		{policy.ResetEpoch, "Wed, 04 Mar 2026 05:06:17 GMT", none},
		{policy.ResetSeconds, "2.0", 2 * time.Second},
		{policy.ResetSeconds, " 7 ", 7 * time.Second},
		{policy.ResetSeconds, "0.000000001", 1},
		{policy.ResetSeconds, "0.0000000019", 1},
		{policy.ResetSeconds, "86400", 24 * time.Hour},
		{policy.ResetSeconds, "86400.1", none},
		{policy.ResetSeconds, "99999999999999999999.9", none},
		{policy.ResetSeconds, "", none},
		{policy.ResetSeconds, ".5", none},
		{policy.ResetSeconds, "5.", none},
		{policy.ResetSeconds, "1.2.3", none},
		{policy.ResetSeconds, "1e3", none},
		{policy.ResetSeconds, "-2", none},
		{policy.ResetDuration, "6m0s", 6 * time.Minute},
		{policy.ResetDuration, "12ms", 12 * ms},
		{policy.ResetDuration, "1m2.5s", 62500 * ms},
		{policy.ResetDuration, "-5s", 0},
		{policy.ResetDuration, "24h", 24 * time.Hour},
		{policy.ResetDuration, "24h0m1s", none},
		{policy.ResetDuration, "5", none},
		{policy.ResetDuration, "0000000000000000000000000000000000000000000000000000000000000001s", none}, // 65 bytes
		{policy.ResetRFC3339, "2026-03-04T05:06:17Z", 10 * time.Second},
		{policy.ResetRFC3339, "2026-03-04T06:06:17.5+01:00", 10500 * ms},
		{policy.ResetRFC3339, "2026-03-04T05:06:06Z", 0},
		{policy.ResetRFC3339, "2026-03-05T05:06:08Z", none},
		{policy.ResetRFC3339, "2026-03-04 05:06:17", none},
		{policy.ResetClock, "00:00:05", 5 * time.Second},
		{policy.ResetClock, "01:02:03.5", 3723500 * ms},
		{policy.ResetClock, "24:00:00", 24 * time.Hour},
		{policy.ResetClock, "24:00:01", none},
		{policy.ResetClock, "00:60:00", none},
		{policy.ResetClock, "00:00:60", none},
		{policy.ResetClock, "0:00:05", none},
		{policy.ResetClock, "00:00:05x", none},
		{policy.ResetClock, "00:00", none},
		{policy.ResetClock, "00-00-05", none},
	} {
		o := readUnder([]policy.ResetHeader{{Name: "X-Reset", Format: tt.format}}, "X-Reset", tt.value)
		if want := max(0, tt.want); o.HasHint != (tt.want != none) || o.Hint != want || o.HasHint && o.Source != policy.HintReset || o.Exhausted != 0 {
			t.Errorf("%d %q: %+v, want %v", tt.format, tt.value, o, tt.want)
		}
	}
}

// TestResetsCount: of what is used up the longest, of a whole allowance only what
// backoff would wait, and nothing where a standard field says when.
func TestResetsCount(t *testing.T) {
	plain := policy.ResetHeader{Name: "A-Reset", Format: policy.ResetSeconds, Remaining: "A-Left"}
	other := policy.ResetHeader{Name: "B-Reset", Format: policy.ResetSeconds, Remaining: "B-Left"}
	full := policy.ResetHeader{Name: "F-Reset", Format: policy.ResetSeconds, Remaining: "F-Left", Full: true}
	all := []policy.ResetHeader{plain, other, full}
	hint := func(seconds time.Duration, s policy.HintSource, exhausted time.Duration) policy.Outcome {
		return policy.Outcome{Status: 429, Hint: seconds * time.Second, HasHint: true, Source: s, Exhausted: exhausted * time.Second}
	}
	for _, tt := range []struct {
		name   string
		header []string
		want   policy.Outcome
	}{
		{"nothing", nil, policy.Outcome{Status: 429}},
		{"used up", []string{"A-Left", "0", "A-Reset", "9"}, hint(9, policy.HintReset, 9)},
		{"used up, written long", []string{"A-Left", " 00 ", "A-Reset", "9"}, hint(9, policy.HintReset, 9)},
		{"some left", []string{"A-Left", "1", "A-Reset", "9"}, policy.Outcome{Status: 429}},
		{"not known what is left", []string{"A-Reset", "9"}, policy.Outcome{Status: 429}},
		{"not known until when", []string{"A-Left", "0", "A-Reset", "soon"}, policy.Outcome{Status: 429}},
		{"now", []string{"A-Left", "0", "A-Reset", "0"}, hint(0, policy.HintReset, 0)},
		{"two", []string{"A-Left", "0", "A-Reset", "9", "B-Left", "0", "B-Reset", "11"}, hint(11, policy.HintReset, 11)},
		{"two, one used up", []string{"A-Left", "0", "A-Reset", "9", "B-Left", "5", "B-Reset", "11"}, hint(9, policy.HintReset, 9)},
		{"the whole", []string{"F-Left", "0", "F-Reset", "3"}, hint(3, policy.HintFull, 0)},
		{"the whole, far off", []string{"F-Left", "0", "F-Reset", "360"}, hint(5, policy.HintFull, 0)},
		{"the whole and less", []string{"A-Left", "0", "A-Reset", "2", "F-Left", "0", "F-Reset", "360"}, hint(5, policy.HintFull, 2)},
		{"the whole and more", []string{"A-Left", "0", "A-Reset", "9", "F-Left", "0", "F-Reset", "360"}, hint(9, policy.HintReset, 9)},
		{"RateLimit", []string{"RateLimit", "r=0; t=7"}, hint(7, policy.HintReset, 7)},
		{"RateLimit and a vendor's", []string{"RateLimit", "r=0; t=7", "A-Left", "0", "A-Reset", "9"}, hint(9, policy.HintReset, 9)},
		{"Retry-After goes before", []string{"Retry-After", "1", "RateLimit", "r=0; t=7", "A-Left", "0", "A-Reset", "9"}, hint(1, policy.HintStandard, 0)},
		{"a Retry-After that is none", []string{"Retry-After", "1.0", "A-Left", "0", "A-Reset", "9"}, hint(9, policy.HintReset, 9)},
	} {
		if got := readUnder(all, tt.header...); got != tt.want {
			t.Errorf("%s: %+v\nwant %+v", tt.name, got, tt.want)
		}
	}
}

func TestRateLimit(t *testing.T) {
	const none = time.Duration(-1)
	for value, want := range map[string]time.Duration{
		`"default";r=0;t=30`:                      30 * time.Second,
		`"default"; r=0; t=30`:                    30 * time.Second,
		`"default";t=30;r=0`:                      30 * time.Second,
		`"default";r=50;t=30`:                     none,
		`"default";r=0`:                           none,
		`"default";t=30`:                          none,
		`"burst";r=0;t=5, "daily";r=9;t=3600`:     5 * time.Second,
		`"burst";r=9;t=5, "daily";r=0;t=3600`:     time.Hour,
		`"burst";r=0;t=5, "daily";r=0;t=60`:       time.Minute,
		`"burst";r=0, "daily";r=9;t=60`:           none, // nothing of one, and when of the other
		`"a;r=0;t=9";r=1;t=5`:                     none,
		`"a\";r=0;t=9,";r=0;t=5`:                  5 * time.Second,
		`default;r=0;t=5`:                         5 * time.Second,
		`"x";q=10;w=60;pk=:cHsdsRa894==:;r=0;t=5`: 5 * time.Second,
		`limit=10, remaining=0, reset=5`:          5 * time.Second,
		`limit=10;w=60,remaining=0,reset=5`:       5 * time.Second,
		`limit=10, remaining=1, reset=5`:          none,
		`remaining=0`:                             none,
		`r=0; t=9`:                                9 * time.Second,
		`r=0;t=9`:                                 9 * time.Second,
		`r=1; t=9`:                                none,
		`r=0; t=0`:                                0,
		`r=0; t=86400`:                            24 * time.Hour,
		`r=0; t=86401`:                            none,
		`r=0; t=99999999999999999999`:             none,
		`r=0; t=-5`:                               none,
		`r=0; t=1.5`:                              none,
		`r=-0; t=5`:                               none,
		`r=; t=5`:                                 none,
		`r=0; t=5; "`:                             none,
		`"burst;r=0;t=5`:                          none,
		`,,;;=`:                                   none,
		``:                                        none,
		`0`:                                       none,
	} {
		o := readUnder(nil, "RateLimit", value)
		if o.HasHint != (want != none) || o.Hint != max(0, want) || o.Exhausted != o.Hint {
			t.Errorf("%s: %+v, want %v", value, o, want)
		}
	}
}

// TestFullResetEndsNothing: where the reset of a whole allowance would end the
// retries it is no hint.
func TestFullResetEndsNothing(t *testing.T) {
	hinted := policy.Outcome{Status: 503, Hint: 5 * time.Second, HasHint: true}
	for _, tt := range []struct {
		name   string
		left   time.Duration
		source policy.HintSource
		lo     time.Duration
		stop   policy.Stop
	}{
		{"a standard one", time.Minute, policy.HintStandard, 5 * time.Second, policy.Going},
		{"a full one", time.Minute, policy.HintFull, 5 * time.Second, policy.Going},
		{"a standard one beyond the window", 3 * time.Second, policy.HintStandard, 0, policy.RetryAfter},
		{"a reset beyond the window", 3 * time.Second, policy.HintReset, 0, policy.RetryAfter},
		{"a full one beyond the window", 3 * time.Second, policy.HintFull, 0, policy.Going},
	} {
		o, st := hinted, ready()
		o.Source, st.Left = tt.source, tt.left
		session := policy.NewSession(builtin(t), policy.NewBudget(builtinBudget, t0), policy.Request{Method: "GET"})
		if d := session.Next(o, st, 0.5); d.Stop != tt.stop || d.Lo != tt.lo {
			t.Errorf("%s: %+v", tt.name, d)
		}
	}
	route := builtin(t)
	route.Retry.RetryAfter = time.Second
	hinted.Source = policy.HintFull
	session := policy.NewSession(route, policy.NewBudget(builtinBudget, t0), policy.Request{Method: "GET"})
	if d := session.Next(hinted, ready(), 0.5); !d.Retry || d.Hi != 250*ms {
		t.Errorf("beyond retry_after: %+v", d)
	}
}

func FuzzReset(f *testing.F) {
	f.Add(uint8(0), "1772600777.25")
	f.Add(uint8(1), "2.0")
	f.Add(uint8(2), "6m0s")
	f.Add(uint8(3), "2026-03-04T06:06:17.5+01:00")
	f.Add(uint8(4), "01:02:03.5")
	f.Fuzz(func(t *testing.T, format uint8, value string) {
		header := policy.ResetHeader{Name: "X-Reset", Format: policy.ResetFormat(format % 6), Remaining: "X-Left"}
		o := readUnder([]policy.ResetHeader{header}, "X-Left", "0", "X-Reset", value)
		if o.Hint < 0 || o.Hint > 24*time.Hour || !o.HasHint && o.Hint != 0 || o.Exhausted != o.Hint {
			t.Fatalf("%q: %+v", value, o)
		}
		if header.Format == policy.ResetSeconds && o.HasHint {
			seconds, ok := new(big.Rat).SetString(trimmed(value))
			if !ok {
				t.Fatalf("%q is a number", value)
			}
			nanos := seconds.Mul(seconds, big.NewRat(1e9, 1))
			if whole := new(big.Int).Quo(nanos.Num(), nanos.Denom()); whole.Int64() != int64(o.Hint) {
				t.Fatalf("%q: %v", value, o.Hint)
			}
		}
	})
}

func FuzzRateLimit(f *testing.F) {
	for _, seed := range []string{`"burst";r=0;t=5, "daily";r=9;t=3600`, `limit=10, remaining=0, reset=5`, `r=0; t=9`, `"a\";r=0";r=0;t=1`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		o := readUnder(nil, "RateLimit", value)
		if o.Hint < 0 || o.Hint > 24*time.Hour || !o.HasHint && o.Hint != 0 || o.Exhausted != o.Hint {
			t.Fatalf("%q: %+v", value, o)
		}
		// What says of a second limit that enough is left of it changes nothing.
		if more := readUnder(nil, "RateLimit", `"more";r=1;t=9, `+value); more != o {
			t.Fatalf("%q: %+v, with another limit before it %+v", value, o, more)
		}
	})
}
