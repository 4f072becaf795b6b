package h2

// queue is a row of streams: those that have something to write and may, or
// those that wait for one thing. A stream is in one of them at most.
type queue struct{ first, last *stream }

func (q *queue) push(s *stream) {
	s.in = q
	if q.last == nil {
		q.first = s
	} else {
		q.last.next = s
	}
	q.last = s
}

func (q *queue) pop() *stream {
	s := q.first
	if s == nil {
		return nil
	}
	if q.first = s.next; q.first == nil {
		q.last = nil
	}
	s.next, s.in = nil, nil
	return s
}

// leaveQueue takes the stream out of the row that it is in.
func (s *stream) leaveQueue() {
	q := s.in
	if q == nil {
		return
	}
	var before *stream
	for x := q.first; x != s; x = x.next {
		before = x
	}
	if before == nil {
		q.first = s.next
	} else {
		before.next = s.next
	}
	if q.last == s {
		q.last = before
	}
	s.next, s.in = nil, nil
}

// schedule gives a stream its turn, where it has something to write that it
// means to write now.
func (c *conn) schedule(s *stream) {
	if s.in == nil && s.sendable() {
		c.ready.push(s)
		c.wake.Signal()
	}
}

// sendable reports whether the stream has something to write for which there is
// a window of its own.
func (s *stream) sendable() bool {
	switch {
	case s.closed || s.writeErr != nil || !s.due:
		return false
	case len(s.heads) > 0:
		return true
	case s.waiting() > 0:
		return s.sendWindow > 0
	}
	return s.endWaits()
}

// waiting is how many bytes of the body are still to be framed.
func (s *stream) waiting() int { return len(s.pend) - s.pendOff + len(s.lent) }

// endWaits reports whether the end of the message is still to be framed.
func (s *stream) endWaits() bool { return s.ending && !s.sentEnd }
