package h1

import "sync"

// Sizes of pooled buffers, in bytes. The small one holds nearly every head with
// a small body; the large one is for bodies that keep coming.
const (
	smallBuffer = 16 << 10
	largeBuffer = 64 << 10
)

// maxPooledFields is the longest []Field that a pooled buffer keeps.
const maxPooledFields = 256

// buffer is bytes and the fields that point into them; both are pooled together
// so that an idle connection holds neither.
type buffer struct {
	b      []byte
	fields []Field
}

var (
	smallBuffers = sync.Pool{New: func() any { return &buffer{b: make([]byte, smallBuffer)} }}
	largeBuffers = sync.Pool{New: func() any { return &buffer{b: make([]byte, largeBuffer)} }}
)

// getBuffer returns a buffer of at least size bytes, with len(b) == cap(b).
func getBuffer(size int) *buffer {
	switch {
	case size <= smallBuffer:
		return smallBuffers.Get().(*buffer)
	case size <= largeBuffer:
		return largeBuffers.Get().(*buffer)
	}
	return &buffer{b: make([]byte, size)}
}

// putBuffer takes a buffer back; nil is fine.
func putBuffer(buf *buffer) {
	if buf == nil {
		return
	}
	if cap(buf.fields) > maxPooledFields {
		buf.fields = nil
	}
	buf.b = buf.b[:cap(buf.b)]
	switch len(buf.b) {
	case smallBuffer:
		smallBuffers.Put(buf)
	case largeBuffer:
		largeBuffers.Put(buf)
	}
}
