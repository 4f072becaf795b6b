package proxy

import (
	"bytes"
	"net/http"

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
	host, length, stream := false, false, isStream(w)
	framing := req.Framing
	if framing == h1.Length && !stream && promisesTrailer(req.HTTP2, req.Header, req.Trailer) {
		framing = h1.Chunked
	}
	upgrade, tells := upgradeFields{wanted: x.upgrades()}, x.tells()
	var names map[string]bool
	if x.seen.options {
		names = nominated(req.Header)
	}
	for i := range req.Header {
		f := &req.Header[i]
		k := f.Known()
		if upgrade.wanted && upgrade.write(w, f) || names != nil && k != h1.NameTE && endsHere(names, f) || tells && x.isTold(f) {
			continue
		}
		switch k {
		case h1.NameHost:
			host = true
			w.Field(f.Name, x.host(f.Value))
			continue
		case h1.NameContentLength:
			if length || framing == h1.Chunked {
				continue // identical repeats are one (RFC 9110 8.6)
			}
			length = true
		case h1.NameMaxForwards:
			if n, ok := maxForwards(req, f.Value); ok && n > 0 {
				w.FieldInt(string(f.Name), n-1)
				continue
			}
		case h1.NameTransferEncoding:
			w.Field(f.Name, chunkedCoding)
			continue
		case h1.NameTE:
			if stream && h1.HasToken(f.Value, "trailers") {
				w.FieldString("TE", "trailers") // all that HTTP/2 knows of it (RFC 9113 8.2.2)
			}
			continue
		case h1.NameOther:
			if isClientPolicy(f) {
				continue
			}
		default:
			if hopByHop(k) {
				continue
			}
		}
		w.Forward(f)
	}
	if !host {
		w.FieldBytes("Host", x.host(nil))
	}
	if absolute {
		if auth := parentAuth(parent); auth != "" {
			w.FieldString("Proxy-Authorization", auth)
		}
	}
	if tells {
		x.tellAttempt(w)
	}
	w.FieldString("Via", x.s.viaOf(req.Minor, req.HTTP2))
	if req.HTTP2 && !stream && !length && req.Framing == h1.NoBody && expectsBody(req.Method) {
		w.FieldInt("Content-Length", 0) // RFC 9110 8.6; HTTP/2 says it with the head's last frame
	}
	w.EndHead(framing, req.ContentLength)
}

// expectsBody reports whether a method's requests have a body by its meaning, so
// that one without is to say so.
func expectsBody(method string) bool { return method == "POST" || method == "PUT" || method == "PATCH" }

// chunkedCoding is what Transfer-Encoding says where there is one: no other
// coding is passed on.
var chunkedCoding = []byte("chunked")

// upgradeFields passes on what asks for, or agrees to, another protocol: the
// Upgrade fields as they are, and their option in the first Connection field.
type upgradeFields struct{ wanted, connection bool }

// write writes a field if it is one of these, and reports whether it was.
func (u *upgradeFields) write(w headWriter, f *h1.Field) bool {
	switch f.Known() {
	case h1.NameUpgrade:
		w.Forward(f)
		return true
	case h1.NameConnection:
		if !u.connection {
			u.connection = true
			w.Field(f.Name, upgradeOption)
		}
		return true
	}
	return false
}

var upgradeOption = []byte("Upgrade")

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
	return x.req.Upgrade && !x.req.Header.HasToken("Upgrade", "h2c")
}

// writeResponseHead composes the response's head for the client.
func (x *exchange) writeResponseHead(framing h1.Framing, length int64, closing bool, status string) {
	w, resp := x.c.sc, x.resp
	w.StatusLine(1, resp.Status, reason(resp))
	upgrade := upgradeFields{wanted: x.switches()}
	names := nominated(resp.Header)
	lengthSeen := false
	for i := range resp.Header {
		f := &resp.Header[i]
		k := f.Known()
		if upgrade.wanted && upgrade.write(w, f) || names != nil && endsHere(names, f) {
			continue
		}
		switch k {
		case h1.NameContentLength:
			if lengthSeen || resp.Status == 204 || resp.Status == 101 || resp.ContentLength < 0 || (framing != h1.Length && framing != h1.NoBody) {
				continue
			}
			lengthSeen = true
			if bytes.IndexByte(f.Value, ',') >= 0 {
				w.FieldInt(string(f.Name), resp.ContentLength) // "2, 2" is one length (RFC 9110 8.6)
				continue
			}
		case h1.NameTransferEncoding:
			if framing == h1.Chunked {
				w.Field(f.Name, chunkedCoding)
			}
			continue
		case h1.NameLocation, h1.NameSetCookie:
			if x.rewrites() {
				w.Field(f.Name, x.rewrite(k, f.Value))
				continue
			}
		default:
			if hopByHop(k) {
				continue
			}
		}
		w.Forward(f)
	}
	if status != "" {
		w.FieldString("Proxy-Status", status)
	}
	if x.snap.settings.Via {
		w.FieldString("Via", x.s.viaOf(resp.Minor, resp.HTTP2))
	}
	if upgrade.wanted && !upgrade.connection {
		w.FieldString("Connection", "Upgrade") // RFC 9110 7.8
	}
	x.writeConnection(closing)
	w.EndHead(framing, length)
}

