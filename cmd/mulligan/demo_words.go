package main

import (
	"io"
	"log/slog"
	"os"
	"strings"
	"time"
)

// whyRetried explains a retry by what came before it, whyStopped what ended a
// request that failed; each is said once.
var (
	whyRetried = map[string]string{
		"504":              "504 is in retry_on, and the request may be repeated; the wait is random, within a range that grows",
		hinted:             "503 said when to come back (retry-after-ms: 150): the wait is at least that long",
		"connection_reset": "the connection was reset before an answer: the request may be repeated, so it is",
		"timeout":          "no answer within timeout.attempt, 400 ms: the attempt is cut, because a retry follows",
		"truncated":        "the answer broke off; it was held back until whole, so the client has seen none of it",
	}
	whyStopped = map[string]string{
		"permanent":      "422 is not in retry_on: asking again would not make it right",
		"not_idempotent": "a POST without Idempotency-Key: the upstream may have acted on it, so it is not sent twice",
		"max_attempts":   "max_attempts is 4: the client gets the upstream's last answer",
		"budget":         "a retry costs a token, and there is none: an upstream that is down gets first attempts only",
		brokeOff:         "the answer broke off when some of it was with the client already: that cannot be taken back",
		"window":         "timeout.total, 2 s, leaves no room for another attempt",
	}
)

// hinted stands for an attempt whose answer said when to come back. In the outage
// there are others with its status that did not.
const hinted = "hinted"

// brokeOff stands for the stop of a request whose answer broke off under way.
const brokeOff = "broke_off"

// news returns what of the request has not been explained yet.
func (s *story) news(t told) []string {
	var reasons []string
	explain := func(key, reason string) {
		if reason != "" && !s.known[key] {
			s.known[key] = true
			reasons = append(reasons, reason)
		}
	}
	for i, a := range t.attempts[:max(0, len(t.attempts)-1)] { // those that a retry followed
		what := a.result
		if a.wait >= comeBack && s.flaky.saidWhen(t.path, uint64(i+1)) {
			what = hinted
		}
		explain(what, whyRetried[what])
	}
	switch last := t.last(); {
	case t.stop == "max_attempts" && strings.Trim(last, "0123456789") != "": // no answer that could be passed on
	case t.stop == "permanent" && last != "422":
	case t.outcome == "failed", t.outcome == "permanent":
		explain(t.stop, whyStopped[t.stop])
	}
	if t.method == "POST" && len(t.attempts) > 1 {
		explain("key", "a POST with Idempotency-Key: the upstream will not act on it twice, so it may be repeated")
	}
	return reasons
}

// last is what the last attempt ended with.
func (t told) last() string {
	if len(t.attempts) == 0 {
		return ""
	}
	return t.attempts[len(t.attempts)-1].result
}

// readLine reads a line of the access log.
func readLine(r slog.Record) told {
	var t told
	broke := false
	r.Attrs(func(a slog.Attr) bool {
		switch v := a.Value.Resolve(); a.Key {
		case "method":
			t.method = v.String()
		case "path":
			t.path = v.String()
		case "host":
			t.host = v.String()
		case "outcome":
			t.outcome = v.String()
		case "stop":
			t.stop = v.String()
		case "attempts":
			t.attempts = readAttempts(v)
		case "broke_off":
			broke = v.Bool()
		}
		return true
	})
	if broke && strings.HasPrefix(t.outcome, "success") {
		t.outcome, t.stop = "failed", brokeOff
	}
	return t
}

func readAttempts(v slog.Value) []attempt {
	var all []attempt
	if v.Kind() != slog.KindGroup {
		return nil
	}
	for _, one := range v.Group() {
		var a attempt
		for _, field := range one.Value.Resolve().Group() {
			switch field.Key {
			case "result":
				a.result = field.Value.String()
			case "wait":
				a.wait = max(field.Value.Duration(), time.Nanosecond)
			}
		}
		all = append(all, a)
	}
	return all
}

// paint colours text, on a terminal that wants it.
type paint struct{ on bool }

// newPaint looks at where the text goes. NO_COLOR: see no-color.org.
func newPaint(out io.Writer) paint {
	if o, ok := out.(*output); ok {
		out = o.w
	}
	f, ok := out.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return paint{}
	}
	info, err := f.Stat()
	return paint{err == nil && info.Mode()&os.ModeCharDevice != 0}
}

func (p paint) good(text string) string { return p.in("32", text) }
func (p paint) fair(text string) string { return p.in("33", text) }
func (p paint) bad(text string) string  { return p.in("31", text) }
func (p paint) dim(text string) string  { return p.in("2", text) }

func (p paint) in(code, text string) string {
	if !p.on {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
