package policy_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"mulligan/policy"
)

const forever = time.Duration(math.MaxInt64)

// read is Outcome.ReadHeader on a fresh outcome, at t0.
func read(status int, keyed bool, header ...string) policy.Outcome {
	o := policy.Outcome{Status: status}
	o.ReadHeader(&policy.Retry{}, fields(header...), keyed, t0)
	return o
}

func TestHintOrder(t *testing.T) {
	// In the order in which they are read; each later one is longer, so that
	// neither the shortest nor the longest passes for the first.
	all := []struct {
		name, value string
		want        time.Duration
	}{
		{"grpc-retry-pushback-ms", "1", 1 * ms},
		{"retry-after-ms", "20", 20 * ms},
		{"x-ms-retry-after-ms", "300", 300 * ms},
		{"x-amz-retry-after", "4000", 4000 * ms},
		{"Retry-After", "50", 50 * time.Second},
	}
	for i, first := range all {
		var header []string
		for _, f := range all[i:] {
			header = append(header, f.name, f.value)
		}
		if o := read(503, false, header...); !o.HasHint || o.Hint != first.want {
			t.Errorf("from %s on: hint %v, %v", first.name, o.Hint, o.HasHint)
		}
		if i == 0 {
			continue // garbage there is not skipped: it forbids the retry
		}
		header[1] = "garbage"
		want, has := time.Duration(0), i+1 < len(all)
		if has {
			want = all[i+1].want
		}
		if o := read(503, false, header...); o.HasHint != has || o.Hint != want {
			t.Errorf("with garbage in %s: hint %v, %v", first.name, o.Hint, o.HasHint)
		}
	}
	if o := read(503, false); o.HasHint || o.Hint != 0 || o.Word != policy.NoWord {
		t.Errorf("no fields: %+v", o)
	}
}

func TestRetryAfterValues(t *testing.T) {
	const none = time.Duration(-1)
	for _, tt := range []struct {
		value string
		want  time.Duration
	}{
		{"0", 0},
		{"1", time.Second},
		{"0007", 7 * time.Second},
		{" 7 ", 7 * time.Second},
		{"120", 2 * time.Minute},
		{"9223372036", 9223372036 * time.Second},
		{"9223372037", forever},
		{"99999999999999999999999999999999999999999", forever},
		{"", none},
		{"-1", none},
		{"+1", none},
		{"1.5", none},
		{"1e3", none},
		{"0x10", none},
		{"1, 2", none},
		{"1 2", none},
		{"soon", none},
		{"١", none},
		// t0 is Wed, 04 Mar 2026 05:06:07 GMT.
		{"Wed, 04 Mar 2026 05:06:17 GMT", 10 * time.Second},
		{"Wednesday, 04-Mar-26 05:06:17 GMT", 10 * time.Second},
		{"Wed Mar  4 05:06:17 2026", 10 * time.Second},
		{"Sat Mar 14 05:06:07 2026", 240 * time.Hour},
		{"Wed, 04 Mar 2026 05:06:07 GMT", 0},
		{"Wed, 04 Mar 2026 05:06:06 GMT", 0},
		{"Sun, 06 Nov 1994 08:49:37 GMT", 0},
		{"Sunday, 06-Nov-94 08:49:37 GMT", 0},
		{"Sun Nov  6 08:49:37 1994", 0},
		{"Mon, 01 Jan 0000 00:00:00 GMT", 0},
		{"Fri, 31 Dec 9999 23:59:59 GMT", forever},
		{"Wed, 04 Mar 2026 05:06:60 GMT", 53 * time.Second}, // a leap second
		{"Wed, 04 Mar 2026 05:06:61 GMT", none},
		{"Wed, 04 Mar 2026 05:60:17 GMT", none},
		{"Wed, 04 Mar 2026 24:06:17 GMT", none},
		{"Wed, 00 Mar 2026 05:06:17 GMT", none},
		{"Tue, 31 Mar 2026 05:06:07 GMT", 27 * 24 * time.Hour},
		{"Tue, 31 Apr 2026 05:06:07 GMT", none},
		{"Sun, 29 Feb 2026 05:06:07 GMT", none},
		{"Tue, 29 Feb 2028 05:06:07 GMT", 727 * 24 * time.Hour},
		{"Wed, 04 Mar 2026 05:06:17 UTC", none},
		{"Wed, 04 Mar 2026 05:06:17", none},
		{"Wed, 04 Mar 2026 05:06:17 GMT ", 10 * time.Second}, // white space around a value is not part of it
		{"Wed, 04 Mar 2026 05:06:17 GMTX", none},
		{"Wed, 04 Mar 2026 05:06:17.5 GMT", none},
		{"Wed,  4 Mar 2026 05:06:17 GMT", none},
		{"wed, 04 mar 2026 05:06:17 gmt", none},
		{"Xyz, 04 Mar 2026 05:06:17 GMT", none},
		{"Wedn, 04-Mar-26 05:06:17 GMT", none},
		{"Wed, 04-Mar-26 05:06:17 GMT", none},
		{"Wed, 04 anF 2026 05:06:17 GMT", none},
		{"Wed, 04 Xxx 2026 05:06:17 GMT", none},
		{"Wed Mar 4 05:06:17 2026", none},
		{"Xyz Mar  4 05:06:17 2026", none},
		{"Wed Mar  4 05:06:17 2026 GMT", none},
		{"2026-03-04T05:06:17Z", none},
		{"Wed, 04 Ma", none},
		{"Wed, 0", none},
		{"Wed, ", none},
		{", ", none},
		// Two digits of a year: the closest such year.
		{"Wednesday, 04-Mar-76 05:06:06 GMT", time.Date(2076, 3, 4, 5, 6, 6, 0, time.UTC).Sub(t0)},
		{"Thursday, 04-Mar-76 05:06:08 GMT", 0}, // more than 50 years ahead: 1976
	} {
		o := read(503, false, "Retry-After", tt.value)
		if tt.want == none {
			if o.HasHint || o.Hint != 0 {
				t.Errorf("%q is a hint of %v", tt.value, o.Hint)
			}
		} else if !o.HasHint || o.Hint != tt.want {
			t.Errorf("%q: %v, %v, want %v", tt.value, o.Hint, o.HasHint, tt.want)
		}
	}
}

