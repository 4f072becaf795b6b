package config

import (
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"mulligan/policy"
)

// isName reports whether text can name an upstream or a route: such names are
// label values of metrics and stand in headers and paths.
func isName(text string) bool {
	for i := range len(text) {
		if c := text[i]; !isLetter(c) && !isDigit(c) && !strings.ContainsRune("_.-", rune(c)) {
			return false
		}
	}
	return 0 < len(text) && len(text) <= 63
}

const nameRule = "a name has 1 to 63 letters, digits, _ . or -"

// routeName reads the name of a route.
var routeName = parsed(func(text string) (string, string, string) {
	switch {
	case !isName(text):
		return "", "is not a name", nameRule
	case text == DefaultName:
		return "", "is the name of the upstream's own policy", "choose another name"
	}
	return text, "", ""
})

// isToken reports whether text is a token of RFC 9110 5.6.2, as methods and
// header names are.
func isToken(text string) bool {
	for i := range len(text) {
		if c := text[i]; !isLetter(c) && !isDigit(c) && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return text != ""
}

// method reads a method. Methods are case-sensitive, and none that is in use
// has lower-case letters.
func method(d *decoder, n *yaml.Node, v *string) {
	before := len(d.errors)
	parsed(func(text string) (string, string, string) {
		if !isToken(text) {
			return "", "is not a method", "write a method such as GET"
		}
		return text, "", ""
	})(d, n, v)
	if len(d.errors) == before && *v != strings.ToUpper(*v) {
		d.warn(n, "methods are case-sensitive, and this one is not in capitals")
	}
}

// headerName reads the name of a header field.
var headerName = parsed(func(text string) (string, string, string) {
	if !isToken(text) {
		return "", "is not the name of a header field", "write a name such as Idempotency-Key"
	}
	return text, "", ""
})

// host reads a host or a wildcard, with or without a port.
var host = parsed(func(text string) (policy.HostPattern, string, string) {
	pattern, err := policy.ParseHost(text)
	if err == nil {
		return pattern, "", ""
	}
	return pattern, "is not a host", hostHint(text,
		`write a name or address, with a port where only that one is meant: api.example.com, "*.example.com:8443"`)
})

// hostHint says what to write instead of what is no host.
func hostHint(text, otherwise string) string {
	switch {
	case strings.Contains(text, "://"):
		return "write the host alone, without http:// or a path"
	case strings.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }):
		return "write the name in its xn-- form, as clients send it"
	case isIP(text) && !strings.Contains(text, "%"):
		return "write [" + text + "], in quotes: an IPv6 address stands in brackets"
	case oddIPv4(text):
		return fourNumbers
	}
	return otherwise
}

const fourNumbers = "an IPv4 address has four numbers from 0 to 255"

// oddIPv4 reports whether a host can only be meant as an IPv4 address (WHATWG URL:
// its last label is a number), and is not in the spelling that all read alike
// (RFC 3986 3.2.2). There is no certificate for such a one.
func oddIPv4(name string) bool {
	return name != "" && strings.Trim(name, "0123456789.") == "" && !isIP(name)
}

// plainHost reads a host name or address without a wildcard or port.
var plainHost = parsed(func(text string) (string, string, string) {
	bare := text
	if strings.Contains(text, ":") && isIP(text) {
		bare = "[" + text + "]" // no port can follow it here: it needs no brackets
	}
	pattern, err := policy.ParseHost(bare)
	if err != nil || pattern.Wildcard || pattern.Port != 0 || oddIPv4(pattern.Name) {
		return "", "is not a host name", hostHint(text, "write a name such as api.example.com")
	}
	return pattern.Name, "", ""
})

// mount reads a path of the proxy port and drops slashes at its end.
var mount = parsed(func(text string) (string, string, string) {
	path := strings.TrimRight(text, "/")
	switch {
	case !strings.HasPrefix(text, "/"):
		return "", "does not begin with /", "write a path such as /payments"
	case path == "":
		return "", "would take every path", "give the upstream a port of its own with listen"
	case strings.ContainsAny(path, "?#*") || hasBlank(path):
		return "", "has characters that no mount can have", "write a path such as /payments, without * or ?"
	case strings.Contains(path, "//") || hasDots(path):
		return "", "has an empty, . or .. part", "write a path such as /payments"
	}
	return path, "", ""
})

// hasBlank reports whether text has a space or a control character, which no
// path on the wire has.
func hasBlank(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// hasDots reports whether a part of the path is . or .. and would be resolved
// away by clients.
func hasDots(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if part == "." || part == ".." {
			return true
		}
	}
	return false
}
