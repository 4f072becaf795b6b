package policy

// On reports whether endpoints are checked at all.
func (c *HealthCheck) On() bool { return c.Path != "" }

// Health is what the checks of one endpoint have found. The zero value is that of an
// endpoint of which nothing is known: it is taken for healthy. Its caller makes it
// safe for concurrent use.
type Health struct {
	unhealthy bool
	against   int // checks in a row that say the contrary
}

// Unhealthy reports whether the endpoint is to be skipped.
func (h *Health) Unhealthy() bool { return h.unhealthy }

// Observe takes the result of a check, and reports whether it turns the verdict: that
// takes as many in a row as c says, so that one lost packet does not. Less than 1 is 1.
func (h *Health) Observe(c *HealthCheck, ok bool) (turned bool) {
	if ok != h.unhealthy {
		h.against = 0
		return false
	}
	needed := c.UnhealthyAfter
	if h.unhealthy {
		needed = c.HealthyAfter
	}
	if h.against++; h.against < needed {
		return false
	}
	h.unhealthy, h.against = !h.unhealthy, 0
	return true
}
