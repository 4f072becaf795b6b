package blackbox

import (
	"fmt"
	"strings"
	"testing"
)

// events answers with an event stream of these chunks and its end; one that is
// broken ends with its connection instead.
func events(broken bool, chunks ...string) answer {
	var b strings.Builder
	b.WriteString("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
	for _, c := range chunks {
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(c), c)
	}
	if broken {
		return rawClose(b.String())
	}
	return raw(b.String() + "0\r\n\r\n")
}

const (
	errorEvent = "event: error\ndata: {\"type\": \"overloaded_error\"}\n\n"
	goodEvent  = "data: 1\n\n"
)

// Section 4, error_event: a stream that begins with an error, or ends with no event,
// is a failed attempt; comments and pings are none.
func TestFirstEvent(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]answer{
		"an error":                     events(false, errorEvent),
		"in pieces":                    events(false, errorEvent[:4], errorEvent[4:20], errorEvent[20:]),
		"CRLF":                         events(false, strings.ReplaceAll(errorEvent, "\n", "\r\n")),
		"after comments and a ping":    events(false, ": hello\n\n", "event: ping\ndata: {}\n\n", errorEvent),
		"nothing":                      events(false),
		"comments":                     events(false, ": hello\n\n", ": still here\n\n"),
		"broken off before any event":  events(true, ": hello\n\n"),
		"until the connection's close": rawClose("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + errorEvent),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := answers(t, bad, events(false, goodEvent))
			p := start(t, to(`buffer: {first_event: true}, retry: {`+quick+`}`, u))
			r := p.get(at)
			r.expect(t, 200, "attempts=2; stop=success; received-status=200")
			want(t, "body", r.Body, goodEvent)
			p.wantAttempts(u, 2)
		})
	}
}

// When retries end the client gets the stream as it came; what is not safe to
// repeat, or not asked for, is not retried.
func TestFirstEventIsHandedOn(t *testing.T) {
	t.Parallel()
	u := answers(t, events(false, errorEvent))
	p := start(t, to(`buffer: {first_event: true}, retry: {max_attempts: 3, `+quick+`}`, u))
	r := p.get(at)
	r.expect(t, 200, "attempts=3; stop=max_attempts; received-status=200")
	want(t, "body", r.Body, errorEvent)
	p.wantMetric(3, "mulligan_attempts_total", "upstream=u", "result=error_event")
	r = p.do("POST", at, "hi")
	r.expect(t, 200, "attempts=1; stop=not_idempotent; received-status=200")
	want(t, "body", r.Body, errorEvent)
	p = start(t, to(`retry: {`+quick+`}`, u))
	p.get(at).expect(t, 200, "")
}

// Once an event has gone to the client nothing is retried, and a break is a break.
func TestFirstEventThenBreak(t *testing.T) {
	t.Parallel()
	u := answers(t, events(true, goodEvent))
	p := start(t, to(`buffer: {first_event: true}, retry: {`+quick+`}`, u))
	r := p.get(at)
	r.expect(t, 200, "")
	want(t, "body", r.Body, goodEvent)
	want(t, "whole", r.Whole, false)
	p.wantAttempts(u, 1)

	u = answers(t, events(false, goodEvent, errorEvent))
	p = start(t, to(`buffer: {first_event: true}, retry: {`+quick+`}`, u))
	r = p.get(at)
	r.expect(t, 200, "")
	want(t, "body", r.Body, goodEvent+errorEvent)
	want(t, "whole", r.Whole, true)
}
