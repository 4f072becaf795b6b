package policy

import "time"

// numSlots parts the window: how finely answers grow old.
const numSlots = 32

// slots counts the answers of a sliding window. Times are durations since a
// start that its owner keeps.
type slots struct {
	width  time.Duration // of one slot; numSlots of them are at most the window
	newest int64         // index, since the start, of the slot that the latest time lies in
	counts [numSlots]int64
	sum    int64 // of all counts
}

// advance drops what is too old at the time; an earlier time than before
// changes nothing.
func (s *slots) advance(at time.Duration) {
	slot := int64(at / s.width)
	if slot-s.newest >= numSlots {
		s.counts, s.sum, s.newest = [numSlots]int64{}, 0, slot
	}
	for s.newest < slot {
		s.newest++
		count := &s.counts[s.newest%numSlots]
		s.sum -= *count
		*count = 0
	}
}

// add counts one answer that came at the time; one older than the window, by a
// clock that lags, does not count.
func (s *slots) add(at time.Duration) { s.addMany(int64(at/s.width), 1) }

func (s *slots) addMany(slot, n int64) {
	if slot <= s.newest-numSlots || slot > s.newest {
		return
	}
	s.counts[slot%numSlots] += n
	s.sum += n
}

// refill takes over the counts of old, whose slots are of another width. Each
// count moves to where its oldest answer belongs.
func (s *slots) refill(old *slots) {
	s.newest = int64(time.Duration(old.newest) * old.width / s.width)
	s.counts, s.sum = [numSlots]int64{}, 0
	for slot := max(0, old.newest-numSlots+1); slot <= old.newest; slot++ {
		s.addMany(int64(time.Duration(slot)*old.width/s.width), old.counts[slot%numSlots])
	}
}
