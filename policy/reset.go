package policy

import "time"

const (
	mostReset      = 24 * time.Hour // a longer one is a slip: no such hint could be obeyed
	mostResetValue = 64             // bytes of a reset field that can make sense
)

var resetFormatNames = [...]string{"epoch", "seconds", "duration", "rfc3339", "clock"}

// String returns the format as configuration spells it.
func (f ResetFormat) String() string { return nameOf(resetFormatNames[:], int(f)) }

// readResets fills the hint, and what is exhausted, from the fields by which
// servers tell of rate limits. Each counts only where nothing is left of its
// limit; of those that count the longest holds.
//
// A reset of a whole allowance is far longer than the time until one request may
// go: it is cut to what backoff would wait at most.
func (o *Outcome) readResets(r *Retry, get func(string) string, now time.Time) {
	if wait, ok := readRateLimit(get("RateLimit")); ok {
		o.wait(wait, HintReset)
		o.Exhausted = max(o.Exhausted, wait)
	}
	for i := range r.ResetHeaders {
		h := &r.ResetHeaders[i]
		if h.Remaining != "" && !isZero(trim(get(h.Remaining))) {
			continue
		}
		wait, ok := h.Format.parse(trim(get(h.Name)), now)
		switch {
		case !ok:
		case h.Full:
			o.wait(min(wait, r.Backoff.Max), HintFull)
		default:
			o.wait(wait, HintReset)
			if h.Remaining != "" {
				o.Exhausted = max(o.Exhausted, wait)
			}
		}
	}
}

// wait takes a hint where there is none that is longer.
func (o *Outcome) wait(d time.Duration, from HintSource) {
	if !o.HasHint || d > o.Hint {
		o.Hint, o.HasHint, o.Source = d, true, from
	}
}

func isZero(s string) bool {
	n, ok := parseCount(s, 1)
	return ok && n == 0
}

// parse reads how long it is until the reset. What is over is 0; ok is false for
// what is no such time, and for what is more than a day off.
func (f ResetFormat) parse(value string, now time.Time) (wait time.Duration, ok bool) {
	if value == "" || len(value) > mostResetValue {
		return 0, false
	}
	switch f {
	case ResetEpoch:
		var since time.Duration
		since, ok = parseSeconds(value)
		wait = since - time.Duration(now.UnixNano())
	case ResetSeconds:
		wait, ok = parseSeconds(value)
	case ResetDuration:
		var err error
		wait, err = time.ParseDuration(value)
		ok = err == nil
	case ResetRFC3339:
		date, err := time.Parse(time.RFC3339, value)
		wait, ok = date.Sub(now), err == nil
	case ResetClock:
		wait, ok = parseClock(value)
	}
	if !ok || wait > mostReset {
		return 0, false
	}
	return max(0, wait), true
}

// parseSeconds reads seconds, with or without decimals. What does not fit is the
// longest duration there is.
func parseSeconds(s string) (time.Duration, bool) {
	point := len(s)
	for i := range len(s) {
		if s[i] == '.' {
			point = i
			break
		}
	}
	whole, ok := parseCount(s[:point], time.Second)
	if point == len(s) {
		return whole, ok
	}
	decimals, unit := time.Duration(0), time.Second
	for i := point + 1; i < len(s); i++ {
		if !isDigit(s[i]) {
			return 0, false
		}
		unit /= 10 // 0 beyond nanoseconds
		decimals += time.Duration(s[i]-'0') * unit
	}
	return plus(whole, decimals), ok && point+1 < len(s)
}

// plus adds durations that are not negative; what does not fit is the longest.
func plus(a, b time.Duration) time.Duration {
	if a > maxDuration-b {
		return maxDuration
	}
	return a + b
}

// parseClock reads hh:mm:ss, seconds with or without decimals.
func parseClock(s string) (time.Duration, bool) {
	const form = "hh:mm:ss"
	if len(s) < len(form) || s[2] != ':' || s[5] != ':' || len(s) > len(form) && s[len(form)] != '.' {
		return 0, false
	}
	hours, isHours := parseCount(s[:2], time.Hour)
	minutes, isMinutes := parseCount(s[3:5], time.Minute)
	seconds, isSeconds := parseSeconds(s[6:])
	return hours + minutes + seconds, isHours && isMinutes && isSeconds && minutes < time.Hour && seconds < time.Minute
}
