package proxy

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/policy"
)

// overload is what 200 clients saw that asked three times as much of an upstream as
// it can do, for a while.
type overload struct {
	served, refused, late int
	waits                 []time.Duration // of the served, sorted
}

func (o *overload) wait(percent int) time.Duration { return o.waits[(len(o.waits)-1)*percent/100] }

// play lets 200 clients ask for a place every 2/3 s each, 300 times a second in all,
// at a gate with ten places that are had for 100 ms each.
func play(t *testing.T, oldestFirst bool) (o overload, g *gate) {
	const (
		clients = 200
		every   = clients * time.Second / 300
		rounds  = 30 // 20 s
		hold    = 100 * time.Millisecond
	)
	synctest.Test(t, func(t *testing.T) {
		g = &gate{cfg: policy.Concurrency{Max: 10, Queue: 512, MaxWait: time.Second}}
		type seen struct {
			wait time.Duration
			how  string
		}
		all := make(chan seen, clients*rounds)
		begin := time.Now()
		for i := range clients {
			go func() {
				for round := range rounds {
					due := begin.Add(time.Duration(round)*every + time.Duration(i)*every/clients)
					time.Sleep(time.Until(due))
					go func() { // a client does not wait for its last call before the next
						asked := time.Now()
						tk, ok := g.enter(asked, time.Time{}, false)
						if oldestFirst {
							g.mu.Lock()
							g.newest = false
							g.mu.Unlock()
						}
						if tk != nil {
							select {
							case <-tk.ready:
								ok = tk.admitted
							case <-time.After(time.Until(tk.deadline)):
								g.abandon(tk, time.Now())
								all <- seen{0, "late"}
								return
							}
						}
						if !ok {
							all <- seen{0, "refused"}
							return
						}
						all <- seen{time.Since(asked), "served"}
						time.Sleep(hold)
						g.leave(time.Now)
					}()
				}
			}()
		}
		for range clients * rounds {
			switch s := <-all; s.how {
			case "served":
				o.served++
				o.waits = append(o.waits, s.wait)
			case "late":
				o.late++
			case "refused":
				o.refused++
			}
		}
		synctest.Wait()
		time.Sleep(hold)
		synctest.Wait()
		if g.inUse != 0 || g.waiting() != 0 || g.newest {
			t.Errorf("in the end %d are under way, %d wait, the newest first: %v", g.inUse, g.waiting(), g.newest)
		}
	})
	slices.Sort(o.waits)
	t.Logf("oldest first %v: %d served, after %v at the median, %v at the 95th percentile; %d waited in vain, %d refused at once",
		oldestFirst, o.served, o.wait(50), o.wait(95), o.late, o.refused)
	return o, g
}

// TestOverload: at three times its capacity an upstream does as much either way, but
// the oldest first means that whoever is served has waited for as long as anybody
// may; the newest first, that most have waited for next to nothing.
func TestOverload(t *testing.T) {
	const capacity = 2000 // 100 a second for 20 s
	fifo, _ := play(t, true)
	got, _ := play(t, false)
	for _, o := range []overload{fifo, got} {
		if o.served < capacity*95/100 || o.served > capacity*11/10 {
			t.Errorf("%d served of %d that could be", o.served, capacity)
		}
	}
	if w := fifo.wait(50); w < 900*time.Millisecond {
		t.Errorf("the oldest first: half waited for less than %v, and this is no overload", w)
	}
	if w := got.wait(50); w > 50*time.Millisecond {
		t.Errorf("half of those served waited for %v or longer", w)
	}
	if w := got.wait(80); w > 100*time.Millisecond {
		t.Errorf("a fifth of those served waited for %v or longer", w)
	}
}
