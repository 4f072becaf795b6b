package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"mulligan/policy"
	"mulligan/proxy"
)

// sheet is what explain writes on: lines, and rows with a label before them.
type sheet struct{ w io.Writer }

func (s *sheet) text(format string, args ...any) { fmt.Fprintf(s.w, format+"\n", args...) }

func (s *sheet) row(label, format string, args ...any) {
	fmt.Fprintf(s.w, "%-10s %s\n", label, fmt.Sprintf(format, args...))
}

// describe writes where the request belongs and the policy it is under.
func (q *question) describe(s *sheet, p *place) {
	s.row("door", "%s", p.door)
	if p.upstream != nil {
		s.row("upstream", "%s: %s", p.upstream.Name, p.why)
	}
	switch {
	case p.refused != "":
		s.row("refused", "%s", p.refused)
		return
	case p.answered != "":
		s.row("answered", "%s", p.answered)
		return
	}
	s.row("route", "%s", q.whyRoute(p))
	s.row("sent to", "%s", p.sentTo)
	if p.tunnel {
		q.describeTunnel(s, p)
	} else {
		s.row("method", "%s", q.whyMethod(p))
	}
	if p.inside {
		s.row("trust", "the client needs the root that `mulligan ca` prints, or runs under `mulligan exec`")
	}
	s.row("budget", "%s", whyBudget(p))
	s.row("timeouts", "%s", q.timeouts(p))
	q.describeLimits(s, p)
}

// describeTunnel says what a tunnel hides, and how to have requests seen.
func (q *question) describeTunnel(s *sheet, p *place) {
	if !q.target.HTTPS {
		s.row("inside", "mulligan retries the dial only, then bytes pass untouched; but plain HTTP requests in them get the whole policy")
		return
	}
	s.row("hidden", "mulligan retries the dial only, then bytes pass untouched: the requests are inside TLS")
	s.row("metrics", "show tunnels, dials and the retries of dials, and nothing of the requests")
	s.row("instead", "intercept: %s; the client needs the root that `mulligan ca` prints, or runs under `mulligan exec`", q.interceptWay(p))
	s.row("or", "begin TLS here: %s", q.originWay(p))
	s.row("or", "a door of its own: %s", q.doorWay(p))
}

// interceptWay says what makes the tunnel one whose TLS ends here.
func (q *question) interceptWay(p *place) string {
	all := slices.ContainsFunc(p.upstream.Hosts, func(h policy.HostPattern) bool { return h.Wildcard && h.Name == "" })
	if p.upstream == q.cfg.Default || all {
		return fmt.Sprintf("an upstream with `hosts: [%s]` and `tls: {intercept: true}`", bracketed(q.target.Host))
	}
	return fmt.Sprintf("`tls: {intercept: true}` in the upstream %s", p.upstream.Name)
}

// originWay says how a request in the clear comes to be sent over TLS.
func (q *question) originWay(p *place) string {
	if len(p.upstream.Endpoints) > 0 {
		return fmt.Sprintf("ask for http://%s%s, which the upstream's endpoint gets, under the whole policy", q.plainAuthority(p), q.target.Path)
	}
	return fmt.Sprintf("an upstream with `hosts: [NAME]` and `endpoints: [%s]`, and ask for http://NAME%s", q.origin(), q.target.Path)
}

// doorWay says how a client that knows no proxy gets there.
func (q *question) doorWay(p *place) string {
	path := q.target.Path
	switch u := p.upstream; {
	case u.Listen != "":
		return fmt.Sprintf("ask for %s://%s%s, the upstream's listen", scheme(u.ListenTLS), u.Listen, path)
	case u.Mount != "":
		return fmt.Sprintf("ask for %s://%s%s%s, the upstream's mount", scheme(q.cfg.ProxyTLS), q.cfg.Proxy, u.Mount, path)
	case len(u.Endpoints) > 0:
		return "give the upstream a `listen: 127.0.0.1:7090` or a `mount: /name`, and ask there"
	}
	return fmt.Sprintf("an upstream with `endpoints: [%s]` and a `listen: 127.0.0.1:7090` or a `mount: /name`, and ask there", q.origin())
}

// scheme is how a listener is called.
func scheme(t *policy.ListenerTLS) string {
	if t != nil {
		return "https"
	}
	return "http"
}

