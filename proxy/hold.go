package proxy

import (
	"io"

	"mulligan/proxy/h1"
)

// hold keeps a response back whose body decides what becomes of it, as far as it
// has to be known for that: a small one until it is whole, so that one that breaks
// off is a failed attempt and not half an answer; one that rules look into
// likewise, of any framing; an event stream until its first event. over is true
// where the attempt ended meanwhile.
func (x *exchange) hold() (r result, over bool) {
	x.whole, x.broken, x.heldWhole = false, false, nil
	if x.route.Buffer.FirstEvent || x.events.on { // mostly not
		x.lookForEvent()
	}
	if x.resp.Status == 101 {
		return result{}, false
	}
	if p, ok := x.uc.BufferedBody(); ok {
		x.heldWhole, x.whole = p, true
		x.lookAt(p)
		return result{}, false
	}
	held := x.holds()
	if held == asItComes {
		return result{}, false
	}
	x.armHold()
	x.c.watch.moving(x.uc)
	defer x.c.watch.rested()
	for {
		p, err := x.uc.NextBody()
		switch {
		case err == nil && held == booked:
			x.held.add(p)
			continue
		case err == nil:
			if x.keepHeld(p) {
				continue
			}
			return result{}, false
		case err == io.EOF:
			x.whole = true
			return result{}, false
		case x.resume(err):
			if x.beside != nil && x.beside.undecided(x) {
				continue
			}
			// timeout.attempt passed, but nothing could follow: the client gets what
			// is there, and the rest as it comes.
			return result{}, false
		}
		if h1.KindOf(err) == h1.Interrupted && x.c.watch.seen()&^(causeWindow|causeAttempt) == 0 && !x.cut.Retry {
			return result{}, false // the window ends with the header, which is here
		}
		if r, over := x.interrupted(err); over {
			return r, true
		}
		x.broken = true
		return result{}, false
	}
}

// holding says how a response is held.
type holding uint8

const (
	asItComes    holding = iota // not at all
	booked                      // whole, and all of it is in the ledger already
	pieceByPiece                // up to buffer.response, each piece booked when it comes
)

// holds decides how the response is held.
func (x *exchange) holds() holding {
	most := x.route.Buffer.Response
	switch {
	case x.events.on:
		return pieceByPiece
	case x.resp.Framing == h1.Length:
		if x.resp.ContentLength > most || !x.s.buffered.take(x.resp.ContentLength) {
			return asItComes
		}
		x.charged += x.resp.ContentLength
		return booked
	case most > 0 && x.looksInto():
		return pieceByPiece
	}
	return asItComes
}

// keepHeld keeps a piece and reports whether more is to be held. It has left the
// connection, so that it is kept whatever the limits say.
func (x *exchange) keepHeld(p []byte) bool {
	n := int64(len(p))
	found := x.lookAt(p)
	x.s.buffered.used.Add(n)
	x.charged += n
	x.held.add(p)
	return !found && x.held.size <= x.route.Buffer.Response && !x.s.buffered.over()
}

// armHold bounds a hold by timeout.attempt where nothing else does: where no
// retry could follow, a slow body is passed on after that.
func (x *exchange) armHold() {
	w := &x.c.watch
	if d := x.route.Timeout.Attempt; d > 0 && w.attemptAt.Load() == 0 {
		w.start(&w.attemptAt, x.s.now(), int64(d))
	}
}

// dropConn closes the connection of an attempt that failed on it: with a reset
// where the request had not gone out whole, since a FIN would wait behind what an
// upstream does not read.
func (x *exchange) dropConn() {
	x.leave(func() {
		if !x.uc.Finished() {
			x.uc.CloseReset()
		}
		if !x.detached {
			x.from.links.Discard(x.uc)
			return
		}
		x.uc.Close()
	})
}

// release ends with a response that is not wanted any more: its connection goes
// back to the pool if all of it was read.
func (x *exchange) release() {
	x.body.stopPump(x.uc)
	x.leave(func() {
		if !x.detached {
			x.from.links.Put(x.uc)
			return
		}
		x.uc.Close()
	})
}

// setAside keeps the failed attempt's response while the next one queues for a
// connection: if it gets none, that response is still what the client gets. One
// that is not whole is let go of: its server might have to end with it first.
func (x *exchange) setAside() {
	if x.detached {
		x.keepGrant(x.release)
	}
	x.last, x.inHand = x.inHand, x.last
	x.c.watch.moved.Store(nil)
}

// takeBack returns to the attempt before.
func (x *exchange) takeBack() { x.last, x.inHand = x.inHand, x.last }

// dropLast ends with the response of the attempt before.
func (x *exchange) dropLast() {
	if x.last.resp == nil {
		return
	}
	x.s.buffered.giveBack(x.last.charged)
	x.last.held.reset()
	x.last.forgetInterim()
	x.last = inHand{held: x.last.held, interim: x.last.interim}
}

// leave forgets a response, and its connection after ending with that.
func (x *exchange) leave(end func()) {
	if x.uc != nil {
		x.c.watch.on(nil)
		x.c.watch.moved.Store(nil)
		end()
		x.uc = nil
	}
	x.resp, x.detached = nil, false
	x.grant.leave()
	x.forgetHeld()
}

func (x *exchange) forgetHeld() {
	x.held.reset()
	x.heldWhole = nil
	x.whole, x.broken = false, false
	x.s.buffered.giveBack(x.charged)
	x.charged = 0
}