// At a century's end the short form looks ahead, not 99 years back.
func TestShortYearAcrossTheCentury(t *testing.T) {
	now := time.Date(2099, 12, 31, 23, 59, 59, 0, time.UTC)
	o := policy.Outcome{Status: 503}
	o.ReadHeader(&policy.Retry{}, fields("Retry-After", "Friday, 01-Jan-00 00:00:09 GMT"), false, now)
	if !o.HasHint || o.Hint != 10*time.Second {
		t.Errorf("hint %v, %v", o.Hint, o.HasHint)
	}
}

// A date is compared with the wall clock, in whatever zone it is told.
func TestDateIsUTC(t *testing.T) {
	now := t0.In(time.FixedZone("far east", 13*3600))
	o := policy.Outcome{Status: 503}
	o.ReadHeader(&policy.Retry{}, fields("Retry-After", "Wednesday, 04-Mar-26 05:06:17 GMT"), false, now)
	if !o.HasHint || o.Hint != 10*time.Second {
		t.Errorf("hint %v, %v", o.Hint, o.HasHint)
	}
}

func TestMillisecondHints(t *testing.T) {
	for _, name := range []string{"retry-after-ms", "x-ms-retry-after-ms", "x-amz-retry-after"} {
		for value, want := range map[string]time.Duration{
			"0": 0, "250": 250 * ms, "9223372036854": 9223372036854 * ms, "9223372036855": forever, "18446744073709551617": forever,
		} {
			if o := read(503, false, name, value); !o.HasHint || o.Hint != want || o.Word != policy.NoWord {
				t.Errorf("%s: %s: %+v, want %v", name, value, o, want)
			}
		}
		for _, value := range []string{"-5", "1.5", "5s", "Wed, 04 Mar 2026 05:06:17 GMT"} {
			if o := read(503, false, name, value); o.HasHint {
				t.Errorf("%s: %s: hint %v", name, value, o.Hint)
			}
		}
	}
}

func TestWords(t *testing.T) {
	no, retry, final := policy.NoWord, policy.RetryWord, policy.FinalWord
	for _, tt := range []struct {
		status int
		keyed  bool
		header []string
		want   policy.Word
	}{
		{503, false, []string{"x-should-retry", "true"}, retry},
		{503, false, []string{"x-should-retry", "false"}, final},
		{503, false, []string{"X-Should-Retry", " TRUE "}, retry},
		{503, false, []string{"x-should-retry", "yes"}, no},
		{503, false, []string{"x-should-retry", "1"}, no},
		{400, false, []string{"x-should-retry", "true"}, retry},
		{399, false, []string{"x-should-retry", "true"}, no},
		{200, false, []string{"x-should-retry", "true"}, no},
		{200, false, []string{"x-should-retry", "false"}, final},
		{409, false, []string{"stripe-should-retry", "true"}, retry},
		{409, false, []string{"stripe-should-retry", "false"}, final},
		{503, false, []string{"stripe-should-retry", "true", "x-should-retry", "false"}, final},
		{503, false, []string{"stripe-should-retry", "false", "x-should-retry", "true"}, final},
		{503, false, []string{"grpc-retry-pushback-ms", "10"}, retry},
		{200, false, []string{"grpc-retry-pushback-ms", "10"}, no},
		{503, false, []string{"grpc-retry-pushback-ms", "0"}, retry},
		{503, false, []string{"grpc-retry-pushback-ms", "-1"}, final},
		{503, false, []string{"grpc-retry-pushback-ms", "-0"}, final},
		{503, false, []string{"grpc-retry-pushback-ms", "1.5"}, final},
		{503, false, []string{"grpc-retry-pushback-ms", "soon"}, final},
		{503, false, []string{"grpc-retry-pushback-ms", "soon", "x-should-retry", "true"}, final},
		{503, false, []string{"grpc-retry-pushback-ms", "10", "x-should-retry", "false"}, final},
		{503, false, []string{"grpc-retry-pushback-ms", "99999999999999999999"}, retry},
		{503, true, []string{"Idempotent-Replayed", "true"}, final},
		{503, true, []string{"idempotent-replayed", "True", "x-should-retry", "true"}, final},
		{503, true, []string{"Idempotent-Replayed", "false"}, no},
		{503, false, []string{"Idempotent-Replayed", "true"}, no},
	} {
		if o := read(tt.status, tt.keyed, tt.header...); o.Word != tt.want {
			t.Errorf("%d keyed=%v %q: word %d, want %d", tt.status, tt.keyed, tt.header, o.Word, tt.want)
		}
	}
}

