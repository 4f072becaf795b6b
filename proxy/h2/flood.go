package h2

import (
	"time"

	"mulligan/proxy/h1"
)

// What a peer may make us do for nothing. Every limit is far above what working
// peers need and far below what hurts.
const (
	// resetMost is by how many streams that were reset at once may outweigh the
	// answered ones (CVE-2023-44487); resetLeak of them are forgiven a second. All
	// requests of a connection may be given up together, and again; those that have
	// waited for resetAge are given up for a reason, and bounded by MaxStreams.
	resetMost, resetLeak = 500, 50
	resetAge             = 250 * time.Millisecond
	// noiseMost is how many frames that move nothing may outweigh those that do;
	// noiseLeak of them are forgiven a second.
	noiseMost, noiseLeak = 1000, 200
	// noiseCredit is how many such frames one frame with content pays for: peers
	// send two WINDOW_UPDATEs for each DATA frame, and measure with PINGs. One of
	// ours pays for as many more as it has times fairData bytes, and for none where
	// the peer's window makes it smaller than that.
	noiseCredit = 4
	fairData    = 256
	// controlMost is how many answers to control frames may wait for a peer that
	// does not read them.
	controlMost = 1000
	// continuations is how many frames a header block may be cut into, beside one
	// for each KiB.
	continuations = 64
	// settingsNoise is what a SETTINGS frame weighs, beside 1 for each setting.
	settingsNoise = 10
)

// bucket counts what is bad, less what is good, and forgives with time.
type bucket struct {
	level float64
	at    int64
}

// add adds n, which may be negative, and returns the level.
func (b *bucket) add(n, leak float64) float64 {
	now := h1.Now()
	b.level -= float64(now-b.at) / float64(time.Second) * leak
	b.level, b.at = max(0, b.level)+n, now
	return b.level
}

// useless counts a frame from the peer that moved nothing.
func (c *conn) useless(weight float64) error {
	if c.noise.add(weight, noiseLeak) > noiseMost {
		return tooMuch("too many frames that carry nothing")
	}
	return nil
}

// useful takes useless frames off the count for one that carries something.
func (c *conn) useful() { c.noise.level -= noiseCredit }

// usefulData is useful for n bytes that are sent.
func (c *conn) usefulData(n int) { c.noise.level -= noiseCredit + float64(n/fairData) }

// wasted counts a stream that ended before it was answered, by the client's doing.
func (c *conn) wasted() error {
	if c.server && c.resets.add(1, resetLeak) > resetMost {
		return tooMuch("too many streams reset")
	}
	return nil
}
