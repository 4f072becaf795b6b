package certs

import (
	"fmt"
	"net/netip"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// Limits of a DNS name (RFC 1035 section 2.3.4), without the trailing dot.
const (
	maxName  = 253
	maxLabel = 63
)

// NameError is a name for which there can be no certificate.
type NameError struct {
	Name   string // as it was given
	Reason string
}

func (e *NameError) Error() string {
	name := e.Name
	if len(name) > maxName {
		name = name[:maxName] + "..."
	}
	return fmt.Sprintf("no certificate for %q: %s", name, e.Reason)
}

// canonical returns the one spelling of a DNS name or an IP literal that leaves
// are kept and compared by: lower case, without a trailing dot or brackets, an
// IDN in punycode. The address is valid where the name is one. A name that has
// this spelling already costs no allocation.
func canonical(given string) (string, netip.Addr, error) {
	name := strings.TrimSuffix(given, ".")
	if looksLikeAddress(name) {
		return canonicalAddress(given, name)
	}
	if !isASCII(name) {
		ascii, err := idna.Lookup.ToASCII(name)
		if err != nil || !utf8.ValidString(name) {
			return "", netip.Addr{}, &NameError{given, "not an international domain name"}
		}
		name = ascii
	}
	name = strings.ToLower(name)
	if reason := wrongName(name); reason != "" {
		return "", netip.Addr{}, &NameError{given, reason}
	}
	return name, netip.Addr{}, nil
}

// looksLikeAddress tells what can only be meant as an address: a colon, or
// nothing but digits and dots. Names of digits alone would be taken for IPv4 by
// clients.
func looksLikeAddress(name string) bool {
	return strings.IndexByte(name, ':') >= 0 || name != "" && strings.Trim(name, "0123456789.") == ""
}

// canonicalAddress is canonical for IP literals. A zone means nothing outside
// one host and has no place in a certificate.
func canonicalAddress(given, name string) (string, netip.Addr, error) {
	if bare, ok := strings.CutPrefix(name, "["); ok {
		name = strings.TrimSuffix(bare, "]")
	}
	addr, err := netip.ParseAddr(name)
	if err != nil || addr.Zone() != "" {
		return "", netip.Addr{}, &NameError{given, "neither a DNS name nor an IP address"}
	}
	addr = addr.Unmap()
	return addr.String(), addr, nil
}

// wrongName says what is wrong with a name in lower case, or "". Underscores,
// and hyphens anywhere, are in use where names never meet a registry.
func wrongName(name string) string {
	if name == "" {
		return "it is empty"
	}
	if len(name) > maxName {
		return fmt.Sprintf("it has more than %d characters", maxName)
	}
	for rest := name; rest != ""; {
		label, after, more := strings.Cut(rest, ".")
		switch {
		case label == "" || more && after == "":
			return "a label is empty"
		case len(label) > maxLabel:
			return fmt.Sprintf("a label has more than %d characters", maxLabel)
		}
		rest = after
	}
	for i := range len(name) {
		if !isNameByte(name[i]) {
			return fmt.Sprintf("it has a %q", name[i])
		}
	}
	return ""
}

// isNameByte reports whether a name in lower case may have the byte.
func isNameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.'
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