// switches reports whether the response's Upgrade fields are for the client: it
// agrees to another protocol, or demands one (RFC 9110 15.5.22) that could be
// passed on.
func (x *exchange) switches() bool {
	h := x.resp.Header
	return x.resp.Status == 101 || x.resp.Status == 426 && len(h.GetKnown(h1.NameUpgrade)) > 0 && !h.HasToken("Upgrade", "h2c")
}

// writeConnection says what becomes of the client's connection, where the
// version's default does not say it.
func (x *exchange) writeConnection(closing bool) {
	switch w := x.c.sc; {
	case x.resp != nil && x.resp.Status == 101:
	case closing:
		w.FieldString("Connection", "close")
	case x.req.Minor == 0:
		w.FieldString("Connection", "keep-alive")
	}
}

// passInterim takes a 1xx: at once where no retry can follow (and always a 100
// that the client waits for with its body), else with the final head.
func (x *exchange) passInterim(resp *h1.Response) {
	if x.req.Minor == 0 {
		return // RFC 9110 15.2: never to an HTTP/1.0 client
	}
	if x.isLane {
		if resp.Status != 100 {
			x.keepInterim(resp)
		}
		return
	}
	if resp.Status == 100 && x.req.ExpectContinue {
		if x.continued {
			return // the client has had its own, from an attempt before
		}
		x.continued = true
		x.c.watch.withheld.Store(false)
	} else if x.mayRetry() {
		x.keepInterim(resp)
		return
	}
	writeInterim(x.c.sc, resp)
	x.tell()
}

// maxInterim is from how many bytes of kept 1xx on no more are kept: what is only
// information may be dropped.
const maxInterim = 64 << 10

func (x *exchange) keepInterim(resp *h1.Response) {
	if x.interimSize >= maxInterim {
		return
	}
	for i := range resp.Header {
		x.interimSize += len(resp.Header[i].Name) + len(resp.Header[i].Value)
	}
	x.interim = append(x.interim, resp.Clone())
}

// forgetInterim drops the 1xx that were kept.
func (in *inHand) forgetInterim() {
	clear(in.interim)
	in.interim, in.interimSize = in.interim[:0], 0
}

// writeInterim writes a 1xx.
func writeInterim(sc clientSide, resp *h1.Response) {
	sc.StatusLine(1, resp.Status, reason(resp))
	names := nominated(resp.Header)
	for i := range resp.Header {
		if f := &resp.Header[i]; inInterim(names, f) {
			sc.Forward(f)
		}
	}
	sc.EndHead(h1.NoBody, 0)
}

// reason is the reason phrase; HTTP/2 has none, and HTTP/1.1 clients are used to
// one.
func reason(resp *h1.Response) []byte {
	if resp.HTTP2 {
		return []byte(http.StatusText(resp.Status))
	}
	return resp.Reason
}

// tell writes a 1xx. A client that does not read even that is given up, as one
// that has left: what it would get next could not be told it either.
func (x *exchange) tell() {
	w := &x.c.watch
	w.moving(x.uc)
	w.telling.Store(true)
	err := x.c.sc.Flush()
	w.telling.Store(false)
	w.rested()
	if err != nil {
		w.fire(causeGone, func() bool { return true })
		return
	}
	x.moveOn()
	if w.seen()&causesEnd == 0 {
		x.c.sc.ClearInterrupt() // the window ended just behind the 1xx: what follows still goes out
	}
}

// inInterim reports whether a field of a 1xx is passed on. A length there has no
// meaning (RFC 9110 8.6).
func inInterim(names map[string]bool, f *h1.Field) bool {
	return f.Known() != h1.NameContentLength && !hopByHop(f.Known()) && !endsHere(names, f)
}
