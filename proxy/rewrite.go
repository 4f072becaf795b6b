package proxy

import (
	"bytes"

	"mulligan/proxy/h1"
)

// rewrite maps what an https endpoint says of itself back to the plain name by
// which the client knows it (tls.rewrite): a Location on the endpoint's own
// host, and Secure cookies, which a client on http:// would not send back.
func (x *exchange) rewrite(k h1.KnownName, v []byte) []byte {
	if k == h1.NameSetCookie {
		return withoutSecure(v)
	}
	https, authority, path, err := parseAbsolute(v)
	if err != nil || !https {
		return v
	}
	host, port, err := splitAuthority(authority, 443)
	if err != nil || port != x.auth.key.port || !bytes.EqualFold(host, []byte(x.auth.key.host)) {
		return v
	}
	base := ""
	if len(x.up.Endpoints) > 0 && x.to.endpoint {
		base = x.up.Endpoints[0].Path
	}
	rest, ok := bytes.CutPrefix(path, []byte(base))
	if !ok || (base != "" && len(rest) > 0 && rest[0] != '/' && rest[0] != '?' && rest[0] != '#') {
		return v // outside what the client can reach through this upstream
	}
	out := append([]byte("http://"), x.clientAuthority()...)
	out = append(out, x.mounted...)
	return append(out, rest...)
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
		if !bytes.EqualFold(bytes.TrimSpace(p), []byte("secure")) {
			kept = append(kept, p)
		}
	}
	if len(kept) == len(parts) {
		return v
	}
	return bytes.Join(kept, []byte(";"))
}
