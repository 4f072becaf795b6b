package h1

// Phase is what a client's connection is doing, for whoever watches it.
type Phase uint8

// The phases.
const (
	Idle        Phase = iota // no byte of the next request has come
	ReadingHead              // some have
	InRequest                // a request was read, the next one is not waited for
)

// phaseBits is how far the time is shifted in conn.state, to make room for the
// phase: both must be read and written at once.
const phaseBits = 2

// State returns the phase and when it began, on the clock of Now. It may be
// called from anywhere.
func (c *conn) State() (phase Phase, since int64) {
	s := c.state.Load()
	return Phase(s & (1<<phaseBits - 1)), s >> phaseBits
}

// enter begins a phase, if it is not the present one.
func (c *conn) enter(p Phase) {
	if now, _ := c.State(); now != p {
		c.state.Store(Now()<<phaseBits | int64(p))
	}
}
