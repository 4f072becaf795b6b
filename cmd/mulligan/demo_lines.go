package main

import (
	"strings"
	"unicode/utf8"
)

// columns is how wide the story is: what a terminal has that nobody widened,
// and what fits beside something else elsewhere.
const columns = 80

// glue is a blank at which no line is broken.
const glue = "\u00a0"

// wrapped breaks text into lines of at most so many columns, at blanks; all but
// the first begin with indent blanks. A word that fits in no line is left whole.
func wrapped(text string, indent int) string {
	var lines []string
	margin := strings.Repeat(" ", indent)
	for {
		cut := breakAt(text)
		if cut < 0 {
			lines = append(lines, text)
			return strings.ReplaceAll(strings.Join(lines, "\n"), glue, " ")
		}
		lines = append(lines, strings.TrimRight(text[:cut], " "))
		text = margin + strings.TrimLeft(text[cut:], " ")
	}
}

// breakAt returns the blank at which the first line of text ends: the last that
// the columns allow, else the first there is; -1 where the text is one line.
func breakAt(text string) int {
	if utf8.RuneCountInString(text) <= columns {
		return -1
	}
	begin := len(text) - len(strings.TrimLeft(text, " "))
	best, column := -1, 0
	for i, r := range text {
		if r == ' ' && i > begin && (column <= columns || best < 0) {
			best = i
		}
		column++
	}
	return best
}
