package metrics

// other is the label value of a word that is on no list.
const other = "other"

// classes are the failure classes: labels of attempts, retries and tunnels.
// The last is none of policy's: an attempt that ended because the client left
// was made, so it counts, but says nothing about the upstream.
var classes = setOf(
	"connect_failure", "refused_stream", "connection_reset", "timeout", "truncated", "error_event",
	"tls_failure", "dns_not_found", "protocol_error", "denied",
	"cancelled",
)

// grpc are the failures that gRPC calls end with: labels of retries.
var grpc = setOf(
	"grpc_cancelled", "grpc_unknown", "grpc_invalid_argument", "grpc_deadline_exceeded", "grpc_not_found",
	"grpc_already_exists", "grpc_permission_denied", "grpc_resource_exhausted", "grpc_failed_precondition",
	"grpc_aborted", "grpc_out_of_range", "grpc_unimplemented", "grpc_internal", "grpc_unavailable",
	"grpc_data_loss", "grpc_unauthenticated",
)

// stops are the reasons for which a failed request was not retried further.
// The two that describe no denial, success and permanent, are left out.
var stops = setOf(
	"client_gone", "draining", "nested", "not_idempotent", "max_attempts", "body_not_replayable",
	"circuit_open", "overloaded", "retry_after", "window", "budget", "disabled",
)

// setOf returns the set of words.
func setOf(words ...string) map[string]bool {
	set := make(map[string]bool, len(words))
	for _, word := range words {
		set[word] = true
	}
	return set
}

// listed returns word where it is in the list, else "other".
func listed(list map[string]bool, word string) string {
	if list[word] {
		return word
	}
	return other
}

// reason returns the label of what a retry followed: a failure class, a status
// from 200 to 599 as three digits, or gRPC's, else "other".
func reason(word string) string {
	if isStatus(word) || grpc[word] {
		return word
	}
	return listed(classes, word)
}

// isStatus reports whether word is a final status, "200" to "599".
func isStatus(word string) bool {
	return len(word) == 3 && '2' <= word[0] && word[0] <= '5' &&
		'0' <= word[1] && word[1] <= '9' && '0' <= word[2] && word[2] <= '9'
}
