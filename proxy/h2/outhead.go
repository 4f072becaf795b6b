package h2

import "sync"

// outHead is a head, or a trailer section, that waits to be encoded: only the
// writer may do that, since HPACK depends on the order on the wire. Its bytes are
// its own.
type outHead struct {
	text   []byte
	fields []outField
	pseudo [numPseudo]outField // those with an empty name span and no value are not sent
	set    uint8               // which of them are, as bits
	end    bool                // END_STREAM
}

// outField is a field's name and value, as places in the head's text.
type outField struct {
	name, nameEnd, value, valueEnd int32
	secret                         bool // never to be put into a table (RFC 7541 section 7.1.3)
}

// The pseudo-fields, in the order in which they are sent.
const (
	pseudoStatus = iota
	pseudoMethod
	pseudoScheme
	pseudoAuthority
	pseudoPath
	numPseudo
)

var pseudoNames = [numPseudo]string{":status", ":method", ":scheme", ":authority", ":path"}

// Heads with more than that are not kept for the next ones.
const (
	pooledText   = 16 << 10
	pooledFields = 256
)

var outHeads = sync.Pool{New: func() any {
	return &outHead{text: make([]byte, 0, 1<<10), fields: make([]outField, 0, 32)}
}}

func getHead() *outHead { return outHeads.Get().(*outHead) }

// putHead takes a head back; nil is fine.
func putHead(h *outHead) {
	if h == nil || cap(h.text) > pooledText || cap(h.fields) > pooledFields {
		return
	}
	h.text, h.fields, h.set, h.end = h.text[:0], h.fields[:0], 0, false
	outHeads.Put(h)
}

// append puts bytes into the text and returns their place.
func (h *outHead) put(b []byte) (from, to int32) {
	h.text = append(h.text, b...)
	return int32(len(h.text) - len(b)), int32(len(h.text))
}

func (h *outHead) putString(s string) (from, to int32) {
	h.text = append(h.text, s...)
	return int32(len(h.text) - len(s)), int32(len(h.text))
}

func (h *outHead) setPseudo(which int, value []byte) {
	from, to := h.put(value)
	h.pseudo[which] = outField{value: from, valueEnd: to}
	h.set |= 1 << which
}

func (h *outHead) setPseudoString(which int, value string) {
	from, to := h.putString(value)
	h.pseudo[which] = outField{value: from, valueEnd: to}
	h.set |= 1 << which
}

// clean makes spaces of what may not be in a value, from a place on.
func (h *outHead) clean(from int32) {
	for i, c := range h.text[from:] {
		if c == '\r' || c == '\n' || c == 0 {
			h.text[int(from)+i] = ' '
		}
	}
}
