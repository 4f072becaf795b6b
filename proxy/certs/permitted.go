package certs

import (
	"crypto/x509"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// permitted are the only names that an authority may sign. The root carries
// them as X.509 name constraints (RFC 5280 section 4.2.1.10), so that even who
// got hold of its key could not speak for others; what those cannot express
// (a name without the names below it) is checked before signing.
type permitted struct {
	exact map[string]bool // canonical names and addresses
	below map[string]bool // ".example.com": names below example.com
	addrs []netip.Addr
}

// newPermitted reads exact names, *.names and IP addresses.
func newPermitted(names []string) (*permitted, error) {
	p := &permitted{exact: make(map[string]bool), below: make(map[string]bool)}
	for _, given := range names {
		base, wild := strings.CutPrefix(given, "*.")
		name, addr, err := canonical(base)
		if err != nil {
			return nil, err
		}
		if wild && addr.IsValid() {
			return nil, &NameError{given, "there are no names below an IP address"}
		}
		if wild {
			p.below["."+name] = true
			continue
		}
		if addr.IsValid() && !p.exact[name] {
			p.addrs = append(p.addrs, addr)
		}
		p.exact[name] = true
	}
	return p, nil
}

// allows reports whether the canonical name may be signed. With nil all may.
func (p *permitted) allows(name string) bool {
	if p == nil || p.exact[name] {
		return true
	}
	for i := range len(name) {
		if name[i] == '.' && p.below[name[i:]] {
			return true
		}
	}
	return false
}

// constrain writes the constraints into the root's template.
//
// A kind of name that has no constraint is free, so both kinds get one. Where
// there is no DNS name, only names below "invalid" are allowed, which exist
// nowhere (RFC 6761 section 6.4): an empty excluded name says the same, but is
// less well known among clients. A leading dot, which would leave out the name
// itself, is refused by some.
func (p *permitted) constrain(root *x509.Certificate) {
	if p == nil {
		return
	}
	root.PermittedDNSDomainsCritical = true
	root.PermittedDNSDomains = p.domains()
	if len(root.PermittedDNSDomains) == 0 {
		root.PermittedDNSDomains = []string{"invalid"}
	}
	for _, addr := range p.addrs {
		root.PermittedIPRanges = append(root.PermittedIPRanges, network(addr, addr.BitLen()))
	}
	if len(p.addrs) == 0 {
		root.ExcludedIPRanges = []*net.IPNet{network(netip.IPv4Unspecified(), 0), network(netip.IPv6Unspecified(), 0)}
	}
}

// domains returns the DNS names as constraints, without those that others
// include: a constraint covers all names below it.
func (p *permitted) domains() []string {
	all := make(map[string]bool)
	for name := range p.exact {
		if !looksLikeAddress(name) {
			all[name] = true
		}
	}
	for suffix := range p.below {
		all[suffix[1:]] = true
	}
	var domains []string
	for name := range all {
		if !coveredBy(all, name) {
			domains = append(domains, name)
		}
	}
	slices.Sort(domains)
	return domains
}

// coveredBy reports whether a name above this one is in the set.
func coveredBy(all map[string]bool, name string) bool {
	for {
		_, above, ok := strings.Cut(name, ".")
		if !ok {
			return false
		}
		if all[above] {
			return true
		}
		name = above
	}
}

func network(addr netip.Addr, bits int) *net.IPNet {
	return &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(bits, addr.BitLen())}
}
