package main

import (
	"fmt"

	"mulligan/policy"
)

// reading is what policy makes of an outcome, and by which rule. It follows
// Retry.Classify, which says the same without the reason; a test holds the two
// together.
type reading struct {
	verdict policy.Verdict
	why     string
}

// weigh finds what decides about the outcome. rule is the one of the route's rules
// that does, nil where none does.
func weigh(r *policy.Retry, o policy.Outcome, rule *policy.Rule) reading {
	listed := func(s policy.Set) bool { return s.HasClass(o.Class) || s.HasStatus(o.Status) || s.HasGRPC(o.GRPC) }
	unlessGood := func(why string) reading { return unlessGood(r, o, why) }
	failed := o.Status >= 400 || o.GRPC != 0
	switch {
	case o.Class.Never():
		return reading{policy.PermanentFailure, "it will not heal by itself, whatever is listed"}
	case rule != nil && rule.Retry:
		return reading{policy.Retryable, ruledBy(rule)}
	case rule != nil:
		return reading{unlessGood("").verdict, ruledBy(rule)}
	case listed(r.DoNotRetryOn):
		return unlessGood(has("do_not_retry_on", r.DoNotRetryOn, o))
	case o.Word == policy.FinalWord && (failed || o.Class == policy.ClassNone):
		return unlessGood("the upstream itself says that this answer is final")
	case o.Word == policy.RetryWord && o.Status >= 400:
		return reading{policy.Retryable, "the upstream itself asks for a retry"}
	case listed(r.RetryOn):
		return reading{policy.Retryable, has("retry_on", r.RetryOn, o) + maybeStatus(o, r.DoNotRetryOn, "do_not_retry_on")}
	}
	return unlessGood("retry_on lacks " + it(o) + maybeStatus(o, r.RetryOn, "retry_on"))
}

// has says that the list has the outcome, or what of it where that is two things.
func has(list string, s policy.Set, o policy.Outcome) string {
	switch {
	case o.Class == policy.ClassNone && o.GRPC == 0 || o.Status == 0:
		return list + " has it"
	case s.HasClass(o.Class):
		return list + " has " + o.Class.String()
	case s.HasGRPC(o.GRPC):
		return list + " has " + o.GRPC.String()
	case o.Class == policy.ClassNone:
		return fmt.Sprintf("%s has %d, the status of HTTP", list, o.Status)
	}
	return fmt.Sprintf("%s has %d, the status of what broke off", list, o.Status)
}

// it is the outcome in a sentence about a list.
func it(o policy.Outcome) string {
	if o.GRPC != 0 {
		return fmt.Sprintf("%s and %d", o.GRPC, o.Status)
	}
	if o.Class != policy.ClassNone && o.Status != 0 {
		return fmt.Sprintf("both %s and %d", o.Class, o.Status)
	}
	return "it"
}

// maybeStatus says that the list could have the status of a response that broke
// off, where that was not given.
func maybeStatus(o policy.Outcome, s policy.Set, list string) string {
	if o.Class != policy.Truncated || o.Status != 0 {
		return ""
	}
	for status := 200; status <= 999; status++ {
		if s.HasStatus(status) {
			return " (" + list + " may have its --status)"
		}
	}
	return ""
}

// unlessGood is permanent for a failure; a response under 400 has succeeded, but
// for a gRPC failure that policy knows.
func unlessGood(r *policy.Retry, o policy.Outcome, why string) reading {
	known := r.RetryOn.HasGRPC(o.GRPC) || r.DoNotRetryOn.HasGRPC(o.GRPC)
	if o.Class == policy.ClassNone && o.Status < 400 && !known {
		if o.GRPC != 0 {
			return reading{policy.Succeeded, "no list has " + o.GRPC.String() + ", so the status of HTTP decides, which is under 400"}
		}
		return reading{policy.Succeeded, "a status under 400 that policy does not retry"}
	}
	return reading{policy.PermanentFailure, why}
}

