package h2

// What Interrupt stopped, as bits of stream.stopped.
const (
	stoppedRead = 1 << iota
	stoppedWrite
)

// Interrupt makes reads and writes of the stream, the blocked ones too, fail with
// h1.Interrupted until ClearInterrupt. A write that was broken into leaves the
// message failed for good. The connection and its other streams do not notice.
func (s *stream) Interrupt() { s.interrupt(stoppedRead | stoppedWrite) }

// InterruptRead is Interrupt for reads only.
func (s *stream) InterruptRead() { s.interrupt(stoppedRead) }

// InterruptWrite is Interrupt for writes only.
func (s *stream) InterruptWrite() { s.interrupt(stoppedWrite) }

func (s *stream) interrupt(what uint32) {
	s.c.mu.Lock()
	defer s.c.unlock()
	s.stopped |= what
	s.reads.Broadcast()
	s.writes.Broadcast()
}

// ClearInterrupt lets reads and writes go on.
func (s *stream) ClearInterrupt() {
	s.c.mu.Lock()
	defer s.c.unlock()
	s.stopped = 0
}
