package main

import (
	"fmt"
	"io"
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
	s.row("budget", "%s", whyBudget(p))
	s.row("timeouts", "%s", timeouts(p))
}

// describeTunnel says what a tunnel hides, and how to have requests seen.
func (q *question) describeTunnel(s *sheet, p *place) {
	t := q.target
	if !t.HTTPS {
		s.row("inside", "mulligan retries the dial only, then bytes pass untouched; but plain HTTP requests in them get the whole policy")
		return
	}
	s.row("hidden", "mulligan retries the dial only, then bytes pass untouched: the requests are inside TLS")
	if len(p.upstream.Endpoints) > 0 {
		s.row("instead", "ask for http://%s%s: the upstream's endpoint gets it, under the whole policy", q.plainAuthority(p), t.Path)
		return
	}
	s.row("instead", "give an upstream `endpoints: [https://%s]` and ask for http://: then the whole policy holds",
		hostPortOf(policy.Endpoint{Scheme: "https", Host: t.Host, Port: t.Port}))
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
	if !p.named {
		text += "; kept for this host alone"
	}
	return text
}

// timeouts writes the limits that bear on retries.
func timeouts(p *place) string {
	t := p.route.Timeout
	text := "connect " + limit(t.Connect)
	if !p.tunnel {
		text += ", attempt " + limit(t.Attempt)
	}
	return text + ", total (the window) " + limit(t.Total)
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
