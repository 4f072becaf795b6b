package h2

// ring remembers the ids of the streams that were closed last: what still comes
// for them tells a late frame from a wrong one (RFC 9113 section 5.1).
type ring struct {
	ids  []uint32
	next int
	size int
}

func (r *ring) add(id uint32) {
	if r.size == 0 {
		return
	}
	if len(r.ids) < r.size {
		r.ids = append(r.ids, id)
		return
	}
	r.ids[r.next] = id
	r.next = (r.next + 1) % r.size
}

func (r *ring) has(id uint32) bool {
	for _, x := range r.ids {
		if x == id {
			return true
		}
	}
	return false
}
