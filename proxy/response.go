package proxy

import (
	"errors"
	"io"

	"mulligan/policy"
	"mulligan/proxy/h1"
)

// finish ends the request: the last attempt's response as it came, or the
// reason why there is none, or nothing where nobody is there to get it.
func (x *exchange) finish(r result, d policy.Decision) {
	defer x.logEnd()
	x.c.watch.moving(x.uc) // a client that does not read its answer is given up as well
	defer x.c.watch.rested()
	if x.detached {
		x.c.watch.on(x.uc) // the wait that was cut short had let go of it
	}
	switch {
	case d.Stop == policy.ClientGone:
		x.abandon(&d)
	case x.tunnel != nil:
		// The door that made the tunnel goes on with it.
	case x.resp != nil:
		x.deliver(r, d)
	default:
		x.log.status = r.fault.status
		x.account(r, d)
		x.replyFault(r.fault, d)
	}
	x.account(r, d)
}

// abandon drops an attempt that nobody waits for. A body that cannot be read to
// its end is the one case in which the client is still there to be told; the
// decision is then that this is for good.
func (x *exchange) abandon(d *policy.Decision) {
	seen := x.c.watch.seen()
	x.body.stopPump(x.uc)
	x.dropConn()
	x.c.watch.calm(causeIdle|causeBroken, nil) // so that what follows is watched anew
	x.c.sc.ClearInterrupt()
	x.c.closing = true
	switch {
	case seen&causeGone != 0:
		return
	case seen&causeCut != 0:
		d.Stop, d.Verdict = policy.Draining, policy.Retryable // it was us who left
		return
	}
	r := reply{status: 408, kind: "http_request_error", detail: "the request's body stopped arriving", attempts: x.number, stop: d.Stop}
	if seen&causeBroken != 0 {
		d.Stop, d.Verdict = policy.Permanent, policy.PermanentFailure
		why := bodyReply(x.body.failure)
		r.status, r.detail, r.stop = why.status, why.detail, d.Stop
	} else if seen&causeIdle == 0 {
		return
	}
	x.c.linger = true
	x.c.replyError(r)
	if x.c.sc.Finished() { // not where the client's stream was reset for what it did
		x.log.answered = r.status
	}
}

// deliver gives the client the response in hand.
func (x *exchange) deliver(r result, d policy.Decision) {
	resp, sc := x.resp, x.c.sc
	if x.whole && x.body.pump == nil { // and so the attempt is over, however slowly its client reads
		x.grant.leave()
	}
	x.c.watch.await(false) // the window ends with the header
	x.body.letGo()
	if x.whole && x.body.pump != nil { // only a pump finds a body malformed
		x.c.watch.answer(x.uc)
	}
	x.c.watch.calm(causeWindow|causeAttempt, x.uc)
	for _, interim := range x.interim { // none where the client speaks HTTP/1.0
		writeInterim(sc, interim)
	}
	framing, length := x.outFraming()
	closing := x.closes() || framing == h1.UntilClose || x.broken
	x.writeResponseHead(framing, length, closing, x.proxyStatus(r, d))
	x.c.closing = closing
	if resp.Status == 101 {
		x.deliverUpgrade()
		return
	}
	if x.deliverBody(framing, r, d) {
		x.settleRequest()
		x.release()
		return
	}
	x.body.stopPump(x.uc)
	x.dropConn()
	x.c.closing = true
}

// outFraming is how the body goes to the client: as it came where that can be.
func (x *exchange) outFraming() (h1.Framing, int64) {
	switch x.resp.Framing {
	case h1.NoBody:
		if x.resp.HTTP2 && !x.req.HTTP2 && !h1.Bodiless(x.resp.Status, x.req.Method) {
			return h1.Length, 0 // in HTTP/1.1 only a length says that none comes
		}
		return h1.NoBody, 0
	case h1.Length:
		if !promisesTrailer(x.resp.HTTP2, x.resp.Header, x.resp.Trailer) || x.req.HTTP2 || x.req.Minor == 0 {
			return h1.Length, x.resp.ContentLength
		}
	}
	if x.req.Minor == 0 {
		return h1.UntilClose, 0
	}
	return h1.Chunked, 0
}

// promisesTrailer reports whether a message of HTTP/2, whose framing has room for
// one in any case, has a trailer section or says that one will come. In HTTP/1.1
// only a chunked body has (RFC 9112 7.1.2).
func promisesTrailer(http2 bool, header, trailer h1.Header) bool {
	return http2 && (len(trailer) > 0 || header.GetKnown(h1.NameTrailer) != nil)
}

// closes reports whether the client's connection ends with this answer.
func (x *exchange) closes() bool {
	return !x.req.KeepAlive || x.s.draining() || !x.body.done.Load()
}

