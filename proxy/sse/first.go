package sse

import (
	"bytes"
	"strings"
)

// Found is what has been seen of a stream.
type Found uint8

// What can be seen.
const (
	Nothing Found = iota // comments, pings, events without data, and parts of an event
	Event                // an event that means something to a client
	Error                // an event of type error
)

// First looks for the first event that means something. The zero value is at a
// stream's beginning.
//
// An event without data is none, as in the standard, unless its type is error;
// nor is one of type ping, by which servers keep a connection alive, or one whose
// blank line did not come.
type First struct {
	found  Found
	begun  bool // the first line is over
	cr     bool // the last byte was a CR: a LF behind it is part of the same line end
	data   bool // the event has data
	typed  eventType
	line   [longest]byte // the line as far as it matters
	length int           // its length, or longest+1 where it is longer
}

// longest is the length in bytes of the longest line that has to be known: a byte
// order mark, "event: error", and one more to tell that it is not longer.
const longest = 16

// eventType is an event's type, as far as it matters.
type eventType uint8

const (
	otherType eventType = iota
	errorType
	pingType
)

// Feed takes the next bytes of the stream and returns what has been found. What
// follows the first event is not looked at.
func (f *First) Feed(p []byte) Found {
	for _, c := range p {
		if f.found != Nothing {
			break
		}
		second := f.cr && c == '\n'
		f.cr = c == '\r'
		switch {
		case second:
		case c == '\r' || c == '\n':
			f.endLine()
		case f.length < longest:
			f.line[f.length] = c
			f.length++
		default:
			f.length = longest + 1
		}
	}
	return f.found
}

// Found returns what has been found.
func (f *First) Found() Found { return f.found }

var byteOrderMark = []byte("\xEF\xBB\xBF")

// endLine takes a whole line: of one that is longer than all that matter, the
// beginning is enough to tell that.
func (f *First) endLine() {
	line := f.line[:min(f.length, longest)]
	f.length = 0
	if !f.begun {
		f.begun = true
		line = bytes.TrimPrefix(line, byteOrderMark)
	}
	if len(line) == 0 {
		f.dispatch()
		return
	}
	name, value, _ := bytes.Cut(line, []byte(":")) // without a colon all of it is a name
	switch string(name) {
	case "data":
		f.data = true
	case "event":
		f.typed = typeOf(bytes.TrimPrefix(value, []byte(" ")))
	}
}

func typeOf(value []byte) eventType {
	switch string(value) {
	case "error":
		return errorType
	case "ping":
		return pingType
	}
	return otherType
}

// dispatch ends an event.
func (f *First) dispatch() {
	switch {
	case f.typed == errorType:
		f.found = Error
	case f.data && f.typed != pingType:
		f.found = Event
	}
	f.data, f.typed = false, otherType
}

// IsStream reports whether a message with this Content-Type is an event stream.
func IsStream(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	return strings.EqualFold(strings.Trim(media, " \t"), "text/event-stream")
}
