package h1

// Relax gives the input buffer back where nothing unread is in it. It is for
// tunnels, which may be idle for hours and have no messages that do it; the
// current message, if any, is gone.
func (r *reader) Relax() { r.forget() }
