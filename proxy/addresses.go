package proxy

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"

	"mulligan/policy"
)

// failedAddrs are addresses that have failed a request, so that its next attempt
// goes to another one where its host's name has several. The zero value is none.
type failedAddrs struct {
	n    int // ever added
	list [8]netip.AddrPort
}

// all returns the addresses; they are good until the next is added.
func (f *failedAddrs) all() []netip.AddrPort { return f.list[:min(f.n, len(f.list))] }

// add takes one more in, in the place of the oldest where there are many. What is no
// address is none; nor is anything noted in nil.
func (f *failedAddrs) add(addr netip.AddrPort) {
	if f == nil || !addr.IsValid() || slices.Contains(f.all(), addr) {
		return
	}
	f.list[f.n%len(f.list)] = addr
	f.n++
}

type failedAddrsKey struct{}

// withFailedAddrs makes dials under ctx try other addresses than those first, and
// note which ones fail.
func withFailedAddrs(ctx context.Context, f *failedAddrs) context.Context {
	return context.WithValue(ctx, failedAddrsKey{}, f)
}

// failedAddrsOf returns the addresses to try last under ctx, or nil.
func failedAddrsOf(ctx context.Context) *failedAddrs {
	f, _ := ctx.Value(failedAddrsKey{}).(*failedAddrs)
	return f
}

// nameAddrs is what a name was resolved to last.
type nameAddrs struct {
	last atomic.Pointer[[]netip.AddrPort]
}

// note keeps what a resolver said; of a name that nobody wants to know it is lost.
func (n *nameAddrs) note(addrs []netip.AddrPort) {
	if n != nil {
		n.last.Store(&addrs)
	}
}

// others reports whether the name has an address that has not failed.
func (n *nameAddrs) others(failed []netip.AddrPort) bool {
	known := n.last.Load()
	return known != nil && slices.ContainsFunc(*known, func(a netip.AddrPort) bool { return !slices.Contains(failed, a) })
}

// elsewhere lets the next attempt go to another address than those before it.
func (x *exchange) elsewhere(w *wanted) {
	w.avoid = x.failedAt.all()
	w.other = x.auth.peer.addrs.others(w.avoid)
}

// failedHere notes the address that the attempt under way has failed at.
func (x *exchange) failedHere() {
	if x.uc != nil {
		x.failedAt.add(x.uc.RemoteAddr())
	}
}

// failedWith notes the address that an answer came from which says that the server
// is in trouble; a limit of the client's is the same everywhere.
func (x *exchange) failedWith(o policy.Outcome) {
	if o.Status >= 500 {
		x.failedHere()
	}
}

// resolve returns the addresses of a name in the order of the resolver (RFC 6724 6),
// but both families by turns (RFC 8305 4).
func (s *Server) resolve(ctx context.Context, host string, port uint16) ([]netip.AddrPort, error) {
	lookup := s.opts.Resolve
	if lookup == nil {
		lookup = lookupHost
	}
	ips, err := lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	addrs := make([]netip.AddrPort, len(ips))
	for i, ip := range byTurns(ips) {
		addrs[i] = netip.AddrPortFrom(ip, port)
	}
	return addrs, nil
}

// lookupHost asks the system's resolver.
func lookupHost(ctx context.Context, host string) ([]netip.Addr, error) {
	found, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil {
		return nil, err
	}
	ips := make([]netip.Addr, 0, len(found))
	for _, f := range found {
		if ip, ok := netip.AddrFromSlice(f.IP); ok {
			ips = append(ips, ip.Unmap().WithZone(f.Zone))
		}
	}
	return ips, nil
}

// byTurns orders addresses so that their families take turns, beginning with that
// of the first: where one of them leads nowhere, only every other dial is in vain.
func byTurns(ips []netip.Addr) []netip.Addr {
	ordered := make([]netip.Addr, 0, len(ips))
	left := slices.Clone(ips)
	for len(left) > 0 {
		i := 0
		if n := len(ordered); n > 0 {
			i = max(0, slices.IndexFunc(left, func(ip netip.Addr) bool { return ip.Is4() != ordered[n-1].Is4() }))
		}
		ordered = append(ordered, left[i])
		left = slices.Delete(left, i, i+1)
	}
	return ordered
}

// failedLast moves what has failed behind what has not.
func failedLast(addrs []netip.AddrPort, failed *failedAddrs) []netip.AddrPort {
	if failed == nil || failed.n == 0 {
		return addrs
	}
	var first, last []netip.AddrPort
	for _, a := range addrs {
		if slices.Contains(failed.all(), a) {
			last = append(last, a)
		} else {
			first = append(first, a)
		}
	}
	return append(first, last...)
}

// dialName dials a host by the addresses that its name has now.
func (s *Server) dialName(ctx context.Context, g *guard, host string, port uint16, exempt bool, found *nameAddrs) (net.Conn, error) {
	addrs, err := s.resolve(ctx, host, port)
	if err != nil {
		return nil, err
	}
	if len(addrs) == 0 {
		return nil, &net.DNSError{Err: "no address", Name: host, IsNotFound: true}
	}
	found.note(addrs)
	failed := failedAddrsOf(ctx)
	dial := func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
		return g.dial(ctx, addr.String(), exempt)
	}
	return dialRace(ctx, failedLast(addrs, failed), dial, failed.add)
}
