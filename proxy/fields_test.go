package proxy

import (
	"testing"

	"mulligan/proxy/h1"
)

func header(pairs ...string) (h h1.Header) {
	for i := 0; i < len(pairs); i += 2 {
		h = append(h, h1.Field{Name: []byte(pairs[i]), Value: []byte(pairs[i+1])})
	}
	return h
}

func TestFields(t *testing.T) {
	const id = "00c0ffee"
	for _, c := range []struct {
		h    h1.Header
		want func(f fields) bool
	}{
		{header("Via", "1.1 mulligan-0123abcd"), func(f fields) bool { return f.nested && !f.loop }},
		{header("via", "1.0 squid, 1.1 mulligan-00c0ffee (x)"), func(f fields) bool { return f.nested && f.loop }},
		{header("Via", "1.1 mulligan-xyz"), func(f fields) bool { return !f.nested }},
		{header("Via", "1.1 mulligan"), func(f fields) bool { return !f.nested }},
		{header("Via", "1.1 a", "Via", "1.1 mulligan-0123abcd"), func(f fields) bool { return f.nested }},
		{header("X-Stainless-Retry-Count", "2"), func(f fields) bool { return f.clientRetry }},
		{header("x-stainless-retry-count", "0"), func(f fields) bool { return !f.clientRetry }},
		{header("amz-sdk-request", "attempt=2; max=3"), func(f fields) bool { return f.clientRetry }},
		{header("amz-sdk-request", "attempt=1; max=3"), func(f fields) bool { return !f.clientRetry }},
		{header("Amz-Sdk-Request", "ttl=20250130T151349Z;attempt=3;max=4"), func(f fields) bool { return f.clientRetry }},
		{header("amz-sdk-request", "ttl=20250130T151349Z;attempt=01;max=4"), func(f fields) bool { return !f.clientRetry }},
		{header("amz-sdk-request", "max=4"), func(f fields) bool { return !f.clientRetry }},
		{header("amz-sdk-retry", "1/0/490"), func(f fields) bool { return f.clientRetry }},
		{header("amz-sdk-retry", "0/0/500"), func(f fields) bool { return !f.clientRetry }},
		{header("amz-sdk-retry", ""), func(f fields) bool { return !f.clientRetry }},
		{header("Retry-Attempt", "1"), func(f fields) bool { return f.clientRetry }},
		{header("Retry-Attempt", "0"), func(f fields) bool { return !f.clientRetry }},
		{header("Retry-Attempt", "yes"), func(f fields) bool { return !f.clientRetry }},
		{header("X-Goog-Api-Client", "gl-go/1.26 gccl/1.2 gccl-invocation-id/abc gccl-attempt-count/2"), func(f fields) bool { return f.clientRetry }},
		{header("x-goog-api-client", "gl-go/1.26 gccl/1.2 gccl-attempt-count/1"), func(f fields) bool { return !f.clientRetry }},
		{header("x-goog-api-client", "gl-go/1.26 gccl/2"), func(f fields) bool { return !f.clientRetry }},
		{header("X-Envoy-Attempt-Count", "2"), func(f fields) bool { return !f.clientRetry }},
		{header("X-Stainless-Retry-Count", "1", "Retry-Attempt", "0"), func(f fields) bool { return f.clientRetry }},
		{header("Grpc-Previous-Rpc-Attempts", "1"), func(f fields) bool { return f.clientRetry }},
		{header("mulligan-policy", "max-attempts=2"), func(f fields) bool { return f.policy.maxAttempts == 2 && f.policyErr == nil }},
		{header("Mulligan-Policy", "nonsense"), func(f fields) bool { return f.policyErr != nil }},
		{header("Connection", "keep-alive, Upgrade"), func(f fields) bool { return !f.options }},
		{header("Connection", "close, X-Own"), func(f fields) bool { return f.options }},
	} {
		var f fields
		f.read(c.h, id)
		if !c.want(f) {
			t.Errorf("%s: %s → %+v", c.h[0].Name, c.h[0].Value, f)
		}
	}
}

func TestNominated(t *testing.T) {
	h := header("Connection", "X-Own, host , content-length", "X-OWN", "1", "Host", "a", "Content-Length", "0", "X-Other", "2")
	for i, want := range []bool{false, true, false, false, false} {
		if got := endsHere(nominated(h), &h[i]); got != want {
			t.Errorf("%s: %v", h[i].Name, got)
		}
	}
}

func TestWithoutSecure(t *testing.T) {
	for in, want := range map[string]string{
		"a=b":                         "a=b",
		"a=b; Secure":                 "a=b",
		"a=b;secure; HttpOnly":        "a=b; HttpOnly",
		"secure; Path=/":              "secure; Path=/",
		"a=b; Path=/; SECURE ; Max=1": "a=b; Path=/; Max=1",
	} {
		if got := string(withoutSecure([]byte(in))); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
