package proxy

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"mulligan/policy"
	"mulligan/proxy/h1"
)

// What can be said of a request before it is sent, for `mulligan explain`.
// Targets and fields are read, and addresses judged, by the code that the doors
// use. What names and configured listeners will turn out to be at run time is
// only foreseen (Forbids, Listeners): no resolver is asked, no port is bound.

// Target is where a URL in absolute-form leads.
type Target struct {
	HTTPS bool
	Host  string // without brackets
	Port  int
	Path  string // path and query as they are sent
}

// ParseTarget reads a URL as the forward door reads a request's target.
func ParseTarget(url, method string) (Target, error) {
	https, authority, path, err := parseAbsolute([]byte(url))
	if err != nil {
		return Target{}, err
	}
	port := 80
	if https {
		port = 443
	}
	host, port, err := splitAuthority(authority, port)
	if err != nil {
		return Target{}, err
	}
	return Target{https, string(host), port, string(slashed(path, method))}, nil
}

// errConnect is what is wrong with the target of a CONNECT.
var errConnect = errors.New("CONNECT takes host:port")

// ParseConnect reads what stands after CONNECT as its door does.
func ParseConnect(authority string) (Target, error) {
	host, port, err := splitAuthority([]byte(authority), 0)
	if err != nil || port == 0 {
		return Target{}, errConnect
	}
	return Target{Host: string(host), Port: port}, nil
}

// ParseAuthority reads host[:port] as the doors read a Host field; the port is
// 80 where none is written.
func ParseAuthority(s string) (host string, port int, err error) {
	h, port, err := splitAuthority([]byte(s), 80)
	return string(h), port, err
}

// Asked is what a request's header asks of mulligan itself.
type Asked struct {
	Nested      bool          // it came through another mulligan
	MaxAttempts int           // by Mulligan-Policy; 0 = not asked
	Total       time.Duration // by Mulligan-Policy; 0 = not asked
}

// ReadAsked reads a request's header. The error is what a client would get for
// a malformed Mulligan-Policy.
func ReadAsked(h h1.Header) (Asked, error) {
	var f fields
	f.read(h, "")
	return Asked{f.nested, f.policy.maxAttempts, f.policy.total}, f.policyErr
}

// CrossSite reports whether the reverse doors refuse a request with this header:
// it is a browser's, made for somebody else's page.
func CrossSite(h h1.Header) bool {
	for i := range h {
		if h[i].Known() == h1.NameSecFetchSite && h1.HasToken(h[i].Value, "cross-site") {
			return true
		}
	}
	return false
}

// Keyed reports whether a request with this header counts as carrying the
// idempotency key called name.
func Keyed(h h1.Header, name string) bool {
	x := exchange{
		req:   &h1.Request{Header: h},
		route: &policy.Route{Retry: policy.Retry{IdempotencyKeys: []string{name}}},
	}
	x.seen.read(h, "")
	return x.keyed()
}

// Unmet says why no attempt of this version's ends with the class; "" where one
// can.
func Unmet(c policy.Class) string {
	switch c {
	case policy.RefusedStream:
		return "it is HTTP/2's, which this version does not speak"
	case policy.ErrorEvent:
		return "it takes buffer.first_event, which this version does not have"
	}
	return ""
}

// Literal returns the address that a host stands for without anybody being
// asked: an address in any spelling, or localhost, which is 127.0.0.1 here.
func Literal(host string) (addr netip.Addr, ok bool) {
	if isLocalhost(host) {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), true
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
		port, _ := strconv.Atoi(parent.Port())
		if why := g.foresee(parent.Hostname(), port, true, own); why != "" {
			return "parent_proxy: " + why
		}
	}
	if _, ok := literal(host); !ok && s.ParentProxy != nil {
		endpoint = true // the parent resolves names: no more is asked of them than not to lead back here
	}
	return g.foresee(host, port, endpoint, own)
}

// foresee judges one host.
func (g *guard) foresee(host string, port int, exempt bool, own Listeners) string {
	ip, ok := Literal(host)
	if !ok {
		if own.named(host, port) {
			return ownListener
		}
		return ""
	}
	why := g.rule(ip, port, exempt)
	if why == "" && isLocalhost(host) { // the other address of the name
		why = g.rule(netip.IPv6Loopback(), port, true)
	}
	return why
}

// rule returns by which rule the address is denied, or "".
func (g *guard) rule(ip netip.Addr, port int, exempt bool) string {
	var denied *deniedError
	if errors.As(g.judge(netip.AddrPortFrom(ip, uint16(port)), exempt), &denied) {
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
