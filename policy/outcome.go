package policy

import "time"

// Word is the upstream's own word on whether to try again.
type Word uint8

// The words.
const (
	NoWord    Word = iota
	RetryWord      // it asks for a retry
	FinalWord      // it says that its answer is final
)

// Outcome is how an attempt ended, as far as policy is concerned. One with
// neither class nor status is an attempt that was given up (its client left,
// say) before anything was known.
type Outcome struct {
	Class   Class
	Status  int           // of the response header; 0 where none came
	GRPC    GRPC          // how a gRPC call failed that has no more to it than a header
	Hint    time.Duration // the least wait that the server asks for; where HasHint
	HasHint bool
	Word    Word
	Ruled   Ruled // what the route's rules say of the response
}

// ReadHeader fills GRPC, Hint, HasHint and Word from the response's fields; Class
// and Status are not touched, but Status is read. get returns the first value of a
// field by its name, without regard to case, "" for none; keyed says that the
// request carried an idempotency key; now is what dates are compared with.
//
// Worth calling only where Retry.Heeds says so: nothing else reads the result.
func (o *Outcome) ReadHeader(get func(name string) string, keyed bool, now time.Time) {
	pushback := readPushback(get("grpc-retry-pushback-ms"))
	o.Word = readWord(get, keyed, pushback)
	if o.Word == RetryWord && o.Status < 400 {
		o.Word = NoWord // a success is not repeated for a header
	}
	o.Hint, o.HasHint = readHint(get, pushback, now)
	o.GRPC = readGRPC(get)
}

// failed reports whether the response, whole or not, says that it is no success.
func (o *Outcome) failed() bool { return o.Status >= 400 || o.GRPC != 0 }

// readWord weighs the fields by which servers speak for themselves. Where they
// disagree "final" wins: it is the one that cannot do harm.
func readWord(get func(string) string, keyed bool, p pushback) Word {
	word := p.word
	for _, name := range [...]string{"x-should-retry", "stripe-should-retry"} {
		switch w := trim(get(name)); {
		case equalFold(w, "false"):
			return FinalWord
		case equalFold(w, "true") && word == NoWord:
			word = RetryWord
		}
	}
	// The answer was made by an earlier request with this key: asking again
	// would bring the same one.
	if keyed && equalFold(trim(get("Idempotent-Replayed")), "true") {
		return FinalWord
	}
	return word
}

// pushback is what grpc-retry-pushback-ms says (gRFC A6): a number of
// milliseconds asks for a retry after them, anything else forbids it.
type pushback struct {
	word Word
	wait time.Duration
}

func readPushback(value string) pushback {
	value = trim(value)
	if value == "" {
		return pushback{}
	}
	wait, ok := parseCount(value, time.Millisecond)
	if !ok {
		return pushback{word: FinalWord}
	}
	return pushback{word: RetryWord, wait: wait}
}

// readHint returns the first valid hint, in the order that the contract gives.
func readHint(get func(string) string, p pushback, now time.Time) (time.Duration, bool) {
	if p.word == RetryWord {
		return p.wait, true
	}
	for _, name := range [...]string{"retry-after-ms", "x-ms-retry-after-ms", "x-amz-retry-after"} {
		if wait, ok := parseCount(trim(get(name)), time.Millisecond); ok {
			return wait, true
		}
	}
	value := trim(get("Retry-After"))
	if wait, ok := parseCount(value, time.Second); ok {
		return wait, true
	}
	if date, ok := parseHTTPDate(value, now); ok {
		return max(0, date.Sub(now)), true
	}
	return 0, false
}
