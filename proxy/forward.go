package proxy

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"time"

	"mulligan/proxy/h1"
)

// forwardDoor takes absolute-form requests: what HTTP_PROXY makes clients send.
func (c *clientConn) forwardDoor(req *h1.Request) {
	x := &c.x
	https, authority, path, err := parseAbsolute(req.Target)
	if err != nil {
		c.deny(reply{status: 400, kind: "http_request_error", detail: err.Error()})
		return
	}
	if c.listen != c.s.opts.Proxy { // RFC 9112 3.2.2: a server takes absolute-form too
		c.ownPort(slashed(path, req.Method))
		return
	}
	x.forward(https, authority, slashed(path, req.Method))
}

// slashed makes a path of a target without one (RFC 9112 3.2.1, 3.2.4).
func slashed(path []byte, method string) []byte {
	switch {
	case len(path) == 0 && method == "OPTIONS":
		return []byte("*")
	case len(path) == 0:
		return []byte("/")
	case path[0] == '?':
		return append([]byte("/"), path...)
	}
	return path
}

// forward sends the request to the authority its target names, or to the
// endpoint of the upstream that has that host.
func (x *exchange) forward(https bool, authority, path []byte) {
	c := x.c
	if !x.lookup(https, authority) {
		return
	}
	last := &c.last
	if len(last.up.Endpoints) > 0 {
		x.toEndpoints(last.up, path, last.named)
		return
	}
	x.to = target{https: https, host: last.host, port: last.port, path: path, authority: authority, named: last.named}
	x.aim(last.up, withoutQuery(path))
	x.auth = last.auth
	x.enter()
}

// lookup finds the upstream of an authority, and fills c.last with it.
func (x *exchange) lookup(https bool, authority []byte) bool {
	c, last := x.c, &x.c.last
	if last.snap == x.snap && last.https == https && last.authority != nil && bytes.Equal(last.authority, authority) {
		if last.auth != nil {
			last.auth.touch()
		}
		return true
	}
	port := 80
	if https {
		port = 443
	}
	h, port, err := splitAuthority(authority, port)
	if err != nil {
		c.deny(reply{status: 400, kind: "http_request_error", detail: err.Error()})
		return false
	}
	host := string(h)
	matched, named := x.snap.table.Lookup(host, port)
	up := x.snap.upstreams[matched]
	if up == x.snap.fallback && x.snap.settings.DenyUnmatched {
		x.denyUnmatched(up, host, port)
		return false
	}
	*last = lastAuthority{snap: x.snap, https: https, authority: bytes.Clone(authority), host: host, port: port, up: up, named: named}
	if len(up.Endpoints) == 0 {
		last.auth = up.authority(authorityKey{host: foldHost(host), port: port, https: https, named: named}, time.Now())
	}
	return true
}

// denyUnmatched answers for a host that no upstream names, under unmatched: deny.
func (x *exchange) denyUnmatched(up *upstream, host string, port int) {
	x.to = target{host: host, port: port}
	x.aim(up, nil)
	x.refuseHere(fault{kind: "http_request_denied", status: 403, detail: "no upstream names this host, and unmatched is deny"})
}

// foldHost gives one spelling to names that compare equal.
func foldHost(host string) string {
	return string(bytes.TrimSuffix(bytes.ToLower([]byte(host)), []byte(".")))
}

// endpointAuthority writes an endpoint as the Host field does: without the
// scheme's default port.
func endpointAuthority(scheme, host string, port int) string {
	if (scheme == "http" && port == 80) || (scheme == "https" && port == 443) {
		if bytes.IndexByte([]byte(host), ':') >= 0 {
			return "[" + host + "]"
		}
		return host
	}
	return hostport(host, port)
}

// authorized checks Proxy-Authorization where listen.auth is set, and answers
// 407 (RFC 9110 11.7.1) where it fails.
func (c *clientConn) authorized(req *h1.Request) bool {
	want := c.x.snap.settings.Auth
	if want == nil || basicMatches(req.Header.GetKnown(h1.NameProxyAuthorization), want) {
		return true
	}
	c.deny(reply{status: 407, kind: "http_request_denied", detail: "this proxy asks for credentials (listen.auth)",
		field: [2]string{"Proxy-Authenticate", `Basic realm="mulligan"`}})
	return false
}

// basicMatches compares Basic credentials (RFC 7617) in constant time.
func basicMatches(v []byte, want *Credentials) bool {
	scheme, encoded, ok := bytes.Cut(v, []byte(" "))
	if !ok || !equalFold(scheme, "basic") {
		return false
	}
	decoded, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(encoded)))
	if err != nil {
		return false
	}
	got, expected := sha256.Sum256(decoded), sha256.Sum256([]byte(want.Username+":"+want.Password))
	return subtle.ConstantTimeCompare(got[:], expected[:]) == 1
}
