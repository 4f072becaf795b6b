package policy_test

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"mulligan/policy"
)

func TestMatches(t *testing.T) {
	for _, tt := range []struct {
		pattern, text string
		want          bool
	}{
		{"429", "429", true}, {"429", "4290", false}, {"", "", true}, {"", "x", false}, {"A", "a", false},
		{"*", "", true}, {"*", "x", true}, {"**", "", true}, {"**", "x", true},
		{"Thr*", "Throttling", true}, {"Thr*", "Thr", true}, {"Thr*", "aThr", false},
		{"*tion", "Exception", true}, {"*tion", "tion", true}, {"*tion", "tions", false},
		{"*ar*", "bare", true}, {"*ar*", "ar", true}, {"*ar*", "a r", false},
	} {
		if got := policy.Matches(tt.pattern, tt.text); got != tt.want {
			t.Errorf("%q, %q: %v", tt.pattern, tt.text, got)
		}
	}
}

func TestIsJSON(t *testing.T) {
	for kind, want := range map[string]bool{
		"application/json": true, "Application/JSON ; charset=utf-8": true, " application/json": true,
		"application/problem+json": true, "application/vnd.api+JSON;q=1": true, "application/x-amz-json-1.0": true,
		"application/x-amz-json-1.1; x": true,
		"":                              false, "text/plain": false, "application/jsonp": false, "+json": false, "text/json": false,
		"application/x-amz-json-1.2": false, "text/html; a=application/json": false, "application/json-seq": false,
	} {
		if got := policy.IsJSON(kind); got != want {
			t.Errorf("%q: %v", kind, got)
		}
	}
}

