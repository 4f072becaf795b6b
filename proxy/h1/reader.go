package h1

import "io"

// reader is the input of a connection: bytes, the head that is sliced out of
// them, and the body behind it.
type reader struct {
	c         *conn
	lenient   bool // responses
	maxHead   int  // bytes of a head, and of a trailer section
	maxFields int

	in   *buffer // nil: nothing is buffered
	r, w int     // unread bytes are in.b[r:w]
	keep int     // in.b[:keep] belongs to the current head and is not touched
	head *buffer // has the current head; often the same as in
	late error   // of a read that was made already; for the next fill

	body body
}

func (r *reader) buffered() []byte {
	if r.in == nil {
		return nil
	}
	return r.in.b[r.r:r.w]
}

// fill waits for more bytes, with space for at least room of them.
func (r *reader) fill(room int) error {
	if err := r.late; err != nil {
		r.late = nil
		return err
	}
	if r.c.io.ok() && r.r == r.w && r.in != r.head {
		putBuffer(r.in) // a stream that pauses holds no more than its head
		r.in = nil
	}
	if r.in == nil {
		buf, n, err := r.c.readLazily(room)
		if err != nil {
			return err
		}
		r.in, r.r, r.w, r.keep = buf, 0, n, 0
		return nil
	}
	r.makeRoom(room)
	n, err := r.c.read(r.in.b[r.w:])
	r.w += n
	return err
}

// makeRoom makes space for room more bytes: by moving the unread bytes down to
// what must be kept, else with a larger buffer.
func (r *reader) makeRoom(room int) {
	if r.r == r.w {
		r.r, r.w = r.keep, r.keep
	}
	if len(r.in.b)-r.w >= room {
		return
	}
	unread := r.in.b[r.r:r.w]
	if len(r.in.b)-r.keep-len(unread) >= room {
		r.r, r.w = r.keep, r.keep+copy(r.in.b[r.keep:], unread)
		return
	}
	larger := getBuffer(len(unread) + room)
	n := copy(larger.b, unread)
	if r.in != r.head {
		putBuffer(r.in)
	}
	r.in, r.r, r.w, r.keep = larger, 0, n, 0
}

// forget ends a message: its head may be overwritten, and buffers with nothing
// unread are given back.
func (r *reader) forget() {
	if r.head != r.in {
		putBuffer(r.head)
	}
	r.head, r.keep = nil, 0
	if r.r == r.w {
		putBuffer(r.in)
		r.in, r.r, r.w = nil, 0, 0
	}
	r.body.forget()
}

// room is the space that the rest of a head wants: some, and as much again once
// the head proves to be long.
func (r *reader) room() int {
	if n := r.w - r.r; r.in != nil && n+leastRoom > len(r.in.b) {
		return max(n, leastRoom)
	}
	return leastRoom
}

// beginning is how many bytes tell a head from something else.
const beginning = len("HTTP/1.")

// findHead reads until a whole head is buffered and returns its bytes, which it
// consumes. The error of a read comes as it is; the scanner tells whether any
// byte of the head had come. check looks at a head that is not whole yet, so
// that what can never become one is not waited for.
func (r *reader) findHead(s *scanner, check func(partial []byte) error) ([]byte, error) {
	for checked := false; ; {
		unread := r.buffered()
		if len(unread) > s.pos {
			n, err := s.scan(unread)
			if err != nil {
				return nil, err
			}
			if n > r.maxHead || n == 0 && len(unread) > r.maxHead {
				return nil, &Error{Kind: HeadTooLarge, Status: 431, Reason: "head over the limit"}
			}
			if n > 0 {
				return r.takeHead(s.start, n), nil
			}
			begun := unread[s.start:]
			if len(begun) > 1 || len(begun) == 1 && begun[0] != '\r' {
				r.c.enter(ReadingHead) // an empty line behind the last message begins none
			}
			if !checked {
				if checked = s.line > s.start; !checked { // the first line is not whole: it is not read over and over
					begun = begun[:min(len(begun), beginning)]
				}
				if err := check(begun); err != nil {
					return nil, err
				}
			}
		}
		if err := r.fill(r.room()); err != nil {
			return nil, err
		}
	}
}

// takeHead makes the first n unread bytes the current head, but for the empty
// lines before start.
func (r *reader) takeHead(start, n int) []byte {
	head := r.in.b[r.r+start : r.r+n : r.r+n]
	r.r += n
	r.head, r.keep = r.in, r.r
	return head
}

// Peek waits until n bytes are buffered and returns all that are, without
// consuming them. With an error there are fewer.
func (r *reader) Peek(n int) ([]byte, error) {
	for len(r.buffered()) < n {
		if err := r.fill(n - len(r.buffered())); err != nil {
			return r.buffered(), streamError(err)
		}
	}
	return r.buffered(), nil
}

// Buffered returns the bytes that were read from the network and belong to no
// message: after a CONNECT or an upgrade the first ones of the new protocol.
// Discard consumes them.
func (r *reader) Buffered() []byte { return r.buffered() }

// Discard consumes n buffered bytes.
func (r *reader) Discard(n int) { r.r += n }

// Read reads the stream below HTTP: what is buffered, then the network. It
// makes a connection an io.Reader after a CONNECT or an upgrade.
func (r *reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if b := r.buffered(); len(b) > 0 {
		n := copy(p, b)
		r.r += n
		return n, nil
	}
	n, err := r.c.read(p)
	return n, streamError(err)
}

// streamError gives an error its kind where nothing is known but the stream;
// io.EOF is its clean end.
func streamError(err error) error {
	if err == nil || err == io.EOF || KindOf(err) != 0 {
		return err
	}
	return &Error{Kind: Broken, Err: err}
}

// ended turns the end of the network in the middle of something into Broken.
func ended(err error, reason string) error {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if KindOf(err) != 0 {
		return err
	}
	return &Error{Kind: Broken, Status: 400, Reason: reason, Err: err}
}
