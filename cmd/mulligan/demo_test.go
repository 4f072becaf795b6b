package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// TestDemo runs it small: what its table says must add up, on every machine and
// however the draws fall. That its counts agree it checks itself.
func TestDemo(t *testing.T) {
	const requests = 64
	text, second, _ := strings.Cut(tellDemo(t, requests), "\nSECOND ACT")
	secondActTold(t, second)
	with := func(row string) int { return cell(t, text, row, 1) }
	without := func(row string) int { return cell(t, text, row, 2) }
	for _, side := range []func(string) int{with, without} {
		if side("requests") != requests {
			t.Errorf("%d requests, want %d", side("requests"), requests)
		}
	}
	sum := with("  succeeded at once") + with("  saved by a retry") + with("  ended with 422, which is not retried") + with("  failed")
	if sum != requests {
		t.Errorf("with mulligan %d requests ended, of %d", sum, requests)
	}
	if sum := without("  succeeded at once") + without("  ended with 422, which is not retried") + without("  failed"); sum != requests {
		t.Errorf("without mulligan %d requests ended, of %d", sum, requests)
	}
	if with("retries sent") != with("requests counted by the upstream")-requests {
		t.Error("retries and requests at the upstream do not add up")
	}
	if without("requests counted by the upstream") != requests {
		t.Error("without mulligan somebody else retries")
	}
	for _, part := range []string{"OUTAGE", "the upstream is back", "agree on", "saved ", "ratio: 0.5"} {
		if !strings.Contains(text, part) {
			t.Errorf("the story lacks %q:\n%s", part, text)
		}
	}
	for line := range strings.Lines(text + second) {
		if width := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); width > columns {
			t.Errorf("%d columns wide: %s", width, line)
		}
	}
	if strings.Contains(text+second, "\x1b") {
		t.Error("colours, though it is no terminal")
	}
}

// tellDemo runs the demo and returns what it says. It runs again where this machine
// stood still for longer than an attempt may take: then the attempts that fail, and
// those that never reach the upstream, are the machine's doing.
func tellDemo(t *testing.T, requests int) string {
	t.Helper()
	const most = 5
	for try := 1; ; try++ {
		var out, wrong page
		var status int
		pause := longestPause(func() {
			status = run([]string{"demo", "--requests", fmt.Sprint(requests), "--seed", "7"},
				terminal{out: &out, err: &wrong, env: os.LookupEnv})
		})
		if status == exitDone {
			return out.String()
		}
		if pause < 400*time.Millisecond || try == most {
			t.Fatalf("exit status %d, longest pause %v\n%s\n%s", status, pause, out.String(), wrong.String())
		}
		t.Logf("once more: the machine stood still for %v\n%s", pause, wrong.String())
	}
}

// longestPause returns for how long, at most, the process was not run while f was.
func longestPause(f func()) (longest time.Duration) {
	over, measured := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(measured)
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		for last := time.Now(); ; {
			select {
			case <-over:
				return
			case <-ticker.C:
			}
			now := time.Now()
			longest = max(longest, now.Sub(last))
			last = now
		}
	}()
	f()
	close(over)
	<-measured
	return longest
}

// cell reads a number of the table: of column 1 or 2 of the row.
func cell(t *testing.T, text, row string, column int) int {
	t.Helper()
	line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(row) + ` +(\S+) +(\S+)$`).FindStringSubmatch(text)
	if line == nil {
		t.Fatalf("there is no row %q:\n%s", row, text)
	}
	n, err := strconv.Atoi(line[column])
	if err != nil {
		t.Fatalf("row %q: %v", row, err)
	}
	return n
}

// TestFlakyIsFair: twins treat the same calls alike, other seeds differently,
// and faults are about as frequent as they should be.
func TestFlakyIsFair(t *testing.T) {
	faultsOf := func(seed uint64) []fault {
		f := &flaky{seed: seed}
		var all []fault
		for i := range 10_000 {
			all = append(all, pick(f.draw(fmt.Sprint("/orders/", i/2), uint64(i%2))))
		}
		return all
	}
	first := faultsOf(1)
	if !slices.Equal(first, faultsOf(1)) {
		t.Error("the same seed gives other faults")
	}
	if slices.Equal(first, faultsOf(2)) {
		t.Error("another seed gives the same faults")
	}
	count := map[fault]int{}
	for _, f := range first {
		count[f]++
	}
	for _, x := range faults {
		want := int(x.per) * len(first) / 1000
		if got := count[x.fault]; got < want*7/10 || got > want*13/10 {
			t.Errorf("fault %d: %d times, want about %d", x.fault, got, want)
		}
	}
}

func TestQuantile(t *testing.T) {
	var times []time.Duration
	if quantile(times, 50) != 0 {
		t.Error("of nothing")
	}
	for i := range 100 {
		times = append(times, time.Duration(i+1))
	}
	if quantile(times, 50) != 50 || quantile(times, 95) != 95 || quantile(times[:1], 95) != 1 {
		t.Error("not the nearest rank")
	}
}

// TestDemoConfig: the configuration that the demo shows is one, and the ratio
// is what its upstream needs.
func TestDemoConfig(t *testing.T) {
	cfg := parse(t, fmt.Sprintf(demoConfig, "127.0.0.1:9"))
	if len(cfg.Upstreams) != 1 || cfg.Upstreams[0].Budget.Ratio != 0.5 || len(cfg.Warnings) != 0 {
		t.Errorf("%+v", cfg)
	}
}

