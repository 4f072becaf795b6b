package h1

// Relax gives the input buffer back where nothing unread is in it. It is for
// tunnels, which may be idle for hours and have no messages that do it; the
// current message, if any, is gone. Where a read cannot wait without a buffer it
// is kept: the next read would get one byte (see readLazily), and so would every
// one after it.
func (r *reader) Relax() {
	if r.c.io.ok() || r.in == nil {
		r.forget()
		return
	}
	if r.head != r.in {
		putBuffer(r.head)
	}
	r.head, r.keep = nil, 0
	if r.r == r.w {
		r.r, r.w = 0, 0
	}
	r.body.forget()
}
