package blackbox

import (
	"bytes"
	"compress/gzip"
	"testing"
)

const (
	jsonType = "Content-Type: application/json"
	amzJSON  = "Content-Type: application/x-amz-json-1.1"
	throttle = `{"errors": [{"message": "x", "extensions": {"code": "THROTTLED"}}]}`
	quota    = `{"error": {"code": "insufficient_quota", "type": "insufficient_quota"}}`
)

// What each vendor's preset makes of its answers.
func TestPresets(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		preset, method string
		status         int
		body           string
		field          string
		retried        bool
	}{
		{"stripe", "GET", 429, "", "X-A: b", false},
		{"stripe", "GET", 429, "", "Stripe-Should-Retry: true", true},
		{"stripe", "GET", 409, "", "X-A: b", true},
		{"stripe", "GET", 500, "", "Stripe-Should-Retry: false", false},
		{"stripe", "POST", 409, "", "X-A: b", false},
		{"openai", "POST", 429, quota, jsonType, false},
		{"openai", "POST", 429, `{"error": {"code": "rate_limit_exceeded"}}`, jsonType, true},
		{"openai", "POST", 500, "", "X-Should-Retry: false", false},
		{"anthropic", "POST", 529, "", "X-A: b", true},
		{"anthropic", "POST", 429, `{"error": {"details": {"error_code": "enforced_spend_limit_reached"}}}`, jsonType, false},
		{"aws", "GET", 400, `{"__type": "ThrottlingException"}`, amzJSON, true},
		{"aws", "GET", 400, `{"__type": "com.amazon.coral.availability#ThrottlingException"}`, amzJSON, true},
		{"aws", "GET", 400, "", "x-amzn-ErrorType: ThrottlingException:http://internal.amazon.com/", true},
		{"aws", "GET", 400, `{"__type": "ValidationException"}`, amzJSON, false},
		{"aws", "POST", 400, `{"__type": "ThrottlingException"}`, amzJSON, false},
		{"aws", "GET", 429, `{"message": "Limit Exceeded"}`, jsonType, false},
		{"azure", "GET", 429, "", "X-A: b", true},
		{"google", "GET", 403, `{"error": {"errors": [{"reason": "rateLimitExceeded"}]}}`, jsonType, true},
		{"google", "GET", 403, `{"error": {"errors": [{"reason": "dailyLimitExceeded"}]}}`, jsonType, false},
		{"github", "GET", 403, "", "X-RateLimit-Remaining: 0", true},
		{"github", "GET", 403, "", "X-RateLimit-Remaining: 9", false},
		{"github", "GET", 429, "", "X-A: b", false},
		{"slack", "GET", 200, `{"ok": false, "error": "ratelimited"}`, jsonType, true},
		{"slack", "GET", 200, `{"ok": false, "error": "channel_not_found"}`, jsonType, false},
		{"shopify", "GET", 200, throttle, jsonType, true},
		{"shopify", "GET", 200, `{"errors": [{"extensions": {"code": "MAX_COST_EXCEEDED"}}]}`, jsonType, false},
		{"twilio", "GET", 429, `{"code": 20429}`, jsonType, true},
		{"twilio", "GET", 429, `{"code": 60203}`, jsonType, false},
	} {
		checkRetried(t, "preset: "+row.preset+", retry: {"+quick+"}", row.method, text(row.status, row.body, row.field), row.retried, row.preset+" "+row.body+" "+row.field)
	}
}

// checkRetried reports whether a second attempt follows the answer.
func checkRetried(t *testing.T, policy, method string, first answer, retried bool, name string) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		u := answers(t, first, text(200, "again"))
		p := start(t, to(policy, u))
		got := p.do(method, at, "").Body == "again"
		want(t, method+" was retried", got, retried)
	})
}

// A user's rules come before the preset's, and `inherit` keeps its lists.
func TestRulesBeforePresets(t *testing.T) {
	t.Parallel()
	limit := text(429, quota, jsonType)
	throttled := text(400, `{"__type": "ThrottlingException"}`, amzJSON)
	checkRetried(t, `preset: openai, retry: {rules: [{status: 429, json: {error.code: insufficient_quota}, retry: true}], `+quick+`}`, "POST", limit, true, "a rule for")
	checkRetried(t, `preset: aws, retry: {rules: [{status: 400, retry: false}], `+quick+`}`, "GET", throttled, false, "a rule against")
	checkRetried(t, `preset: aws, retry: {do_not_retry_on: [400], `+quick+`}`, "GET", throttled, true, "a list does not")
	checkRetried(t, `preset: stripe, retry: {retry_on: [inherit, 429], `+quick+`}`, "GET", text(429, ""), true, "inherit and more")
	checkRetried(t, `preset: stripe, retry: {retry_on: [inherit, 429], `+quick+`}`, "GET", text(409, ""), true, "inherit keeps")
	checkRetried(t, `preset: stripe, retry: {retry_on: [503], `+quick+`}`, "GET", text(409, ""), false, "a list of one's own")
}

// Bodies are looked into whatever their framing and coding, and passed on untouched.
func TestRulesSeeBodies(t *testing.T) {
	t.Parallel()
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write([]byte(quota))
	_ = z.Close()
	for name, first := range map[string]answer{
		"gzip":      text(429, zipped.String(), jsonType, "Content-Encoding: gzip"),
		"chunked":   rawClose("HTTP/1.1 429 X\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n47\r\n" + quota + "\r\n0\r\n\r\n"),
		"until end": rawClose("HTTP/1.1 429 X\r\nContent-Type: application/json\r\n\r\n" + quota),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := answers(t, first, text(200, ""))
			p := start(t, to(`preset: openai, retry: {`+quick+`}`, u))
			r := p.get(at)
			r.expect(t, 429, "attempts=1; stop=permanent; received-status=429")
			body := quota
			if name == "gzip" {
				body = zipped.String()
			}
			want(t, "body", r.Body, body)
		})
	}
}

// Codes that no repetition heals are final whatever their status; what is longer
// than buffer.response is not looked into.
func TestPermanentCodes(t *testing.T) {
	t.Parallel()
	const rule = `retry: {rules: [{json: {error.code: [schema_validation_failed, business_rule_rejected]}, retry: false}], ` + quick + `}`
	rejected := text(503, `{"error": {"code": "business_rule_rejected"}}`, jsonType)
	checkRetried(t, rule, "GET", rejected, false, "final")
	checkRetried(t, rule, "GET", text(503, `{"error": {"code": "busy"}}`, jsonType), true, "another code")
	checkRetried(t, rule, "GET", text(503, `{"error": {"code": "business_rule_rejected"}}`, "Content-Type: text/plain"), true, "not JSON")
	checkRetried(t, `buffer: {response: 16B}, `+rule, "GET", rejected, true, "too long")
}
