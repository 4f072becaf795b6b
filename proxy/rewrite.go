package proxy

import (
	"bytes"

	"mulligan/proxy/h1"
)

// rewrites reports whether tls.rewrite applies: the client calls plainly what is
// called over TLS. In an intercepted tunnel both sides see the same names.
func (x *exchange) rewrites() bool {
	return x.up.TLS.Rewrite && x.from.key.https && x.c.inside == nil
}

// rewrite maps what an https endpoint says of itself back to the plain name by
// which the client knows it (tls.rewrite): a Location on the endpoint's own
// host, and Secure cookies, which a client on http:// would not send back.
func (x *exchange) rewrite(k h1.KnownName, v []byte) []byte {
	if k == h1.NameSetCookie {
		if x.c.secure {
			return v
		}
		return withoutSecure(v)
	}
	absolute := v
	if bytes.HasPrefix(v, []byte("//")) { // the scheme by which the endpoint was called (RFC 3986 4.2)
		absolute = append([]byte("https:"), v...)
	}
	https, authority, path, err := parseAbsolute(absolute)
	client := x.clientAuthority()
	if err != nil || !https || len(client) == 0 || !x.ownAuthority(authority) {
		return v
	}
	base := ""
	if len(x.up.Endpoints) > 0 && x.to.endpoint {
		base = x.up.ends[x.fromAt].Path
	}
	rest, ok := bytes.CutPrefix(path, []byte(base))
	if !ok || (base != "" && len(rest) > 0 && rest[0] != '/' && rest[0] != '?' && rest[0] != '#') {
		return v // outside what the client can reach through this upstream
	}
	scheme := "http://"
	if x.c.secure {
		scheme = "https://"
	}
	out := append([]byte(scheme), client...)
	out = append(out, x.mounted...)
	return append(out, rest...)
}

// ownAuthority reports whether an https authority is the endpoint's own: its
// address, or the Host by which it was called.
func (x *exchange) ownAuthority(authority []byte) bool {
	host, port, err := splitAuthority(authority, 443)
	if err != nil {
		return false
	}
	name := foldHost(string(host))
	if port == x.from.key.port && name == foldHost(x.from.key.host) {
		return true
	}
	sent, sentPort, err := splitAuthority(x.host(x.req.Header.GetKnown(h1.NameHost)), 443)
	return err == nil && port == sentPort && name == foldHost(string(sent))
}

// clientAuthority is the host by which the client called.
func (x *exchange) clientAuthority() []byte {
	if _, authority, _, err := parseAbsolute(x.req.Target); err == nil {
		return authority
	}
	return x.req.Header.GetKnown(h1.NameHost)
}

// withoutSecure takes the Secure attribute out of a Set-Cookie value (RFC 6265 5.2.5).
func withoutSecure(v []byte) []byte {
	parts := bytes.Split(v, []byte(";"))
	kept := parts[:1]
	for _, p := range parts[1:] {
		if name, _, _ := bytes.Cut(p, []byte("=")); !bytes.EqualFold(bytes.TrimSpace(name), []byte("secure")) {
			kept = append(kept, p)
		}
	}
	if len(kept) == len(parts) {
		return v
	}
	return bytes.Join(kept, []byte(";"))
}
