package blackbox

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// hinted answers 503 (or another status) with fields, then 200.
func hinted(t *testing.T, status int, fields ...string) *upstream {
	t.Helper()
	return answers(t, text(status, "busy", fields...), text(200, ""))
}

// Section 5: a server's hint is a lower bound, read in the contract's order; what
// is no hint is ignored.
func TestHints(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, row := range map[string]struct {
		fields []string
		least  time.Duration
	}{
		"seconds":                     {[]string{"Retry-After: 1"}, time.Second},
		"retry-after-ms":              {[]string{"Retry-After-Ms: 300"}, 300 * ms},
		"x-ms-retry-after-ms":         {[]string{"x-ms-retry-after-ms: 300"}, 300 * ms},
		"x-amz-retry-after":           {[]string{"x-amz-retry-after: 300"}, 300 * ms},
		"grpc-retry-pushback-ms":      {[]string{"grpc-retry-pushback-ms: 300"}, 300 * ms},
		"pushback before the others":  {[]string{"Retry-After: 0", "x-amz-retry-after: 1", "retry-after-ms: 1", "grpc-retry-pushback-ms: 400"}, 400 * ms},
		"retry-after-ms before x-ms":  {[]string{"x-ms-retry-after-ms: 1", "retry-after-ms: 400", "Retry-After: 0"}, 400 * ms},
		"x-ms before x-amz":           {[]string{"x-amz-retry-after: 1", "x-ms-retry-after-ms: 400", "Retry-After: 0"}, 400 * ms},
		"x-amz before Retry-After":    {[]string{"Retry-After: 0", "x-amz-retry-after: 400"}, 400 * ms},
		"the first that is valid":     {[]string{"retry-after-ms: soon", "x-ms-retry-after-ms: -1", "x-amz-retry-after: 300"}, 300 * ms},
		"garbage alone":               {[]string{"Retry-After: soon"}, 0},
		"negative":                    {[]string{"Retry-After: -100"}, 0},
		"a fraction is not 1*DIGIT":   {[]string{"Retry-After: 100.5"}, 0},
		"a past date":                 {[]string{"Retry-After: Sun, 06 Nov 1994 08:49:37 GMT"}, 0},
		"not a date":                  {[]string{"Retry-After: Sun, 32 Nov 2094 08:49:37 GMT"}, 0},
		"zero":                        {[]string{"Retry-After: 0"}, 0},
		"on 502 and 504 just as well": {[]string{"retry-after-ms: 300"}, 300 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status := 503
			if strings.HasPrefix(name, "on 502") {
				status = 502
			}
			u := hinted(t, status, row.fields...)
			p := start(t, `defaults: {retry: {`+quick+`}}`)
			p.get(u.url("/")).expect(t, 200, "attempts=2; stop=success; received-status=200")
			if got := u.gap(1); got < row.least-2*ms {
				t.Errorf("the retry came after %v, before the hint of %v", got, row.least)
			}
			if got := u.gap(1); row.least == 0 && got > 10*time.Second {
				t.Errorf("the retry came after %v: what is no hint was obeyed", got)
			}
		})
	}
}

// All three HTTP-date forms (RFC 9110 5.6.7).
func TestHintDates(t *testing.T) {
	t.Parallel()
	for name, layout := range map[string]string{
		"IMF-fixdate": "Mon, 02 Jan 2006 15:04:05 GMT",
		"RFC 850":     "Monday, 02-Jan-06 15:04:05 GMT",
		"asctime":     "Mon Jan _2 15:04:05 2006",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, `defaults: {retry: {`+quick+`}}`)
			var until time.Time
			u := answers(t, func(p *peer, r *request) bool {
				until = time.Now().Add(2 * time.Second).UTC().Truncate(time.Second)
				return text(503, "", "Retry-After: "+until.Format(layout))(p, r)
			}, text(200, ""))
			p.get(u.url("/")).expect(t, 200, "attempts=2; stop=success; received-status=200")
			if at := u.request(2).At; at.Before(until.Add(-5 * time.Millisecond)) {
				t.Errorf("the retry came at %v, before %v", at, until)
			}
		})
	}
}

