package policy

// Stop says why there was no further attempt: the `stop` of the Proxy-Status
// header, the access log and the metrics.
type Stop uint8

// The stops, in the order in which the first that applies is reported, but for
// Going, Disabled which Session.Next places itself, and Overloaded which who makes
// the attempts finds out: it stops one that policy has let go.
const (
	Going             Stop = iota // not stopped: a retry follows
	Success                       // a response under 400 that policy does not retry
	Permanent                     // a failure that policy does not retry
	ClientGone                    // the client closed its connection or its writing side
	Draining                      // the proxy is shutting down
	Nested                        // the request came through another mulligan
	NotIdempotent                 // the method (without a key) may not be repeated
	MaxAttempts                   // max_attempts were made
	BodyNotReplayable             // the request's body was not kept whole
	CircuitOpen                   // the circuit of every endpoint is open
	Overloaded                    // concurrency or rate_limit leave no room in time
	RetryAfter                    // the server's hint is longer than policy or window allow
	Window                        // the window (timeout.total) leaves no room
	BudgetExhausted               // the retry budget is empty
	Disabled                      // retry.mode is observe or off
	numStops
)

var stopNames = [numStops]string{
	"", "success", "permanent", "client_gone", "draining", "nested", "not_idempotent", "max_attempts",
	"body_not_replayable", "circuit_open", "overloaded", "retry_after", "window", "budget", "disabled",
}

// String returns the stop's name as the Proxy-Status header spells it; Going is "".
func (s Stop) String() string { return nameOf(stopNames[:], int(s)) }

// Stops returns every stop but Going.
func Stops() []Stop {
	all := make([]Stop, 0, numStops-1)
	for s := Going + 1; s < numStops; s++ {
		all = append(all, s)
	}
	return all
}
