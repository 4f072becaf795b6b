package h1

// ArrivedBody is NextBody for what has arrived already: it never waits. Nothing
// and no error means that more of the body is still to come.
func (c *ClientConn) ArrivedBody() ([]byte, error) {
	p, err := c.available(1 << 30)
	c.resp.Trailer = c.body.trailer
	return p, err
}

// ArrivedBody is that of a ClientConn.
func (s *ServerConn) ArrivedBody() ([]byte, error) {
	p, err := s.available(1 << 30)
	s.req.Trailer = s.body.trailer
	return p, err
}
