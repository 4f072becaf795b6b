package main

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"mulligan/policy"
	"mulligan/proxy"
)

// place is where a request belongs, and how it got there.
type place struct {
	door     string
	tunnel   bool // mulligan sees the dial only
	inside   bool // of a tunnel whose TLS ends here
	secure   bool // it is sent over TLS
	upstream *policy.Upstream
	why      string // it is this upstream
	named    bool   // the upstream names the host: one budget for all its hosts
	route    *policy.Route
	path     string // what routes match
	sentTo   string
	refused  string // why it gets nowhere; "" where it does
	answered string // why mulligan itself answers it, which is no refusal

	unauthorized string // why the request as it is gets 407, before anything else
}

// place finds the door, and through it everything else.
func (q *question) place() *place {
	if q.method == "CONNECT" {
		return q.tunnelPlace()
	}
	if p := q.ownPort(); p != nil {
		return p
	}
	if q.target.HTTPS {
		return q.tunnelPlace()
	}
	return q.forwardPlace()
}

// ownPort is for requests to a port of mulligan's own, as to a server; nil
// where the URL names none that speaks TLS, for https, or any. The admin port is
// none of them: it is no way in.
func (q *question) ownPort() *place {
	t := q.target
	var owner *policy.Upstream
	for _, u := range q.cfg.Upstreams {
		if owner == nil && u.Listen != "" && listensAt(u.Listen, t.Host, t.Port) {
			owner = u
		}
	}
	if owner == nil && !listensAt(q.cfg.Proxy, t.Host, t.Port) {
		return nil
	}
	certified := q.cfg.ProxyTLS
	if owner != nil {
		certified = owner.ListenTLS
	}
	p := &place{door: "reverse: a port of mulligan's own"}
	switch {
	case t.HTTPS && certified == nil:
		return nil // through HTTPS_PROXY it is a tunnel to where none may go
	case !t.HTTPS && certified != nil:
		p.refused = "400: this port speaks TLS; ask for https://" + net.JoinHostPort(t.Host, strconv.Itoa(t.Port))
		return p
	case proxy.CrossSite(q.header):
		p.refused = "403: a browser's cross-site request (Sec-Fetch-Site), which reverse doors do not take"
	case owner == nil:
		p = q.reversePlace()
	default:
		p = &place{door: "reverse: the upstream's own port, listen " + owner.Listen, upstream: owner, named: true,
			why: "it listens there"}
		q.atEndpoint(p, t.Path)
	}
	if owner == nil {
		p.unauthorized = q.unauthorized(true)
	}
	return p
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
	p := &place{door: "forward: HTTP_PROXY", unauthorized: q.unauthorized(false)}
	if !q.lookup(p) {
		return p
	}
	if len(p.upstream.Endpoints) > 0 {
		return q.atEndpoint(p, t.Path)
	}
	p.sentTo = "http://" + hostPort(t.Host, t.Port) + t.Path
	q.aim(p, t.Path)
	q.admit(p, t.Host, t.Port, false)
	return p
}

// tunnelPlace is for what clients send through CONNECT.
func (q *question) tunnelPlace() *place {
	t := q.target
	p := &place{door: "tunnel: CONNECT", tunnel: true, unauthorized: q.unauthorized(false)}
	if t.HTTPS {
		p.door = "tunnel: CONNECT, as HTTPS_PROXY makes clients do"
	}
	if !q.lookup(p) {
		return p
	}
	if q.method == "CONNECT" && q.head.ContentLength != 0 {
		p.refused = "400: a CONNECT has no body"
		return p
	}
	if p.upstream.TLS.Intercept {
		return q.interceptedPlace(p)
	}
	p.sentTo = "a connection to " + net.JoinHostPort(t.Host, strconv.Itoa(t.Port))
	p.route = p.upstream.Route("CONNECT", "")
	p.refused = q.forbidden(t.Host, t.Port, false)
	return p
}

// interceptedPlace is for what is inside a tunnel whose TLS ends here. It goes to
// the host that the tunnel names, never to an endpoint.
func (q *question) interceptedPlace(p *place) *place {
	t := q.target
	p.door, p.tunnel = "intercepted: CONNECT, then TLS ends here", false
	if q.method == "CONNECT" {
		p.answered = "200 at once, and nothing is dialled yet: each request inside gets the whole policy; ask about its https:// URL"
		return p
	}
	p.inside, p.secure = true, true
	authority := hostPortOf(policy.Endpoint{Scheme: "https", Host: t.Host, Port: t.Port})
	p.sentTo = "https://" + authority + t.Path
	if len(p.upstream.Endpoints) > 0 {
		p.sentTo += " (the host that the tunnel names, not the upstream's endpoint)"
	}
	q.aim(p, t.Path)
	if written := q.header.Get("Host"); written != nil && !q.isTarget(string(written)) {
		p.refused = "421: the Host of a request inside the tunnel must be the tunnel's, " + authority
		return p
	}
	q.admit(p, t.Host, t.Port, false)
	return p
}

// isTarget reports whether a Host field inside of TLS names the target.
func (q *question) isTarget(written string) bool {
	host, port, err := proxy.ParseAuthority(written)
	if port == 80 && !strings.HasSuffix(written, ":80") {
		port = 443 // none is written
	}
	return err == nil && strings.EqualFold(host, q.target.Host) && port == q.target.Port
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

// atEndpoint sends the request to its upstream's endpoints.
func (q *question) atEndpoint(p *place, path string) *place {
	host := "the endpoint's"
	if p.upstream.PreserveHost {
		host = "the client's"
	}
	all := p.upstream.Endpoints
	if len(all) > 1 {
		p.sentTo = fmt.Sprintf("one of %s (of two at random the less busy; a retry goes to another; Host is %s)", places(p.upstream, path), host)
	} else {
		p.sentTo = fmt.Sprintf("%s (the upstream's endpoint; Host is %s)", places(p.upstream, path), host)
	}
	p.secure = slices.ContainsFunc(all, func(e policy.Endpoint) bool { return e.Scheme == "https" })
	q.aim(p, path)
	for _, e := range all {
		if q.admit(p, e.Host, e.Port, true); p.refused == "" {
			break
		}
	}
	return p
}

// admit says what ends the request before an attempt is made, in the order in
// which the proxy looks at it.
func (q *question) admit(p *place, host string, port int, endpoint bool) {
	switch proxy.AnswersItself(q.head) {
	case 200:
		p.answered = "200 by mulligan itself, and nothing is sent: Max-Forwards says that this is the last hop"
	case 400:
		p.refused = "400: a body, where Max-Forwards says that this is the last hop"
	default:
		p.refused = q.forbidden(host, port, endpoint)
	}
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
	return proxy.Listeners{Proxy: configured}.Reached(host, port)
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
