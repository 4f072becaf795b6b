package h2

import (
	"golang.org/x/net/http2/hpack"

	"mulligan/proxy/h1"
)

// head is a header block as it was decoded, until its message is made of it. There
// is one for each connection.
type head struct {
	limit  int // of size
	size   int // as RFC 9113 section 6.5.2 counts
	text   []byte
	fields []span
	seen   uint8             // pseudo-fields, as bits
	pseudo [numPseudo]string // their values
	wrong  string            // what makes the message malformed; fixed words
}

// span is a field's place in the text.
type span struct {
	name, value, end int32
	known            h1.KnownName
}

func (h *head) reset() {
	if cap(h.text) > pooledText {
		h.text = nil
	}
	if cap(h.fields) > pooledFields {
		h.fields = nil
	}
	h.text, h.fields = h.text[:0], h.fields[:0]
	h.size, h.seen, h.wrong = 0, 0, ""
	h.pseudo = [numPseudo]string{}
}

// tooLarge reports whether the list is over the limit; then what is beyond it was
// not kept.
func (h *head) tooLarge() bool { return h.size > h.limit }

// add takes a decoded field.
func (h *head) add(f hpack.HeaderField) {
	h.size += int(f.Size())
	if h.tooLarge() || h.wrong != "" {
		return
	}
	if f.IsPseudo() {
		h.addPseudo(f)
		return
	}
	if !validName(f.Name) {
		h.wrong = "invalid field name"
		return
	}
	from := len(h.text)
	h.text = append(h.text, f.Name...)
	middle := len(h.text)
	h.text = append(h.text, trim(f.Value)...)
	s := span{name: int32(from), value: int32(middle), end: int32(len(h.text)), known: h1.LookupName(h.text[from:middle])}
	h.fields = append(h.fields, s)
	h.check(s)
}

// addPseudo takes a pseudo-field: each once, and all before the others (RFC 9113
// section 8.3).
func (h *head) addPseudo(f hpack.HeaderField) {
	for i, name := range pseudoNames {
		if f.Name != name {
			continue
		}
		switch {
		case h.seen&(1<<i) != 0:
			h.wrong = "a pseudo-field twice"
		case len(h.fields) > 0:
			h.wrong = "a pseudo-field behind a field"
		}
		h.seen |= 1 << i
		h.pseudo[i] = f.Value
		return
	}
	h.wrong = "unknown pseudo-field"
}

// check refuses fields that no message may have: RFC 9113 sections 8.2.1 and 8.2.2.
func (h *head) check(s span) {
	value := h.text[s.value:s.end]
	switch s.known {
	case h1.NameConnection, h1.NameKeepAlive, h1.NameProxyConnection, h1.NameTransferEncoding, h1.NameUpgrade:
		h.wrong = "a field that belongs to a connection"
	case h1.NameTE:
		if !h1.EqualName(value, "trailers") {
			h.wrong = "TE other than trailers"
		}
	}
	for _, c := range value {
		if c == 0 || c == '\r' || c == '\n' {
			h.wrong = "CR, LF or NUL in a field"
		}
	}
}

// strict refuses what the readers of requests on HTTP/1.1 do.
func (h *head) strict() {
	for i := range h.fields {
		for _, c := range h.text[h.fields[i].value:h.fields[i].end] {
			if c < ' ' && c != '\t' || c == 0x7f {
				h.wrong = "control character in a field"
			}
		}
	}
}

// header makes the fields of a message, which owns them. Those with the name skip
// are left out; room is how many more there will be.
func (h *head) header(skip h1.KnownName, first ...h1.Field) h1.Header {
	fields := make(h1.Header, 0, len(first)+len(h.fields))
	fields = append(fields, first...)
	text := append(make([]byte, 0, len(h.text)), h.text...)
	for _, s := range h.fields {
		if s.known == skip && skip != h1.NameOther {
			continue
		}
		fields = append(fields, h1.NewField(text[s.name:s.value:s.value], text[s.value:s.end:s.end]))
	}
	return fields
}

// trailers makes a trailer section: a server's, or a client's.
func (h *head) trailers(server bool) (h1.Header, *h1.Error) {
	if server {
		h.strict()
	}
	switch {
	case h.tooLarge():
		return nil, headTooLarge("trailers")
	case h.wrong != "":
		return nil, malformed(h.wrong)
	case h.seen != 0:
		return nil, malformed("a pseudo-field in trailers")
	case len(h.fields) == 0:
		return nil, nil
	}
	return h.header(h1.NameOther), nil
}

// length reads what the fields say about the body's length: -1 for nothing. Equal
// repeats are one (RFC 9110 section 8.6); lists of them are taken from servers
// only.
func (h *head) length(lists bool) (int64, bool) {
	length, ok := int64(-1), true
	for _, s := range h.fields {
		if s.known != h1.NameContentLength {
			continue
		}
		n, good := parseLength(h.text[s.value:s.end], lists)
		ok = ok && good && (length < 0 || n == length)
		length = n
	}
	if !ok {
		length = -1
	}
	return length, ok
}
