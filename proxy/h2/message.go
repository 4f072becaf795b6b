package h2

import (
	"strconv"

	"mulligan/proxy/h1"
)

// message composes what one side of a stream says. It belongs to the writing
// goroutine; whole heads and the body go to the stream.
type message struct {
	client   bool
	building *outHead   // nil: no head was begun
	interim  bool       // that is a 1xx: another head follows
	open     bool       // a head was ended, the message is not finished
	frames   h1.Framing // how the body is framed
	remain   int64      // of the length
	lengths  int        // content-length fields written
	length   int64      // what the last of them said; -1: nothing that is a number
}

// StatusLine begins a response; minor and reason have no place in HTTP/2. After a
// 1xx, ended with NoBody, the next head may begin at once, without Finish.
func (s *ServerStream) StatusLine(minor, code int, reason []byte) {
	h := s.begin()
	var digits [4]byte
	h.setPseudo(pseudoStatus, strconv.AppendInt(digits[:0], int64(code), 10))
	s.interim = code < 200
}

// RequestLine begins a request: its method and its :path. The scheme is https.
func (s *ClientStream) RequestLine(method string, target []byte) {
	h := s.begin()
	h.setPseudoString(pseudoMethod, method)
	h.setPseudoString(pseudoScheme, "https")
	h.setPseudo(pseudoPath, target)
	s.method, s.interim = method, false
}

func (m *message) begin() *outHead {
	putHead(m.building)
	m.building = getHead()
	m.open, m.lengths = false, 0
	return m.building
}

// Field writes a field as a parser made it. Its name goes out in lower case.
// Fields that belong to a connection are dropped (RFC 9113 section 8.2.2), and so
// is TE, but for "trailers"; a request's Host becomes its :authority.
func (m *message) Field(name, value []byte) { m.field(h1.LookupName(name), name, value) }

// Forward is Field for a parsed field, whose name is known already.
func (m *message) Forward(f *h1.Field) { m.field(f.Known(), f.Name, f.Value) }

// FieldString writes a field from strings; CR, LF and NUL in the value become
// spaces.
func (m *message) FieldString(name, value string) {
	h := m.building
	if h == nil {
		return
	}
	var f outField
	f.name, f.nameEnd = h.putString(name)
	f.value, f.valueEnd = h.putString(value)
	m.note(f)
}

// FieldBytes is FieldString with bytes as value.
func (m *message) FieldBytes(name string, value []byte) {
	h := m.building
	if h == nil {
		return
	}
	var f outField
	f.name, f.nameEnd = h.putString(name)
	f.value, f.valueEnd = h.put(value)
	m.note(f)
}

// FieldInt writes a field with a decimal number.
func (m *message) FieldInt(name string, n int64) {
	var digits [20]byte
	m.FieldBytes(name, strconv.AppendInt(digits[:0], n, 10))
}

func (m *message) field(k h1.KnownName, name, value []byte) {
	h := m.building
	if h == nil {
		return
	}
	var f outField
	f.name, f.nameEnd = h.put(name)
	f.value, f.valueEnd = h.put(value)
	m.noteKnown(k, f)
}

func (m *message) note(f outField) {
	m.noteKnown(h1.LookupName(m.building.text[f.name:f.nameEnd]), f)
}

// noteKnown adds a field whose bytes are in the head's text already, or leaves it
// out.
func (m *message) noteKnown(k h1.KnownName, f outField) {
	h := m.building
	h.clean(f.value)
	value := h.text[f.value:f.valueEnd]
	switch k {
	case h1.NameConnection, h1.NameKeepAlive, h1.NameProxyConnection, h1.NameTransferEncoding, h1.NameUpgrade, h1.NameHTTP2Settings:
		return
	case h1.NameTE:
		if !h1.EqualName(value, "trailers") {
			return
		}
	case h1.NameHost:
		if m.client {
			h.pseudo[pseudoAuthority] = f
			h.set |= 1 << pseudoAuthority
			return
		}
	case h1.NameContentLength:
		m.lengths++
		m.length = -1
		if n, ok := parseDecimal(value); ok {
			m.length = n
		}
	}
	lowerCase(h.text[f.name:f.nameEnd])
	f.secret = secret(k, h.text[f.name:f.nameEnd])
	h.fields = append(h.fields, f)
}

// secret reports whether a field's value is better kept out of the tables that
// all streams of a connection share (RFC 7541 section 7.1).
func secret(k h1.KnownName, name []byte) bool {
	switch k {
	case h1.NameAuthorization, h1.NameProxyAuthorization, h1.NameSetCookie:
		return true
	case h1.NameOther:
		return string(name) == "cookie" || string(name) == "x-api-key"
	}
	return false
}

// EndHead ends the head; length is that of a Length body. A content-length may
// have been written, and is added to a Length body without one; but for a response
// of 0 bytes, whose END_STREAM says it, so that one that did not say it (gRPC's
// "trailers only") goes on as it came. If it says something else than the framing, the message fails as malformed and nothing of
// it goes out. NoBody adds nothing and lets every field stand; it ends the
// message, but for a 1xx. UntilClose is Chunked here: a length is not known.
func (s *stream) EndHead(f h1.Framing, length int64) {
	if s.building == nil || s.contradicts(f, length) {
		s.refuse(malformed("head and framing disagree"))
		return
	}
	if f == h1.Length && s.lengths == 0 && (length > 0 || s.client) {
		s.FieldInt("content-length", length)
	}
	h := s.building
	s.building = nil
	h.end = f == h1.NoBody && !s.interim
	s.frames, s.remain, s.open = f, length, !s.interim
	s.queueHead(h)
}

// contradicts reports whether the fields written frame the body otherwise.
func (m *message) contradicts(f h1.Framing, length int64) bool {
	switch f {
	case h1.Length:
		return length < 0 || m.lengths > 1 || m.lengths == 1 && m.length != length
	case h1.Chunked, h1.UntilClose:
		return m.lengths > 0
	}
	return false
}

// account checks n more bytes against the framing and counts them.
func (m *message) account(n int, last bool) *h1.Error {
	switch {
	case !m.open:
		return malformed("no message is open for a body")
	case m.frames == h1.NoBody && n > 0:
		return malformed("body where there is none")
	case m.frames != h1.Length:
		return nil
	case int64(n) > m.remain:
		return malformed("body longer than its length")
	}
	m.remain -= int64(n)
	if last && m.remain > 0 {
		return &h1.Error{Kind: h1.Broken, Reason: "body shorter than its length"}
	}
	return nil
}
