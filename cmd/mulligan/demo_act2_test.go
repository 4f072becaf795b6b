package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// secondActTold: what the second act's tables say must add up, and the story must
// have what it is about.
func secondActTold(t *testing.T, text string) {
	t.Helper()
	for column := 1; column <= 2; column++ {
		requests, sum := cell(t, text, "requests", column), 0
		for _, row := range []string{"  succeeded at once", "  saved by a retry", "  failed"} {
			if row != "  saved by a retry" || column == 1 {
				sum += cell(t, text, row, column)
			}
		}
		if requests == 0 || sum != requests {
			t.Errorf("column %d: %d requests ended, of %d", column, sum, requests)
		}
	}
	if opened, closed := cell(t, text, "B's circuit opened", 1), cell(t, text, "B's circuit closed", 1); opened < 2 || closed < 1 {
		t.Errorf("the circuit opened %d times and closed %d times", opened, closed)
	}
	open := seenBy(t, text, "  of calls while its circuit was open")
	if open[3] > 20 && open[1] >= open[3] { // fewer, where the machine stood still all the while
		t.Errorf("while its circuit was open B saw %d requests, without mulligan %d", open[1], open[3])
	}
	if limited := seenBy(t, text, "answered 429"); limited[0] == 0 || limited[1] != 0 {
		t.Errorf("answered 429: %v", limited)
	}
	for _, part := range []string{"B FAILS", "CIRCUIT OPEN: B has failed", "a probe went to B, and failed", "B is well again",
		"CIRCUIT CLOSED: a probe went to B", "agree on", "circuit_breaker:"} {
		if !strings.Contains(text, part) {
			t.Errorf("the second act lacks %q:\n%s", part, text)
		}
	}
}

// seenBy reads a row of the second table: A and B with mulligan, A and B without.
func seenBy(t *testing.T, text, row string) (n [4]int) {
	t.Helper()
	cells := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(row) + ` +(\d+) +(\d+) +(\d+) +(\d+)$`).FindStringSubmatch(text)
	if cells == nil {
		t.Fatalf("there is no row %q:\n%s", row, text)
	}
	for i := range n {
		n[i], _ = strconv.Atoi(cells[i+1]) // digits
	}
	return n
}

// TestActTwoConfig: the configuration that the second act shows is one, and its
// circuit breaker is as the tale has it.
func TestActTwoConfig(t *testing.T) {
	cfg := parse(t, fmt.Sprintf(actTwoConfig, "127.0.0.1:9", "127.0.0.1:10"))
	if len(cfg.Upstreams) != 1 || len(cfg.Upstreams[0].Endpoints) != 2 || len(cfg.Warnings) != 0 {
		t.Fatalf("%+v", cfg)
	}
	if b := cfg.Upstreams[0].Breaker; b.OpenFor*4/5 != actTwoOpenFor || b.MaxOpenFor < 2*b.OpenFor || b.FailureRatio != 0.8 || b.Window != time.Second || b.Probes != 1 {
		t.Errorf("%+v", b)
	}
}

// TestEndpointLimit: so many requests in a slot, 429 with what is left of it to
// more, and who comes back before is noticed.
func TestEndpointLimit(t *testing.T) {
	e := &endpoint{limit: 2, comes: map[int]uint64{}, backOn: map[int]time.Time{}}
	begin := time.Now()
	for i, step := range []struct {
		at     time.Duration
		call   int
		status int
		wait   time.Duration
		early  int
	}{
		{0, 1, 200, 0, 0},
		{10 * time.Millisecond, 2, 200, 0, 0},
		{100 * time.Millisecond, 3, 429, 150 * time.Millisecond, 0},
		{249*time.Millisecond + 500*time.Microsecond, 4, 429, time.Millisecond, 0},
		{249*time.Millisecond + 600*time.Microsecond, 3, 429, time.Millisecond, 1},
		{251 * time.Millisecond, 3, 200, 0, 1},
		{252 * time.Millisecond, 4, 200, 0, 1},
		{253 * time.Millisecond, 5, 429, 248 * time.Millisecond, 1},
	} {
		status, _, wait := e.arrive(step.call, begin.Add(step.at))
		if status != step.status || wait != step.wait || e.early() != step.early {
			t.Errorf("step %d: %d, wait %v, %d early; want %+v", i, status, wait, e.early(), step)
		}
	}
	e.down.Store(true)
	if status, _, _ := e.arrive(6, begin.Add(time.Second)); status != 503 {
		t.Errorf("down: %d", status)
	}
	if e.count() != 9 || e.answered(429) != 4 || e.answered(503) != 1 {
		t.Errorf("%+v", e.record())
	}
}

