package config

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"mulligan/policy"
)

// perUpstream is why a route cannot have what is counted for all of them.
const perUpstream = "is kept per upstream: write it there, not in a route"

// policyFields are the keys that `defaults` and an upstream share.
var policyFields = concat(
	fields(
		section("timeout", &timeoutKeys, func(u *policy.Upstream) *policy.TimeoutConfig { return &u.Default.Timeout }),
		section("retry", &retryKeys, itself[policy.Upstream]),
		section("buffer", &bufferKeys, func(u *policy.Upstream) *policy.Buffer { return &u.Default.Buffer }),
		section("connections", &connectionKeys, func(u *policy.Upstream) *policy.Connections { return &u.Connections }),
		turnedOn("circuit_breaker", &breaker, func(u *policy.Upstream) *policy.BreakerConfig { return &u.Breaker }),
		turnedOn("concurrency", &concurrency, func(u *policy.Upstream) *policy.Concurrency { return &u.Concurrency }),
		turnedOn("rate_limit", &rateLimit, func(u *policy.Upstream) *policy.RateLimit { return &u.RateLimit }),
		turnedOn("health_check", &healthCheck, func(u *policy.Upstream) *policy.HealthCheck { return &u.HealthCheck }),
		turnedOn("hedge", &hedging, func(u *policy.Upstream) *policy.Hedge { return &u.Default.Hedge }),
	),
	lift(headerFields, func(u *policy.Upstream) *policy.Route { return u.Default }),
)

var defaultsKeys = object[policy.Upstream]{
	fields: concat(
		policyFields,
		refused[policy.Upstream]("is not inherited: write it in each upstream that needs it", "tls", "preset"),
	),
	check: func(d *decoder, u *policy.Upstream, w written) { checkHeaders(d, u.Default, w) },
}

var retryKeys = object[policy.Upstream]{
	fields: concat(
		lift(retryFields, func(u *policy.Upstream) *policy.Retry { return &u.Default.Retry }),
		fields(section("budget", &budgetKeys, func(u *policy.Upstream) *policy.BudgetConfig { return &u.Budget })),
	),
	check: checkRetry,
}

// upstreamKeys has the preset first, which its other keys are read over, and the
// routes last: they inherit from all before them.
var upstreamKeys = object[policy.Upstream]{fields: concat(
	fields(key("preset", readPreset, itself[policy.Upstream])),
	fields(
		key("hosts", readHosts, itself[policy.Upstream]),
		key("endpoints", readEndpoints, itself[policy.Upstream]),
		key("preserve_host", boolean, func(u *policy.Upstream) *bool { return &u.PreserveHost }),
		key("mount", readMount, itself[policy.Upstream]),
		key("listen", readOwnDoor, itself[policy.Upstream]).holding(doorKeys.keys),
		section("tls", &tlsKeys, func(u *policy.Upstream) *policy.TLS { return &u.TLS }),
	),
	policyFields,
	fields(key("routes", readRoutes, itself[policy.Upstream]).holding(routeKeys.keys)),
)}

var tlsKeys = object[policy.TLS]{
	fields: fields(
		key("ca_file", pemFile(certificates, certificatesWrong), func(t *policy.TLS) *string { return &t.CAFile }),
		key("client_cert_file", pemFile(certificates, certificatesWrong), func(t *policy.TLS) *string { return &t.ClientCertFile }),
		key("client_key_file", pemFile(privateKey, keyWrong), func(t *policy.TLS) *string { return &t.ClientKeyFile }),
		key("server_name", optional(plainHost), func(t *policy.TLS) *string { return &t.ServerName }),
		key("min_version", oneOf(choice[string]{"1.2", "1.2"}, choice[string]{"1.3", "1.3"}),
			func(t *policy.TLS) *string { return &t.MinVersion }),
		key("intercept", boolean, func(t *policy.TLS) *bool { return &t.Intercept }),
		key("rewrite", boolean, func(t *policy.TLS) *bool { return &t.Rewrite }),
	),
	check: checkTLS,
}

var routeKeys = object[policy.Route]{fields: concat(
	fields(
		key("name", routeName, func(r *policy.Route) *string { return &r.Name }).must(),
		section("match", &matchKeys, itself[policy.Route]),
		section("timeout", &timeoutKeys, func(r *policy.Route) *policy.TimeoutConfig { return &r.Timeout }),
		section("retry", &routeRetryKeys, func(r *policy.Route) *policy.Retry { return &r.Retry }),
		section("buffer", &bufferKeys, func(r *policy.Route) *policy.Buffer { return &r.Buffer }),
		turnedOn("hedge", &hedging, func(r *policy.Route) *policy.Hedge { return &r.Hedge }),
	),
	headerFields,
	refused[policy.Route]("is for an upstream: write it there, not in a route", "preset"),
	refused[policy.Route](perUpstream, "tls", "connections", "circuit_breaker", "concurrency", "rate_limit", "health_check"),
	notYet[policy.Route]("deferred"),
)}

