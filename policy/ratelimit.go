package policy

import (
	"strings"
	"time"
)

// readRateLimit reads the field RateLimit: how long it is until something is left
// again of the limits of which nothing is; ok is false where there is no such
// limit. Three forms are in use:
//
//	"burst";r=0;t=5, "daily";r=900;t=3600   draft-ietf-httpapi-ratelimit-headers-08 and later: a list of limits
//	limit=100, remaining=0, reset=5         up to -07: one limit
//	r=0; t=5                                the same as parameters alone
//
// What is malformed in one place is ignored as a whole (RFC 9651 section 4.2).
func readRateLimit(field string) (wait time.Duration, ok bool) {
	var own, item allowance // of the keys that stand for themselves; of one limit of a list
	first, named := true, false
	for field != "" {
		part, end, rest, valid := cutPart(field)
		if !valid {
			return 0, false
		}
		if first {
			named = part == "" || part[0] == '"' || !strings.Contains(part, "=")
			item = allowance{}
		}
		switch {
		case !named:
			own.take(part)
		case !first:
			item.take(part)
		}
		if first = end != ';'; first && item.isUsedUp() {
			wait, ok = max(wait, item.reset), true
		}
		field = rest
	}
	if own.isUsedUp() {
		wait, ok = max(wait, own.reset), true
	}
	return wait, ok
}

// allowance is what is known of one limit.
type allowance struct {
	remaining, reset       time.Duration
	hasRemaining, hasReset bool
}

func (a *allowance) isUsedUp() bool {
	return a.hasRemaining && a.remaining == 0 && a.hasReset && a.reset <= mostReset
}

// take reads a key=value; those that are about something else are ignored.
func (a *allowance) take(part string) {
	key, value, _ := strings.Cut(part, "=")
	switch trim(key) {
	case "r", "remaining":
		a.remaining, a.hasRemaining = parseCount(trim(value), 1)
	case "t", "reset":
		a.reset, a.hasReset = parseCount(trim(value), time.Second)
	}
}

// cutPart cuts a field at the first semicolon or comma outside of a string: what
// is before it, which of them it was (0: the field's end), and what follows. ok is
// false where a string has no end.
func cutPart(field string) (part string, end byte, rest string, ok bool) {
	quoted := false
	for i := 0; i < len(field); i++ {
		switch c := field[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ';' || c == ','):
			return trim(field[:i]), c, field[i+1:], true
		}
	}
	return trim(field), 0, "", !quoted
}
