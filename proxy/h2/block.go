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
	_, err := c.dec.Write(b)
	if err == nil {
		err = c.dec.Close()
	}
	if err != nil {
		return &connError{http2.ErrCodeCompression, "a header block that cannot be decoded"}
	}
	return c.headers(c.block.id, c.block.end)
}