// smallBody is the length up to which the writer copies a piece.
const smallBody = 4 << 10

// deliverBody moves the body to the client; false where either side broke off.
// A body that broke off is never made to look whole.
//
// What became of the request is counted before its last byte goes out: who has
// read an answer finds it in the metrics.
func (x *exchange) deliverBody(framing h1.Framing, r result, d policy.Decision) bool {
	sc := x.c.sc
	if x.whole && x.held.size == 0 {
		if len(x.heldWhole) <= smallBody && len(x.resp.Trailer) == 0 && x.body.pump == nil {
			// The body is copied behind the head, so that the upstream's connection is
			// back in the pool before the client can have its answer and ask again.
			if !x.toClient(sc.Body(x.heldWhole)) {
				return false
			}
			x.release()
			x.account(r, d)
			return x.toClient(sc.Finish(nil))
		}
		x.account(r, d)
		return x.toClient(sc.FinishWith(x.heldWhole, x.responseTrailer()))
	}
	for i := 0; ; i++ {
		p := x.held.piece(i)
		if p == nil {
			break
		}
		if !x.toClient(sc.Body(p)) {
			return false
		}
	}
	if x.broken {
		x.toClient(sc.Flush())
		return x.breakOff(framing)
	}
	if !x.whole {
		x.forgetHeld() // the rest may take long
		return x.stream(framing, r, d)
	}
	x.account(r, d)
	return x.toClient(sc.Finish(x.responseTrailer()))
}

// stream passes the body on as it comes.
func (x *exchange) stream(framing h1.Framing, r result, d policy.Decision) bool {
	sc, uc := x.c.sc, x.uc
	if !uc.BodyDone() && !x.toClient(sc.Flush()) {
		return false
	}
	for {
		p, err := uc.NextBody()
		if err == io.EOF {
			x.account(r, d)
			x.grant.leave()
			trailer := x.responseTrailer()
			if len(trailer) == 0 && x.body.pump == nil {
				x.release() // before the client can ask again, on another stream
			}
			return x.toClient(sc.Finish(trailer))
		}
		if err != nil {
			x.log.brokeOff = true
			x.c.resetCode = codeForClient(err)
			return x.breakOff(framing)
		}
		if !x.toClient(sc.Body(p)) {
			return false
		}
		if !uc.BodyDone() && !x.toClient(sc.Flush()) {
			return false
		}
	}
}

// codeForClient is the code by which a client's stream ends, where the upstream has
// reset its own in the middle of an answer. That it did not process the request, as
// some codes say, is not true any more.
func codeForClient(err error) uint32 {
	const refused, internal = 0x7, 0x2 // RFC 9113 7
	switch code := resetCode(err); code {
	case refused, http11Required:
		return internal
	default:
		return code
	}
}

// resetCode is what an HTTP/2 peer ended a message with; 0 = it did not.
func resetCode(err error) uint32 {
	var wire *h1.Error
	if errors.As(err, &wire) {
		return wire.Code
	}
	return 0
}

// toClient notes where the client could not be written to.
func (x *exchange) toClient(err error) bool {
	if err != nil {
		x.lost = true
	}
	return err == nil
}

// breakOff ends the client's connection so that it sees a body cut short: where
// the framing's only sign of an end is the connection's, by a reset.
func (x *exchange) breakOff(framing h1.Framing) bool {
	if x.c.watch.seen()&(causeGone|causeIdle) != 0 {
		x.lost = x.c.watch.seen()&causeGone != 0
		x.c.sc.ClearInterrupt()
	}
	if framing == h1.UntilClose {
		x.c.reset = true
	}
	return false
}

// deliverUpgrade sends 101; the two connections are joined when the request is
// accounted for: what it was lies in a buffer that a tunnel gives away.
func (x *exchange) deliverUpgrade() {
	sc, uc := x.c.sc, x.uc
	x.c.closing = true
	x.grant.leave() // before the client can ask again
	if !x.toClient(sc.Finish(nil)) {
		x.dropConn()
		return
	}
	x.c.watch.on(nil)
	x.from.links.Detach(uc)
	x.uc, x.resp = nil, nil
	x.upgraded = uc.(*h1.ClientConn) // a 101 comes to nobody else
}

// settleRequest deals with a request's body that the upstream did not want: the
// connection closes after the answer, in a way that lets the client read it.
func (x *exchange) settleRequest() {
	if x.body.done.Load() && x.body.pump == nil {
		return
	}
	x.body.stopPump(x.uc)
	if !x.body.done.Load() {
		x.c.closing = true
		x.c.linger = true
	}
}
