package proxy

import (
	"mulligan/proxy/h1"
)

// howToUse is what somebody reads who called the proxy port like a web server.
const howToUse = "this is mulligan's proxy port, and no upstream claims this request. " +
	"Set HTTP_PROXY to this address in the calling process, or give an upstream `endpoints` and a `mount` path, a `listen` port or this Host in `hosts`."

// reverseDoor takes origin-form requests: on a port of an upstream's own, under
// a mount path, or by Host.
func (c *clientConn) reverseDoor(req *h1.Request) {
	x := &c.x
	path := req.Target
	if c.listen != c.s.opts.Proxy {
		c.ownPort(path)
		return
	}
	if u, rest, ok := x.snap.table.Mount(view(path)); ok {
		up := x.snap.upstreams[u]
		x.mounted = []byte(up.Mount)
		x.toEndpoints(up, []byte(rest), true)
		return
	}
	host, port, err := splitAuthority(req.Header.GetKnown(h1.NameHost), 80)
	if err == nil {
		u, named := x.snap.table.Lookup(view(host), port)
		if up := x.snap.upstreams[u]; up != x.snap.fallback && len(up.Endpoints) > 0 {
			if !named {
				x.byHost = authorityName{foldHost(string(host)), port}
			}
			x.toEndpoints(up, path, named)
			return
		}
	}
	c.deny(reply{status: 421, kind: "http_request_error", detail: howToUse})
}

// ownPort takes a request on a port of an upstream's own. A reload may have
// taken the upstream away.
func (c *clientConn) ownPort(path []byte) {
	if up := c.x.snap.byListen[c.listen]; up != nil {
		c.x.toEndpoints(up, path, true)
		return
	}
	c.deny(reply{status: 421, kind: "http_request_error",
		detail: "this port belonged to an upstream that the configuration no longer has; a restart closes it"})
}

// openDoor reports whether the proxy port is open beyond loopback with nothing
// but credentials to guard it: then reverse requests show them as well.
func (c *clientConn) openDoor() bool {
	return c.s.beyondLoopback && len(c.x.snap.settings.AllowClients) == 0
}

// crossSite refuses requests that a browser makes for somebody else's page.
func (c *clientConn) crossSite(req *h1.Request) bool {
	if !CrossSite(req.Header) {
		return false
	}
	c.deny(reply{status: 403, kind: "http_request_denied", detail: "a browser's cross-site request (Sec-Fetch-Site)"})
	return true
}
