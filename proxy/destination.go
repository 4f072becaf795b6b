package proxy

import (
	"fmt"
	"net"
	"net/netip"
)

// A deniedError says that policy forbids an address; it carries which rule.
type deniedError struct {
	Addr netip.AddrPort
	Rule string
}

func (e *deniedError) Error() string {
	return fmt.Sprintf("destination %s is denied: %s", e.Addr, e.Rule)
}

// builtinDenied are the networks that no request is let into unless
// destinations.allow lifts it: places that hold credentials for anyone who asks
// (cloud metadata), and addresses that only reach neighbours by accident.
var builtinDenied = []struct {
	prefix netip.Prefix
	rule   string
}{
	{netip.MustParsePrefix("0.0.0.0/32"), "the unspecified address"},
	{netip.MustParsePrefix("::/128"), "the unspecified address"},
	{netip.MustParsePrefix("169.254.169.254/32"), "cloud metadata"},
	{netip.MustParsePrefix("fd00:ec2::254/128"), "cloud metadata"},
	{netip.MustParsePrefix("100.100.100.200/32"), "cloud metadata"},
	{netip.MustParsePrefix("168.63.129.16/32"), "cloud metadata"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local"},
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
}

var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")    // RFC 6052 2.1
	nat64Local = netip.MustParsePrefix("64:ff9b:1::/48")  // RFC 8215; the last 32 bits, as with a /96
	translated = netip.MustParsePrefix("::ffff:0:0:0/96") // RFC 2765 2.1
	compatible = netip.MustParsePrefix("::/96")           // RFC 4291 2.5.5.1
	sixTo4     = netip.MustParsePrefix("2002::/16")       // RFC 3056 2
)

// innerAddr returns the IPv4 address that an IPv6 one leads to through a
// translator (mapped, NAT64, 6to4), else the address itself without its zone.
func innerAddr(a netip.Addr) netip.Addr {
	a = a.WithZone("").Unmap()
	b := a.As16()
	switch {
	case a.Is4():
		return a
	case nat64.Contains(a), nat64Local.Contains(a), translated.Contains(a),
		compatible.Contains(a) && (b[12] != 0 || b[13] != 0): // but not :: and ::1
		return netip.AddrFrom4([4]byte(b[12:16]))
	case sixTo4.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return a
}

// guard judges the addresses that are dialled; the end of the README's section
// Configuration says by which rules. It is immutable but for the list of own
// listeners.
type guard struct {
	allow, deny  []netip.Prefix
	denyLoopback bool // the proxy listens beyond loopback, so its clients' localhost is not ours
	own          *ownListeners
}

// ownListener is the rule that no configuration lifts.
const ownListener = "it is mulligan's own listener"

// judge returns a *deniedError where the address may not be dialled. exempt is
// set for configured endpoints: the operator named them, so only our own
// listeners stay forbidden.
func (g *guard) judge(addr netip.AddrPort, exempt bool) error {
	ip := innerAddr(addr.Addr())
	if g.own.has(netip.AddrPortFrom(ip, addr.Port())) {
		return &deniedError{addr, ownListener}
	}
	if exempt {
		return nil
	}
	for _, p := range g.deny {
		if p.Contains(ip) || p.Contains(addr.Addr().WithZone("")) {
			return &deniedError{addr, "destinations.deny has " + p.String()}
		}
	}
	for _, p := range g.allow {
		if p.Contains(ip) || p.Contains(addr.Addr().WithZone("")) {
			return nil
		}
	}
	for _, d := range builtinDenied {
		if d.prefix.Contains(ip) {
			return &deniedError{addr, d.rule}
		}
	}
	if g.denyLoopback && ip.IsLoopback() {
		return &deniedError{addr, "loopback, while the proxy listens beyond loopback"}
	}
	return nil
}

// loopbackIPv4 is what localhost stands for before its other address, ::1.
var loopbackIPv4 = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// judgeLocalhost judges the name localhost by the address that is dialled first.
// The other one counts only where an own listener is there: a name that leads to
// one is another spelling of it, whatever else it leads to.
func (g *guard) judgeLocalhost(port uint16, exempt bool) error {
	if err := g.judge(netip.AddrPortFrom(loopbackIPv4, port), exempt); err != nil {
		return err
	}
	return g.judge(netip.AddrPortFrom(netip.IPv6Loopback(), port), true)
}

// ownListeners knows every address at which this process accepts connections,
// so that no request is ever sent round in a circle.
type ownListeners struct {
	exact    map[netip.AddrPort]bool
	wildcard map[uint16]bool // ports bound on all addresses
	local    func() []netip.Addr
}

func newOwnListeners(addrs []net.Addr) *ownListeners {
	o := &ownListeners{exact: map[netip.AddrPort]bool{}, wildcard: map[uint16]bool{}, local: interfaceAddrs}
	for _, a := range addrs {
		tcp, ok := a.(*net.TCPAddr)
		if !ok {
			continue
		}
		ap := tcp.AddrPort()
		if ip := ap.Addr().WithZone("").Unmap(); ip.IsUnspecified() {
			o.wildcard[ap.Port()] = true
		} else {
			o.exact[netip.AddrPortFrom(ip, ap.Port())] = true
		}
	}
	return o
}

// has reports whether dialling the (unmapped) address would reach one of our
// own listeners.
func (o *ownListeners) has(a netip.AddrPort) bool {
	if o.exact[a] {
		return true
	}
	if a.Addr().IsUnspecified() { // the kernel takes 0.0.0.0 for this host
		for own := range o.exact {
			if own.Port() == a.Port() {
				return true
			}
		}
	}
	if !o.wildcard[a.Port()] {
		return false
	}
	if a.Addr().IsLoopback() || a.Addr().IsUnspecified() {
		return true
	}
	for _, ip := range o.local() {
		if ip == a.Addr() {
			return true
		}
	}
	return false
}

func interfaceAddrs() []netip.Addr {
	var all []netip.Addr
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	for _, a := range addrs {
		if p, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(p.IP); ok {
				all = append(all, ip.Unmap())
			}
		}
	}
	return all
}

// port reports whether any own listener has the port.
func (o *ownListeners) port(port uint16) bool {
	if o.wildcard[port] {
		return true
	}
	for own := range o.exact {
		if own.Port() == port {
			return true
		}
	}
	return false
}
