package h1

// FinishAndReadResponse is FinishWith and ReadResponse: it sends p as the last
// piece of the body and waits for the response, in one go where it can. Its
// errors are those of ReadResponse, and those of a body that does not fit its
// framing.
func (c *ClientConn) FinishAndReadResponse(p []byte, trailer Header, method string) (*Response, error) {
	switch err := c.finish(p, trailer); KindOf(err) {
	case Malformed, Broken, Interrupted:
		return nil, err
	}
	return c.ReadResponse(method)
}

// finish is FinishWith; where the connection can do it, the first bytes of the
// response are there too when it returns.
func (c *ClientConn) finish(p []byte, trailer Header) error {
	if !c.io.ok() || c.in != nil {
		return c.FinishWith(p, trailer)
	}
	parts, err := c.compose(p, true, trailer)
	if err != nil {
		return err
	}
	if parts > 0 {
		if err := c.ask(parts); err != nil {
			return err
		}
	}
	c.done()
	return nil
}

// ask writes the first n parts and waits for the response.
func (c *ClientConn) ask(n int) error {
	pooled := c.look != nil
	c.look = nil // asking looks too
	c.tried.Store(true)
	a := c.io.ask(c.parts[:n])
	switch {
	case a.heard && pooled:
		c.tried.Store(false)
		return c.fail(errDead())
	case a.heard: // a new connection whose server speaks first: its answer may be to come
		return c.send(n)
	}
	if a.n > 0 {
		c.progress.Add(1)
		c.in, c.r, c.w, c.keep = a.buf, 0, a.n, 0
	}
	if a.readErr != nil {
		c.late = c.readErr(a.readErr)
	}
	return c.sendRest(a)
}

// sendRest writes what did not fit the socket when asking.
func (c *ClientConn) sendRest(a askResult) error {
	err := a.writeErr
	if err != nil {
		err = c.writeError(err)
	}
	if a.written > 0 {
		c.progress.Add(1)
	}
	if err == nil && len(a.rest) > 0 {
		var n int64
		n, err = c.write(a.rest)
		a.written += n
	}
	return c.accountSent(a.written, err)
}
