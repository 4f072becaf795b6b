package proxy

import (
	"time"

	"mulligan/policy"
)

type pacer struct{}
type reservation struct{}

func (r reservation) giveBack(now time.Time) {}
func newPacer(policy.RateLimit) *pacer       { return &pacer{} }
func (p *pacer) configure(policy.RateLimit)  {}
func (p *pacer) enter(now, deadline time.Time, retry bool) (r reservation, wait time.Duration, ok bool) {
	return r, 0, true
}
func (p *pacer) retryAfter(now time.Time) time.Duration { return time.Second }
