package proxy

import (
	"bytes"

	"mulligan/proxy/h1"
)

// isClientRetry reports whether a field says that the request is a retry by the
// client's own library:
//
//   - X-Stainless-Retry-Count: 1, of SDKs that Stainless generates (OpenAI's,
//     Anthropic's and many more); 0 is the first attempt
//   - Amz-Sdk-Request: attempt=2; max=3, of AWS SDKs, and Amz-Sdk-Retry: 1/0/490 of
//     those for Java: retries, wait, tokens left
//   - X-Goog-Api-Client: gccl/1.2 gccl-attempt-count/2, of Google's for storage
//   - Retry-Attempt: 1, of Microsoft's on Kiota, Graph for one
//   - Grpc-Previous-Rpc-Attempts: 1 (gRFC A6)
//
// What proxies before this one count (X-Envoy-Attempt-Count) is not among them:
// applications pass such fields on with requests of their own.
func isClientRetry(f *h1.Field) bool {
	switch len(f.Name) {
	case len("retry-attempt"): // and amz-sdk-retry
		if equalFold(f.Name, "amz-sdk-retry") {
			retries, _, _ := bytes.Cut(f.Value, []byte("/"))
			return positive(bytes.TrimSpace(retries))
		}
		return equalFold(f.Name, "retry-attempt") && positive(f.Value)
	case len("amz-sdk-request"):
		return equalFold(f.Name, "amz-sdk-request") && sdkAttempt(f.Value)
	case len("x-goog-api-client"):
		return equalFold(f.Name, "x-goog-api-client") && storageAttempt(f.Value)
	case len("x-stainless-retry-count"):
		return equalFold(f.Name, "x-stainless-retry-count") && positive(f.Value)
	case len("grpc-previous-rpc-attempts"):
		return equalFold(f.Name, "grpc-previous-rpc-attempts") && positive(f.Value)
	}
	return false
}

// sdkAttempt reads `attempt=2; max=3`, which may have a ttl before it.
func sdkAttempt(v []byte) bool {
	for part := range bytes.SplitSeq(v, []byte(";")) {
		if n, ok := bytes.CutPrefix(bytes.TrimSpace(part), []byte("attempt=")); ok {
			return afterFirst(n)
		}
	}
	return false
}

// storageAttempt looks for gccl-attempt-count/2 among names and versions.
func storageAttempt(v []byte) bool {
	for part := range bytes.FieldsSeq(v) {
		if n, ok := bytes.CutPrefix(part, []byte("gccl-attempt-count/")); ok {
			return afterFirst(n)
		}
	}
	return false
}

// afterFirst reports whether a number of an attempt, of which the first is 1, is
// that of a retry.
func afterFirst(n []byte) bool { return positive(n) && string(bytes.TrimLeft(n, "0")) != "1" }

func positive(v []byte) bool {
	return len(v) > 0 && len(bytes.Trim(v, "0123456789")) == 0 && len(bytes.Trim(v, "0")) > 0
}
