package h1

import (
	"net/http"
	"strconv"
)

// RequestLine begins a request.
func (w *Writer) RequestLine(method string, target []byte) {
	w.begin()
	w.wait = append(append(w.wait, method...), ' ')
	w.wait = append(append(w.wait, target...), " HTTP/1.1\r\n"...)
}

// StatusLine begins a response. After a 1xx, ended with NoBody, the next head
// may begin at once, without Finish. A 101 ends HTTP on the connection.
func (w *Writer) StatusLine(minor, code int, reason []byte) {
	w.begin()
	w.interim = code < 200 && code != 101
	w.closing = w.closing || code == 101
	w.wait = append(w.wait, "HTTP/1."...)
	w.wait = append(w.wait, byte('0'+minor), ' ')
	w.wait = append(strconv.AppendInt(w.wait, int64(code), 10), ' ')
	w.wait = append(append(w.wait, reason...), '\r', '\n')
}

// RequestLineString is RequestLine with a string.
func (w *Writer) RequestLineString(method, target string) {
	w.begin()
	w.wait = append(append(w.wait, method...), ' ')
	w.wait = append(append(w.wait, target...), " HTTP/1.1\r\n"...)
}

// StatusLineText is StatusLine with the reason phrase that the code usually has.
func (w *Writer) StatusLineText(minor, code int) {
	w.StatusLine(minor, code, nil)
	w.wait = append(w.wait[:len(w.wait)-2], http.StatusText(code)...)
	w.wait = append(w.wait, "\r\n"...)
}

// Field writes a field as the parser made it: a value must not contain CR, LF
// or NUL.
func (w *Writer) Field(name, value []byte) {
	w.note(LookupName(name), value)
	w.wait = append(append(w.wait, name...), ": "...)
	w.wait = append(append(w.wait, value...), "\r\n"...)
}

// Forward is Field for a parsed field, whose name is known already.
func (w *Writer) Forward(f *Field) {
	w.note(f.Known(), f.Value)
	w.wait = append(append(w.wait, f.Name...), ": "...)
	w.wait = append(append(w.wait, f.Value...), "\r\n"...)
}

// FieldString writes a field from strings; CR, LF and NUL in the value become
// spaces.
func (w *Writer) FieldString(name, value string) {
	w.wait = append(append(w.wait, name...), ": "...)
	start := len(w.wait)
	w.wait = append(w.wait, value...)
	w.endField(name, start)
}

// FieldBytes is FieldString with bytes as value.
func (w *Writer) FieldBytes(name string, value []byte) {
	w.wait = append(append(w.wait, name...), ": "...)
	start := len(w.wait)
	w.wait = append(w.wait, value...)
	w.endField(name, start)
}

// FieldInt writes a field with a decimal number.
func (w *Writer) FieldInt(name string, n int64) {
	w.wait = append(append(w.wait, name...), ": "...)
	start := len(w.wait)
	w.wait = strconv.AppendInt(w.wait, n, 10)
	w.endField(name, start)
}

// endField ends the line whose value begins at start.
func (w *Writer) endField(name string, start int) {
	value := w.wait[start:]
	for i, c := range value {
		if c == '\r' || c == '\n' || c == 0 {
			value[i] = ' '
		}
	}
	for k := NameConnection; k <= NameTransferEncoding; k++ {
		if known := knownNames[k]; len(name) == len(known) && EqualName(w.wait[start-2-len(name):start-2], known) {
			w.note(k, value)
		}
	}
	w.wait = append(w.wait, "\r\n"...)
}

// note remembers what the fields say about framing.
func (w *Writer) note(k KnownName, value []byte) {
	switch k {
	case NameConnection:
		w.closing = w.closing || HasToken(value, "close")
	case NameContentLength:
		w.lengths++
		w.length = -1
		if n, ok := parseDecimal(value); ok {
			w.length = n
		}
	case NameTransferEncoding:
		w.codings++
		if !EqualName(value, "chunked") {
			w.codings++
		}
	}
}

// EndHead ends the head; length is that of a Length body. Fields that say how
// the body is framed may have been written; what is missing of them is added,
// and Connection: close for UntilClose. If they say something else, the message
// fails and none of it goes out. NoBody adds nothing and lets everything stand:
// the answer to a HEAD describes a body that it lacks. It is for those, for 1xx,
// 204 and 304; any other response without a body has a Length of 0.
func (w *Writer) EndHead(f Framing, length int64) {
	if !w.began || w.contradicts(f, length) {
		w.fail(malformed("head and framing disagree"))
		return
	}
	switch {
	case f == Length && w.lengths == 0:
		w.FieldInt("Content-Length", length)
	case f == Chunked && w.codings == 0:
		w.FieldString("Transfer-Encoding", "chunked")
	case f == UntilClose && !w.closing:
		w.FieldString("Connection", "close")
	}
	w.wait = append(w.wait, "\r\n"...)
	w.framing, w.remain, w.open, w.began = f, length, true, false
}

// contradicts reports whether the fields written frame the body otherwise.
func (w *Writer) contradicts(f Framing, length int64) bool {
	switch f {
	case Length:
		return length < 0 || w.codings > 0 || w.lengths > 1 || w.lengths == 1 && w.length != length
	case Chunked:
		return w.codings > 1 || w.lengths > 0
	case UntilClose: // RFC 9112 section 6.3: a request cannot end with its connection
		return w.codings > 0 || w.lengths > 0 || w.side == ResetBeforeHeader
	}
	return false
}
