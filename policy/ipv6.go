package policy

import (
	"strconv"
	"strings"
)

// ipv6 is an address as its eight groups. One address has many spellings, so
// patterns and hosts are compared in one; package net/netip, which has that,
// is beyond what policy may import.
type ipv6 [8]uint16

// maxIPv6Text is the length of the longest text of an address.
const maxIPv6Text = len("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")

// parseIPv6 reads the text forms of RFC 4291 2.2, without a zone.
func parseIPv6(s string) (addr ipv6, ok bool) {
	head, tail, compressed := strings.Cut(s, "::")
	n, ok := addr.fill(0, head, !compressed)
	if !ok {
		return addr, false
	}
	if !compressed {
		return addr, n == len(addr)
	}
	var end ipv6
	m, ok := end.fill(0, tail, true)
	if !ok || n+m >= len(addr) {
		return addr, false
	}
	copy(addr[len(addr)-m:], end[:m])
	return addr, true
}

// fill reads groups parted by single colons from s into addr[n:] and returns
// where they end. Where last is set, dotted IPv4 may stand for the last two.
func (addr *ipv6) fill(n int, s string, last bool) (int, bool) {
	for more := s != ""; more; n++ {
		if n == len(addr) {
			return n, false
		}
		var group string
		group, s, more = strings.Cut(s, ":")
		if last && !more && strings.IndexByte(group, '.') >= 0 {
			return addr.fillIPv4(n, group)
		}
		if group == "" || len(group) > 4 {
			return n, false
		}
		v, err := strconv.ParseUint(group, 16, 16)
		if err != nil {
			return n, false
		}
		addr[n] = uint16(v)
	}
	return n, true
}

func (addr *ipv6) fillIPv4(n int, s string) (int, bool) {
	if n+2 > len(addr) {
		return n, false
	}
	more := true
	for i := range 4 {
		if !more {
			return n, false
		}
		var part string
		part, s, more = strings.Cut(s, ".")
		if part == "" || len(part) > 3 || part[0] == '0' && part != "0" {
			return n, false
		}
		v, err := strconv.ParseUint(part, 10, 8)
		if err != nil {
			return n, false
		}
		addr[n+i/2] = addr[n+i/2]<<8 | uint16(v)
	}
	return n + 2, !more
}

// append appends the one spelling of RFC 5952 (but for dotted IPv4, which only
// people need).
func (addr ipv6) append(b []byte) []byte {
	start, end := addr.longestZeros()
	for i := 0; i < len(addr); i++ {
		if i == start {
			b = append(b, ':', ':')
			i = end - 1
			continue
		}
		if i > 0 && i != end {
			b = append(b, ':')
		}
		b = strconv.AppendUint(b, uint64(addr[i]), 16)
	}
	return b
}

// longestZeros returns the first of the longest runs of two or more zero
// groups; -1, -1 for none.
func (addr ipv6) longestZeros() (start, end int) {
	start, end = -1, -1
	for i := 0; i < len(addr); i++ {
		j := i
		for j < len(addr) && addr[j] == 0 {
			j++
		}
		if j-i >= 2 && j-i > end-start {
			start, end = i, j
		}
		i = max(i, j-1)
	}
	return start, end
}
