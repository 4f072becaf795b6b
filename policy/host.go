package policy

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// HostPattern is one entry of an upstream's hosts.
type HostPattern struct {
	Name     string // lower case, no trailing dot, IPv6 without brackets; of a wildcard what follows "*.", "" for "*"
	Wildcard bool
	Port     int // 0 = any
}

// String returns the pattern as configuration spells it.
func (h HostPattern) String() string {
	s := h.Name
	switch {
	case h.Wildcard && h.Name == "":
		s = "*"
	case h.Wildcard:
		s = "*." + h.Name
	case strings.Contains(h.Name, ":"):
		s = "[" + h.Name + "]"
	}
	if h.Port != 0 {
		s += ":" + strconv.Itoa(h.Port)
	}
	return s
}

// ParseHost reads a host as configuration writes it: a name, an IPv4 address,
// an IPv6 address in brackets, a wildcard ("*.example.com") or "*", each with
// a port or without.
func ParseHost(s string) (HostPattern, error) {
	h, err := parseHost(s)
	if err != nil {
		return HostPattern{}, fmt.Errorf("host %q: %w", s, err)
	}
	return h, nil
}

func parseHost(s string) (h HostPattern, err error) {
	if s == "" {
		return h, errors.New("is empty")
	}
	if strings.ContainsAny(s, "/@?#") {
		return h, errors.New("want a host and perhaps a port, without scheme, user or path")
	}
	name, port, err := splitPort(s)
	if err != nil {
		return h, err
	}
	if h.Port, err = parsePort(port); err != nil {
		return h, err
	}
	if inside, ok := strings.CutPrefix(name, "["); ok {
		h.Name, err = canonicalIPv6(strings.TrimSuffix(inside, "]"))
		return h, err
	}
	if name == "*" {
		h.Wildcard = true
		return h, nil
	}
	name, h.Wildcard = strings.CutPrefix(name, "*.")
	h.Name = lower(strings.TrimSuffix(name, "."))
	return h, checkName(h.Name, h.Wildcard)
}

// lower puts ASCII letters, and only those, into lower case: beyond ASCII there
// are letters whose lower case is an ASCII one.
func lower(s string) string {
	for i := range len(s) {
		if 'A' <= s[i] && s[i] <= 'Z' {
			return lowerFrom([]byte(s), i)
		}
	}
	return s
}

func lowerFrom(b []byte, i int) string {
	for ; i < len(b); i++ {
		if 'A' <= b[i] && b[i] <= 'Z' {
			b[i] += 'a' - 'A'
		}
	}
	return string(b)
}

// splitPort cuts off ":port"; port is ":" and what follows, "" for none.
func splitPort(s string) (name, port string, err error) {
	if s[0] == '[' {
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return "", "", errors.New(`"[" without "]"`)
		}
		if rest := s[end+1:]; rest != "" && rest[0] != ':' {
			return "", "", errors.New(`want nothing or a port after "]"`)
		}
		return s[:end+1], s[end+1:], nil
	}
	i := strings.IndexByte(s, ':')
	if i < 0 {
		return s, "", nil
	}
	if strings.Count(s, ":") > 1 {
		return "", "", errors.New("an IPv6 address stands in brackets")
	}
	return s[:i], s[i:], nil
}

func parsePort(s string) (int, error) {
	if s == "" {
		return 0, nil
	}
	digits := s[1:]
	port, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || port == 0 {
		return 0, fmt.Errorf("port %q is not 1 to 65535", digits)
	}
	return int(port), nil
}

func canonicalIPv6(s string) (string, error) {
	addr, ok := parseIPv6(s)
	if !ok {
		return "", fmt.Errorf("%q is no IPv6 address", s)
	}
	return string(addr.append(nil)), nil
}

// checkName refuses what no request could ask for, so that a slip does not
// become a pattern that never matches. Limits: RFC 1035 2.3.4.
func checkName(name string, wildcard bool) error {
	if len(name) > 253 {
		return errors.New("longer than 253 bytes")
	}
	rest := name
	for more := true; more; {
		var label string
		label, rest, more = strings.Cut(rest, ".")
		if err := checkLabel(label); err != nil {
			return err
		}
		if wildcard && !more && strings.Trim(label, "0123456789") == "" {
			return errors.New("a wildcard matches names, not parts of an IP address")
		}
	}
	return nil
}

func checkLabel(label string) error {
	if label == "" {
		return errors.New("a label is empty")
	}
	if len(label) > 63 {
		return errors.New("a label is longer than 63 bytes")
	}
	for i := range len(label) {
		switch c := label[i]; {
		case 'a' <= c && c <= 'z', isDigit(c), c == '-', c == '_':
		case c == '*':
			return errors.New(`"*" stands alone or as the first label`)
		case c >= 0x80:
			return errors.New("names beyond ASCII are written in their xn-- form")
		default:
			return fmt.Errorf("%q cannot be in a host name", c)
		}
	}
	return nil
}
