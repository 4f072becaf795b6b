package proxy

import (
	"net/netip"
	"strconv"
	"strings"
)

// legacyIPv4 reads the other spellings of an IPv4 address that inet_aton takes
// (127.1, 2130706433, 0x7f.1, 0177.0.0.1), as the WHATWG URL standard's IPv4
// parser does. Some resolvers know them and some do not: read here, they are
// judged and dialled as the addresses that they are.
func legacyIPv4(host string) (netip.Addr, bool) {
	parts := strings.Split(strings.TrimSuffix(host, "."), ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var ip uint64
	for i, part := range parts {
		n, ok := legacyNumber(part)
		if !ok {
			return netip.Addr{}, false
		}
		if i < len(parts)-1 {
			if n > 255 {
				return netip.Addr{}, false
			}
			ip = ip<<8 | n
			continue
		}
		bits := uint(8 * (5 - len(parts))) // the last part fills what is left
		if n >= 1<<bits {
			return netip.Addr{}, false
		}
		ip = ip<<bits | n
	}
	return netip.AddrFrom4([4]byte{byte(ip >> 24), byte(ip >> 16), byte(ip >> 8), byte(ip)}), true
}

// legacyNumber reads a decimal, octal (0...) or hexadecimal (0x...) number.
func legacyNumber(s string) (uint64, bool) {
	base := 10
	switch {
	case len(s) >= 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X'):
		base, s = 16, s[2:]
		if s == "" {
			return 0, true
		}
	case len(s) >= 2 && s[0] == '0':
		base, s = 8, s[1:]
	}
	if s == "" || s[0] == '+' || s[0] == '-' || strings.ContainsRune(s, '_') {
		return 0, false
	}
	n, err := strconv.ParseUint(s, base, 32)
	return n, err == nil
}
