package h2

import "golang.org/x/net/http2"

// block is a header block that comes in several frames. It is decoded when it is
// whole: what is cut into crumbs costs no more than what is not.
type block struct {
	open   bool // more frames of it are to come
	id     uint32
	end    bool // END_STREAM
	itself bool // the stream depends on itself
	b      []byte
	frames int
	limit  int
}

// begin takes a HEADERS frame and returns the whole block, if it is.
func (b *block) begin(f *http2.HeadersFrame) []byte {
	b.id, b.end = f.StreamID, f.StreamEnded()
	b.itself = f.HasPriority() && f.Priority.StreamDep == f.StreamID
	if f.HeadersEnded() {
		return f.HeaderBlockFragment()
	}
	b.open, b.frames = true, 0
	b.b = append(b.b[:0], f.HeaderBlockFragment()...)
	return nil
}

// add takes a CONTINUATION frame.
func (b *block) add(f *http2.ContinuationFrame) ([]byte, error) {
	b.b = append(b.b, f.HeaderBlockFragment()...)
	b.frames++
	if len(b.b) > b.limit || b.frames > continuations+len(b.b)>>10 {
		return nil, tooMuch("a header block without an end")
	}
	if !f.HeadersEnded() {
		return nil, nil
	}
	b.open = false
	whole := b.b
	if cap(b.b) > pooledText {
		b.b = nil
	}
	return whole, nil
}

func (c *conn) headersFrame(f *http2.HeadersFrame) error {
	whole := c.block.begin(f)
	if c.block.open {
		return nil
	}
	return c.headerBlock(whole)
}

func (c *conn) continuation(f *http2.ContinuationFrame) error {
	whole, err := c.block.add(f)
	if err != nil || c.block.open {
		return err
	}
	return c.headerBlock(whole)
}

// headerBlock decodes a whole block, whatever becomes of it: the HPACK table is
// shared by all.
func (c *conn) headerBlock(b []byte) error {
	c.head.reset()
	n := sizeUpdate(b)
	err := c.decode(b[:n])
	if err == nil && n < len(b) {
		err = c.decode(b[n:])
	}
	if err != nil {
		return &connError{http2.ErrCodeCompression, "a header block that cannot be decoded"}
	}
	return c.headers(c.block.id, c.block.end)
}

// decode decodes a header block.
func (c *conn) decode(b []byte) error {
	if _, err := c.dec.Write(b); err != nil {
		return err
	}
	return c.dec.Close()
}

// sizeUpdate is the length of the first of two changes of the table's size that a
// block begins with: the smallest and the last one of several (RFC 7541 section
// 4.2). The decoder refuses a second, but at the beginning of a block.
func sizeUpdate(b []byte) int {
	isUpdate := func(b []byte) bool { return len(b) > 0 && b[0]&0xe0 == 0x20 }
	if !isUpdate(b) {
		return 0
	}
	n := 1
	if b[0]&0x1f == 0x1f { // section 5.1: the last byte of a long number has no top bit
		for n < len(b) && b[n]&0x80 != 0 {
			n++
		}
		n++
	}
	if n >= len(b) || !isUpdate(b[n:]) {
		return 0
	}
	return n
}