var routeRetryKeys = object[policy.Retry]{fields: concat(
	retryFields,
	refused[policy.Retry](perUpstream, "budget"),
)}

var matchKeys = object[policy.Route]{fields: fields(
	key("methods", list(method), func(r *policy.Route) *[]string { return &r.Methods }),
	key("path", readPath, itself[policy.Route]),
)}

// readUpstreams reads the upstreams in the order of the file.
func readUpstreams(d *decoder, n *yaml.Node, c *Config) {
	d.named(n, func(name, value *yaml.Node) {
		if !isName(name.Value) {
			d.failHint(name, nameRule, "not a name for an upstream")
		} else if name.Value == DefaultName {
			d.failHint(name, "choose another name; what holds for all is under defaults",
				"this is the name of what hosts get that no upstream names")
		}
		u, own := *c.Default, *c.Default.Default
		u.Name, u.Default = name.Value, &own
		if w, ok := upstreamKeys.walk(d, value, &u); ok {
			d.checkUpstream(name, &u, w)
		}
		c.Upstreams = append(c.Upstreams, &u)
	})
}

// checkUpstream looks at an upstream as a whole; w are its keys.
func (d *decoder) checkUpstream(name *yaml.Node, u *policy.Upstream, w written) {
	checkHeaders(d, u.Default, w)
	if len(u.Routes) == 0 && !w.doubtful("routes") {
		checkHedge(d, u.Default, w)
	}
	lost := len(u.Hosts) == 0 && w.at("listen") == nil && w.at("mount") == nil
	switch {
	case lost && len(u.Endpoints) > 0:
		d.warn(name, "nothing leads to this upstream: it has no hosts, listen or mount")
	case lost && !w.doubtful("hosts", "endpoints"):
		d.complain(name, "write hosts: [api.example.com]", "an upstream needs hosts or endpoints")
		return
	}
	if !w.doubtful("endpoints") {
		d.needEndpoints(u, w)
	}
	d.checkTLSUse(u, w)
}

// needEndpoints looks for what makes no sense without endpoints, whether its own
// value is right or wrong.
func (d *decoder) needEndpoints(u *policy.Upstream, w written) {
	for _, door := range []string{"listen", "mount"} {
		if n := w.at(door); n != nil && len(u.Endpoints) == 0 {
			d.complain(n, "write endpoints: [https://api.example.com]", "%s needs endpoints to send to", door)
		}
	}
	if n := w.at("health_check"); n != nil && turnsOn(n) && len(u.Endpoints) == 0 {
		d.complain(n, "write endpoints: [https://api.example.com], or leave it out", "health_check needs endpoints to look at")
	}
}

// checkTLSUse looks for what makes no sense in tls: what is about https endpoints
// where there is none, and interception of nobody in particular.
func (d *decoder) checkTLSUse(u *policy.Upstream, w written) {
	n := w.at("tls")
	if n == nil || w.doubtful("tls.intercept") {
		return
	}
	if !w.doubtful("endpoints") && !speaksTLS(u) {
		switch rewrites := u.TLS.Rewrite || w.doubtful("tls.rewrite"); {
		case !u.TLS.Intercept && hasTLS(u, w):
			d.complain(n, "write endpoints: [https://api.example.com], or intercept: true, or leave tls out",
				"tls is about https endpoints and intercepted hosts, and there is neither")
		case u.TLS.Intercept && rewrites:
			d.complain(n, "leave it out, or write endpoints: [https://api.example.com]",
				"rewrite is about https endpoints, and there is none")
		}
	}
	if u.TLS.Intercept && !w.doubtful("hosts") {
		d.checkIntercepted(u, w)
	}
}

// checkIntercepted wants to know whose certificates may be signed: not anyone's.
func (d *decoder) checkIntercepted(u *policy.Upstream, w written) {
	const hint = "write hosts: [api.example.com], the names whose tunnels are to be intercepted"
	if len(u.Hosts) == 0 {
		d.complain(w.at("tls"), hint, "intercept needs hosts")
	} else if i := slices.IndexFunc(u.Hosts, func(h policy.HostPattern) bool { return !h.Wildcard && oddIPv4(h.Name) }); i >= 0 {
		d.complain(w.at("hosts"), fourNumbers, "hosts has %s, for which intercept can sign no certificate", quote(u.Hosts[i].Name))
	} else if slices.ContainsFunc(u.Hosts, func(h policy.HostPattern) bool { return h.Wildcard && h.Name == "" }) {
		d.complain(w.at("hosts"), hint, "hosts has every host (*), which intercept does not take: it would sign a certificate for any name")
	}
}

