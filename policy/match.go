package policy

import (
	"cmp"
	"slices"
	"strings"
)

// Table finds the upstream that a request belongs to, by host or by mount. It
// is built once a configuration and then only read.
type Table struct {
	exact    map[string]hostEntry
	wild     map[string]hostEntry // by what follows "*."
	any      hostEntry            // "*"
	longest  int                  // length of the longest key in wild
	mounts   []mount              // longest first
	fallback *Upstream
}

// hostEntry holds the upstreams of one name, by port.
type hostEntry struct {
	all   *Upstream // for any port; nil none
	ports []portEntry
}

type portEntry struct {
	port     int
	upstream *Upstream
}

type mount struct {
	path     string
	upstream *Upstream
}

// NewTable builds the table of the upstreams' hosts and mounts; fallback takes
// the hosts that nobody names. Where two upstreams claim the same host or
// mount, which configuration refuses, the first has it.
func NewTable(upstreams []*Upstream, fallback *Upstream) *Table {
	t := &Table{exact: map[string]hostEntry{}, wild: map[string]hostEntry{}, fallback: fallback}
	for _, u := range upstreams {
		for _, h := range u.Hosts {
			t.addHost(h, u)
		}
		if u.Mount != "" {
			t.mounts = append(t.mounts, mount{path: u.Mount, upstream: u})
		}
	}
	slices.SortStableFunc(t.mounts, func(a, b mount) int { return cmp.Compare(len(b.path), len(a.path)) })
	return t
}

func (t *Table) addHost(h HostPattern, u *Upstream) {
	switch {
	case h.Wildcard && h.Name == "":
		t.any = t.any.with(h.Port, u)
	case h.Wildcard:
		t.wild[h.Name] = t.wild[h.Name].with(h.Port, u)
		t.longest = max(t.longest, len(h.Name))
	default:
		t.exact[h.Name] = t.exact[h.Name].with(h.Port, u)
	}
}

// with returns the entry with one more claim; an earlier one to the same port
// is found first.
func (e hostEntry) with(port int, u *Upstream) hostEntry {
	switch {
	case port == 0 && e.all == nil:
		e.all = u
	case port != 0:
		e.ports = append(e.ports, portEntry{port, u})
	}
	return e
}

// find returns the upstream for the port, nil where none matches: a port
// beats none.
func (e hostEntry) find(port int) *Upstream {
	for _, p := range e.ports {
		if p.port == port {
			return p.upstream
		}
	}
	return e.all
}

// Lookup returns the upstream of a host (a name or an IP literal, with brackets
// or without) and port. named is false where only a wildcard or nobody names the
// host: then its state is to be kept per authority. It does not allocate for
// names in lower case.
func (t *Table) Lookup(host string, port int) (u *Upstream, named bool) {
	if strings.IndexByte(host, ':') >= 0 {
		return t.lookupIPv6(host, port)
	}
	host = lower(strings.TrimSuffix(host, "."))
	if u := t.exact[host].find(port); u != nil {
		return u, true
	}
	if u := t.lookupWild(host, port); u != nil {
		return u, false
	}
	return t.lookupAny(port), false
}

// lookupWild tries the wildcards from the longest that could match. Longer
// names than any wildcard has are not even hashed: the client chooses the host.
func (t *Table) lookupWild(host string, port int) *Upstream {
	if t.longest == 0 {
		return nil
	}
	rest := host
	for {
		dot := strings.IndexByte(rest, '.')
		if dot < 0 {
			return nil
		}
		first := len(rest) == len(host)
		rest = rest[dot+1:]
		if first && dot == 0 || len(rest) > t.longest {
			continue // no label before the dot; or too long
		}
		if u := t.wild[rest].find(port); u != nil {
			return u
		}
	}
}

func (t *Table) lookupAny(port int) *Upstream {
	if u := t.any.find(port); u != nil {
		return u
	}
	return t.fallback
}

// lookupIPv6 compares addresses, not their spelling. "*." matches names only.
func (t *Table) lookupIPv6(host string, port int) (u *Upstream, named bool) {
	if addr, ok := parseIPv6(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")); ok {
		var buf [maxIPv6Text]byte
		if u := t.exact[string(addr.append(buf[:0]))].find(port); u != nil {
			return u, true
		}
	}
	return t.lookupAny(port), false
}

// Mount returns the upstream whose mount the path (with its query, if any) lies
// under, the longest one, and the path below the mount, which begins with a
// slash. Bytes are compared as they are.
func (t *Table) Mount(path string) (u *Upstream, rest string, ok bool) {
	for _, m := range t.mounts {
		rest, found := strings.CutPrefix(path, m.path)
		switch {
		case !found:
		case rest == "":
			return m.upstream, "/", true
		case rest[0] == '/':
			return m.upstream, rest, true
		case rest[0] == '?':
			return m.upstream, "/" + rest, true
		}
	}
	return nil, "", false
}

// Route returns the first route that matches the method and the path (after a
// mount is stripped, without the query, byte for byte), else the upstream's
// own policy.
func (u *Upstream) Route(method, path string) *Route {
	for _, r := range u.Routes {
		if r.matches(method, path) {
			return r
		}
	}
	return u.Default
}

func (r *Route) matches(method, path string) bool {
	if len(r.Methods) > 0 && !slices.Contains(r.Methods, method) {
		return false
	}
	if r.Prefix {
		return strings.HasPrefix(path, r.Path)
	}
	return path == r.Path
}
