package proxy

import (
	"mulligan/policy"
	"mulligan/proxy/h1"
	"mulligan/proxy/sse"
)

// What policy has to know of a response's body: what rules say of its JSON, and
// whether it is an event stream that begins with an error.

// looksInto reports whether the body can decide what rules say of the response,
// and can be read.
func (x *exchange) looksInto() bool {
	r := &x.route.Retry
	return len(r.Rules) > 0 && x.coding() != codingUnknown && r.LooksInto(x.resp.Status, x.respField)
}

// ruled is what the route's rules say of the response. Those with conditions on
// its body need that whole, and within buffer.response, coded and decoded.
func (x *exchange) ruled() policy.Ruled {
	seen := policy.Seen{Status: x.resp.Status, Field: x.respField}
	if most := x.route.Buffer.Response; x.whole && x.heldSize() <= most && x.looksInto() {
		seen.Body = decode(x.heldBody(), x.coding(), most)
	}
	return x.route.Retry.Rule(&seen)
}

// heldSize is how much of the response's body is held.
func (x *exchange) heldSize() int64 { return x.held.size + int64(len(x.heldWhole)) }

// heldBody is what is held, in one piece.
func (x *exchange) heldBody() []byte {
	if x.held.size == 0 {
		return x.heldWhole
	}
	return x.held.joined()
}

// eventStream is what is known of a response that is an event stream, where the
// route wants its first event to be known.
type eventStream struct {
	on    bool
	first sse.First
}

// lookForEvent begins to look for the first event of the response, if it is a
// stream of them. One that is coded goes on as it comes: held until its decoder
// has enough to say anything, it would be late.
func (x *exchange) lookForEvent() {
	x.events = eventStream{on: x.route.Buffer.FirstEvent && x.route.Buffer.Response > 0 && x.resp.Status == 200 &&
		!h1.Bodiless(x.resp.Status, x.req.Method) && x.coding() == codingNone && sse.IsStream(x.respField("Content-Type"))}
}

// lookAt looks at the next bytes of the body, as far as buffer.response goes, and
// reports whether the first event is there.
func (x *exchange) lookAt(p []byte) bool {
	if !x.events.on {
		return false
	}
	left := x.route.Buffer.Response - x.held.size
	return x.events.first.Feed(p[:min(int64(len(p)), left)]) != sse.Nothing
}

// eventFailed reports whether the response is an event stream that begins with an
// error, or that ended without an event.
func (x *exchange) eventFailed() bool {
	if !x.events.on {
		return false
	}
	switch x.events.first.Found() {
	case sse.Error:
		return true
	case sse.Nothing:
		return x.whole && x.heldSize() <= x.route.Buffer.Response
	}
	return false
}
