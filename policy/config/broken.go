package config

import (
	"bytes"
	"errors"
	"io"

	"gopkg.in/yaml.v3"
)

// patience is how many bytes are parsed, in all, to find the place of one
// syntax error: enough to look at every line of a file that a person writes,
// and a second or so of work for the largest file.
const patience = 3 << 20

// broken finds the line that breaks a file. The yaml package says a line at
// best, often that of the enclosing block, so the line is found by trial: how
// do the beginnings of the file fail?
type broken struct {
	data    []byte
	cause   string // how the whole file fails
	problem string // the same without the place
	lines   [][]byte
	ends    []int // where the first n lines end
	left    int   // of patience
}

func newBroken(data []byte, cause error) *broken {
	b := &broken{data: data, cause: cause.Error(), problem: problem(cause), left: patience}
	b.lines = bytes.SplitAfter(data, []byte("\n"))
	b.ends = make([]int, len(b.lines)+1)
	for i, line := range b.lines {
		b.ends[i+1] = b.ends[i] + len(line)
	}
	return b
}

// trial says how the first so many lines fail, "" where they are any number of
// valid documents; ok is false where patience has run out.
func (b *broken) trial(lines int) (wrong string, ok bool) {
	text := b.data[:b.ends[lines]]
	if len(text) > b.left {
		b.left = 0
		return "", false
	}
	b.left -= len(text)
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var document yaml.Node
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			return "", true
		} else if err != nil {
			return err.Error(), true
		}
	}
}

// opens reports whether it is what the brackets and quotes leave open, in one
// of the lines that were read, that breaks the file: all is well before the
// first of them, and not with it.
func (b *broken) opens(open []opening, reached int) bool {
	first, _ := position(b.data, open[0].at)
	last, _ := position(b.data, open[len(open)-1].at)
	if last > reached {
		return false
	}
	if wrong, ok := b.trial(first - 1); !ok || wrong != "" {
		return false
	}
	wrong, ok := b.trial(first)
	return ok && wrong != ""
}

// line returns the index of the line that breaks the file, or the nearest that
// patience allows. The reader gave up in the last line that it read, or a
// little before. What it gave up on began after the last valid beginning.
func (b *broken) line(reached int) int {
	end := b.first(reached)
	if isExact(b.problem) || isFlow(b.problem) {
		return end - 1
	}
	for valid := end - 1; valid >= 0; valid-- {
		wrong, ok := b.trial(valid)
		if !ok {
			break
		}
		if wrong == "" {
			return valid
		}
	}
	return end - 1
}

// first returns how many lines it takes, of so many at most, to fail as the
// whole file does: more lines do not change that. It looks back from the end in
// growing steps, then halves what is left.
func (b *broken) first(most int) int {
	low, high := 1, most
	for step := 1; low < high; step *= 2 {
		if probe := max(low, high-step); !b.alike(probe) {
			low = probe + 1
			break
		} else {
			high = probe
		}
	}
	for low < high {
		if middle := (low + high) / 2; b.alike(middle) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return high
}

// alike reports whether the first so many lines fail as the whole file does.
// Out of patience they do not, which keeps what is known.
func (b *broken) alike(lines int) bool {
	wrong, ok := b.trial(lines)
	return ok && wrong == b.cause
}
