package h1

// Clone returns a copy of the response's head that does not lie in the
// connection's buffer, for who lets go of the connection first.
func (r *Response) Clone() *Response {
	c := *r
	c.Reason = append([]byte(nil), r.Reason...)
	c.Header, c.Trailer = r.Header.clone(), r.Trailer.clone()
	return &c
}

func (h Header) clone() Header {
	if h == nil {
		return nil
	}
	size := 0
	for i := range h {
		size += len(h[i].Name) + len(h[i].Value)
	}
	text := make([]byte, 0, size)
	part := func(b []byte) []byte {
		text = append(text, b...)
		return text[len(text)-len(b) : len(text) : len(text)]
	}
	c := make(Header, len(h))
	for i := range h {
		c[i] = h[i]
		c[i].Name, c[i].Value = part(h[i].Name), part(h[i].Value)
	}
	return c
}
