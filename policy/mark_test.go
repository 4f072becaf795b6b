package policy_test

import (
	"testing"
	"time"

	"mulligan/policy"
)

// marking is a policy in which what tells marks apart differs: 429 and one gRPC
// status are retried, 504 is in both lists.
func marking(t *testing.T) *policy.Retry {
	r := &builtin(t).Retry
	r.RetryOn = set(t, append(builtinRetryOn, "429", "grpc_unavailable")...)
	r.DoNotRetryOn = set(t, "504")
	return r
}

// TestMark: an attempt is bad where its class or status is one that policy retries,
// or where it was slow; what says nothing of the endpoint has no verdict.
func TestMark(t *testing.T) {
	const neutral, good, bad = policy.Neutral, policy.Good, policy.Bad
	for name, c := range map[string]struct {
		o          policy.Outcome
		fast, slow policy.Mark
	}{
		"success":                           {policy.Outcome{Status: 200}, good, bad},
		"redirect":                          {policy.Outcome{Status: 304}, good, bad},
		"upgrade":                           {policy.Outcome{Status: 101}, good, bad},
		"400":                               {policy.Outcome{Status: 400}, neutral, bad},
		"499":                               {policy.Outcome{Status: 499}, neutral, bad},
		"a 4xx that is listed":              {policy.Outcome{Status: 429}, bad, bad},
		"a 5xx that is listed":              {policy.Outcome{Status: 503}, bad, bad},
		"a 5xx that is not: it did answer":  {policy.Outcome{Status: 500}, good, bad},
		"in both lists":                     {policy.Outcome{Status: 504}, good, bad},
		"final by the upstream's word":      {policy.Outcome{Status: 503, Word: policy.FinalWord}, bad, bad},
		"to be retried by its word":         {policy.Outcome{Status: 409, Word: policy.RetryWord}, neutral, bad},
		"final by a rule":                   {policy.Outcome{Status: 503, Ruled: policy.RuledFinal}, good, bad},
		"a 4xx, final by a rule":            {policy.Outcome{Status: 429, Ruled: policy.RuledFinal}, neutral, bad},
		"a success that a rule has retried": {policy.Outcome{Status: 200, Ruled: policy.RuledRetry}, bad, bad},
		"a gRPC status that is listed":      {policy.Outcome{Status: 200, GRPC: named(t, "grpc_unavailable")}, bad, bad},
		"one that is not":                   {policy.Outcome{Status: 200, GRPC: named(t, "grpc_not_found")}, good, bad},
		"no connection":                     {policy.Outcome{Class: policy.ConnectFailure}, bad, bad},
		"refused":                           {policy.Outcome{Class: policy.RefusedStream}, bad, bad},
		"reset":                             {policy.Outcome{Class: policy.ConnectionReset}, bad, bad},
		"timeout":                           {policy.Outcome{Class: policy.Timeout}, bad, bad},
		"broke off":                         {policy.Outcome{Class: policy.Truncated, Status: 200}, bad, bad},
		"an error event":                    {policy.Outcome{Class: policy.ErrorEvent, Status: 200}, bad, bad},
		"no such name":                      {policy.Outcome{Class: policy.DNSNotFound}, neutral, neutral},
		"a bad certificate":                 {policy.Outcome{Class: policy.TLSFailure}, neutral, neutral},
		"denied":                            {policy.Outcome{Class: policy.Denied}, neutral, neutral},
		"no HTTP":                           {policy.Outcome{Class: policy.ProtocolError}, neutral, neutral},
		"given up before anything was seen": {policy.Outcome{}, neutral, bad},
	} {
		r := marking(t)
		if got := r.Mark(c.o, false); got != c.fast {
			t.Errorf("%s: %d, want %d", name, got, c.fast)
		}
		if got := r.Mark(c.o, true); got != c.slow {
			t.Errorf("%s, slow: %d, want %d", name, got, c.slow)
		}
	}
}

