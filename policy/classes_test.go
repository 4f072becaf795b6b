package policy_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mulligan/policy"
)

var update = flag.Bool("update", false, "write testdata/*.golden anew; read the difference before it is committed")

// caller is a column of the golden table: who asks.
type caller struct {
	method string
	keyed  bool
}

var callers = []caller{
	{"GET", false}, {"HEAD", false}, {"OPTIONS", false}, {"TRACE", false}, {"PUT", false}, {"DELETE", false},
	{"POST", false}, {"PATCH", false}, {"CONNECT", false}, {"get", false}, {"FOO", false},
	{"GET", true}, {"POST", true}, {"PATCH", true}, {"get", true}, {"FOO", true},
}

func (c caller) String() string {
	if c.keyed {
		return c.method + "+k"
	}
	return c.method
}

// policies are the sections of the golden table.
var policies = []struct {
	title string
	on    []string // added to the default retry_on
	notOn []string
	word  policy.Word
}{
	{title: "the defaults"},
	{title: "the defaults, where the upstream says: retry", word: policy.RetryWord},
	{title: "the defaults, where the upstream says: final", word: policy.FinalWord},
	{title: "retry_on: [inherit, 4xx, 5xx, protocol_error]", on: []string{"4xx", "5xx", "protocol_error"}},
	{title: "retry_on: [inherit, dependency_overloaded, 202]", on: []string{"dependency_overloaded", "202"}},
	{title: "do_not_retry_on: [503, timeout, connect_failure]", notOn: []string{"503", "timeout", "connect_failure"}},
	{
		title: "do_not_retry_on: [503, timeout, connect_failure], where the upstream says: retry",
		notOn: []string{"503", "timeout", "connect_failure"}, word: policy.RetryWord,
	},
	{
		title: "retry_on: [inherit, tls_failure, dns_not_found, denied], which cannot be",
		on:    []string{"tls_failure", "dns_not_found", "denied"},
	},
	{title: "retry_on: [inherit, grpc_unavailable, grpc_aborted]", on: []string{"grpc_unavailable", "grpc_aborted"}},
	{
		title: "retry_on: [inherit, grpc_unavailable], where the upstream says: retry",
		on:    []string{"grpc_unavailable"}, word: policy.RetryWord,
	},
	{
		title: "retry_on: [inherit, grpc_unavailable], where the upstream says: final",
		on:    []string{"grpc_unavailable"}, word: policy.FinalWord,
	},
	{
		title: "retry_on: [inherit, 200, grpc_unavailable], do_not_retry_on: [grpc_internal, grpc_unavailable]",
		on:    []string{"200", "grpc_unavailable"}, notOn: []string{"grpc_internal", "grpc_unavailable"},
	},
}

const classesLegend = `# How attempts end, who asks, and what follows: the README's table of failure classes, and its test.
#
#   ok  success             R  retry            +k  the request carries an idempotency key
#   P   permanent           n  not_idempotent
#
# The last column: whether the answer pays the retry budget its ratio. A failure class
# that later sections leave out is as under the defaults. A gRPC status is that of a
# 200; those that are left out are as a 200 without one.
#
# Made with: go test ./policy -run TestClasses -update
`

func TestClasses(t *testing.T) {
	var b bytes.Buffer
	b.WriteString(classesLegend)
	defaults := map[string]string{} // rows of the first section
	for i, p := range policies {
		fmt.Fprintf(&b, "\n== %s\n%-17s", p.title, "")
		for _, c := range callers {
			fmt.Fprintf(&b, " %s", c)
		}
		b.WriteString("  pays\n")
		r := builtin(t)
		r.Retry.RetryOn = set(t, slices.Concat(builtinRetryOn, p.on)...)
		r.Retry.DoNotRetryOn = set(t, p.notOn...)
		listed := slices.Concat(p.on, p.notOn)
		for _, o := range brokenOff(p.word) {
			name, row := o.Class.String(), classRow(t, r, o)
			if o.Status != 0 {
				name = fmt.Sprintf("%s %d", o.Class, o.Status)
			}
			if defaults[name] == row && !slices.Contains(listed, name) {
				continue
			}
			if i == 0 {
				defaults[name] = row
			}
			fmt.Fprintf(&b, "%-17s%s\n", name, row)
		}
		writeStatuses(t, &b, r, p.word)
		writeGRPC(t, &b, r, p.word)
	}
	golden(t, "classes.golden", b.Bytes())
}