// hasTLS reports whether tls says anything; a wrong value does.
func hasTLS(u *policy.Upstream, w written) bool {
	return u.TLS != (policy.TLS{}) || w.doubtful(inside("tls", tlsKeys.names())...)
}

// speaksTLS reports whether an endpoint of the upstream is https.
func speaksTLS(u *policy.Upstream) bool {
	for _, e := range u.Endpoints {
		if e.Scheme == "https" {
			return true
		}
	}
	return false
}

// checkRetry warns of methods that are made idempotent for a whole upstream and
// more. A route is where one knows that they are.
func checkRetry(d *decoder, u *policy.Upstream, w written) {
	written := w.right("methods")
	if written == nil {
		return
	}
	for _, m := range u.Default.Retry.Methods {
		if (m == "POST" || m == "PATCH") && (u.Preset == "" || hasItem(written, m)) { // a preset knows what it lists
			d.warn(written, "%s is repeated wherever no route says otherwise, with whatever it does twice; "+
				"list it in the routes that can bear it, or send an idempotency key", m)
		}
	}
}

// hasItem reports whether a list, or a single value, is written with this word.
func hasItem(n *yaml.Node, word string) bool {
	target := resolve(n)
	return target.Kind == yaml.ScalarNode && target.Value == word ||
		slices.ContainsFunc(target.Content, func(item *yaml.Node) bool { return resolve(item).Value == word })
}

// readHosts reads the hosts of an upstream, none of which may be another's.
func readHosts(d *decoder, n *yaml.Node, u *policy.Upstream) {
	list(func(d *decoder, n *yaml.Node, v *policy.HostPattern) {
		before := len(d.errors)
		if host(d, n, v); len(d.errors) == before {
			d.claims.claim(d, n, "host "+v.String())
		}
	})(d, n, &u.Hosts)
}

// readEndpoints reads the endpoints of an upstream, each of which is another.
func readEndpoints(d *decoder, n *yaml.Node, u *policy.Upstream) {
	own := newClaims()
	list(func(d *decoder, n *yaml.Node, v *policy.Endpoint) {
		before := len(d.errors)
		if endpoint(d, n, v); len(d.errors) == before {
			same := *v
			same.Text = "" // other spellings are the same endpoint
			own.claim(d, n, fmt.Sprintf("endpoint %+v", same))
		}
	})(d, n, &u.Endpoints)
	if target := resolve(n); target.Kind == yaml.SequenceNode && len(target.Content) > policy.MaxEndpoints {
		d.fail(target.Content[policy.MaxEndpoints], "has more than %d endpoints", policy.MaxEndpoints)
	}
}

// readMount reads an upstream's path on the proxy port.
func readMount(d *decoder, n *yaml.Node, u *policy.Upstream) {
	before := len(d.errors)
	if mount(d, n, &u.Mount); len(d.errors) == before {
		d.claims.claim(d, n, "mount "+u.Mount)
	}
}

// readRoutes reads the routes of an upstream, which inherit its policy.
func readRoutes(d *decoder, n *yaml.Node, u *policy.Upstream) {
	u.Routes = nil
	names := newClaims()
	d.items(n, func(_ int, value *yaml.Node) {
		r := *u.Default
		r.Name = ""
		w, _ := routeKeys.walk(d, value, &r)
		if name := w.right("name"); name != nil {
			d.within("name", func() { names.claim(d, name, "route "+r.Name) })
		}
		checkHeaders(d, &r, w)
		checkHedge(d, &r, w)
		if last := len(u.Routes) - 1; last >= 0 && matchesAll(u.Routes[last]) {
			d.warn(value, "never reached: the route before it matches everything")
		}
		u.Routes = append(u.Routes, &r)
	})
}

// matchesAll reports whether no request passes the route by.
func matchesAll(r *policy.Route) bool {
	return len(r.Methods) == 0 && r.Prefix && (r.Path == "" || r.Path == "/")
}

// readPath reads the path of a route: whole, or the beginning before a *.
func readPath(d *decoder, n *yaml.Node, r *policy.Route) {
	parsed(func(text string) (policy.Route, string, string) {
		path, prefix := strings.CutSuffix(text, "*")
		read := *r
		read.Path, read.Prefix = path, prefix
		switch {
		case strings.Contains(path, "*"):
			return read, "has a * that is not at its end", "a path is exact, or a beginning with a * after it: /hooks/*"
		case strings.ContainsAny(path, "?#"):
			return read, "has a query or fragment", "a route matches the path without its query"
		case hasBlank(path):
			return read, "has a blank or control character, which no path has", "write %20 for a blank"
		case !strings.HasPrefix(path, "/") && text != "*":
			return read, "does not begin with /", "write a path such as /v1/charges or /hooks/*"
		}
		return read, "", ""
	})(d, n, r)
}
