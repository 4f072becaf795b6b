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
	Source  HintSource // of Hint; where HasHint
	Word    Word
	Ruled   Ruled // what the route's rules say of the response

	// Exhausted is how long the request's credentials have nothing left of a rate
	// limit, as a response of any status may say; 0 is not at all. Where the server
	// says when in a standard field, that goes before, and this is 0.
	Exhausted time.Duration
}

// HintSource is what a hint was read from, which says how far it carries.
type HintSource uint8

// The sources of hints.
const (
	HintStandard HintSource = iota // Retry-After and its relatives
	HintReset                      // RateLimit, or a vendor's reset field: about the request's credentials
	HintFull                       // a reset of a whole allowance: it never ends retries and holds back nobody else
	HintPushback                   // gRPC's pushback: about the call, whichever server that goes to (gRFC A6)
)

// ReadHeader fills GRPC, Hint, HasHint, Source, Exhausted and Word from the
// response's fields; Class, Status and Ruled are not touched, but Status is read.
// r is the policy that the request is under; get returns the first value of a
// field by its name, without regard to case, "" for none; keyed says that the
// request carried an idempotency key; now is what dates are compared with.
//
// Worth calling only where Retry.Heeds says so, or the response has a field
// RateLimit: nothing else reads the result.
func (o *Outcome) ReadHeader(r *Retry, get func(name string) string, keyed bool, now time.Time) {
	pushback := readPushback(get("grpc-retry-pushback-ms"))
	o.Word = readWord(get, keyed, pushback)
	if o.Word == RetryWord && o.Status < 400 {
		o.Word = NoWord // a success is not repeated for a header
	}
	o.Source, o.Exhausted = HintStandard, 0
	switch o.Hint, o.HasHint = readHint(get, pushback, now); {
	case !o.HasHint:
		o.readResets(r, get, now)
	case pushback.word == RetryWord:
		o.Source = HintPushback
	}
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