// TestScenes: which scene a call is of, also where the play has not come so far.
func TestScenes(t *testing.T) {
	s := scenes{fails: 10, opens: 20, closes: 30}
	for call, want := range map[int]int{0: 0, 9: 0, 10: 1, 19: 1, 20: 2, 29: 2, 30: 3, 500: 3} {
		if got := s.of(call); got != want {
			t.Errorf("call %d: scene %d, want %d", call, got, want)
		}
	}
	if s.over(30+finale-1) || !s.over(30+finale) || (scenes{fails: 10, opens: 20}).over(mostCalls) {
		t.Error("over at another time than finale calls after the circuit closed")
	}
}

// played is an act without servers whose endpoints have seen what an honest
// proxy would have sent, and what came of it.
func played() (*actTwo, []result, []result, counts) {
	a := &actTwo{scenes: scenes{fails: 2, opens: 4, closes: 6}}
	visits := [4][]arrival{
		{{0, 200}, {2, 200}, {3, 200}, {4, 429}, {4, 200}, {5, 200}}, // A
		{{1, 200}, {2, 503}, {3, 503}, {5, 503}, {6, 200}},           // B, the third a probe
		{{0, 200}, {2, 200}, {4, 200}, {6, 200}},
		{{1, 200}, {3, 503}, {5, 503}},
	}
	for i := range visits {
		e := &endpoint{visits: visits[i]}
		if i < 2 {
			a.ends[i] = e
		} else {
			a.bare[i-2] = e
		}
	}
	a.down = time.Now()
	a.back = a.down.Add(1500 * time.Millisecond)
	a.tale = newTale(new(bytes.Buffer), "", a)
	a.tale.start(func() {})
	with := []result{{status: 200, attempts: 1}, {status: 200, attempts: 1}, {status: 200, attempts: 2}, {status: 200, attempts: 2},
		{status: 200, attempts: 2}, {status: 200, attempts: 2}, {status: 200, attempts: 1}}
	without := []result{{status: 200, attempts: 1}, {status: 200, attempts: 1}, {status: 200, attempts: 1}, {status: 503, attempts: 1},
		{status: 200, attempts: 1}, {status: 503, attempts: 1}, {status: 200, attempts: 1}}
	return a, with, without, counts{
		"mulligan_attempts_total": family("upstream=search result=2xx", 7, "upstream=search result=4xx", 1, "upstream=search result=5xx", 3),
		"mulligan_retries_total":  family("upstream=search", 4),
		"mulligan_requests_total": family("upstream=search outcome=success", 3, "upstream=search outcome=success_after_retry", 4),
	}
}

// family is series of a counter: their labels and values, in turn.
func family(series ...any) *dto.MetricFamily {
	f := &dto.MetricFamily{}
	for i := 0; i < len(series); i += 2 {
		value := float64(series[i+1].(int))
		m := &dto.Metric{Counter: &dto.Counter{Value: &value}}
		for label := range strings.FieldsSeq(series[i].(string)) {
			name, value, _ := strings.Cut(label, "=")
			m.Label = append(m.Label, &dto.LabelPair{Name: &name, Value: &value})
		}
		f.Metric = append(f.Metric, m)
	}
	return f
}