// TestReadStatus: what clients read from Proxy-Status.
func TestReadStatus(t *testing.T) {
	for field, want := range map[string]result{
		"": {attempts: 1},
		"mulligan; attempts=3; stop=success; received-status=200": {attempts: 3, stop: "success"},
		"other, mulligan; attempts=1; stop=budget":                {attempts: 1, stop: "budget"},
	} {
		got := result{attempts: 1}
		got.readStatus(field)
		if got != want {
			t.Errorf("%q: %+v, want %+v", field, got, want)
		}
	}
}

// TestTally: every result is of one kind, and what broke off under way is told
// from what mulligan knew to have failed.
func TestTally(t *testing.T) {
	f := &flaky{}
	got := newTally([]result{
		{status: 200, attempts: 1},
		{status: 200, attempts: 2, stop: "success"},
		{status: 422, attempts: 1, stop: "permanent"},
		{status: 504, attempts: 1, stop: "not_idempotent"},
		{status: 503, attempts: 2, stop: "budget"},
		{status: 200, attempts: 1, broke: true},
		{status: 200, attempts: 4, stop: "success", broke: true},
		{status: 200, attempts: 4, stop: "max_attempts", broke: true},
		{},
	}, f)
	want := tally{requests: 9, atOnce: 1, saved: 1, permanent: 1, failed: 6, notRepeated: 1, noBudget: 1,
		begunAtOnce: 1, begunLater: 1, beside: got.beside, goodBeside: got.goodBeside}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestOutageLoad: attempts are divided by the requests that they were made for,
// whenever they arrived.
func TestOutageLoad(t *testing.T) {
	f := &flaky{seen: map[string]uint64{}}
	out := outageOf(64)
	for i := range 64 {
		f.arrive(pathOf(i))
	}
	f.arrive(pathOf(out.first - 1)) // a retry of a request from before, in the outage or not
	f.arrive(pathOf(out.first))
	got := newTally(make([]result, 64), f)
	if want := out.end - out.first + 1; got.seenDown != want || got.seen != 66 || got.requests-got.beside != out.end-out.first {
		t.Errorf("%+v, want %d requests seen for those of the outage", got, want)
	}
}

// TestChain: only waits that an attempt followed are told.
func TestChain(t *testing.T) {
	ms := time.Millisecond
	for want, test := range map[string]told{
		"504, after 3 ms 200":                 {outcome: "success_after_retry", stop: "success", attempts: []attempt{{"504", 3 * ms}, {"200", 0}}},
		"504, after 32 ms 504, stop=draining": {outcome: "failed", stop: "draining", attempts: []attempt{{"504", 32 * ms}, {"504", 49 * ms}}},
		"422, stop=permanent":                 {outcome: "permanent", stop: "permanent", attempts: []attempt{{"422", 0}}},
		"stop=client_gone":                    {outcome: "client_gone", stop: "client_gone"},
		"504, after 0 ms reset, stop=budget":  {outcome: "failed", stop: "budget", attempts: []attempt{{"504", 1}, {"reset", 0}}},
	} {
		if got := strings.ReplaceAll(test.chain(), glue, " "); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestNews: nothing is explained of a request that does not hold for it.
func TestNews(t *testing.T) {
	f := &flaky{hinted: map[visit]bool{{"/busy", 2}: true}}
	ms := time.Millisecond
	for name, test := range map[string]struct {
		told
		want []string // how what is explained begins
	}{
		"an outage's 503":       {told{path: "/x", outcome: "success_after_retry", attempts: []attempt{{"503", 424 * ms}, {"200", 0}}}, nil},
		"another one's hint":    {told{path: "/busy", outcome: "success_after_retry", attempts: []attempt{{"503", 424 * ms}, {"200", 0}}}, nil},
		"a hint":                {told{path: "/busy", outcome: "success_after_retry", attempts: []attempt{{"504", 9 * ms}, {"503", 190 * ms}, {"200", 0}}}, []string{"504 is", "503 said"}},
		"a hint not waited for": {told{path: "/busy", outcome: "failed", stop: "draining", attempts: []attempt{{"504", 9 * ms}, {"503", 190 * ms}}}, []string{"504 is"}},
		"the last answer":       {told{outcome: "failed", stop: "max_attempts", attempts: []attempt{{"504", 0}}}, []string{"max_attempts is 4"}},
		"no last answer":        {told{outcome: "failed", stop: "max_attempts", attempts: []attempt{{"connection_reset", 0}}}, nil},
		"422":                   {told{outcome: "permanent", stop: "permanent", attempts: []attempt{{"422", 0}}}, []string{"422 is not"}},
		"another end":           {told{outcome: "permanent", stop: "permanent", attempts: []attempt{{"protocol_error", 0}}}, nil},
	} {
		got := (&story{flaky: f, known: map[string]bool{}}).news(test.told)
		if len(got) != len(test.want) || !slices.EqualFunc(got, test.want, strings.HasPrefix) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestWrapped(t *testing.T) {
	long := strings.Repeat("x", columns)
	for text, want := range map[string]string{
		"":                  "",
		long:                long,
		"a " + long:         "a\n  " + long,
		long + " b":         long + "\n  b",
		"   " + long + " b": "   " + long + "\n  b",
		long[:70] + "   b   after" + glue + "14" + glue + "ms": long[:70] + "   b\n  after 14 ms",
	} {
		if got := wrapped(text, 2); got != want {
			t.Errorf("%q:\ngot  %q\nwant %q", text, got, want)
		}
	}
}
