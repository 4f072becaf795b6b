package proxy_test

import (
	"testing"
	"time"
)

// TestPauseAndEndpoints: a hint holds back retries to the authority that gave it, and
// no others: those go to another endpoint, or a second time to one that has failed.
func TestPauseAndEndpoints(t *testing.T) {
	inPair(t, paired(2, after(10*time.Millisecond), atMost(2), tokens(100)), func(b *bubble) {
		a, c := b.serve("a:80", always(hinted503)), b.serve("b:80", always(fiveOhThree))
		b.pauseA(a)
		elsewhere := 0
		for range 20 {
			asked, _ := a.seen()
			failed, _ := c.seen()
			began := time.Now()
			b.want(b.get(), 503, stopped(2, "max_attempts", 503))
			now, _ := a.seen()
			again, _ := c.seen()
			switch took := time.Since(began); {
			case now-asked == 0 && again-failed == 2:
				elsewhere++
			case now-asked == 1 && again-failed == 1 && took > 10*time.Second: // it has got a hint itself
			default:
				b.Errorf("%d attempts at the one that is paused, %d at the other, in %v", now-asked, again-failed, took)
			}
			if time.Since(began) > time.Second {
				b.pauseA(a)
			}
		}
		if elsewhere == 0 {
			b.Error("all began at the one that is paused")
		}
	})
}

// TestRateLimitAndPausedEndpoint: of two endpoints, first attempts go to the one that
// has not asked to be left alone.
func TestRateLimitAndPausedEndpoint(t *testing.T) {
	inPair(t, paired(2, paced(100, 100, 5*time.Second)), func(b *bubble) {
		a, c := b.serve("a:80", always(hinted503)), b.serve("b:80", lateBy(2*time.Second, ok))
		b.pauseA(a)
		before, _ := c.seen()
		var all []<-chan reply
		for range 50 {
			all = append(all, b.later(getUp))
		}
		for _, answer := range all {
			b.want(<-answer, 200, "")
		}
		asked, _ := a.seen()
		if good, _ := c.seen(); asked != 1 || good-before != 50 {
			b.Errorf("%d attempts went to the one that is paused, %d to the other", asked-1, good-before)
		}
		b.left(pairBudget)
	})
}

// pauseA makes requests, of no retry, until one has got a's hint.
func (b *bubble) pauseA(a *peer) {
	for {
		b.request(postUp)
		if hits, _ := a.seen(); hits > 0 {
			return
		}
	}
}
