// Package sse looks for the first event of an event stream, text/event-stream
// as the HTML standard has it (WHATWG HTML 9.2, "Server-sent events"). It keeps no
// more of a stream than a few bytes, and does not care how it is cut into pieces.
package sse
