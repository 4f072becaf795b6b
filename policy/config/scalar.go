package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// scalar is a single value. Formatted, it shows what the file has: what the
// environment put in may be a secret.
type scalar struct {
	node *yaml.Node
	raw  string // as written
	text string // with the environment's values
}

// String returns the value as written, quoted; see show.
func (s scalar) String() string { return show(s.raw) }

// scalar reads a single value and expands it; false where it reported that
// there is none.
func (d *decoder) scalar(n *yaml.Node) (scalar, bool) {
	target := d.follow(n)
	switch {
	case target == nil:
		return scalar{}, false
	case target.Kind != yaml.ScalarNode:
		d.fail(n, "needs a single value, not %s", kind(target))
		return scalar{}, false
	case isNull(target):
		d.fail(n, "has no value")
		return scalar{}, false
	}
	if target.Style&yaml.TaggedStyle != 0 {
		d.fail(n, "has a YAML tag, which means nothing here")
	}
	text, wrong := expand(target.Value, d.env)
	for _, err := range wrong {
		hint := ""
		if unset, ok := err.(*unsetError); ok {
			hint = "set it, or write ${" + unset.name + ":-...} with a value to use instead"
		}
		d.failHint(n, hint, "%v", err)
	}
	return scalar{n, target.Value, text}, len(wrong) == 0
}

// parsed makes a reader of a function that understands a value, or says what is
// wrong with it: a predicate ("is not a duration") and a hint, which may be "".
// The predicate must not contain the value.
func parsed[V any](parse func(text string) (v V, wrong, hint string)) reader[V] {
	return func(d *decoder, n *yaml.Node, v *V) {
		s, ok := d.scalar(n)
		if !ok {
			return
		}
		value, wrong, hint := parse(s.text)
		if wrong == "" {
			*v = value
			return
		}
		if s.text != s.raw {
			hint = "" // hints repeat parts of the value
		}
		if s.text == "" {
			wrong = "is empty"
		}
		d.failHint(n, hint, "%s %s", s, wrong)
	}
}

// optional is read for values that may be empty, which means that there is none.
func optional(read reader[string]) reader[string] {
	return func(d *decoder, n *yaml.Node, v *string) {
		if s, ok := d.scalar(n); !ok {
			return
		} else if s.text == "" {
			*v = ""
			return
		}
		read(d, n, v)
	}
}

// choice is a word and what it stands for.
type choice[V any] struct {
	word  string
	value V
}

// oneOf reads one of a few words.
func oneOf[V any](choices ...choice[V]) reader[V] {
	return parsed(func(text string) (v V, wrong, hint string) {
		words := make([]string, len(choices))
		for i, c := range choices {
			if c.word == text {
				return c.value, "", ""
			}
			words[i] = c.word
		}
		return v, "is none of the words that can stand here", wordHint(text, words)
	})
}

// named gives each value the word that it calls itself.
func named[V fmt.Stringer](values ...V) []choice[V] {
	choices := make([]choice[V], len(values))
	for i, value := range values {
		choices[i] = choice[V]{value.String(), value}
	}
	return choices
}

// boolean reads true or false, no other spelling.
var boolean = parsed(func(text string) (bool, string, string) {
	hint := "write true or false"
	switch strings.ToLower(text) {
	case "yes", "on", "y", "1", "true":
		hint = "write true"
	case "no", "off", "n", "0", "false":
		hint = "write false"
	}
	if text != "true" && text != "false" {
		return false, "is neither true nor false", hint
	}
	return text == "true", "", ""
})

// integer reads a whole number from least to most.
func integer(least, most int) reader[int] {
	return parsed(func(text string) (int, string, string) {
		value, err := strconv.Atoi(text)
		if err != nil || value < least || value > most {
			return 0, fmt.Sprintf("is not a whole number from %d to %d", least, most), ""
		}
		return value, "", ""
	})
}

// number reads a number from least to most.
func number(least, most float64) reader[float64] {
	return parsed(func(text string) (float64, string, string) {
		return parseNumber(text, least, most)
	})
}

func parseNumber(text string, least, most float64) (v float64, wrong, hint string) {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(value) || value < least || value > most {
		return 0, fmt.Sprintf("is not a number from %.0f to %.0f", least, most), ""
	}
	return value, "", ""
}

// duration reads a Go duration from least to most.
func duration(least, most time.Duration) reader[time.Duration] {
	return parsed(func(text string) (time.Duration, string, string) {
		return parseDuration(text, least, most)
	})
}

func parseDuration(text string, least, most time.Duration) (v time.Duration, wrong, hint string) {
	value, err := time.ParseDuration(text)
	switch {
	case err != nil || text == "0" || text == "+0" || text == "-0":
		return 0, "is not a duration with a unit", durationHint(text)
	case value < 0:
		return 0, "is negative", ""
	case value < least || value > most:
		return 0, fmt.Sprintf("is not from %v to %v", least, most), ""
	}
	return value, "", ""
}

// anyDuration reads a duration that may be as long as can be told.
var anyDuration = duration(0, math.MaxInt64)

// durationHint writes out what was probably meant.
func durationHint(text string) string {
	tidy := strings.ToLower(strings.ReplaceAll(text, " ", ""))
	if days, ok := strings.CutSuffix(tidy, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n <= 10_000 {
			return fmt.Sprintf("write %dh", n*24)
		}
	}
	if n, err := strconv.ParseUint(tidy, 10, 31); err == nil {
		return fmt.Sprintf("write %ds", n)
	}
	if d, err := time.ParseDuration(tidy); err == nil && d >= 0 {
		return "write " + tidy
	}
	return "write a duration such as 250ms, 5s or 10m"
}

// sizeUnits are the units of sizes, the longer suffixes first.
var sizeUnits = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"B", 1}}

// size reads a number of bytes: 64KiB, 1MiB, 2GiB, 512B or 0.
var size = parsed(func(text string) (int64, string, string) {
	if text == "0" {
		return 0, "", ""
	}
	for _, unit := range sizeUnits {
		digits, ok := strings.CutSuffix(text, unit.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		switch {
		case err != nil || !isDigit(digits[0]):
			return 0, "is not a size with a unit", sizeHint(text)
		case n > math.MaxInt64/unit.bytes:
			return 0, "is more than any memory", ""
		}
		return n * unit.bytes, "", ""
	}
	return 0, "is not a size with a unit", sizeHint(text)
})

// sizeHint writes out what was probably meant.
func sizeHint(text string) string {
	tidy := strings.ToLower(strings.ReplaceAll(text, " ", ""))
	digits := strings.TrimRight(tidy, "kmgib")
	if _, err := strconv.ParseUint(digits, 10, 31); err == nil {
		switch tidy[len(digits):] {
		case "k", "kb", "kib":
			return "write " + digits + "KiB"
		case "m", "mb", "mib":
			return "write " + digits + "MiB"
		case "g", "gb", "gib":
			return "write " + digits + "GiB"
		case "", "b":
			return "write " + digits + "B, or a number of KiB, MiB or GiB"
		}
	}
	return "write a size such as 64KiB or 1MiB"
}

// quote puts a word of the file into a message, shortened where it is long.
func quote(text string) string { return strconv.Quote(shorten(text)) }

// show is quote for values: what stands before an @ may be credentials and is
// left out.
func show(text string) string {
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		start := 0
		if scheme := strings.Index(text[:at], "://"); scheme >= 0 {
			start = scheme + len("://")
		}
		text = text[:start] + "***" + text[at:]
	}
	return quote(text)
}

// shorten cuts text to what fits into a message.
func shorten(text string) string {
	const most = 60
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most]) + "..."
}
