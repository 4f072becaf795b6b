package h2

import (
	"math"
	"time"

	"golang.org/x/net/http2"

	"mulligan/proxy/h1"
)

// stallLooks is how often a write is looked at within the time that it may stand
// still; drainWait how long a client may take to hear that the connection ends.
const (
	stallLooks = 4
	drainWait  = time.Second
)

// never is a time that does not come.
const never = int64(math.MaxInt64) / 4

// orNever makes a limit of 0 none.
func orNever(limit int64) int64 {
	if limit <= 0 {
		return never
	}
	return limit
}

// clock is one timer for everything that a connection waits for only so long. It
// is set where something may be due earlier, and left alone where that something
// goes away: a look that finds nothing due costs less than a timer for each request.
type clock struct {
	timer *time.Timer
	wakes int64 // when it fires; 0: it is not set

	moved  uint64 // what a look at the present write saw
	unsent uint64
	since  int64 // since when that is so
}

func (k *clock) stop() {
	if k.timer != nil {
		k.timer.Stop()
	}
}

// startClock sets it for the beginning.
func (c *conn) startClock() {
	now := h1.Now()
	if c.server {
		c.frameSince.Store(now)
		c.armAt(now + orNever(c.limits.head))
	}
	c.armAt(now + orNever(c.limits.idle))
}

// armAt makes the clock look at a time, or earlier.
func (c *conn) armAt(at int64) {
	k := &c.clock
	if c.over || at >= never || k.wakes != 0 && k.wakes <= at {
		return
	}
	k.wakes = at
	d := time.Duration(at - h1.Now())
	if k.timer == nil {
		k.timer = time.AfterFunc(d, c.look)
		return
	}
	k.timer.Reset(d)
}

// look ends the connection where something has taken too long.
func (c *conn) look() {
	if c.lookLocked() {
		closeReset(c.nc) // a write may be blocked, and is not to be waited for
	}
}

func (c *conn) lookLocked() (dead bool) {
	c.mu.Lock()
	defer c.unlock()
	now := h1.Now()
	c.clock.wakes = 0
	if c.over || c.cause != nil {
		return false
	}
	next := min(c.frameDue(), c.idleDue(), c.drainDue(now))
	switch stall := c.stallDue(now); {
	case stall <= now:
		c.shutLocked(&ending{reason: "the peer takes nothing", silent: true, reset: true})
		return true
	case c.deadAt() <= now:
		c.shutLocked(&ending{reason: "the peer answers nothing", silent: true, reset: true})
		return true
	case c.frameDue() <= now:
		c.shutLocked(&ending{reason: "a frame or header block that does not end"})
		return false
	case c.idleDue() <= now:
		c.shutLocked(&ending{reason: "the connection was idle"})
		return false
	default:
		c.armAt(min(next, c.deadAt(), max(stall, now+c.limits.stall/stallLooks)))
	}
	return false
}

// frameDue is when what has begun must be whole. DATA only has to move, and so has
// everything from a server: its limits are those of the requests.
func (c *conn) frameDue() int64 {
	since := c.frameSince.Load()
	switch {
	case since == 0:
		return never
	case c.inData.Load() || !c.server:
		return c.in.last.Load() + orNever(c.limits.stall)
	}
	return since + orNever(c.limits.head)
}

func (c *conn) idleDue() int64 {
	if c.opened() > 0 {
		return never
	}
	return c.idleSince + orNever(c.limits.idle)
}

// stallDue is when the present write has stood still for too long: a full socket
// may take no bytes for long from a peer that does read, so the kernel is asked.
func (c *conn) stallDue(now int64) int64 {
	k := &c.clock
	if c.writeSince == 0 || c.limits.stall <= 0 {
		return never
	}
	if n := unsent(c.nc); k.since == 0 || n != k.unsent || k.moved != c.moved {
		if k.moved != c.moved || k.since == 0 {
			k.since = c.writeSince
		} else {
			k.since = now
		}
		k.unsent, k.moved = n, c.moved
	}
	return k.since + c.limits.stall
}

// drain is how far the end by Drain has come.
type drain struct {
	said  bool   // a GOAWAY was sent
	final bool   // and one that names the last stream
	last  uint32 // that stream; later ones are not looked at
	at    int64  // when the first was sent
}

// drainPing tells the answer to our PING from others.
var drainPing = [8]byte{'d', 'r', 'a', 'i', 'n'}

// drainDue is when a drain goes on without the client's answer, which it does now
// where that is over.
func (c *conn) drainDue(now int64) int64 {
	if !c.drain.said || c.drain.final {
		return never
	}
	if at := c.drain.at + int64(drainWait); at > now {
		return at
	}
	c.drainLast()
	return never
}

// drainFirst says that the connection will end. Streams that are on their way are
// still taken: RFC 9113 section 6.8.
func (c *conn) drainFirst() {
	if c.drain.said || c.over || c.cause != nil {
		return
	}
	c.drain.said, c.drain.at = true, h1.Now()
	c.goAway(maxStreamID, http2.ErrCodeNo, "")
	c.writePing(false, drainPing)
	c.armAt(c.drain.at + int64(drainWait))
}

// drainLast says which stream was the last one.
func (c *conn) drainLast() {
	c.drain.final, c.drain.last = true, c.lastID
	c.goAway(c.lastID, http2.ErrCodeNo, "")
}

// pong takes the answer to a PING.
func (c *conn) pong(data [8]byte) {
	if data == drainPing && c.drain.said && !c.drain.final {
		c.drainLast()
	}
}

// refusing reports whether a stream is above the last one that will be looked at.
func (c *conn) refusing(id uint32) bool { return c.server && c.drain.final && id > c.drain.last }