// TestMarkByLists: a class counts as policy has it, listed or not.
func TestMarkByLists(t *testing.T) {
	r := &builtin(t).Retry
	r.RetryOn = set(t, "protocol_error", "timeout", "5xx")
	r.DoNotRetryOn = set(t, "timeout", "501")
	for name, c := range map[string]struct {
		o    policy.Outcome
		want policy.Mark
	}{
		"a class that is not listed":    {policy.Outcome{Class: policy.ConnectionReset}, policy.Neutral},
		"one that is, though unusual":   {policy.Outcome{Class: policy.ProtocolError}, policy.Bad},
		"one of both lists":             {policy.Outcome{Class: policy.Timeout}, policy.Neutral},
		"by its hundred":                {policy.Outcome{Status: 599}, policy.Bad},
		"but for one":                   {policy.Outcome{Status: 501}, policy.Good},
		"what broke off, by its status": {policy.Outcome{Class: policy.Truncated, Status: 503}, policy.Bad},
	} {
		if got := r.Mark(c.o, false); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestHolds: a 503's hint is for everybody, any other's and a rate limit's for who
// has the same credentials; only of a response that policy would retry, and only
// where the hint is one that is obeyed.
func TestHolds(t *testing.T) {
	const s = time.Second
	said := func(status int, d time.Duration, change ...func(*policy.Outcome)) policy.Outcome {
		o := policy.Outcome{Status: status, Hint: d, HasHint: true}
		for _, f := range change {
			f(&o)
		}
		return o
	}
	word := func(w policy.Word) func(*policy.Outcome) { return func(o *policy.Outcome) { o.Word = w } }
	ruled := func(r policy.Ruled) func(*policy.Outcome) { return func(o *policy.Outcome) { o.Ruled = r } }
	from := func(h policy.HintSource) func(*policy.Outcome) { return func(o *policy.Outcome) { o.Source = h } }
	exhausted := func(d time.Duration) func(*policy.Outcome) { return func(o *policy.Outcome) { o.Exhausted = d } }
	for name, c := range map[string]struct {
		o    policy.Outcome
		want time.Duration
		same bool // credentials
	}{
		"503":                                    {said(503, 5*s), 5 * s, false},
		"429":                                    {said(429, 5*s), 5 * s, true},
		"502":                                    {said(502, 5*s), 5 * s, true},
		"as long as is obeyed":                   {said(503, 30*s), 30 * s, false},
		"longer than is obeyed":                  {said(503, 30*s+1), 0, false},
		"none":                                   {policy.Outcome{Status: 503}, 0, false},
		"at once":                                {said(503, 0), 0, false},
		"of a status that is not retried":        {said(500, 5*s), 0, false},
		"of one in both lists":                   {said(504, 5*s), 0, false},
		"of a success":                           {said(200, 5*s), 0, false},
		"of what the upstream says is final":     {said(503, 5*s, word(policy.FinalWord)), 0, false},
		"of what the upstream asks to retry":     {said(409, 5*s, word(policy.RetryWord)), 5 * s, true},
		"of what a rule makes final":             {said(503, 5*s, ruled(policy.RuledFinal)), 0, false},
		"of what a rule has retried":             {said(403, 5*s, ruled(policy.RuledRetry)), 5 * s, true},
		"of a success that a rule has retried":   {said(200, 5*s, ruled(policy.RuledRetry)), 5 * s, true},
		"of a 503 that broke off":                {said(503, 5*s, func(o *policy.Outcome) { o.Class = policy.Truncated }), 0, false},
		"by a pushback, of a 503":                {said(503, 5*s, from(policy.HintPushback)), 5 * s, false},
		"by a rate limit, of a 429":              {said(429, 5*s, from(policy.HintReset), exhausted(5*s)), 5 * s, true},
		"by a rate limit, of a 503":              {said(503, 5*s, from(policy.HintReset), exhausted(5*s)), 5 * s, true},
		"by a reset that says not what remains":  {said(429, 5*s, from(policy.HintReset)), 5 * s, true},
		"by the reset of a whole allowance":      {said(429, 5*s, from(policy.HintFull)), 0, false},
		"by that beside another limit":           {said(429, 5*s, from(policy.HintFull), exhausted(2*s)), 2 * s, true},
		"nothing left after a success":           {policy.Outcome{Status: 200, Exhausted: 7 * s}, 7 * s, true},
		"nothing left, of a status not retried":  {said(404, 7*s, from(policy.HintReset), exhausted(7*s)), 7 * s, true},
		"nothing left for longer than is obeyed": {policy.Outcome{Status: 200, Exhausted: time.Hour}, 0, false},
		"nothing left, says what broke off":      {policy.Outcome{Status: 200, Class: policy.Truncated, Exhausted: 7 * s}, 0, false},
		"no response":                            {policy.Outcome{Class: policy.Timeout}, 0, false},
	} {
		d, same := marking(t).Holds(c.o)
		if d != c.want || d > 0 && same != c.same {
			t.Errorf("%s: %v, the same credentials: %v; want %v, %v", name, d, same, c.want, c.same)
		}
	}
	r := marking(t)
	r.RetryAfter = 0
	for _, o := range []policy.Outcome{said(503, s), said(429, s), {Status: 200, Exhausted: s}} {
		if d, _ := r.Holds(o); d != 0 {
			t.Errorf("retry_after: 0s, but %d holds for %v", o.Status, d)
		}
	}
}
