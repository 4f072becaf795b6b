package blackbox

import (
	"fmt"
	"strings"
	"testing"
)

// Section 7: Proxy-Status as the contract spells it, byte for byte.
func TestProxyStatusSpelling(t *testing.T) {
	t.Parallel()
	p := start(t, `defaults: {retry: {max_attempts: 3, `+quick+`}}`)
	u := answers(t, text(503, "down"))
	r := p.get(u.url("/"))
	want(t, "Proxy-Status", r.get("Proxy-Status"), "mulligan; attempts=3; stop=max_attempts; received-status=503")
	want(t, "fields of that name", len(r.all("Proxy-Status")), 1)
	want(t, "body, the upstream's", r.Body, "down")

	u = answers(t, text(404, "no"))
	want(t, "of a 404", p.get(u.url("/")).get("Proxy-Status"), "mulligan; attempts=1; stop=permanent; received-status=404")
	u = answers(t, text(503, ""), text(201, "made"))
	want(t, "of a late success", p.get(u.url("/")).get("Proxy-Status"), "mulligan; attempts=2; stop=success; received-status=201")
	u = answers(t, text(503, ""), text(404, ""))
	p.get(u.url("/")).expect(t, 404, "attempts=2; stop=permanent; received-status=404")
	for _, status := range []int{200, 204, 301, 304, 399} {
		u = answers(t, raw(fmt.Sprintf("HTTP/1.1 %d X\r\n%s\r\n", status, map[bool]string{true: "", false: "Content-Length: 0\r\n"}[status == 204 || status == 304])))
		p.get(u.url("/")).expect(t, status, "")
	}
}

// Without a response the error stands in its place, and its type is a token of
// RFC 9209.
func TestProxyStatusError(t *testing.T) {
	t.Parallel()
	p := start(t, `defaults: {retry: {max_attempts: 2, `+quick+`}}`)
	r := p.get("http://" + closedAddr(t) + "/")
	line := r.get("Proxy-Status")
	contains(t, "Proxy-Status", line, "mulligan; ", "attempts=2", "stop=max_attempts", "error=connection_refused")
	if strings.Contains(line, "received-status") {
		t.Errorf("%q names a status that nobody received", line)
	}
}

// Members that were there stay in front, on one line or on several.
func TestProxyStatusKeepsMembers(t *testing.T) {
	t.Parallel()
	p := start(t, `defaults: {retry: {max_attempts: 1, `+quick+`}}`)
	for _, fields := range [][]string{
		{`Proxy-Status: edge; error=http_response_timeout; details="a, b; c=d"`},
		{"Proxy-Status: edge; error=x", "Proxy-Status: middle; received-status=500, last"},
	} {
		u := answers(t, text(503, "", fields...))
		r := p.get(u.url("/"))
		var sent []string
		for _, f := range fields {
			sent = append(sent, strings.TrimPrefix(f, "Proxy-Status: "))
		}
		all := strings.Join(r.all("Proxy-Status"), ", ")
		want(t, "members", all, strings.Join(sent, ", ")+", mulligan; attempts=1; stop=max_attempts; received-status=503")
	}
	u := answers(t, text(200, "", "Proxy-Status: edge; received-status=200"))
	want(t, "of a success, untouched", strings.Join(p.get(u.url("/")).all("Proxy-Status"), ", "), "edge; received-status=200")
}

// A response of an earlier attempt is not the client's where the last attempt had none.
func TestLastAttemptDecidesTheAnswer(t *testing.T) {
	t.Parallel()
	p := start(t, `defaults: {retry: {max_attempts: 2, `+quick+`}}`)
	u := answers(t, text(503, "first"), fin)
	r := p.get(u.url("/"))
	r.expectProblem(t, 502, "attempts=2; stop=max_attempts; error=connection_terminated")
	u = answers(t, fin, text(503, "second"))
	r = p.get(u.url("/"))
	r.expect(t, 503, "attempts=2; stop=max_attempts; received-status=503")
	want(t, "body", r.Body, "second")
}

