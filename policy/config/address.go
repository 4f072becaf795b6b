package config

import (
	"net/netip"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"mulligan/policy"
)

// address is where a listener listens.
type address struct {
	name string     // lower-case; "" where ip is valid, or for every address
	ip   netip.Addr // IPv4 in IPv6 unmapped; invalid for a name
	port int        // 0: one that is free
}

const addressHint = "write host:port, such as 127.0.0.1:7080"

// parseAddress reads host:port. wrong is "" where it could.
func parseAddress(text string) (a address, wrong, hint string) {
	colon := strings.LastIndexByte(text, ':')
	if colon < 0 {
		return a, "has no port", addressHint
	}
	port, err := strconv.ParseUint(text[colon+1:], 10, 16)
	if err != nil {
		return a, "has no port from 0 to 65535", addressHint
	}
	a.port = int(port)
	name := text[:colon]
	if inner, ok := strings.CutPrefix(name, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		a.ip, err = netip.ParseAddr(inner)
		if !ok || err != nil || !a.ip.Is6() {
			return a, "has no address between its brackets", "write [::1]:7080"
		}
		a.ip = a.ip.Unmap()
		return a, "", ""
	}
	if a.ip, err = netip.ParseAddr(name); err == nil {
		if !a.ip.Is4() {
			return a, "has an IPv6 address without brackets", "write [::1]:7080"
		}
		return a, "", ""
	}
	if name == "" {
		return a, "", ""
	}
	pattern, err := policy.ParseHost(name)
	if err != nil || pattern.Wildcard || pattern.Port != 0 {
		return a, "is not an address", addressHint
	}
	a.name = pattern.Name
	return a, "", ""
}

// loopback reports whether only this machine can connect.
func (a address) loopback() bool {
	return a.name == thisMachine || a.ip.IsLoopback()
}

// everywhere reports whether the address stands for all of the machine's.
func (a address) everywhere() bool {
	return a.name == "" && (!a.ip.IsValid() || a.ip.IsUnspecified())
}

// listener is an address of the configuration and where it was written.
type listener struct {
	key     string     // "listen.proxy"
	shown   string     // as the file has it
	node    *yaml.Node // nil where the file does not have it
	address address
}

// listenAddress reads the address of a listener and remembers it for the checks
// across all listeners.
func listenAddress(d *decoder, n *yaml.Node, v *string) {
	l := listener{key: d.path, node: n}
	before := len(d.errors)
	parsed(func(text string) (address, string, string) {
		*v = text
		return parseAddress(text)
	})(d, n, &l.address)
	if !d.stopped && len(d.errors) == before {
		l.shown = show(resolve(n).Value)
		d.listeners = append(d.listeners, l)
	}
}

// prefix reads a CIDR; a bare address is the network of that one address.
func prefix(d *decoder, n *yaml.Node, v *netip.Prefix) {
	parsed(func(text string) (netip.Prefix, string, string) {
		if ip, err := netip.ParseAddr(text); err == nil && ip.Zone() == "" {
			ip = ip.Unmap()
			return netip.PrefixFrom(ip, ip.BitLen()), "", ""
		}
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return p, "is not a network", "write a CIDR such as 10.0.0.0/8 or fd00::/8"
		}
		const mapped = 96 // bits of ::ffff:0:0/96, before the IPv4 address
		if p.Addr().Is4In6() && p.Bits() >= mapped {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
		}
		if p != p.Masked() {
			return p, "has bits set beyond its length", "write " + p.Masked().String()
		}
		return p, "", ""
	})(d, n, v)
}