func TestPushback(t *testing.T) {
	o := read(503, false, "grpc-retry-pushback-ms", "120", "Retry-After", "9")
	if !o.HasHint || o.Hint != 120*ms || o.Source != policy.HintPushback {
		t.Errorf("hint %v, %v", o.Hint, o.HasHint)
	}
	if o := read(503, false, "grpc-retry-pushback-ms", "99999999999999999999"); o.Hint != forever {
		t.Errorf("hint %v", o.Hint)
	}
	// A pushback that forbids the retry hints at nothing; the answer's other
	// fields are still read, they are the client's to see.
	if o := read(503, false, "grpc-retry-pushback-ms", "-1"); o.HasHint {
		t.Errorf("hint %v", o.Hint)
	}
}

// What an outcome held before does not show through.
func TestReadHeaderOverwrites(t *testing.T) {
	o := policy.Outcome{Status: 503, Class: policy.Truncated, GRPC: 14, Hint: 5, HasHint: true, Word: policy.RetryWord,
		Source: policy.HintFull, Exhausted: 5}
	o.ReadHeader(&policy.Retry{}, fields(), true, t0)
	if want := (policy.Outcome{Status: 503, Class: policy.Truncated}); o != want {
		t.Errorf("%+v", o)
	}
}

func TestReadHeaderDoesNotAllocate(t *testing.T) {
	standard := fields("Retry-After", "Wed, 04 Mar 2026 05:06:17 GMT", "x-should-retry", "true",
		"content-type", "application/grpc", "grpc-status", "14")
	resets := fields("RateLimit", `"a";r=0;t=5, limit=9, remaining=0, reset=4`, "A-Left", "0", "A-Reset", "1m2.5s")
	r := &policy.Retry{ResetHeaders: []policy.ResetHeader{{Name: "A-Reset", Format: policy.ResetDuration, Remaining: "A-Left"}}}
	for _, get := range []func(string) string{standard, resets} {
		if n := testing.AllocsPerRun(100, func() {
			o := policy.Outcome{Status: 503}
			if o.ReadHeader(r, get, true, t0); !o.HasHint {
				t.Fatal("no hint")
			}
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}

func FuzzReadHeader(f *testing.F) {
	f.Add(503, true, "5", "5", "Wed, 04 Mar 2026 05:06:17 GMT", "true", "", "")
	f.Add(429, false, "-5", "99999999999999999999", "Wednesday, 04-Mar-26 05:06:17 GMT", "false", "text/plain", "14")
	f.Add(200, false, "", "", "Wed Mar  4 05:06:17 2026", "", "application/grpc", "14")
	f.Add(200, false, "250", "", "", "", "application/grpc+proto", "99999999999999999999")
	f.Fuzz(func(t *testing.T, status int, keyed bool, pushback, millis, after, should, kind, code string) {
		o := policy.Outcome{Status: status}
		o.ReadHeader(&policy.Retry{}, fields(
			"grpc-retry-pushback-ms", pushback, "retry-after-ms", millis, "Retry-After", after,
			"x-should-retry", should, "Idempotent-Replayed", should,
			"content-type", kind, "grpc-status", code,
		), keyed, t0)
		if o.GRPC != 0 && (o.GRPC.String() == "" || !policy.IsGRPC(strings.Trim(kind, " \t"))) {
			t.Fatalf("%q, %q: gRPC status %d", kind, code, o.GRPC)
		}
		if o.Hint < 0 || !o.HasHint && o.Hint != 0 || status < 400 && o.Word == policy.RetryWord || o.Class != policy.ClassNone || o.Status != status {
			t.Fatalf("%+v", o)
		}
		if pushback+millis == "" {
			agreesWithTime(t, after, o)
		}
	})
}

// agreesWithTime compares dates with package time, which takes a little more:
// what we take it must take for the same.
func agreesWithTime(t *testing.T, value string, o policy.Outcome) {
	if !o.HasHint {
		return
	}
	for _, layout := range []string{"Mon, 02 Jan 2006 15:04:05 GMT", "Mon Jan _2 15:04:05 2006"} {
		if date, err := time.Parse(layout, value); err == nil {
			if want := max(0, date.Sub(t0)); o.Hint != want {
				t.Fatalf("%q: hint %v, want %v", value, o.Hint, want)
			}
		}
	}
}
