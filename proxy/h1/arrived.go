package h1

// ArrivedBody is NextBody for what has arrived already: it never waits. Nothing
// and no error means that more of the body is still to come.
func (s *ServerConn) ArrivedBody() ([]byte, error) {
	p, err := s.available(1 << 30)
	s.req.Trailer = s.body.trailer
	return p, err
}
