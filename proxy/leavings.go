package proxy

import "time"

// leavings tells how fast places become free while there are those who wait for
// one: of times when there is no queue it knows nothing, since few attempts end
// where few begin.
type leavings struct {
	since time.Time // when the queue began
	last  [leavingsKept]time.Time
	n     int // since then
}

// leavingsKept is over how many ends of attempts their pace is measured.
const leavingsKept = 16

// begin is told when somebody queues where nobody did.
func (l *leavings) begin(now time.Time) { l.since, l.n = now, 0 }

// add is told when a place becomes free.
func (l *leavings) add(now time.Time) {
	l.last[l.n%leavingsKept] = now
	l.n++
}

// pace returns the time between two places that become free, of late. It is known
// after leavingsKept of them, or after so long a time that one may be expected: then
// few are telling, and none too.
func (l *leavings) pace(now time.Time, enough time.Duration) (time.Duration, bool) {
	if l.n >= leavingsKept {
		return now.Sub(l.last[l.n%leavingsKept]) / leavingsKept, true
	}
	elapsed := now.Sub(l.since)
	return elapsed / time.Duration(max(1, l.n)), elapsed >= enough
}