// brokenOff returns an outcome of each failure class, and some that broke off
// after the response header.
func brokenOff(word policy.Word) []policy.Outcome {
	var all []policy.Outcome
	for _, c := range policy.Classes() {
		all = append(all, policy.Outcome{Class: c})
	}
	return append(all,
		policy.Outcome{Class: policy.Truncated, Status: 200, Word: word},
		policy.Outcome{Class: policy.Truncated, Status: 503, Word: word},
	)
}

// writeStatuses writes a row for each run of statuses that are treated alike.
func writeStatuses(t *testing.T, b *bytes.Buffer, r *policy.Route, word policy.Word) {
	first, row := 100, ""
	for status := 100; status <= 600; status++ {
		next := ""
		if status < 600 {
			next = classRow(t, r, policy.Outcome{Status: status, Word: word})
		}
		if next == row {
			continue
		}
		if row != "" {
			name := fmt.Sprint(first)
			if status-1 > first {
				name += fmt.Sprintf("-%d", status-1)
			}
			fmt.Fprintf(b, "%-17s%s\n", name, row)
		}
		first, row = status, next
	}
}

// writeGRPC writes a row for each gRPC status that changes what becomes of a 200.
func writeGRPC(t *testing.T, b *bytes.Buffer, r *policy.Route, word policy.Word) {
	plain := classRow(t, r, policy.Outcome{Status: 200, Word: word})
	for _, g := range policy.GRPCStatuses() {
		if row := classRow(t, r, policy.Outcome{Status: 200, GRPC: g, Word: word}); row != plain {
			fmt.Fprintf(b, "%-17s%s\n", g, row)
		}
	}
}

// classRow asks a fresh Session for each caller.
func classRow(t *testing.T, r *policy.Route, o policy.Outcome) string {
	var b strings.Builder
	pays := ""
	for _, c := range callers {
		budget := policy.NewBudget(policy.BudgetConfig{Ratio: 1, Burst: 1, Window: builtinBudget.Window}, t0)
		s := policy.NewSession(r, budget, policy.Request{Method: c.method, Keyed: c.keyed})
		d := s.Next(o, ready(), 0.5)
		fmt.Fprintf(&b, " %-*s", len(c.String()), cell(t, d))
		p := "-"
		switch held := budget.Remaining(t0); {
		case held == 2:
			p = "yes"
		case held != 1 && !d.Retry || held != 0 && d.Retry:
			t.Errorf("%+v, %s: the budget holds %d after %+v", o, c, held, d)
		}
		if pays != "" && p != pays {
			t.Errorf("%+v, %s: whether it pays depends on the method", o, c)
		}
		if d.Retry {
			p = "-"
		}
		pays = p
	}
	return strings.TrimRight(b.String()+"  "+pays, " ")
}

func cell(t *testing.T, d policy.Decision) string {
	if d.Retry {
		if d.Stop != policy.Going || d.Verdict != policy.Retryable {
			t.Errorf("a retry with stop %q, verdict %d", d.Stop, d.Verdict)
		}
		return "R"
	}
	switch {
	case d.Stop == policy.Success && d.Verdict == policy.Succeeded:
		return "ok"
	case d.Stop == policy.Permanent && d.Verdict == policy.PermanentFailure:
		return "P"
	case d.Stop == policy.NotIdempotent && d.Verdict == policy.Retryable:
		return "n"
	}
	return fmt.Sprintf("?%s/%d", d.Stop, d.Verdict)
}

// golden compares got with the file, or writes the file.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		var g, w string
		if i < len(gotLines) {
			g = gotLines[i]
		}
		if i < len(wantLines) {
			w = wantLines[i]
		}
		if g != w {
			t.Errorf("%s:%d\n got %s\nwant %s", path, i+1, g, w)
		}
	}
}

