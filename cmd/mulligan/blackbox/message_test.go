package blackbox

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// field is one field line, its name and value as they came.
type field struct{ Name, Value string }

// message is a head in its exact bytes, what a strict reader makes of it, and
// the body that came with it.
type message struct {
	Head, Line string
	Fields     []field
	Body       string
	Trailer    []field
	Whole      bool  // the body came to its own end
	Broken     error // why it did not
}

// get is the first value of a field, "" without one.
func (m message) get(name string) string {
	values := m.all(name)
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// all is every value of a field, in order.
func (m message) all(name string) []string { return valuesOf(m.Fields, name) }

func valuesOf(fields []field, name string) []string {
	var values []string
	for _, f := range fields {
		if strings.EqualFold(f.Name, name) {
			values = append(values, f.Value)
		}
	}
	return values
}

// has reports whether there is such a field.
func (m message) has(name string) bool { return len(m.all(name)) > 0 }

// readHead reads up to and with the empty line. It ends lines at LF, so that a
// head with bare LFs is seen as such and not waited for.
func readHead(r *bufio.Reader) (string, error) {
	var b strings.Builder
	for {
		line, err := r.ReadString('\n')
		b.WriteString(line)
		if err != nil {
			if b.Len() > 0 && errors.Is(err, io.EOF) {
				return b.String(), io.ErrUnexpectedEOF
			}
			return b.String(), err
		}
		if line == "\r\n" || line == "\n" {
			return b.String(), nil
		}
	}
}

// parseMessage splits a head. Names and values keep every byte but the one
// space or tab around the value.
func parseMessage(head string) message {
	lines := strings.Split(strings.TrimSuffix(head, "\r\n\r\n"), "\r\n")
	return message{Head: head, Line: lines[0], Fields: parseFields(lines[1:])}
}

func parseFields(lines []string) []field {
	var fields []field
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ":")
		fields = append(fields, field{name, strings.Trim(value, " \t")})
	}
	return fields
}

// readBody reads the body that the head announces; untilClose says that without
// framing it ends with the connection, as a response's does.
func readBody(r *bufio.Reader, m message, untilClose bool) (string, []field, error) {
	if strings.EqualFold(m.get("Transfer-Encoding"), "chunked") {
		return readChunked(r)
	}
	if length := m.get("Content-Length"); length != "" {
		n, err := strconv.Atoi(length)
		if err != nil {
			return "", nil, err
		}
		body := make([]byte, n)
		got, err := io.ReadFull(r, body)
		return string(body[:got]), nil, err
	}
	if untilClose {
		body, err := io.ReadAll(r)
		return string(body), nil, err
	}
	return "", nil, nil
}

// readChunked is strict: only CRLF ends a line, and only the last chunk ends
// the body.
func readChunked(r *bufio.Reader) (string, []field, error) {
	var body strings.Builder
	for {
		line, err := readLine(r)
		if err != nil {
			return body.String(), nil, err
		}
		size, _, _ := strings.Cut(line, ";")
		n, err := strconv.ParseInt(strings.TrimSpace(size), 16, 64)
		if err != nil {
			return body.String(), nil, fmt.Errorf("chunk size: %w", err)
		}
		if n == 0 {
			trailer, err := readTrailer(r)
			return body.String(), trailer, err
		}
		if _, err := io.CopyN(&body, r, n); err != nil {
			return body.String(), nil, short(err)
		}
		if line, err := readLine(r); err != nil || line != "" {
			return body.String(), nil, fmt.Errorf("after a chunk: %q, %v", line, err)
		}
	}
}

func readTrailer(r *bufio.Reader) ([]field, error) {
	var lines []string
	for {
		line, err := readLine(r)
		if err != nil || line == "" {
			return parseFields(lines), err
		}
		lines = append(lines, line)
	}
}

func readLine(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return line, short(err)
	}
	if !strings.HasSuffix(line, "\r\n") {
		return line, fmt.Errorf("line %q ends in a bare LF", line)
	}
	return strings.TrimSuffix(line, "\r\n"), nil
}

// short is err, where an end of input within a message is an unexpected one.
func short(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
