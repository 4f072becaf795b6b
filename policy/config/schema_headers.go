package config

import (
	"cmp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"mulligan/policy"
)

// headerFields are the keys of what mulligan may tell an upstream about a request.
var headerFields = fields(
	key("attempt_header", optional(parsed(addedHeader)), func(r *policy.Route) *string { return &r.AttemptHeader }),
	key("remaining_header", optional(parsed(remainingHeader)), func(r *policy.Route) *string { return &r.RemainingHeader }),
)

// reservedHeaders are fields of requests that have a meaning of their own, which a
// number in them would change: those of a connection and of framing (RFC 9110 7.6.1,
// RFC 9112), and those that say who asks, where, and for what. In small letters.
var reservedHeaders = []string{
	"connection", "host", "http2-settings", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "via",
	"authorization", "cookie", "date", "dpop", "expect", "forwarded", "from", "idempotency-key", "max-forwards",
	"origin", "pragma", "cache-control", "prefer", "priority", "range", "referer", "set-cookie", "signature",
	"signature-input", "tracestate", "traceparent", "user-agent", "x-api-key", "x-real-ip", "x-http-method-override",
}

// reservedPrefixes are the beginnings of the names of such fields. In small letters.
var reservedPrefixes = []string{"accept", "content-", "grpc-", "if-", "mulligan-", "proxy-", "sec-", "x-forwarded-"}

// addedHeader reads the name of a field that is set on requests.
func addedHeader(text string) (name, wrong, hint string) {
	const example = "write a name of your own, such as X-Attempt"
	switch name := strings.ToLower(text); {
	case !isToken(text):
		return "", "is not the name of a header field", example
	case slices.Contains(reservedHeaders, name),
		slices.ContainsFunc(reservedPrefixes, func(p string) bool { return strings.HasPrefix(name, p) }):
		return "", "is a header field with a meaning of its own", example
	}
	return text, "", ""
}

// remainingHeader is the same for what is left of the window, which gRPC has a field
// for.
func remainingHeader(text string) (name, wrong, hint string) {
	if strings.EqualFold(text, "grpc-timeout") {
		return text, "", ""
	}
	return addedHeader(text)
}

// checkHeaders wants each field to have one meaning, wherever its names were
// written: there is nothing that an inherited name could be capped to.
func checkHeaders(d *decoder, r *policy.Route, w written) {
	attempt, remaining := w.right("attempt_header"), w.right("remaining_header")
	if last := cmp.Or(remaining, attempt); last != nil && !w.doubtful("attempt_header", "remaining_header") &&
		r.AttemptHeader != "" && strings.EqualFold(r.AttemptHeader, r.RemainingHeader) {
		d.complain(last, "choose another name for one of them", "attempt_header and remaining_header are the same header field")
		return
	}
	if w.doubtful("retry", "retry.idempotency_key") {
		return
	}
	for _, one := range []struct {
		key     string
		written *yaml.Node
		name    string
	}{{"attempt_header", attempt, r.AttemptHeader}, {"remaining_header", remaining, r.RemainingHeader}} {
		isKey := func(name string) bool { return strings.EqualFold(name, one.name) }
		if one.written != nil && slices.ContainsFunc(r.Retry.IdempotencyKeys, isKey) {
			d.complain(one.written, "choose another name", "%s is an idempotency key, which stays as it is", one.key)
		}
	}
}
