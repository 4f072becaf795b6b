package config

import "strings"

// nearest returns the word most like the given one, or "" where none is like it
// enough to be what was meant. Case, hyphens and underscores count for nothing,
// so that maxAttempts and max-attempts find max_attempts.
func nearest(word string, words []string) string {
	const longest = 64 // nothing this long is a slip of the pen
	if word == "" || len(word) > longest {
		return ""
	}
	plain := plainWord(word)
	best, least := "", (len(plain)+2)/3+1 // one slip in three letters, rounded up
	for _, candidate := range words {
		if distance := editDistance(plain, plainWord(candidate)); distance < least {
			best, least = candidate, distance
		}
	}
	return best
}

var joints = strings.NewReplacer("-", "", "_", "")

func plainWord(word string) string { return joints.Replace(strings.ToLower(word)) }

// editDistance counts the insertions, deletions, changes and swaps of
// neighbours that lead from a to b (optimal string alignment).
func editDistance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// oneOfWords joins words as a sentence does: "a, b or c".
func oneOfWords(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	end := len(words) - 1
	return strings.Join(words[:end], ", ") + " or " + words[end]
}

// wordHint says which of a few words was probably meant, and which there are.
func wordHint(word string, words []string) string {
	if meant := nearest(word, words); meant != "" {
		return "did you mean " + meant + "? (" + oneOfWords(words) + ")"
	}
	return "write " + oneOfWords(words)
}
