package h1

import "bytes"

// framing gathers what the fields of a head say about the length of its body.
type framing struct {
	length     []byte // of the first Content-Length
	lengths    int    // how many
	size       int64
	encodings  int   // Transfer-Encoding lines
	chunked    int   // how often chunked was named
	last       bool  // chunked was named last
	odd, other bool  // an element that is no coding; a coding other than chunked
	bad        error // of a response's lengths: what is wrong with them
}

// addLength adds a Content-Length line. Repeats must be the same, byte for byte
// (RFC 9110 section 8.6 permits to collapse those).
func (f *framing) addLength(value []byte) error {
	n, ok := parseDecimal(value)
	if !ok {
		return malformed("invalid Content-Length")
	}
	if f.lengths > 0 && !bytes.Equal(f.length, value) {
		return malformed("differing Content-Length")
	}
	f.length, f.size = value, n
	f.lengths++
	return nil
}

// addLengths adds a Content-Length line that may be a list of the same length,
// as gateways make it that joined two lines.
func (f *framing) addLengths(value []byte) error {
	for {
		comma := bytes.IndexByte(value, ',')
		if comma < 0 {
			return f.addLength(value)
		}
		if err := f.addLength(trimSpace(value[:comma])); err != nil {
			return err
		}
		value = trimSpace(value[comma+1:])
	}
}

// addEncoding adds a Transfer-Encoding line.
func (f *framing) addEncoding(value []byte) {
	f.encodings++
	for {
		element, rest := nextElement(value)
		f.last = EqualName(element, "chunked")
		switch {
		case f.last:
			f.chunked++
		case len(element) == 0 || !isAll(element, isToken):
			f.odd = true
		default:
			f.other = true
		}
		if len(rest) == 0 {
			// A trailing comma is an empty element that nextElement does not show.
			f.odd = f.odd || len(value) > 0 && value[len(value)-1] == ','
			return
		}
		value = rest
	}
}

// frame decides how a request's body is framed (RFC 9112 sections 6.1 to 6.3).
// What two readers could frame differently is refused.
func (req *Request) frame(f *framing) error {
	switch {
	case f.encodings > 0 && f.lengths > 0:
		return malformed("both Transfer-Encoding and Content-Length")
	case f.encodings > 0 && req.Minor == 0:
		return malformed("Transfer-Encoding in HTTP/1.0")
	case f.encodings > 0 && (f.odd || !f.last || f.chunked != 1):
		return malformed("Transfer-Encoding does not end in one chunked")
	case f.encodings > 0 && f.other:
		return &Error{Kind: Malformed, Status: 501, Reason: "transfer coding not supported"}
	case f.encodings > 0:
		req.Framing, req.ContentLength = Chunked, -1
	case f.lengths > 0:
		req.Framing, req.ContentLength = Length, f.size
	}
	return nil
}

// frame decides how the body of a response to method is framed.
func (resp *Response) frame(f *framing, method string) error {
	if Bodiless(resp.Status, method) {
		resp.frameNothing(f)
		return nil
	}
	switch {
	case f.bad != nil:
		return f.bad
	case f.encodings > 0 && f.lengths > 0:
		return malformed("both Transfer-Encoding and Content-Length")
	case f.encodings > 0 && resp.Minor == 0:
		return malformed("Transfer-Encoding in HTTP/1.0")
	case f.encodings > 0 && (f.odd || f.other || f.chunked != 1):
		return malformed("transfer coding not supported")
	}
	resp.ContentLength = -1
	if f.lengths > 0 {
		resp.ContentLength = f.size
	}
	switch {
	case f.encodings > 0:
		resp.Framing = Chunked
	case f.lengths > 0:
		resp.Framing = Length
	default:
		resp.Framing = UntilClose
	}
	return nil
}

// frameNothing frames a response that ends with its head whatever its fields say:
// they may tell what another answer would have. Where they make no sense, nothing
// of them is told on, and the connection is not trusted with another request.
func (resp *Response) frameNothing(f *framing) {
	resp.Framing, resp.ContentLength = NoBody, -1
	switch {
	case f.bad != nil || f.encodings > 0 && (f.lengths > 0 || f.odd || f.other || f.chunked != 1 || resp.Minor == 0):
		resp.unsure = true
	case f.lengths > 0:
		resp.ContentLength = f.size
	}
}

// Bodiless reports whether a response never has a body (RFC 9112 section 6.3,
// the first two rules).
func Bodiless(status int, method string) bool {
	return status < 200 || status == 204 || status == 304 ||
		method == "HEAD" || method == "CONNECT" && status < 300
}
