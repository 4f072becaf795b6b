package h2

import "mulligan/proxy/h1"

// ask makes the server say something, if it is there: SETTINGS that set nothing,
// which it has to acknowledge (RFC 9113 section 6.5.3). It is no PING, since servers
// of gRPC end connections on which more of those come than they like.
func (c *ClientConn) ask() { c.writeSettings() }

// probe is somebody who waits for a sign of life.
type probe struct {
	since int64 // what has come before is none
	seen  chan struct{}
}

// Probe asks the server for a sign of life. The channel is closed when anything has
// come since, or the connection has ended.
// Streams go on, and may be opened, meanwhile.
func (c *ClientConn) Probe() <-chan struct{} {
	c.mu.Lock()
	defer c.unlock()
	p := probe{h1.Now(), make(chan struct{})}
	if c.over || c.cause != nil {
		close(p.seen)
		return p.seen
	}
	if len(c.probes) == 0 {
		c.probed = p.since
		c.ask()
	}
	c.probes = append(c.probes, p)
	return p.seen
}

// answerProbes tells those who wait for a sign of life that was there by the time
// given.
func (c *ClientConn) answerProbes(last int64) {
	kept := c.probes[:0]
	for _, p := range c.probes {
		if last < p.since {
			kept = append(kept, p)
			continue
		}
		close(p.seen)
	}
	clear(c.probes[len(kept):])
	c.probes = kept
	if len(kept) > 0 && last >= c.probed { // what they wait for was the answer to the one before
		c.probed = h1.Now()
		c.ask()
	}
}
