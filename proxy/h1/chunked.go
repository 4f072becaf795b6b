package h1

import "bytes"

// Limits of chunk extensions, which are dropped (RFC 9112 section 7.1.1 asks
// for a limit): bytes of one size line, and by how much all framing of a message
// may outweigh its data. A stream of small chunks with a short extension each
// may go on for ever.
const (
	maxSizeLine = 4 << 10
	maxExcess   = 64 << 10
	fairLine    = 16 // bytes of a size line that are nothing odd
)

// settle deals with the framing that is buffered until there is data, the end,
// or too little to go on.
func (r *reader) settle() error {
	b := &r.body
	for b.err == nil {
		var progress bool
		switch b.state {
		case sizeLine:
			progress, b.err = r.sizeLine()
		case dataEnd:
			progress, b.err = r.dataEnd()
		case trailers:
			progress, b.err = r.trailers()
		}
		b.err = r.forSide(b.err)
		if !progress {
			break
		}
	}
	return b.err
}

// cutLine consumes a line and returns it without its end, which is CRLF from
// servers too: readers differ about a bare LF here, and then about the body.
func (r *reader) cutLine() (line []byte, whole bool, err error) {
	unread := r.buffered()
	end := bytes.IndexByte(unread, '\n')
	if end > maxSizeLine || end < 0 && len(unread) > maxSizeLine {
		return nil, false, malformed("chunk line over the limit")
	}
	if end < 0 {
		return nil, false, nil
	}
	r.r += end + 1
	if end == 0 || unread[end-1] != '\r' {
		return nil, false, malformed("bare LF in chunked framing")
	}
	return unread[:end-1], true, nil
}

// sizeLine reads chunk-size [ chunk-ext ] CRLF.
func (r *reader) sizeLine() (bool, error) {
	line, whole, err := r.cutLine()
	if !whole {
		return false, err
	}
	size, rest, ok := parseHex(line)
	if !ok {
		return false, malformed("invalid chunk size")
	}
	if err := r.extension(rest); err != nil {
		return false, err
	}
	if r.body.excess = max(0, r.body.excess+int64(len(line))-fairLine-min(size, maxExcess)); r.body.excess > maxExcess {
		return false, malformed("chunk extensions over the limit")
	}
	r.body.remain, r.body.state = size, bodyData
	if size == 0 {
		r.body.state = trailers
		r.body.scan = scanner{trailer: true} // chunked lines end in CRLF, these too
	}
	return true, nil
}

// parseHex reads 1*16HEXDIG that fits an int64 and returns what follows.
func parseHex(b []byte) (n int64, rest []byte, ok bool) {
	i := 0
	for ; i < len(b) && charClass[b[i]]&isHex != 0; i++ {
		if i == 16 || n >= 1<<59 {
			return 0, nil, false
		}
		digit := int64(lower(b[i]))
		if digit >= 'a' {
			digit -= 'a' - 10
		} else {
			digit -= '0'
		}
		n = n<<4 | digit
	}
	return n, b[i:], i > 0
}

// extension looks at what follows a chunk's size: nothing, or extensions. From
// servers any text will do behind the ";", and white space alone, which old ones
// pad their sizes with.
func (r *reader) extension(b []byte) error {
	switch {
	case len(b) == 0:
		return nil
	case !r.lenient:
		if !isExtensions(b) {
			return malformed("invalid chunk extension")
		}
		return nil
	}
	text := trimSpace(b)
	if len(text) > 0 && text[0] != ';' || skipText(text, 0) < len(text) {
		return malformed("invalid chunk extension")
	}
	return nil
}

// isExtensions reports whether b is chunk-ext: *( BWS ";" BWS name [ BWS "=" BWS
// ( token / quoted-string ) ] ), RFC 9112 section 7.1.1.
func isExtensions(b []byte) bool {
	for len(b) > 0 {
		if b = skipSpace(b); len(b) == 0 || b[0] != ';' {
			return false
		}
		name, rest := cutToken(skipSpace(b[1:]))
		if len(name) == 0 {
			return false
		}
		b = rest
		if value := skipSpace(rest); len(value) > 0 && value[0] == '=' {
			var ok bool
			if b, ok = cutValue(skipSpace(value[1:])); !ok {
				return false
			}
		}
	}
	return true
}

func skipSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	return b
}

func cutToken(b []byte) (token, rest []byte) {
	i := 0
	for i < len(b) && charClass[b[i]]&isToken != 0 {
		i++
	}
	return b[:i], b[i:]
}

// cutValue cuts off a token or a quoted-string (RFC 9110 section 5.6.4).
func cutValue(b []byte) (rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '"' {
		token, rest := cutToken(b)
		return rest, len(token) > 0
	}
	for i := 1; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return b[i+1:], true
		case c == '\\':
			if i++; i == len(b) {
				return nil, false
			}
			fallthrough
		default:
			if b[i] < ' ' && b[i] != '\t' || b[i] == 0x7f {
				return nil, false
			}
		}
	}
	return nil, false
}

// dataEnd reads the CRLF behind a chunk's data.
func (r *reader) dataEnd() (bool, error) {
	unread := r.buffered()
	switch {
	case len(unread) == 0:
		return false, nil
	case unread[0] != '\r':
		return false, malformed("no CRLF after a chunk")
	case len(unread) == 1:
		return false, nil
	case unread[1] != '\n':
		return false, malformed("no CRLF after a chunk")
	default:
		r.r += 2
	}
	r.body.state = sizeLine
	return true, nil
}

// trailers reads the trailer section up to its empty line.
func (r *reader) trailers() (bool, error) {
	b := &r.body
	unread := r.buffered()
	if len(unread) == b.scan.pos {
		return false, nil
	}
	n, err := b.scan.scan(unread)
	if err != nil {
		return false, err
	}
	if n > r.maxHead || n == 0 && len(unread) > r.maxHead {
		return false, &Error{Kind: HeadTooLarge, Status: 431, Reason: "trailers over the limit"}
	}
	if n == 0 {
		return false, nil
	}
	r.r += n
	if n > 2 {
		// A copy, since the buffer is reused while trailers are still wanted.
		b.trailerText = append([]byte(nil), unread[:n]...)
		b.trailer, err = parseFields(b.trailerText, nil, r.maxFields)
		if r.lenient && KindOf(err) == Malformed {
			b.trailer, err = parseFieldsLenient(b.trailerText, nil, r.maxFields)
		}
	}
	if err == nil {
		b.state = bodyDone
	}
	return err == nil, err
}
