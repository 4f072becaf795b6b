package proxy

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"

	"mulligan/proxy/h1"
)

// coding is the content coding of a response (RFC 9110 8.4), as far as it can be
// undone to look into the body. What the client gets is never touched.
type coding uint8

const (
	codingNone coding = iota
	codingGzip
	codingDeflate
	codingUnknown // or several
)

// coding returns the coding of the response in hand.
func (x *exchange) coding() coding {
	const name = "Content-Encoding"
	h := x.resp.Header
	switch h.Count(name) {
	case 0:
		return codingNone
	case 1:
		return codingOf(h.Get(name))
	}
	return codingUnknown
}

func codingOf(value []byte) coding {
	switch value = bytes.Trim(value, " \t"); {
	case h1.EqualName(value, ""), h1.EqualName(value, "identity"):
		return codingNone
	case h1.EqualName(value, "gzip"), h1.EqualName(value, "x-gzip"): // RFC 9110 8.4.1.3
		return codingGzip
	case h1.EqualName(value, "deflate"):
		return codingDeflate
	}
	return codingUnknown
}

// decode undoes the coding of a whole body. It is nil for what is not so coded,
// and for what would be longer than most bytes: however small it was packed, no
// more than that is unpacked.
func decode(body []byte, c coding, most int64) []byte {
	switch c {
	case codingNone:
		return body
	case codingGzip:
		r, err := gzip.NewReader(bytes.NewReader(body))
		return unpack(r, err, most)
	case codingDeflate:
		// It is zlib's format (RFC 9110 8.4.1.2), but some send what is inside of that.
		r, err := zlib.NewReader(bytes.NewReader(body))
		if p := unpack(r, err, most); p != nil {
			return p
		}
		return unpack(flate.NewReader(bytes.NewReader(body)), nil, most)
	}
	return nil
}

// unpack reads all that a decoder gives, whose making returned err; nil where that
// is more than most bytes, or ends early.
func unpack(r io.Reader, err error, most int64) []byte {
	if err != nil {
		return nil
	}
	p, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil || int64(len(p)) > most {
		return nil
	}
	return p
}
