package h1

import "bytes"

// errTooManyFields is a head with more fields than the limit.
func errTooManyFields() *Error {
	return &Error{Kind: HeadTooLarge, Status: 431, Reason: "too many fields"}
}

// parseFields parses field lines, b up to and including its empty line, as
// strictly as RFC 9112 section 5 permits, and appends them to fields.
func parseFields(b []byte, fields []Field, limit int) ([]Field, error) {
	for i := 0; ; {
		if b[i] == '\r' && i+2 == len(b) {
			return fields, nil
		}
		if len(fields) >= limit {
			return fields, errTooManyFields()
		}
		colon := i
		for charClass[b[colon]]&isToken != 0 {
			colon++ // ends at the CR at the latest
		}
		if b[colon] != ':' || colon == i {
			return fields, badName(b, i, colon)
		}
		value := colon + 1
		for b[value] == ' ' || b[value] == '\t' {
			value++
		}
		end := skipText(b, value)
		if end+1 >= len(b) || b[end] != '\r' || b[end+1] != '\n' {
			return fields, malformed("control character in a field value")
		}
		name := b[i:colon:colon]
		fields = append(fields, Field{Name: name, Value: trimRight(b[value:end:end]), known: LookupName(name), looked: true})
		i = end + 2
	}
}

// badName says what is wrong with the field name that begins at i and stops
// being one at j.
func badName(b []byte, i, j int) *Error {
	switch c := b[j]; {
	case j == i && (c == ' ' || c == '\t'):
		return malformed("folded line, or white space before the first field")
	case c == ' ' || c == '\t':
		return malformed("white space in or after a field name")
	case c == '\r':
		return malformed("field line without a colon, or bare CR")
	case j == i && c == ':':
		return malformed("empty field name")
	}
	return malformed("invalid character in a field name")
}

func trimRight(b []byte) []byte {
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// parseFieldsLenient parses the field lines of a response: a bare LF may end a
// line, white space before the colon is removed, folded lines are joined (RFC
// 9112 sections 2.2, 5.1, 5.2). What even a lenient reader cannot know the
// meaning of is refused. It changes b.
func parseFieldsLenient(b []byte, fields []Field, limit int) ([]Field, error) {
	for {
		line, rest, err := logicalLine(b)
		if err != nil {
			return fields, err
		}
		if len(line) == 0 {
			return fields, nil
		}
		if len(fields) >= limit {
			return fields, errTooManyFields()
		}
		f, err := lenientField(line)
		if err != nil {
			return fields, err
		}
		fields = append(fields, f)
		b = rest
	}
}

// logicalLine cuts off the first line with all its continuations, whose line
// ends it overwrites with spaces, so that the line stays in place.
func logicalLine(b []byte) (line, rest []byte, err error) {
	end := bytes.IndexByte(b, '\n') // the scanner saw the empty line: never -1
	for end > 0 && string(b[:end]) != "\r" && end+1 < len(b) && isSpace(b[end+1]) {
		if bytes.IndexByte(b[:end], ':') < 0 {
			return nil, nil, malformed("folded line in a field's name")
		}
		if b[end-1] == '\r' {
			b[end-1] = ' '
		}
		b[end] = ' '
		for i := end + 1; isSpace(b[i]); i++ { // ends at the LF at the latest
			b[i] = ' '
		}
		end += bytes.IndexByte(b[end:], '\n')
	}
	line, rest = b[:end:end], b[end+1:]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[: n-1 : n-1]
	}
	if bytes.IndexByte(line, '\r') >= 0 || bytes.IndexByte(line, 0) >= 0 {
		return nil, nil, malformed("bare CR or NUL in a head")
	}
	return line, rest, nil
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' }

// lenientField splits one line.
func lenientField(line []byte) (Field, error) {
	colon := bytes.IndexByte(line, ':')
	if colon < 0 {
		return Field{}, malformed("field line without a colon")
	}
	name := trimRight(line[:colon:colon])
	if len(name) == 0 || !isAll(name, isToken) {
		return Field{}, malformed("invalid field name")
	}
	return Field{Name: name, Value: trimSpace(line[colon+1:]), known: LookupName(name), looked: true}, nil
}