// A hint longer than retry_after, or than the window: stop now, the response is
// the client's, hint included.
func TestHintsTooLong(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ config, field string }{
		"past the default of 30s": {"", "Retry-After: 31"},
		"past retry_after":        {"retry_after: 2s", "retry-after-ms: 2001"},
		"past the window":         {"", "Retry-After: 20"},
		"past any number":         {"", "Retry-After: 99999999999999999999999999"},
		"a date far away":         {"", "Retry-After: Fri, 01 Jan 2094 00:00:00 GMT"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := hinted(t, 503, row.field)
			total := "10m"
			if name == "past the window" {
				total = "15s"
			}
			p := start(t, fmt.Sprintf(`defaults: {timeout: {attempt: 10s, total: %s}, retry: {%s}}`, total, strings.Trim(quick+", "+row.config, ", ")))
			begun := time.Now()
			r := p.get(u.url("/"))
			r.expect(t, 503, "attempts=1; stop=retry_after; received-status=503")
			want(t, "the hint in the response", r.Fields[1].Name+": "+r.Fields[1].Value, row.field)
			want(t, "body", r.Body, "busy")
			if time.Since(begun) > 10*time.Second {
				t.Errorf("the answer took %v: it was not given at once", time.Since(begun))
			}
			p.wantAttempts(u, 1)
			p.wantMetric(1, "mulligan_retries_denied_total", "stop=retry_after")
		})
	}
}

// retry_after: 0s ignores hints.
func TestHintsIgnored(t *testing.T) {
	t.Parallel()
	u := hinted(t, 503, "Retry-After: 100")
	p := start(t, `defaults: {retry: {retry_after: 0s, `+quick+`}}`)
	p.get(u.url("/")).expect(t, 200, "attempts=2; stop=success; received-status=200")
}

// Hints count only on responses that are retried: a hint does not make a POST
// or a 404 anything else than it is.
func TestHintsOnWhatIsNotRetried(t *testing.T) {
	t.Parallel()
	p := start(t, `defaults: {retry: {`+quick+`}}`)
	u := hinted(t, 503, "Retry-After: 100")
	p.do("POST", u.url("/"), "").expect(t, 503, "attempts=1; stop=not_idempotent; received-status=503")
	u = hinted(t, 404, "Retry-After: 1")
	p.get(u.url("/")).expect(t, 404, "attempts=1; stop=permanent; received-status=404")
	u = hinted(t, 200, "Retry-After: 1")
	p.get(u.url("/")).expect(t, 200, "")
}

// The upstream's own word (section 4): it beats retry_on, do_not_retry_on beats it,
// and the method's veto stands.
func TestUpstreamsOwnWord(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		status   int
		field    string
		method   string
		extra    string
		attempts int
		stop     string
	}{
		{400, "x-should-retry: true", "GET", "", 2, "success"},
		{500, "stripe-should-retry: true", "GET", "", 2, "success"},
		{503, "x-should-retry: false", "GET", "", 1, "permanent"},
		{503, "Stripe-Should-Retry: false", "GET", "", 1, "permanent"},
		{503, "x-should-retry: maybe", "GET", "", 2, "success"},
		{503, "grpc-retry-pushback-ms: -1", "GET", "", 1, "permanent"},
		{503, "grpc-retry-pushback-ms: x", "GET", "", 1, "permanent"},
		{400, "grpc-retry-pushback-ms: 1", "GET", "", 2, "success"},
		{503, "Idempotent-Replayed: true", "POST", "Idempotency-Key: k", 1, "permanent"},
		{503, "Idempotent-Replayed: true", "GET", "", 2, "success"},
		{503, "Idempotent-Replayed: false", "POST", "Idempotency-Key: k", 2, "success"},
		{409, "x-should-retry: true", "POST", "", 1, "not_idempotent"},
		{409, "x-should-retry: true", "GET", "", 1, "permanent"}, // do_not_retry_on
	} {
		t.Run(fmt.Sprintf("%d %s to %s", row.status, row.field, row.method), func(t *testing.T) {
			t.Parallel()
			exclude := ""
			if row.status == 409 && row.method == "GET" {
				exclude = "do_not_retry_on: [409], "
			}
			p := start(t, `defaults: {retry: {`+exclude+quick+`}}`)
			u := hinted(t, row.status, row.field)
			var fields []string
			if row.extra != "" {
				fields = append(fields, row.extra)
			}
			r := p.do(row.method, u.url("/"), "", fields...)
			want(t, "attempts", u.count(), row.attempts)
			want(t, "stop", r.proxyStatus(t)["stop"], row.stop)
		})
	}
}
