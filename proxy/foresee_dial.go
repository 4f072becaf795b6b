package proxy

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// What can be said of a dial, and of who is called, before the listeners are
// bound. Addresses are judged by the code that dials use. What other names and
// the configured listeners will turn out to be at run time is only foreseen: no
// resolver is asked, no port is bound.

// Literal returns the address that a host stands for without anybody being
// asked: an address in any spelling, or localhost, which is 127.0.0.1 here.
func Literal(host string) (addr netip.Addr, ok bool) {
	if isLocalhost(host) {
		return loopbackIPv4, true
	}
	return literal(host)
}

// literal reads an address as dials do: (*peer).addr, and then package net.
func literal(host string) (addr netip.Addr, ok bool) {
	if ip, ok := legacyIPv4(host); ok {
		return ip, true
	}
	ip, err := netip.ParseAddr(host)
	return ip.Unmap(), err == nil
}

// isLocalhost reports whether a name is loopback by definition (RFC 6761 6.3).
func isLocalhost(host string) bool {
	host = foldHost(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// Listeners are this process's own, by the addresses that are configured.
type Listeners struct {
	Proxy  string
	Others []string
}

// Forbids returns why the settings forbid to dial host and port, or "", as far
// as that shows without a resolver: of names it knows localhost and those of
// the listeners.
func (s *Settings) Forbids(host string, port int, endpoint bool, own Listeners) string {
	addrs, beyond := own.known()
	g := &guard{allow: s.AllowDestinations, deny: s.DenyDestinations, denyLoopback: beyond, own: newOwnListeners(addrs)}
	if parent := s.ParentProxy; parent != nil {
		host, port := parentAuthority(parent)
		if why := g.foresee(host, port, true, own); why != "" {
			return "parent_proxy: " + why
		}
	}
	if _, ok := literal(host); !ok && s.ParentProxy != nil {
		endpoint = true // the parent resolves names: no more is asked of them than not to lead back here
	}
	return g.foresee(host, port, endpoint, own)
}

// Reached reports whether who calls host and port gets to one of the listeners.
func (l Listeners) Reached(host string, port int) bool {
	addrs, _ := l.known()
	g := &guard{own: newOwnListeners(addrs)}
	return g.foresee(host, port, true, l) != "" // of what is exempt nothing else is denied
}

// foresee returns by which rule one host is denied, or "".
func (g *guard) foresee(host string, port int, exempt bool, own Listeners) string {
	var err error
	if ip, ok := literal(host); ok {
		err = g.judge(netip.AddrPortFrom(ip, uint16(port)), exempt)
	} else if isLocalhost(host) {
		err = g.judgeLocalhost(uint16(port), exempt)
	} else if own.named(host, port) {
		return ownListener
	}
	var denied *deniedError
	if errors.As(err, &denied) {
		return denied.Rule
	}
	return ""
}

// known returns the addresses as they will be bound, of those that can be known,
// and whether the proxy port is beyond loopback; a name might be anything.
func (l Listeners) known() (addrs []net.Addr, beyond bool) {
	for i, address := range append([]string{l.Proxy}, l.Others...) {
		host, port, err := net.SplitHostPort(address)
		n, perr := strconv.ParseUint(port, 10, 16)
		if err != nil || perr != nil {
			continue
		}
		ip, ok := Literal(host)
		if host == "" {
			ip, ok = netip.IPv6Unspecified(), true
		}
		if i == 0 {
			beyond = !ok || !ip.IsLoopback()
		}
		if ok {
			addrs = append(addrs, net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, uint16(n))))
		}
	}
	return addrs, beyond
}

// named reports whether a listener is configured by this name and port.
func (l Listeners) named(name string, port int) bool {
	for _, address := range append([]string{l.Proxy}, l.Others...) {
		host, p, err := net.SplitHostPort(address)
		if err == nil && p == strconv.Itoa(port) && foldHost(host) == foldHost(name) {
			return true
		}
	}
	return false
}
