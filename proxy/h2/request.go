package h2

import (
	"slices"

	"mulligan/proxy/h1"
)

// hostName is the name that a request's host goes by, as HTTP/1.1 spells it.
var hostName = []byte("Host")

// request makes a request of the decoded head, in the words of HTTP/1.1: its target
// is a path, or absolute where it is not for https. The error
// is what the client did wrong: a stream with such a request is reset (RFC 9113
// section 8.1.1).
func (h *head) request(req *h1.Request, end bool) *h1.Error {
	if h.strict(); h.wrong != "" {
		return malformed(h.wrong)
	}
	method, path := h.pseudo[pseudoMethod], h.pseudo[pseudoPath]
	plain := h1.EqualName([]byte(h.pseudo[pseudoScheme]), "http")
	const needed = 1<<pseudoMethod | 1<<pseudoScheme | 1<<pseudoPath
	switch {
	case method == "CONNECT":
		return malformed("CONNECT inside of HTTP/2")
	case h.seen&(needed|1<<pseudoStatus) != needed:
		return malformed("pseudo-fields of a request are missing")
	case method == "" || !isAll(method, isToken):
		return malformed("invalid :method")
	case !plain && !h1.EqualName([]byte(h.pseudo[pseudoScheme]), "https"):
		return malformed("invalid :scheme") // of what can be sent on
	case !validPath(path, method):
		return malformed("invalid :path")
	}
	*req = h1.Request{Method: method, Target: []byte(path), Minor: 1, HTTP2: true, KeepAlive: true}
	if err := h.requestHeader(req); err != nil {
		return err
	}
	if plain { // said as a client of HTTP/1.1 would that means another scheme
		req.Target = slices.Concat([]byte("http://"), req.Header.GetKnown(h1.NameHost), req.Target)
		if path == "*" {
			req.Target = req.Target[:len(req.Target)-1]
		}
	}
	return h.frameRequest(req, end)
}

// requestHeader makes the fields: Host first, and one line of all cookies.
func (h *head) requestHeader(req *h1.Request) *h1.Error {
	host, err := h.host()
	if err != nil {
		return err
	}
	req.Header = h.header(h1.NameHost, h1.NewField(hostName, []byte(host)))
	req.Header = joinCookies(req.Header)
	for i := range req.Header {
		if f := &req.Header[i]; f.Known() == h1.NameExpect {
			req.ExpectContinue = req.ExpectContinue || h1.HasToken(f.Value, "100-continue")
		}
	}
	return nil
}

// host is the request's host: :authority, or the host field, which must not
// disagree (RFC 9113 section 8.3.1).
func (h *head) host() (string, *h1.Error) {
	host := h.pseudo[pseudoAuthority]
	seen := h.seen&(1<<pseudoAuthority) != 0
	for _, s := range h.fields {
		if s.known != h1.NameHost {
			continue
		}
		value := h.text[s.value:s.end]
		if seen && !h1.EqualName(value, host) {
			return "", malformed("host and :authority differ")
		}
		host, seen = string(value), true
	}
	if !validHost(host) {
		return "", malformed("no valid host")
	}
	return host, nil
}

// joinCookies makes one line of all cookie fields, at the place of the first: RFC
// 9113 section 8.2.3.
func joinCookies(header h1.Header) h1.Header {
	first, n := -1, 0
	var all []byte
	for i := range header {
		if !h1.EqualName(header[i].Name, "cookie") {
			continue
		}
		if n++; n == 1 {
			first = i
			continue
		}
		if n == 2 {
			all = append(all, header[first].Value...)
		}
		all = append(append(all, "; "...), header[i].Value...)
	}
	if n < 2 {
		return header
	}
	kept := header[:first+1]
	kept[first] = h1.NewField(header[first].Name, all)
	for _, f := range header[first+1:] {
		if !h1.EqualName(f.Name, "cookie") {
			kept = append(kept, f)
		}
	}
	return kept
}

// frameRequest says how the body is framed.
func (h *head) frameRequest(req *h1.Request, end bool) *h1.Error {
	length, ok := h.length(false)
	switch {
	case !ok:
		return malformed("invalid content-length")
	case end && length > 0:
		return malformed("body shorter than its length")
	case end:
		req.Framing = h1.NoBody
		req.ExpectContinue = false
	case length >= 0:
		req.Framing, req.ContentLength = h1.Length, length
		req.ExpectContinue = req.ExpectContinue && length > 0
	default:
		req.Framing, req.ContentLength = h1.Chunked, -1
	}
	return nil
}
