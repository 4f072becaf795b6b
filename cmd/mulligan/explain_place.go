package main

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"mulligan/policy"
	"mulligan/proxy"
)

// place is where a request belongs, and how it got there.
type place struct {
	door     string
	tunnel   bool // mulligan sees the dial only
	upstream *policy.Upstream
	why      string // it is this upstream
	named    bool   // the upstream names the host: one budget for all its hosts
	route    *policy.Route
	path     string // what routes match
	sentTo   string
	refused  string // why it gets nowhere; "" where it does
}

// place finds the door, and through it everything else.
func (q *question) place() *place {
	if q.target.HTTPS || q.method == "CONNECT" {
		return q.tunnelPlace()
	}
	if p := q.ownPort(); p != nil {
		return p
	}
	return q.forwardPlace()
}

// ownPort is for requests to a port of mulligan's own, as to a server; nil
// where the URL names none. The admin port is none of them: it is no way in.
func (q *question) ownPort() *place {
	t := q.target
	var owner *policy.Upstream
	for _, u := range q.cfg.Upstreams {
		if owner == nil && u.Listen != "" && listensAt(u.Listen, t.Host, t.Port) {
			owner = u
		}
	}
	switch {
	case owner == nil && !listensAt(q.cfg.Proxy, t.Host, t.Port):
		return nil
	case proxy.CrossSite(q.header):
		return &place{door: "reverse: a port of mulligan's own",
			refused: "403: a browser's cross-site request (Sec-Fetch-Site), which reverse doors do not take"}
	case owner == nil:
		return q.reversePlace()
	}
	p := &place{door: "reverse: the upstream's own port, listen " + owner.Listen, upstream: owner, named: true,
		why: "it listens there"}
	return q.atEndpoint(p, t.Path)
}

// reversePlace is for origin-form requests on the proxy port.
func (q *question) reversePlace() *place {
	table := policy.NewTable(q.cfg.Upstreams, q.cfg.Default)
	if u, rest, ok := table.Mount(q.target.Path); ok {
		p := &place{door: "reverse: a path of the proxy port", upstream: u, named: true,
			why: fmt.Sprintf("its mount %s is the longest that fits, and is cut off", u.Mount)}
		return q.atEndpoint(p, rest)
	}
	host, port := q.target.Host, q.target.Port
	if written := q.header.Get("Host"); written != nil {
		if h, n, err := proxy.ParseAuthority(string(written)); err == nil {
			host, port = h, n
		}
	}
	u, named := table.Lookup(host, port)
	if u == q.cfg.Default || len(u.Endpoints) == 0 {
		return &place{door: "reverse: the proxy port, called like a web server",
			refused: "421: no mount fits the path, and no upstream with endpoints has the Host " + hostPort(host, port)}
	}
	p := &place{door: "reverse: the proxy port, by Host", upstream: u, named: named, why: q.whyUpstream(u, host, port)}
	return q.atEndpoint(p, q.target.Path)
}

// forwardPlace is for absolute-form requests, as HTTP_PROXY makes them.
func (q *question) forwardPlace() *place {
	t := q.target
	p := &place{door: "forward: HTTP_PROXY"}
	if !q.lookup(p) {
		return p
	}
	if len(p.upstream.Endpoints) > 0 {
		return q.atEndpoint(p, t.Path)
	}
	p.sentTo = "http://" + hostPort(t.Host, t.Port) + t.Path
	q.aim(p, t.Path)
	p.refused = q.forbidden(t.Host, t.Port, false)
	return p
}

// tunnelPlace is for what clients send through CONNECT.
func (q *question) tunnelPlace() *place {
	t := q.target
	p := &place{door: "tunnel: CONNECT", tunnel: true}
	if t.HTTPS {
		p.door = "tunnel: CONNECT, as HTTPS_PROXY makes clients do"
	}
	if !q.lookup(p) {
		return p
	}
	p.sentTo = "a connection to " + net.JoinHostPort(t.Host, strconv.Itoa(t.Port))
	p.route = p.upstream.Route("CONNECT", "")
	p.refused = q.forbidden(t.Host, t.Port, false)
	return p
}

// lookup finds the upstream by the target's host. False: it is refused.
func (q *question) lookup(p *place) bool {
	t := q.target
	p.upstream, p.named = policy.NewTable(q.cfg.Upstreams, q.cfg.Default).Lookup(t.Host, t.Port)
	p.why = q.whyUpstream(p.upstream, t.Host, t.Port)
	if p.upstream == q.cfg.Default && q.cfg.DenyUnmatched {
		p.refused = "403: no upstream names this host, and unmatched is deny"
	}
	return p.refused == ""
}

// atEndpoint sends the request to its upstream's endpoint.
func (q *question) atEndpoint(p *place, path string) *place {
	e := p.upstream.Endpoints[0]
	p.sentTo = e.Scheme + "://" + hostPortOf(e) + e.Path + path
	host := "the endpoint's"
	if p.upstream.PreserveHost {
		host = "the client's"
	}
	p.sentTo += " (the upstream's endpoint; Host is " + host + ")"
	q.aim(p, path)
	p.refused = q.forbidden(e.Host, e.Port, true)
	return p
}

// aim sets the route; path may have a query, which routes do not look at.
func (q *question) aim(p *place, path string) {
	p.path, _, _ = strings.Cut(path, "?")
	p.route = p.upstream.Route(q.method, p.path)
}

// whyUpstream names the pattern by which the host belongs to the upstream. Each
// of the upstream's patterns stands for an upstream of its own in a table, so
// that the winner is found by the rules that the proxy goes by.
func (q *question) whyUpstream(u *policy.Upstream, host string, port int) string {
	if u == q.cfg.Default {
		return "no upstream names " + hostPort(host, port)
	}
	var alone []*policy.Upstream
	for _, pattern := range u.Hosts {
		alone = append(alone, &policy.Upstream{Name: pattern.String(), Hosts: []policy.HostPattern{pattern}})
	}
	winner, _ := policy.NewTable(alone, u).Lookup(host, port)
	return "its hosts have " + winner.Name
}

// listensAt reports whether a URL with this host and port calls the listener.
func listensAt(configured, host string, port int) bool {
	h, p, err := net.SplitHostPort(configured)
	if err != nil || p != strconv.Itoa(port) {
		return false
	}
	if strings.EqualFold(h, strings.TrimSuffix(host, ".")) {
		return true
	}
	ip, literal := proxy.Literal(host)
	own, ownLiteral := proxy.Literal(h)
	if h == "" || own.IsUnspecified() {
		return literal // every address of this machine, by literal or as localhost
	}
	return literal && ownLiteral && ip == own
}

// hostPort writes an authority of http as people do, without port 80.
func hostPort(host string, port int) string {
	return hostPortOf(policy.Endpoint{Scheme: "http", Host: host, Port: port})
}

// hostPortOf writes an endpoint's authority without the scheme's own port.
func hostPortOf(e policy.Endpoint) string {
	if e.Scheme == "http" && e.Port == 80 || e.Scheme == "https" && e.Port == 443 {
		if strings.Contains(e.Host, ":") {
			return "[" + e.Host + "]"
		}
		return e.Host
	}
	return net.JoinHostPort(e.Host, strconv.Itoa(e.Port))
}
