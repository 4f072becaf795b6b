package proxy

import (
	"bytes"

	"mulligan/proxy/h1"
)

// writeHead composes the request's head for the upstream: names, case and order
// as they came, hop-by-hop fields removed, Host from the target, Via added.
func (x *exchange) writeHead() {
	w, req := x.uc, x.req
	parent := x.auth.peer.parent
	absolute := parent != nil && x.auth.peer.plain
	if absolute {
		w.RequestLine(req.Method, x.absoluteForm())
	} else {
		w.RequestLine(req.Method, x.to.path)
	}
	host, length := false, false
	var names map[string]bool
	if x.seen.options {
		names = nominated(req.Header)
	}
	for i := range req.Header {
		f := &req.Header[i]
		switch k := f.Known(); k {
		case h1.NameHost:
			host = true
			w.Field(f.Name, x.host(f.Value))
			continue
		case h1.NameContentLength:
			if length {
				continue // identical repeats are one (RFC 9110 8.6)
			}
			length = true
		case h1.NameMaxForwards:
			if n, ok := maxForwards(req); ok && n > 0 {
				w.FieldInt("Max-Forwards", n-1)
				continue
			}
		case h1.NameTransferEncoding:
			w.FieldString("Transfer-Encoding", "chunked")
			continue
		case h1.NameOther:
			if len(f.Name) == len(clientPolicyHeader) && equalFold(f.Name, "mulligan-policy") {
				continue
			}
		default:
			if hopByHop(k) {
				continue
			}
		}
		if names != nil && endsHere(names, f) {
			continue
		}
		w.Forward(f)
	}
	if !host {
		w.FieldBytes("Host", x.host(nil))
	}
	if x.upgrades() {
		w.FieldString("Connection", "Upgrade")
		w.FieldBytes("Upgrade", req.Header.GetKnown(h1.NameUpgrade))
	}
	if absolute {
		if auth := parentAuth(parent); auth != "" {
			w.FieldString("Proxy-Authorization", auth)
		}
	}
	w.FieldString("Via", x.s.via[req.Minor])
	w.EndHead(req.Framing, req.ContentLength)
}

// absoluteForm is the target for a parent proxy (RFC 9112 3.2.2); that of
// OPTIONS * has no path (3.2.4).
func (x *exchange) absoluteForm() []byte {
	target := append([]byte("http://"), x.auth.peer.addr()...)
	if len(x.to.path) == 1 && x.to.path[0] == '*' {
		return target
	}
	return append(target, x.to.path...)
}

// host returns the Host to send: the target's, else the client's own.
func (x *exchange) host(clients []byte) []byte {
	if x.to.authority != nil {
		return x.to.authority
	}
	return clients
}

// upgrades reports whether an upgrade is asked for that can be passed on. h2c
// is not: what follows it would not be HTTP/1.1 (RFC 9113 3.1 has withdrawn it).
func (x *exchange) upgrades() bool {
	return x.req.Upgrade && !h1.HasToken(x.req.Header.GetKnown(h1.NameUpgrade), "h2c")
}

// writeResponseHead composes the response's head for the client.
func (x *exchange) writeResponseHead(framing h1.Framing, length int64, closing bool, status string) {
	w, resp := x.c.sc, x.resp
	w.StatusLine(1, resp.Status, resp.Reason)
	names := nominated(resp.Header)
	lengthSeen := false
	for i := range resp.Header {
		f := &resp.Header[i]
		switch k := f.Known(); k {
		case h1.NameContentLength:
			if lengthSeen || resp.Status == 204 || (framing != h1.Length && framing != h1.NoBody) {
				continue
			}
			lengthSeen = true
			if bytes.IndexByte(f.Value, ',') >= 0 {
				w.FieldInt(string(f.Name), resp.ContentLength) // "2, 2" is one length (RFC 9110 8.6)
				continue
			}
		case h1.NameTransferEncoding:
			if framing == h1.Chunked {
				w.FieldString("Transfer-Encoding", "chunked")
			}
			continue
		case h1.NameLocation, h1.NameSetCookie:
			if x.up.TLS.Rewrite && x.auth.key.https {
				w.Field(f.Name, x.rewrite(k, f.Value))
				continue
			}
		default:
			if hopByHop(k) {
				continue
			}
		}
		if names != nil && endsHere(names, f) {
			continue
		}
		w.Forward(f)
	}
	if status != "" {
		w.FieldString("Proxy-Status", status)
	}
	if x.snap.settings.Via {
		w.FieldString("Via", x.s.via[min(resp.Minor, 1)])
	}
	x.writeConnection(closing)
	w.EndHead(framing, length)
}

// writeConnection says what becomes of the client's connection, where the
// version's default does not say it.
func (x *exchange) writeConnection(closing bool) {
	switch w := x.c.sc; {
	case x.resp != nil && x.resp.Status == 101:
		w.FieldString("Connection", "Upgrade")
		w.FieldBytes("Upgrade", x.resp.Header.GetKnown(h1.NameUpgrade))
	case closing:
		w.FieldString("Connection", "close")
	case x.req.Minor == 0:
		w.FieldString("Connection", "keep-alive")
	}
}

// passInterim takes a 1xx: at once where no retry can follow (and 100 always,
// since the client may wait for it with its body), else with the final head.
func (x *exchange) passInterim(resp *h1.Response) {
	sc := x.c.sc
	if x.req.Minor == 0 {
		return // RFC 9110 15.2: never to an HTTP/1.0 client
	}
	if resp.Status == 100 {
		if x.continued || !x.req.ExpectContinue {
			return
		}
		x.continued = true
	} else if x.mayRetry() {
		if len(x.interim) < maxInterim { // what is only information may be dropped
			x.interim = appendInterim(x.interim, resp)
		}
		return
	}
	sc.StatusLine(1, resp.Status, resp.Reason)
	names := nominated(resp.Header)
	for i := range resp.Header {
		if f := &resp.Header[i]; !hopByHop(f.Known()) && !endsHere(names, f) {
			sc.Forward(f)
		}
	}
	sc.EndHead(h1.NoBody, 0)
	sc.Flush()
}

// maxInterim is from how many bytes of kept 1xx heads on no more are kept.
const maxInterim = 64 << 10

func appendInterim(b []byte, resp *h1.Response) []byte {
	b = append(b, "HTTP/1.1 "...)
	b = append(b, byte('0'+resp.Status/100), byte('0'+resp.Status/10%10), byte('0'+resp.Status%10), ' ')
	b = append(b, resp.Reason...)
	b = append(b, "\r\n"...)
	names := nominated(resp.Header)
	for i := range resp.Header {
		f := &resp.Header[i]
		if hopByHop(f.Known()) || endsHere(names, f) {
			continue
		}
		b = append(b, f.Name...)
		b = append(b, ": "...)
		b = append(b, f.Value...)
		b = append(b, "\r\n"...)
	}
	return append(b, "\r\n"...)
}
