package h1

import "bytes"

// parseResponse parses a whole head, as the scanner delimited it, into resp.
// method is the request's. It may change b (see parseFieldsLenient).
func parseResponse(resp *Response, b []byte, limit int, method string) error {
	line := bytes.IndexByte(b, '\n') + 1
	fields := resp.Header[:0]
	*resp = Response{}
	if err := parseStatusLine(resp, b[:line]); err != nil {
		return err
	}
	parsed, err := parseFields(b[line:], fields, limit)
	if KindOf(err) == Malformed {
		parsed, err = parseFieldsLenient(b[line:], fields, limit)
	}
	resp.Header = parsed
	if err != nil {
		return err
	}
	return resp.interpret(method)
}

// parseStatusLine parses version SP status [ SP reason ] (RFC 9112 section 4).
func parseStatusLine(resp *Response, line []byte) error {
	line = line[:len(line)-1]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	if len(line) < 12 || !isVersion(line[:8]) || line[5] != '1' || line[8] != ' ' {
		return malformed("not an HTTP/1 status line")
	}
	status, ok := parseDecimal(line[9:12])
	if !ok || status < 100 {
		return malformed("invalid status")
	}
	if len(line) > 12 {
		if line[12] != ' ' || bytes.IndexByte(line, '\r') >= 0 || bytes.IndexByte(line, 0) >= 0 {
			return malformed("invalid status line")
		}
		resp.Reason = line[13:len(line):len(line)]
	}
	resp.Status, resp.Minor = int(status), minor(line[:8])
	return nil
}

// interpret reads from the fields what the connection itself needs to know.
func (resp *Response) interpret(method string) error {
	var close, keep bool
	var f framing
	for i := range resp.Header {
		value := resp.Header[i].Value
		switch resp.Header[i].known {
		case NameContentLength:
			if err := f.addLengths(value); err != nil && f.bad == nil {
				f.bad = err
			}
		case NameTransferEncoding:
			f.addEncoding(value)
		case NameConnection:
			close = close || HasToken(value, "close")
			keep = keep || HasToken(value, "keep-alive")
		}
	}
	if err := resp.frame(&f, method); err != nil {
		return err
	}
	resp.KeepAlive = !close && (resp.Minor > 0 || keep) && resp.Framing != UntilClose && !resp.unsure
	return nil
}