func TestAbandonedAttemptIsNoAnswer(t *testing.T) {
	r := builtin(t)
	budget := policy.NewBudget(policy.BudgetConfig{Ratio: 1, Window: builtinBudget.Window}, t0)
	s := policy.NewSession(r, budget, policy.Request{Method: "GET"})
	st := ready()
	st.ClientGone = true
	d := s.Next(policy.Outcome{}, st, 0)
	if d.Stop != policy.ClientGone || d.Verdict != policy.Retryable {
		t.Errorf("stop %q, verdict %d", d.Stop, d.Verdict)
	}
	if n := budget.Remaining(t0); n != 0 {
		t.Errorf("it paid into the budget: %d", n)
	}
}

// A protocol error is judged as one, whatever its header seemed to say.
func TestProtocolErrorForgetsItsHeader(t *testing.T) {
	r := builtin(t)
	o := policy.Outcome{Class: policy.ProtocolError, Status: 503, Word: policy.RetryWord}
	if v := r.Retry.Classify(o); v != policy.PermanentFailure {
		t.Errorf("verdict %d", v)
	}
}

func TestFinalWordOnListedSuccess(t *testing.T) {
	r := builtin(t)
	r.Retry.RetryOn = set(t, "202")
	o := policy.Outcome{Status: 202, Word: policy.FinalWord}
	if v := r.Retry.Classify(o); v != policy.Succeeded {
		t.Errorf("202 with a final word: verdict %d", v)
	}
	o.Class = policy.Truncated
	r.Retry.RetryOn = set(t, "202", "truncated")
	if v := r.Retry.Classify(o); v != policy.Retryable {
		t.Errorf("truncated 202 with a final word: verdict %d", v)
	}
}

// A gRPC failure that a list has is a failure, whatever HTTP's status says; one
// that no list has is a success like any other 200.
func TestGRPCVerdicts(t *testing.T) {
	r := builtin(t)
	r.Retry.RetryOn = set(t, "grpc_unavailable", "truncated", "503")
	r.Retry.DoNotRetryOn = set(t, "grpc_internal")
	unavailable, internal, unknown := named(t, "grpc_unavailable"), named(t, "grpc_internal"), named(t, "grpc_unknown")
	for _, tt := range []struct {
		o    policy.Outcome
		want policy.Verdict
	}{
		{policy.Outcome{Status: 200, GRPC: unavailable}, policy.Retryable},
		{policy.Outcome{Status: 200, GRPC: unavailable, Word: policy.RetryWord}, policy.Retryable},
		{policy.Outcome{Status: 200, GRPC: unavailable, Word: policy.FinalWord}, policy.PermanentFailure},
		{policy.Outcome{Status: 200, GRPC: internal}, policy.PermanentFailure},
		{policy.Outcome{Status: 200, GRPC: internal, Word: policy.RetryWord}, policy.PermanentFailure},
		{policy.Outcome{Status: 200, GRPC: unknown}, policy.Succeeded},
		{policy.Outcome{Status: 200, GRPC: unknown, Word: policy.RetryWord}, policy.Succeeded},
		{policy.Outcome{Status: 200, GRPC: unknown, Word: policy.FinalWord}, policy.Succeeded},
		{policy.Outcome{Status: 500, GRPC: unavailable}, policy.Retryable},
		{policy.Outcome{Status: 503, GRPC: internal}, policy.PermanentFailure},
		{policy.Outcome{Status: 503, GRPC: unknown}, policy.Retryable},
		{policy.Outcome{Status: 404, GRPC: unknown}, policy.PermanentFailure},
		{policy.Outcome{Status: 200, GRPC: unknown, Class: policy.Truncated}, policy.Retryable},
		{policy.Outcome{Status: 200, GRPC: unknown, Class: policy.Truncated, Word: policy.FinalWord}, policy.PermanentFailure},
		{policy.Outcome{Status: 200, GRPC: unavailable, Class: policy.ProtocolError}, policy.PermanentFailure},
	} {
		if v := r.Retry.Classify(tt.o); v != tt.want {
			t.Errorf("%+v: verdict %d, want %d", tt.o, v, tt.want)
		}
	}
}

// named is the gRPC status that a word names.
func named(t *testing.T, word string) policy.GRPC {
	t.Helper()
	g, ok := policy.ParseGRPC(word)
	if !ok {
		t.Fatalf("there is no %s", word)
	}
	return g
}