// origin is the endpoint that the tunnel's target would be.
func (q *question) origin() string {
	return "https://" + hostPortOf(policy.Endpoint{Scheme: "https", Host: q.target.Host, Port: q.target.Port})
}

// bracketed quotes an address of IPv6 for a list of hosts.
func bracketed(host string) string {
	if strings.Contains(host, ":") {
		return `"[` + host + `]"`
	}
	return host
}

// plainAuthority is by what a request for http:// reaches the tunnel's upstream:
// the host alone, where the upstream does not name it with the port.
func (q *question) plainAuthority(p *place) string {
	t := q.target
	if u, _ := policy.NewTable(q.cfg.Upstreams, q.cfg.Default).Lookup(t.Host, 80); u == p.upstream {
		return hostPort(t.Host, 80)
	}
	return hostPort(t.Host, t.Port)
}

// whyRoute says by what the route was found.
func (q *question) whyRoute(p *place) string {
	r, of := p.route, len(p.upstream.Routes)
	switch {
	case r != p.upstream.Default && of == 1:
		return fmt.Sprintf("%s: it matches %s", r.Name, whatMatches(r))
	case r != p.upstream.Default:
		return fmt.Sprintf("%s: the first of %d that matches; it takes %s", r.Name, of, whatMatches(r))
	case of == 0:
		return r.Name + ": the upstream has no routes"
	case p.tunnel:
		return r.Name + ": a tunnel has no path that a route could match"
	}
	return fmt.Sprintf("%s: no route matches %s %s", r.Name, q.method, p.path)
}

// whatMatches writes a route's match as its configuration does.
func whatMatches(r *policy.Route) string {
	methods, path := "every method", "every path"
	if len(r.Methods) > 0 {
		methods = strings.Join(r.Methods, ", ")
	}
	if r.Prefix && r.Path != "" {
		path = r.Path + "*"
	} else if !r.Prefix {
		path = r.Path
	}
	return methods + " on " + path
}

// key returns the name of the idempotency key that the request carries, or "".
func (q *question) key(r *policy.Route) string {
	for _, name := range r.Retry.IdempotencyKeys {
		if proxy.Keyed(q.header, name) {
			return name
		}
	}
	return ""
}

// whyMethod says whether the request may be sent again once it was sent.
func (q *question) whyMethod(p *place) string {
	r := &p.route.Retry
	key := q.key(p.route)
	switch {
	case r.Repeatable(q.method, false, policy.ConnectionReset):
		return q.method + " may be repeated: methods has it"
	case key != "":
		return fmt.Sprintf("%s may be repeated: the request carries %s", q.method, key)
	case len(r.IdempotencyKeys) == 0:
		return fmt.Sprintf("%s may be repeated only where nothing was sent: methods lacks it", q.method)
	}
	return fmt.Sprintf("%s may be repeated only where nothing was sent: methods lacks it, and there is no %s",
		q.method, strings.Join(r.IdempotencyKeys, " or "))
}

// whyBudget says what retries may cost.
func whyBudget(p *place) string {
	b := p.upstream.Budget
	text := fmt.Sprintf("a retry takes a token; there are %s at first, and each answer that needs none brings %s for %s",
		number(b.Burst), number(b.Ratio), b.Window)
	if b.MinPerSecond > 0 {
		text += fmt.Sprintf(", each second %s", number(b.MinPerSecond))
	}
	if p.route.Retry.CountClientRetries {
		text += "; a retry by the client's own library takes one too"
	}
	if !p.named {
		text += "; kept for this host alone"
	}
	return text
}

// timeouts writes the limits that bear on retries.
func (q *question) timeouts(p *place) string {
	t := p.route.Timeout
	text := "connect " + limit(t.Connect)
	if !p.tunnel {
		text += ", attempt " + limit(t.Attempt)
	}
	text += ", total (the window) " + limit(t.Total)
	if d, ok := q.deadline(p); ok {
		text += ", grpc-timeout " + length(d)
	}
	return text
}

// limit writes a time limit, of which 0 means none.
func limit(d time.Duration) string {
	if d == 0 {
		return "none"
	}
	return length(d)
}

// length writes a duration without zero parts at its end: 10m, not 10m0s.
func length(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// number writes a number in as few digits as it needs.
func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