// rule makes a rule of words: statuses, "Name: pattern" for fields and
// "a.b = pattern" for places in the body.
func rule(t testing.TB, retry bool, words ...string) policy.Rule {
	r := policy.Rule{Retry: retry}
	for _, word := range words {
		if path, pattern, ok := strings.Cut(word, " = "); ok {
			r.JSON = append(r.JSON, policy.PathRule{Path: strings.Split(path, "."), Values: strings.Split(pattern, "|")})
		} else if name, pattern, ok := strings.Cut(word, ": "); ok {
			r.Header = append(r.Header, policy.FieldRule{Name: name, Values: strings.Split(pattern, "|")})
		} else if err := r.Status.Add(word); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

const jsonType = "application/json"

// ruled is what the rules say of a response whose body is JSON.
func ruled(rules []policy.Rule, status int, body string, header ...string) policy.Ruled {
	r := policy.Retry{Rules: rules}
	return r.Rule(&policy.Seen{Status: status, Field: fields(append(header, "Content-Type", jsonType)...), Body: []byte(body)})
}

func TestRuleConditions(t *testing.T) {
	not, final, again := policy.NotRuled, policy.RuledFinal, policy.RuledRetry
	for _, tt := range []struct {
		name   string
		rules  []policy.Rule
		status int
		header []string
		body   string
		want   policy.Ruled
	}{
		{"no rules", nil, 429, nil, "", not},
		{"status", []policy.Rule{rule(t, true, "429")}, 429, nil, "", again},
		{"another status", []policy.Rule{rule(t, true, "429")}, 503, nil, "", not},
		{"any of its statuses", []policy.Rule{rule(t, true, "429", "5xx")}, 599, nil, "", again},
		{"no status is every status", []policy.Rule{rule(t, false, "a = 1")}, 299, nil, `{"a":1}`, final},
		{"field", []policy.Rule{rule(t, true, "X-Left: 0")}, 403, []string{"x-left", " 0 "}, "", again},
		{"field with another value", []policy.Rule{rule(t, true, "X-Left: 0")}, 403, []string{"x-left", "10"}, "", not},
		{"any value", []policy.Rule{rule(t, true, "X-Left: *")}, 403, []string{"x-left", "10"}, "", again},
		{"no field, any value", []policy.Rule{rule(t, true, "X-Left: *")}, 403, nil, "", not},
		{"empty field, any value", []policy.Rule{rule(t, true, "X-Left: *")}, 403, []string{"X-Left", " "}, "", not},
		{"all fields", []policy.Rule{rule(t, true, "A: 1", "B: 2")}, 403, []string{"A", "1"}, "", not},
		{"all of everything", []policy.Rule{rule(t, true, "403", "A: 1|2", "b = x", "c = y")}, 403, []string{"A", "2"}, `{"b":"x","c":"y"}`, again},
		{"all but one", []policy.Rule{rule(t, true, "403", "A: 1|2", "b = x", "c = y")}, 403, []string{"A", "2"}, `{"b":"x"}`, not},
		{"the first", []policy.Rule{rule(t, true, "400"), rule(t, false, "429"), rule(t, true, "429")}, 429, nil, "", final},
		{"an interim response", []policy.Rule{rule(t, true, "1xx")}, 101, nil, "", not},
		{"one that does not match is passed by", []policy.Rule{rule(t, false, "429", "a = 1"), rule(t, true, "429")}, 429, nil, `{"a":2}`, again},
	} {
		if got := ruled(tt.rules, tt.status, tt.body, tt.header...); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestRulePaths(t *testing.T) {
	for _, tt := range []struct {
		body, path, value string
		want              bool
	}{
		{`{"error":{"code":"x"}}`, "error.code", "x", true},
		{" {\t\"error\" : \n {\r\"code\" : \"x\" } } \n", "error.code", "x", true},
		{`{"error":{"code":"x"}}`, "error", "*", false}, // no scalar
		{`{"error":"x"}`, "error.code", "*", false},
		{`{"a":1,"b":{"a":2}}`, "b.a", "2", true},
		{`{"a":1.50}`, "a", "1.50", true}, // as written
		{`{"a":1.50}`, "a", "1.5", false},
		{`{"a":-1E+2}`, "a", "-1E+2", true},
		{`{"a":true,"b":false,"c":null}`, "a", "true", true},
		{`{"a":true,"b":false,"c":null}`, "b", "false", true},
		{`{"a":true,"b":false,"c":null}`, "c", "*", false},
		{`{"a":""}`, "a", "", true},
		{`{"a":"q\"}],:{[\\"}`, "a", `q"}],:{[\`, true},
		{`{"x":"}\"","a":"1"}`, "a", "1", true},
		{`{"a":"x\u002fy\n\u00e9"}`, "a", "x/y\né", true},
		{`{"\u0061":"1"}`, "a", "1", true},
		{`{"a":"1","a":"2"}`, "a", "2", true}, // the last of a name counts
		{`{"a":"1","a":"2"}`, "a", "1", false},
		{`{"a":{"b":1},"a":{}}`, "a.b", "1", false},
		{`{"a":[{"b":1},{"b":2}]}`, "a.0.b", "1", true},
		{`{"a":[{"b":1},{"b":2}]}`, "a.1.b", "1", false},
		{`{"a":[{"b":1},{"b":2}]}`, "a.2.b", "*", false},
		{`{"a":[{"b":1},{"b":2}]}`, "a.-1.b", "*", false},
		{`{"a":[{"b":1},{"b":2}]}`, "a.x.b", "*", false},
		{`{"a":[{"b":1},{"b":2}]}`, "a.*.b", "2", true},
		{`{"a":[{"b":1},{"b":2}]}`, "a.*.b", "3", false},
		{`{"a":[[1,2],[3,[4]],5]}`, "a.*.*", "3", true},
		{`{"a":[[1,2],[3,[4]],5]}`, "a.*.*", "4", false},
		{`{"a":[[1,2],[3,[4]],5]}`, "a.*", "5", true},
		{`{"a":[]}`, "a.*", "*", false},
		{`{"a":{"*":1,"b":2}}`, "a.*", "2", false}, // a member called *
		{`{"a":{"*":1,"b":2}}`, "a.*", "1", true},
		{`{"a":{"0":1}}`, "a.0", "1", true},
		{`[{"a":1}]`, "0.a", "1", true},
		{`{}`, "a", "*", false},
		{`"x"`, "a", "*", false},
		{``, "a", "*", false},
		{`{"a":1`, "a", "*", false},
		{`{"a":1}}`, "a", "*", false},
		{`{"a":1} {"a":1}`, "a", "*", false},
		{`{"a":01}`, "a", "*", false},
		{`{"a":"` + "\x01" + `"}`, "a", "*", false},
		{"\ufeff{\"a\":1}", "a", "*", false},
		{strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000), "a.a", "*", false},
		{strings.Repeat(`[`, 1<<20), "*", "*", false},
	} {
		got := ruled([]policy.Rule{rule(t, true, tt.path+" = "+tt.value)}, 200, tt.body) == policy.RuledRetry
		if got != tt.want {
			t.Errorf("%.60s: %s = %s: %v", tt.body, tt.path, tt.value, got)
		}
	}
}

func TestRulesLookIntoJSONOnly(t *testing.T) {
	r := policy.Retry{Rules: []policy.Rule{rule(t, true, "a = 1")}}
	for kind, want := range map[string]policy.Ruled{"text/plain": policy.NotRuled, "": policy.NotRuled, "text/x+json": policy.RuledRetry} {
		if got := r.Rule(&policy.Seen{Status: 200, Field: fields("Content-Type", kind), Body: []byte(`{"a":1}`)}); got != want {
			t.Errorf("%q: %d", kind, got)
		}
	}
}

func TestLooksInto(t *testing.T) {
	body, limit, plain := rule(t, true, "200", "a = 1"), rule(t, true, "200", "X-Kind: q", "a = 1"), rule(t, false, "2xx")
	for _, tt := range []struct {
		name   string
		rules  []policy.Rule
		status int
		header []string
		want   bool
	}{
		{"no rules", nil, 200, nil, false},
		{"a rule without json", []policy.Rule{plain}, 200, nil, false},
		{"a rule with", []policy.Rule{body}, 200, nil, true},
		{"of another status", []policy.Rule{body}, 201, nil, false},
		{"of another field", []policy.Rule{limit}, 200, []string{"X-Kind", "r"}, false},
		{"of this field", []policy.Rule{limit}, 200, []string{"X-Kind", "q"}, true},
		{"decided before", []policy.Rule{plain, body}, 200, nil, false},
		{"decided behind", []policy.Rule{body, plain}, 200, nil, true},
		{"the first does not take it", []policy.Rule{limit, body}, 200, nil, true},
		{"no JSON", []policy.Rule{body}, 200, []string{"Content-Type", "text/html"}, false},
	} {
		r := policy.Retry{Rules: tt.rules}
		if got := r.LooksInto(tt.status, fields(append(tt.header, "Content-Type", jsonType)...)); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// TestRuledOrder: rules come before both lists and the upstream's word, and say
// nothing of what is no whole response.
func TestRuledOrder(t *testing.T) {
	r := builtin(t).Retry
	r.RetryOn, r.DoNotRetryOn = set(t, "5xx", "truncated", "timeout", "200"), set(t, "501")
	none, final, again := policy.NotRuled, policy.RuledFinal, policy.RuledRetry
	for _, tt := range []struct {
		o    policy.Outcome
		want policy.Verdict
	}{
		{policy.Outcome{Status: 503, Ruled: none}, policy.Retryable},
		{policy.Outcome{Status: 503, Ruled: final}, policy.PermanentFailure},
		{policy.Outcome{Status: 503, Ruled: final, Word: policy.RetryWord}, policy.PermanentFailure},
		{policy.Outcome{Status: 400, Ruled: again}, policy.Retryable},
		{policy.Outcome{Status: 400, Ruled: again, Word: policy.FinalWord}, policy.Retryable},
		{policy.Outcome{Status: 501, Ruled: again}, policy.Retryable},
		{policy.Outcome{Status: 204, Ruled: again}, policy.Retryable},
		{policy.Outcome{Status: 200, Ruled: final}, policy.Succeeded},
		{policy.Outcome{Status: 302, Ruled: final}, policy.Succeeded},
		{policy.Outcome{Class: policy.Truncated, Status: 503, Ruled: final}, policy.Retryable},
		{policy.Outcome{Class: policy.Timeout, Ruled: final}, policy.Retryable},
		{policy.Outcome{Class: policy.TLSFailure, Ruled: again}, policy.PermanentFailure},
		{policy.Outcome{Class: policy.ProtocolError, Status: 200, Ruled: again}, policy.PermanentFailure},
		{policy.Outcome{Status: 101, Ruled: again}, policy.Succeeded},
		{policy.Outcome{Ruled: final}, policy.Retryable}, // given up before anything was known
	} {
		if got := r.Classify(tt.o); got != tt.want {
			t.Errorf("%+v: %d, want %d", tt.o, got, tt.want)
		}
	}
	r.RetryOn = set(t, "grpc_aborted")
	if got := r.Classify(policy.Outcome{Status: 200, GRPC: named(t, "grpc_aborted"), Ruled: final}); got != policy.PermanentFailure {
		t.Errorf("a gRPC failure that a rule makes final: %d", got)
	}
}

// TestRuledSession: what is ruled final pays the budget, what is ruled retry is a
// failure, and the method's veto is over both.
func TestRuledSession(t *testing.T) {
	for _, tt := range []struct {
		method string
		o      policy.Outcome
		stop   policy.Stop
		tokens int
	}{
		{"GET", policy.Outcome{Status: 503, Ruled: policy.RuledFinal}, policy.Permanent, 2},
		{"GET", policy.Outcome{Status: 200, Ruled: policy.RuledFinal}, policy.Success, 2},
		{"GET", policy.Outcome{Status: 200, Ruled: policy.RuledRetry}, policy.Going, 0},
		{"GET", policy.Outcome{Status: 404, Ruled: policy.RuledRetry}, policy.Going, 0},
		{"POST", policy.Outcome{Status: 404, Ruled: policy.RuledRetry}, policy.NotIdempotent, 1},
		{"POST", policy.Outcome{Status: 503, Ruled: policy.RuledFinal}, policy.Permanent, 2},
	} {
		budget := policy.NewBudget(policy.BudgetConfig{Ratio: 1, Burst: 1, Window: time.Second}, t0)
		session := policy.NewSession(builtin(t), budget, policy.Request{Method: tt.method})
		d := session.Next(tt.o, ready(), 0.5)
		if d.Stop != tt.stop || budget.Remaining(t0) != tt.tokens {
			t.Errorf("%s %+v: %q, %v tokens", tt.method, tt.o, d.Stop, budget.Remaining(t0))
		}
	}
}

func TestHeedsWhatRulesRetry(t *testing.T) {
	r := builtin(t).Retry
	if r.Heeds(200) || !r.Heeds(400) {
		t.Error("without rules")
	}
	r.Rules = []policy.Rule{rule(t, false, "200"), rule(t, true, "201")}
	if r.Heeds(200) || !r.Heeds(201) {
		t.Error("with rules")
	}
	r.Rules = []policy.Rule{rule(t, true, "a = 1")}
	if !r.Heeds(200) {
		t.Error("a rule for every status")
	}
	r = builtin(t).Retry
	r.ResetHeaders = []policy.ResetHeader{{Name: "X-Reset"}}
	if !r.Heeds(200) {
		t.Error("with reset headers")
	}
}

// A status that a rule names one by one has its own reason.
func TestRuledReason(t *testing.T) {
	for _, tt := range []struct {
		rule policy.Rule
		want string
	}{
		{rule(t, true, "299"), "299"}, {rule(t, true, "2xx"), "other"}, {rule(t, false, "299"), "other"}, {rule(t, true, "X: 1"), "other"},
	} {
		route := builtin(t)
		route.Retry.Rules = []policy.Rule{tt.rule}
		session := policy.NewSession(route, policy.NewBudget(builtinBudget, t0), policy.Request{Method: "GET"})
		if d := session.Next(policy.Outcome{Status: 299, Ruled: policy.RuledRetry}, ready(), 0); d.Reason != tt.want {
			t.Errorf("%+v: %q, want %q", tt.rule, d.Reason, tt.want)
		}
	}
}

func TestRulesDoNotAllocateForHeaders(t *testing.T) {
	r := policy.Retry{Rules: []policy.Rule{rule(t, true, "429", "X-Left: 0"), rule(t, false, "200", "a.*.b = 2")}}
	seen := policy.Seen{Status: 200, Field: fields("X-Left", "1", "Content-Type", jsonType)}
	if n := testing.AllocsPerRun(100, func() {
		if r.Rule(&seen) != policy.NotRuled || !r.LooksInto(200, seen.Field) {
			t.Fatal("ruled")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzRuleJSON compares the walk over a body with a reader that builds all of it.
func FuzzRuleJSON(f *testing.F) {
	f.Add(`{"error":{"code":"x"}}`, "error.code", "x")
	f.Add(`{"a":[{"b":1.50},[true,null]],"a":[{"b":"\u0041\\\""}]}`, "a.*.b", "A*")
	f.Add(`[[[1,2],3],{"":""}]`, "*.*", "3")
	f.Add(" [ { \"a\" : [ ] , \"b\" : \"]}\" } ] ", "0.b", "*")
	f.Fuzz(func(t *testing.T, body, path, pattern string) {
		steps := strings.Split(path, ".")
		if len(steps) > 16 || !utf8.ValidString(body) { // what is no UTF-8 is no JSON, and readers differ about it
			return
		}
		one := policy.Rule{Retry: true, JSON: []policy.PathRule{{Path: steps, Values: []string{pattern}}}}
		got := ruled([]policy.Rule{one}, 200, body) == policy.RuledRetry
		want := slices.ContainsFunc(textsAt(body, steps), func(text string) bool { return policy.Matches(pattern, text) })
		if got != want {
			t.Fatalf("%q, %q, %q: %v, want %v", body, path, pattern, got, want)
		}
	})
}