// The first stop that applies is the one that is reported.
func TestOrderOfStops(t *testing.T) {
	t.Parallel()
	nested := "Via: 1.1 mulligan-00000000"
	for name, row := range map[string]struct {
		retry, method, field string
		hint                 string
		stop                 string
	}{
		"permanent before nested":               {quick, "POST", nested, "x-should-retry: false", "permanent"},
		"nested before not_idempotent":          {quick, "POST", nested, "X: y", "nested"},
		"not_idempotent before max_attempts":    {"max_attempts: 1, " + quick, "POST", "X: y", "X: y", "not_idempotent"},
		"max_attempts before body":              {"max_attempts: 1, " + quick, "PUT", "Big: yes", "X: y", "max_attempts"},
		"body before retry_after":               {quick, "PUT", "Big: yes", "Retry-After: 1000", "body_not_replayable"},
		"retry_after before window":             {"backoff: {strategy: constant, initial_delay: 60s, max_delay: 60s, jitter: none}", "GET", "X: y", "Retry-After: 1000", "retry_after"},
		"window before budget":                  {"backoff: {strategy: constant, initial_delay: 60s, max_delay: 60s, jitter: none}, budget: {burst: 0}", "GET", "X: y", "X: y", "window"},
		"budget before disabled":                {"mode: observe, budget: {burst: 0}", "GET", "X: y", "X: y", "budget"},
		"max_attempts before disabled":          {"mode: observe, max_attempts: 1", "GET", "X: y", "X: y", "max_attempts"},
		"not_idempotent before disabled":        {"mode: off", "POST", "X: y", "X: y", "not_idempotent"},
		"disabled where one would be (observe)": {"mode: observe", "GET", "X: y", "X: y", "disabled"},
		"disabled where one would be (off)":     {"mode: off", "GET", "X: y", "X: y", "disabled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := answers(t, text(503, "", row.hint))
			p := start(t, `defaults: {timeout: {attempt: 10s, total: 30s}, buffer: {request: 1KiB}, retry: {`+row.retry+`}}`)
			body := ""
			if strings.HasPrefix(row.field, "Big") {
				body = pattern(2000)
			}
			p.do(row.method, u.url("/"), body, row.field).expect(t, 503, "attempts=1; stop="+row.stop+"; received-status=503")
			p.wantAttempts(u, 1)
			if row.stop != "permanent" {
				p.wantMetric(1, "mulligan_retries_denied_total", "stop="+row.stop)
			}
		})
	}
}

// Mode observe decides and counts, sends nothing again and spends nothing.
func TestModeObserve(t *testing.T) {
	t.Parallel()
	u := answers(t, text(503, ""))
	p := start(t, `defaults: {retry: {mode: observe}}`)
	for range 5 {
		p.get(u.url("/")).expect(t, 503, "attempts=1; stop=disabled; received-status=503")
	}
	p.wantAttempts(u, 5)
	p.wantMetric(5, "mulligan_retries_denied_total", "stop=disabled")
	p.wantMetric(3, "mulligan_retry_budget_remaining", "upstream=default")
}

// A client may tighten its own request: Mulligan-Policy, which is not forwarded.
func TestMulliganPolicyTightens(t *testing.T) {
	t.Parallel()
	p := start(t, `defaults: {timeout: {attempt: 0s, total: 60s}, retry: {`+quick+`}}`)
	u := answers(t, text(503, ""))
	for n, line := range map[string]string{
		"max-attempts=1":              "attempts=1; stop=max_attempts; received-status=503",
		"max-attempts=2":              "attempts=2; stop=max_attempts; received-status=503",
		"max-attempts=10":             "attempts=4; stop=max_attempts; received-status=503", // never loosened
		"max-attempts=3, total=20.25": "attempts=3; stop=max_attempts; received-status=503",
		"total=30,max-attempts=1":     "attempts=1; stop=max_attempts; received-status=503",
	} {
		p.get(u.url("/"), "Mulligan-Policy: "+n).expect(t, 503, line)
	}
	for n := 1; n <= u.count(); n++ {
		if got := u.request(n); got.has("Mulligan-Policy") {
			t.Errorf("Mulligan-Policy was forwarded: %q", got.Head)
		}
	}
	u = answers(t, hang)
	p.get(u.url("/"), "Mulligan-Policy: total=3").expectProblem(t, 504, "attempts=1; stop=window; error=http_response_timeout")
}

// A total beyond the policy's own loosens nothing.
func TestMulliganPolicyDoesNotLoosenTotal(t *testing.T) {
	t.Parallel()
	u := answers(t, hang)
	p := start(t, `defaults: {timeout: {attempt: 0s, total: 300ms}, retry: {`+quick+`}}`)
	p.get(u.url("/"), "Mulligan-Policy: total=1000").expectProblem(t, 504, "attempts=1; stop=window")
}

// A malformed one gets 400, and nothing reaches the upstream.
func TestMulliganPolicyMalformed(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, "")
	for _, value := range []string{
		"max-attempts", "max-attempts=", "max-attempts=x", "max-attempts=0", "max-attempts=-1", "max-attempts=1.5",
		"max-attempts=99999999999999999999", "total=x", "total=-1", "total=2s", "=1", "max-attempts=1;;", "nonsense !!", "max-attempts=1 total=2",
	} {
		r := p.get(u.url("/"), "Mulligan-Policy: "+value)
		if r.Status != 400 {
			t.Errorf("Mulligan-Policy %q: status %d, want 400", value, r.Status)
			continue
		}
		r.expectProblem(t, 400, "attempts=0; stop=permanent")
		if e := r.proxyStatus(t)["error"]; !strings.HasPrefix(e, "http_request_") {
			t.Errorf("error=%s, want an http_request_*", e)
		}
	}
	want(t, "requests seen", u.count(), 0)
	p.wantMetric(0, "mulligan_requests_total")
}

// More attempts than a machine's number can say are only no tightening: such a
// value was taken for malformed.
func TestMulliganPolicyOfHugeNumbers(t *testing.T) {
	t.Parallel()
	u := answers(t, text(503, ""))
	p := start(t, `defaults: {retry: {max_attempts: 2, `+quick+`}}`)
	for _, value := range []string{"max-attempts=99999999999", "max-attempts=999999999999999"} {
		p.get(u.url("/"), "Mulligan-Policy: "+value).expect(t, 503, "attempts=2; stop=max_attempts; received-status=503")
	}
}
