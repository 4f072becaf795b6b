package h2

import (
	"bytes"

	"mulligan/proxy/h1"
)

// Classes of bytes, as bits of class.
const (
	isName  = 1 << iota // a field name: tchar without capitals (RFC 9113 section 8.2.1)
	isToken             // tchar
	isHost              // reg-name and port, RFC 3986 section 3.2.2, without %
	isHex
)

var class = func() (class [256]uint8) {
	mark := func(chars string, bits uint8) {
		for i := range len(chars) {
			class[chars[i]] |= bits
		}
	}
	const lower, upper, digits = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"
	mark(lower+digits+"!#$%&'*+-.^_`|~", isName|isToken)
	mark(upper, isToken)
	mark(lower+upper+digits+"-._~!$&'()*+,;=", isHost)
	mark(digits+"abcdefABCDEF", isHex)
	return class
}()

func isAll(s string, bit uint8) bool {
	for i := range len(s) {
		if class[s[i]]&bit == 0 {
			return false
		}
	}
	return true
}

func validName(s string) bool { return s != "" && isAll(s, isName) }

// trim removes white space on both sides, which HTTP/1.1 readers do not count as
// part of a value and HTTP/2 does not want (RFC 9113 section 8.2.1).
func trim(s string) string {
	for s != "" && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for s != "" && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}

func lowerCase(b []byte) {
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c | 0x20
		}
	}
}

// parseDecimal reads 1*DIGIT that fits an int64.
func parseDecimal(b []byte) (int64, bool) {
	var n int64
	for _, c := range b {
		d := int64(c) - '0'
		if d < 0 || d > 9 || n > (1<<63-1-d)/10 {
			return -1, false
		}
		n = n*10 + d
	}
	return n, len(b) > 0
}

// parseLength reads a content-length, or a list of the same one.
func parseLength(b []byte, lists bool) (int64, bool) {
	if !lists {
		return parseDecimal(b)
	}
	n := int64(-1)
	for {
		element, rest, more := bytes.Cut(b, []byte(","))
		x, ok := parseDecimal(bytes.Trim(element, " \t"))
		if !ok || n >= 0 && x != n {
			return -1, false
		}
		if n = x; !more {
			return n, true
		}
		b = rest
	}
}

// validHost reports whether s is uri-host [ ":" port ] (RFC 9110 section 7.2), and
// not empty.
func validHost(s string) bool {
	name, port := s, ""
	if s == "" {
		return false
	}
	if s[0] == '[' {
		end := bytes.IndexByte([]byte(s), ']')
		return end > 1 && validPort(s[end+1:]) && h1.IsIPv6([]byte(s[1:end]))
	}
	for i := range len(s) {
		if s[i] == ':' {
			name, port = s[:i], s[i:]
			break
		}
	}
	return validPort(port) && validRegName(name)
}

func validRegName(name string) bool {
	for i := 0; i < len(name); i++ {
		if name[i] != '%' {
			if class[name[i]]&isHost == 0 {
				return false
			}
			continue
		}
		if i+2 >= len(name) || !isAll(name[i+1:i+3], isHex) {
			return false
		}
		i += 2
	}
	return true
}

// validPort reports whether s is nothing, or a colon and digits.
func validPort(s string) bool {
	if s == "" {
		return true
	}
	for i := range len(s) - 1 {
		if c := s[i+1]; c < '0' || c > '9' {
			return false
		}
	}
	return s[0] == ':'
}

// validPath reports whether s may be a request's target here: a path, of bytes that
// a request line may have.
func validPath(s, method string) bool {
	if s == "*" {
		return method == "OPTIONS"
	}
	if s == "" || s[0] != '/' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c == 0x7f || c == '#' {
			return false
		}
	}
	return true
}
