package policy

import (
	"math"
	"strings"
	"time"
)

func trim(s string) string { return strings.Trim(s, " \t") }

func equalFold(s, t string) bool { return strings.EqualFold(s, t) }

// parseCount reads 1*DIGIT as a number of units. What does not fit is the
// longest duration there is: too long, which is what it says.
func parseCount(s string, unit time.Duration) (time.Duration, bool) {
	if s == "" {
		return 0, false
	}
	most := math.MaxInt64 / unit
	var n time.Duration
	over := false
	for i := range len(s) {
		if !isDigit(s[i]) {
			return 0, false
		}
		digit := time.Duration(s[i] - '0')
		if over = over || n > (most-digit)/10; !over {
			n = n*10 + digit
		}
	}
	if over {
		return maxDuration, true
	}
	return n * unit, true
}