// outcomeName writes an outcome as --status and --failure do.
func outcomeName(o policy.Outcome) string {
	switch {
	case o.Class != policy.ClassNone:
		return o.Class.String()
	case o.GRPC != 0:
		return fmt.Sprintf("%d with %s", o.Status, o.GRPC)
	}
	return fmt.Sprint(o.Status)
}

// outcomes says what the classes mean; statuses speak for themselves.
var outcomes = map[policy.Class]string{
	policy.ConnectFailure:  "no connection: refused, unreachable, timed out, DNS failed for now",
	policy.RefusedStream:   "the peer says it did not process the request",
	policy.ConnectionReset: "reset or closed before a response header",
	policy.Timeout:         "no response header, or not the rest of a held response, within timeout.attempt",
	policy.Truncated:       "the response broke off, and none of it has gone to the client",
	policy.ErrorEvent:      "an event stream that begins with an error, or has no event",
	policy.TLSFailure:      "bad certificate, wrong name, alert, no common version",
	policy.DNSNotFound:     "the name does not exist",
	policy.ProtocolError:   "not HTTP, or framing that cannot be trusted",
	policy.Denied:          "the destination is forbidden",
}

// verdictWords are what rows say of a verdict.
var verdictWords = map[policy.Verdict]string{
	policy.Succeeded: "succeeded", policy.PermanentFailure: "permanent", policy.Retryable: "retryable",
}

// whyStop says why a course has no further attempt.
func (q *question) whyStop(p *place, c course) string {
	r := &p.route.Retry
	switch c.last.Stop {
	case policy.Success:
		return "there is nothing to retry"
	case policy.Permanent:
		return "policy does not retry it"
	case policy.Nested:
		return "the request came through another mulligan (Via), which does the retrying; nested is false"
	case policy.NotIdempotent:
		return q.whyMethod(p)
	case policy.MaxAttempts:
		if n := q.asked.MaxAttempts; n > 0 && n < r.MaxAttempts {
			return fmt.Sprintf("Mulligan-Policy asks for max-attempts=%d", n)
		}
		return fmt.Sprintf("max_attempts is %d", r.MaxAttempts)
	case policy.BodyNotReplayable:
		if total := q.settings.BufferTotal; total < p.route.Buffer.Request {
			return fmt.Sprintf("the body is longer than buffer_total (%s)", size(total))
		}
		return fmt.Sprintf("the body is longer than buffer.request (%s)", size(p.route.Buffer.Request))
	case policy.RetryAfter:
		return fmt.Sprintf("the hint, %s, is longer than retry_after (%s) or than the window leaves", length(c.end.Hint), length(r.RetryAfter))
	case policy.Window:
		if c.uncut != policy.Going {
			return fmt.Sprintf("timeout.attempt cuts only where a retry follows, and here none does (%s)", c.uncut)
		}
		return "the window leaves no room"
	case policy.BudgetExhausted:
		return whyNoToken(p.upstream.Budget)
	case policy.Disabled:
		return map[policy.Mode]string{
			policy.ModeObserve: "mode is observe: the retry is decided and counted, and not sent",
			policy.ModeOff:     "mode is off",
		}[r.Mode]
	}
	return c.last.Stop.String()
}

// whyNoToken is for a budget that is out of tokens at its best.
func whyNoToken(b policy.BudgetConfig) string {
	text := "burst is " + number(b.Burst) + ", and with ratio 0 answers bring no token"
	if b.MinPerSecond > 0 {
		text += "; min_per_second brings it later"
	}
	return text
}

// sources are what brings tokens after the first.
func sources(b policy.BudgetConfig) string {
	switch {
	case b.Ratio == 0:
		return "time"
	case b.MinPerSecond > 0:
		return "earlier answers or time"
	}
	return "earlier answers"
}

// size writes a number of bytes as configuration does.
func size(n int64) string {
	for _, unit := range []struct {
		bytes int64
		name  string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= unit.bytes && n%unit.bytes == 0 {
			return fmt.Sprint(n/unit.bytes, unit.name)
		}
	}
	return fmt.Sprint(n, "B")
}
