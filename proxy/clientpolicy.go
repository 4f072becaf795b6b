package proxy

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// clientPolicyHeader lets a client tighten the policy of its own request. It is
// not forwarded.
const clientPolicyHeader = "Mulligan-Policy"

// clientPolicy is what a client asked for; zero values ask for nothing.
type clientPolicy struct {
	maxAttempts int
	total       time.Duration
}

var errClientPolicy = errors.New("Mulligan-Policy must read like `max-attempts=1, total=2.5` (total in seconds)")

// tighten adds what else was asked for: nothing loosens what was before.
func (p *clientPolicy) tighten(more clientPolicy) {
	if n := more.maxAttempts; n > 0 && (p.maxAttempts == 0 || n < p.maxAttempts) {
		p.maxAttempts = n
	}
	if d := more.total; d > 0 && (p.total == 0 || d < p.total) {
		p.total = d
	}
}

// read takes one field: members `key=value` between commas. A key that is not
// known is an error: a misspelt one would silently loosen what was asked for.
func (p *clientPolicy) read(value string) error {
	for member := range strings.SplitSeq(value, ",") {
		key, v, ok := strings.Cut(strings.Trim(member, " \t"), "=")
		if !ok {
			return errClientPolicy
		}
		switch key {
		case "max-attempts":
			n, ok := parseCount(v)
			if !ok {
				return errClientPolicy
			}
			p.tighten(clientPolicy{maxAttempts: n})
		case "total":
			d, err := parseSeconds(v)
			if err != nil {
				return errClientPolicy
			}
			p.tighten(clientPolicy{total: d})
		default:
			return errClientPolicy
		}
	}
	return nil
}

// parseCount reads a positive integer of up to 15 digits, as many as a structured
// field's may have (RFC 9651 3.3.1); one too large to matter is as good as the
// largest that does.
func parseCount(v string) (int, bool) {
	if len(v) > 15 || strings.Trim(v, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseUint(v, 10, 64)
	return int(min(n, math.MaxInt32)), err == nil && n > 0
}

// parseSeconds reads a positive decimal number of seconds.
func parseSeconds(v string) (time.Duration, error) {
	if v == "" || strings.Trim(v, "0123456789.") != "" {
		return 0, errClientPolicy
	}
	s, err := strconv.ParseFloat(v, 64)
	if err != nil || s <= 0 {
		return 0, errClientPolicy
	}
	const most = float64(1<<63-1) / float64(time.Second)
	if s >= most {
		return 1<<63 - 1, nil
	}
	return max(1, time.Duration(s*float64(time.Second))), nil
}
