package h2

import (
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Strings that the encoder keeps in its table must not change: they are made once
// and found again, up to so many, and up to so many bytes each.
const (
	internMost = 256
	internSize = 128
)

// encoder makes header blocks. It belongs to the writer, under the lock.
type encoder struct {
	hpack   *hpack.Encoder
	block   blockBuffer
	strings map[string]string
}

// blockBuffer is a header block that is being made.
type blockBuffer []byte

func (b *blockBuffer) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	return len(p), nil
}

func (e *encoder) init() {
	e.hpack = hpack.NewEncoder(&e.block)
	e.strings = map[string]string{}
}

// intern returns b as a string that lasts.
func (e *encoder) intern(b []byte) string {
	if s, ok := e.strings[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(s) > internSize {
		return s
	}
	if len(e.strings) >= internMost {
		clear(e.strings)
	}
	e.strings[s] = s
	return s
}

// encode appends a head as HEADERS and CONTINUATION frames.
func (e *encoder) encode(dst []byte, id uint32, h *outHead, end bool) []byte {
	e.block = e.block[:0]
	for i := range h.pseudo {
		if h.set&(1<<i) != 0 {
			f := &h.pseudo[i]
			e.field(hpack.HeaderField{Name: pseudoNames[i], Value: e.intern(h.text[f.value:f.valueEnd])})
		}
	}
	for i := range h.fields {
		f := &h.fields[i]
		value := h.text[f.value:f.valueEnd]
		if f.secret {
			e.field(hpack.HeaderField{Name: e.intern(h.text[f.name:f.nameEnd]), Value: string(value), Sensitive: true})
			continue
		}
		e.field(hpack.HeaderField{Name: e.intern(h.text[f.name:f.nameEnd]), Value: e.intern(value)})
	}
	return e.frames(dst, id, end)
}

// field encodes one field; the buffer takes everything.
func (e *encoder) field(f hpack.HeaderField) { e.hpack.WriteField(f) }

// frames cuts the block into frames.
func (e *encoder) frames(dst []byte, id uint32, end bool) []byte {
	block := []byte(e.block)
	kind, flags := http2.FrameHeaders, http2.Flags(0)
	if end {
		flags = http2.FlagHeadersEndStream
	}
	for {
		n := min(len(block), frameSize)
		if n == len(block) {
			flags |= http2.FlagHeadersEndHeaders
		}
		dst = append(appendFrameHeader(dst, n, kind, flags, id), block[:n]...)
		if block = block[n:]; len(block) == 0 {
			break
		}
		kind, flags = http2.FrameContinuation, 0
	}
	if cap(e.block) > pooledText {
		e.block = nil
	}
	return dst
}

// appendFrameHeader appends the nine bytes before a payload (RFC 9113 section 4.1).
func appendFrameHeader(dst []byte, n int, kind http2.FrameType, flags http2.Flags, id uint32) []byte {
	return append(dst, byte(n>>16), byte(n>>8), byte(n), byte(kind), byte(flags),
		byte(id>>24), byte(id>>16), byte(id>>8), byte(id))
}