// Where a list has a gRPC status, the fields of a 2xx are worth a look.
func TestHeedsGRPC(t *testing.T) {
	listed, excluded := builtin(t), builtin(t)
	listed.Retry.RetryOn = set(t, "grpc_unavailable")
	excluded.Retry.DoNotRetryOn = set(t, "grpc_internal")
	for _, r := range []*policy.Route{listed, excluded} {
		for status, want := range map[int]bool{0: false, 101: false, 200: true, 204: true, 299: true, 300: false, 400: true} {
			if got := r.Retry.Heeds(status); got != want {
				t.Errorf("Heeds(%d) = %v", status, got)
			}
		}
	}
}

func TestHeeds(t *testing.T) {
	r := builtin(t)
	r.Retry.RetryOn = set(t, "202")
	for status, want := range map[int]bool{0: false, 200: false, 202: true, 304: false, 400: true, 503: true, 999: true} {
		if got := r.Retry.Heeds(status); got != want {
			t.Errorf("Heeds(%d) = %v", status, got)
		}
	}
}

func TestReason(t *testing.T) {
	r := builtin(t)
	r.Retry.RetryOn = set(t, "5xx", "789", "grpc_unavailable")
	r.Retry.DoNotRetryOn = set(t, "grpc_internal")
	for _, tt := range []struct {
		o    policy.Outcome
		want string
	}{
		{policy.Outcome{Class: policy.Truncated, Status: 200}, "truncated"},
		{policy.Outcome{Status: 200}, "200"},
		{policy.Outcome{Status: 429}, "429"},
		{policy.Outcome{Status: 529}, "529"},
		{policy.Outcome{Status: 789}, "789"},   // odd, but listed by itself
		{policy.Outcome{Status: 599}, "other"}, // odd, listed with its hundred only
		{policy.Outcome{Status: 788}, "other"},
		{policy.Outcome{Status: 1000}, "other"},
		{policy.Outcome{Status: -503}, "other"},
		{policy.Outcome{}, "other"},
		{policy.Outcome{Status: 200, GRPC: named(t, "grpc_unavailable")}, "grpc_unavailable"},
		{policy.Outcome{Status: 500, GRPC: named(t, "grpc_unavailable")}, "grpc_unavailable"},
		{policy.Outcome{Status: 200, GRPC: named(t, "grpc_internal")}, "grpc_internal"},
		{policy.Outcome{Status: 200, GRPC: named(t, "grpc_unknown")}, "200"}, // no list has it
		{policy.Outcome{Class: policy.Truncated, Status: 200, GRPC: named(t, "grpc_unavailable")}, "truncated"},
	} {
		s := policy.NewSession(r, policy.NewBudget(builtinBudget, t0), policy.Request{Method: "GET"})
		if d := s.Next(tt.o, ready(), 0); d.Reason != tt.want {
			t.Errorf("%+v: reason %q, want %q", tt.o, d.Reason, tt.want)
		}
	}
}

func TestNames(t *testing.T) {
	for _, c := range policy.Classes() {
		if got, ok := policy.ParseClass(c.String()); !ok || got != c {
			t.Errorf("class %q: %d, %v", c, got, ok)
		}
	}
	for _, s := range []string{"", "503", "Timeout"} {
		if c, ok := policy.ParseClass(s); ok {
			t.Errorf("ParseClass(%q) = %q", s, c)
		}
	}
	if all := policy.GRPCStatuses(); len(all) != 16 {
		t.Errorf("%d gRPC statuses", len(all))
	}
	for _, g := range policy.GRPCStatuses() {
		if got, ok := policy.ParseGRPC(g.String()); !ok || got != g {
			t.Errorf("gRPC status %q: %d, %v", g, got, ok)
		}
	}
	for _, s := range []string{"", "grpc_ok", "grpc_", "unavailable", "GRPC_UNAVAILABLE", "14"} {
		if g, ok := policy.ParseGRPC(s); ok {
			t.Errorf("ParseGRPC(%q) = %q", s, g)
		}
	}
	seen := map[string]bool{}
	for _, s := range policy.Stops() {
		if s.String() == "" || seen[s.String()] {
			t.Errorf("stop %d is called %q", s, s)
		}
		seen[s.String()] = true
	}
	if s := policy.GRPC(0).String() + policy.GRPC(17).String() + policy.Class(200).String() + policy.Stop(200).String() + policy.ClassNone.String() + policy.Going.String(); s != "" {
		t.Errorf("what has no name is called %q", s)
	}
}
