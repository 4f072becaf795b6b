package config

// Nearest returns the word most like the given one, as the hints of this
// package find it, or "" where none is like it enough to be what was meant.
// Commands use it for their own words.
func Nearest(word string, words []string) string { return nearest(word, words) }