// TestActTwoChecksItself: what is not so is not told.
func TestActTwoChecksItself(t *testing.T) {
	for name, test := range map[string]struct {
		lie  func(a *actTwo, r *ending, seen counts)
		want string // of the error; "" none
	}{
		"all as it should be": {func(*actTwo, *ending, counts) {}, ""},
		"it never opened":     {func(_ *actTwo, r *ending, _ counts) { r.opened = 0 }, "open and close"},
		"it never closed":     {func(_ *actTwo, r *ending, _ counts) { r.closed = 0 }, "open and close"},
		"more probes than fit": {func(a *actTwo, r *ending, _ counts) {
			a.back = a.down.Add(actTwoOpenFor - time.Millisecond)
		}, "was asked 1 times"},
		"one that came too soon": {func(a *actTwo, _ *ending, _ counts) { a.ends[0].tooSoon = 1 }, "came back before"},
		"no limit": {func(_ *actTwo, r *ending, seen counts) {
			r.with.limited[0] = 0
			seen["mulligan_attempts_total"] = family("upstream=search result=5xx", 3, "upstream=search", 8)
		}, "too much"},
		"nothing saved":       {func(_ *actTwo, r *ending, _ counts) { r.without.atOnce = 7 }, "saved nothing"},
		"a hidden retry":      {func(_ *actTwo, r *ending, _ counts) { r.with.seen[0][1]++ }, "attempts: the endpoints"},
		"a failure untold":    {func(_ *actTwo, r *ending, _ counts) { r.with.failed++ }, "failed: the clients"},
		"a 503 not counted":   {func(_ *actTwo, r *ending, _ counts) { r.with.failing[1]++ }, "503: the endpoints"},
		"others who retry":    {func(_ *actTwo, r *ending, _ counts) { r.without.seen[1][2]++ }, "without mulligan"},
		"requests not metred": {func(_ *actTwo, _ *ending, seen counts) { delete(seen, "mulligan_requests_total") }, "requests: the clients"},
	} {
		a, with, without, seen := played()
		r := ending{with: newShare(with, a.ends, a.scenes), without: newShare(without, a.bare, a.scenes), opened: 2, closed: 1}
		test.lie(a, &r, seen)
		err := a.verify(r, seen)
		a.tale.stop()
		if err == nil && test.want != "" || err != nil && (test.want == "" || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// TestShare: requests are counted by endpoint, and by when their call began.
func TestShare(t *testing.T) {
	a, with, _, _ := played()
	defer a.tale.stop()
	got := newShare(with, a.ends, a.scenes)
	want := share{requests: 7, atOnce: 3, saved: 4, seen: [2][numScenes]int{{1, 2, 3, 0}, {1, 2, 1, 1}},
		limited: [2]int{1, 0}, failing: [2]int{0, 3}, probing: 1}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestCircuitTold: what the log says of circuits is told, of the right endpoint.
func TestCircuitTold(t *testing.T) {
	a, _, _, _ := played()
	a.tale.stop() // the test tells
	var out bytes.Buffer
	s := newTale(&out, "", a)
	for i, e := range []*endpoint{a.ends[0], a.ends[1]} {
		ln, err := serveLoopback(e)
		if err != nil {
			t.Fatal(err)
		}
		defer ln.stop()
		a.ends[i].loopback = ln
	}
	line := func(message string, e *endpoint, openFor time.Duration) {
		r := slog.NewRecord(time.Now(), slog.LevelWarn, message, 0)
		r.AddAttrs(slog.String("upstream", "search"), slog.String("endpoint", "http://"+e.addr()))
		if openFor > 0 {
			r.AddAttrs(slog.Duration("open_for", openFor))
		}
		s.hear(r)
		out.WriteString("|")
		(<-s.events)()
	}
	line("circuit opened", a.ends[1], 1040*time.Millisecond)
	line("circuit opened", a.ends[1], 2*time.Second)
	line("circuit opened", a.ends[0], time.Second)
	line("circuit closed", a.ends[1], 0)
	told := strings.Split(strings.Join(strings.Fields(out.String()), " "), "|")[1:]
	want := []string{"B has failed 3 times", "a probe went to B, and failed: its circuit is open for another 2s", "failed at A; for 1s", "a probe went to B, and was answered"}
	if !slices.EqualFunc(told, want, strings.Contains) {
		t.Errorf("%q, want %q", told, want)
	}
	if a.opened.Load() != 2 || a.closed.Load() != 1 {
		t.Errorf("B's circuit opened %d times and closed %d times", a.opened.Load(), a.closed.Load())
	}
}
