package h2

import (
	"golang.org/x/net/http2"

	"mulligan/proxy/h1"
)

// takeHead takes a response's head, a 1xx, or trailers.
func (c *ClientConn) takeHead(id uint32, end bool) error {
	s := c.streams[id]
	if s == nil {
		if err := c.absent(id); err != nil {
			return err
		}
		return c.useless(1)
	}
	s.heard = true
	s.progress.Add(1)
	o := s.owner.(*ClientStream)
	switch {
	case s.recvEnd:
		return c.abort(s, http2.ErrCodeStreamClosed, "HEADERS behind the end")
	case s.final && !end:
		return c.abort(s, http2.ErrCodeProtocol, "trailers that are not the end")
	case s.final:
		return c.endWithTrailers(s)
	}
	c.useful()
	return c.responseHead(o, end)
}

// responseHead takes a head that is not trailers.
func (c *ClientConn) responseHead(s *ClientStream, end bool) error {
	if s.headSize += c.head.size; s.headSize > upstreamHead {
		c.reset(&s.stream, http2.ErrCodeEnhanceYourCalm)
		s.fail(&h1.Error{Kind: h1.HeadTooLarge, Reason: "head over the limit"})
		return nil
	}
	resp := &h1.Response{}
	if err := c.head.response(resp, s.method, end); err != nil {
		return c.abort(&s.stream, http2.ErrCodeProtocol, err.Reason)
	}
	if resp.Status < 200 {
		if s.interims++; s.interims > maxInterim {
			return c.abort(&s.stream, http2.ErrCodeProtocol, "too many 1xx responses")
		}
	} else {
		s.final, s.bodyFrames = true, resp.Framing
		s.recvLeft = -1
		switch {
		case resp.Framing == h1.NoBody:
			s.recvLeft = 0
		case resp.Framing == h1.Length:
			s.recvLeft = resp.ContentLength
		}
	}
	s.arrived = append(s.arrived, resp)
	s.reads.Broadcast()
	if end {
		c.endRecv(&s.stream)
	}
	return nil
}

// response makes a response of the decoded head, in the words of HTTP/1.1.
func (h *head) response(resp *h1.Response, method string, end bool) *h1.Error {
	status, ok := parseDecimal([]byte(h.pseudo[pseudoStatus]))
	switch {
	case h.wrong != "":
		return malformed(h.wrong)
	case h.seen != 1<<pseudoStatus:
		return malformed("pseudo-fields of a response are missing")
	case !ok || len(h.pseudo[pseudoStatus]) != 3 || status < 100 || status == 101: // RFC 9113 section 8.6
		return malformed("invalid :status")
	case status < 200 && end:
		return malformed("a 1xx that ends the message")
	}
	*resp = h1.Response{Status: int(status), Minor: 1, HTTP2: true, KeepAlive: true, ContentLength: -1}
	resp.Header = h.header(h1.NameOther)
	length, ok := h.length(true)
	switch {
	case h1.Bodiless(resp.Status, method):
		resp.Framing, resp.ContentLength = h1.NoBody, length
	case !ok:
		return malformed("invalid content-length")
	case end && length > 0:
		return malformed("body shorter than its length")
	case end:
		resp.Framing, resp.ContentLength = h1.Length, 0
	case length >= 0:
		resp.Framing, resp.ContentLength = h1.Length, length
	default:
		resp.Framing = h1.Chunked
	}
	return nil
}

// Start begins a message, which a new stream has done already.
func (s *ClientStream) Start() {}

// Written returns how many bytes of the stream's frames were handed to the kernel,
// those of a write that is under way included: their fate is not known yet.
func (s *ClientStream) Written() int64 {
	s.c.mu.Lock()
	defer s.c.unlock()
	return s.handed + s.inBatch
}

// ReadResponse reads the head of the next response to a request with method: once
// for each 1xx, then for the final one. It may run while another goroutine still
// writes the request, and after a write failed.
//
// The error is an *h1.Error: NothingWritten, ResetBeforeHeader, Refused, Malformed,
// HeadTooLarge or Interrupted.
func (s *ClientStream) ReadResponse(method string) (*h1.Response, error) {
	s.c.mu.Lock()
	defer s.c.unlock()
	for {
		if resp, err := s.nextHead(); resp != nil || err != nil {
			return resp, err
		}
		s.reads.Wait()
	}
}

// nextHead returns the next head, or why there is none; neither where it is to be
// waited for.
func (s *ClientStream) nextHead() (*h1.Response, error) {
	if len(s.arrived) > 0 {
		s.resp = s.arrived[0]
		s.arrived = s.arrived[1:]
		if s.resp.Status >= 200 {
			s.trailerTo = &s.resp.Trailer
		}
		return s.resp, nil
	}
	if s.readErr != nil {
		return nil, s.readErr
	}
	if s.stopped&stoppedRead != 0 {
		return nil, interrupted()
	}
	return nil, nil
}

// FinishAndReadResponse is FinishWith and ReadResponse: it sends p as the last piece
// of the body and waits for the response, which may come first. Its errors are those
// of ReadResponse, and those of a body that does not fit its framing.
func (s *ClientStream) FinishAndReadResponse(p []byte, trailer h1.Header, method string) (*h1.Response, error) {
	s.c.mu.Lock()
	defer s.c.unlock()
	switch err := s.end(p, trailer); h1.KindOf(err) {
	case h1.Malformed, h1.Broken, h1.Interrupted:
		return nil, err
	}
	s.inWrite++
	defer func() { s.inWrite-- }()
	for {
		if s.stopped&stoppedWrite != 0 && !s.isFlushed() {
			s.broken(interrupted())
		}
		if resp, err := s.nextHead(); resp != nil || err != nil {
			s.adopt() // p is the caller's again
			return resp, err
		}
		if s.writeErr != nil && s.writeErr.Kind == h1.Interrupted {
			return nil, s.writeErr
		}
		s.reads.Wait()
	}
}
