package proxy

import (
	"bytes"
	"slices"
	"time"

	"mulligan/policy"
	"mulligan/proxy/h1"
)

// fields is what a request's header says to mulligan itself, read in one pass.
type fields struct {
	policy      clientPolicy
	policyErr   error
	nested      bool          // it came through another mulligan
	loop        bool          // it came through this one
	clientRetry bool          // it is a retry by the client's own library
	grpc        time.Duration // grpc-timeout of a gRPC call; 0 = none
	options     bool          // its Connection names fields of its own, which are hop-by-hop too
}

// viaPrefix begins the pseudonym of every mulligan in Via (RFC 9110 7.6.3);
// eight hex digits of the instance follow.
const viaPrefix = "mulligan-"

func (f *fields) read(h h1.Header, ownID string) {
	*f = fields{}
	for i := range h {
		switch h[i].Known() {
		case h1.NameContentType:
			if policy.IsGRPC(view(h[i].Value)) {
				f.readGRPC(h)
			}
		case h1.NameVia:
			f.readVia(h[i].Value, ownID)
		case h1.NameConnection:
			f.options = f.options || namesFields(h[i].Value)
		case h1.NameOther:
			if readLengths>>len(h[i].Name)&1 != 0 {
				f.readOther(&h[i])
			}
		}
	}
}

// readGRPC reads how long the client of a gRPC call waits for all of it.
func (f *fields) readGRPC(h h1.Header) {
	if d, ok := policy.GRPCTimeout(string(h.Get("grpc-timeout"))); ok {
		f.grpc = max(1, d)
	}
}

// total is the window that the client asks for; 0 = it does not.
func (f *fields) total() time.Duration {
	if f.policy.total == 0 || f.grpc > 0 && f.grpc < f.policy.total {
		return f.grpc
	}
	return f.policy.total
}

// isClientPolicy reports whether a field is Mulligan-Policy.
func isClientPolicy(f *h1.Field) bool {
	return len(f.Name) == len(clientPolicyHeader) && equalFold(f.Name, "mulligan-policy")
}

// requestTrailer is the trailer section as it is sent on.
func (x *exchange) requestTrailer() h1.Header {
	trailer := forwardTrailer(x.req.Trailer, x.req.Header)
	if len(trailer) > 0 && x.tells() {
		trailer = slices.DeleteFunc(trailer, func(f h1.Field) bool { return x.isTold(&f) })
	}
	return trailer
}

// responseTrailer is the trailer section as it is sent on.
func (x *exchange) responseTrailer() h1.Header {
	return forwardTrailer(x.resp.Trailer, x.resp.Header)
}

// forwardTrailer leaves out what ends here: Connection names trailer fields too
// (RFC 9110 7.6.1).
func forwardTrailer(trailer, header h1.Header) h1.Header {
	if len(trailer) == 0 {
		return nil
	}
	names := nominated(header)
	var kept h1.Header
	for i := range trailer {
		if f := &trailer[i]; !isClientPolicy(f) && !endsHere(names, f) {
			kept = append(kept, *f)
		}
	}
	return kept
}

// readLengths has a bit for the length of each name that readOther knows: most
// fields are none of those, and cost no more than the look at it.
const readLengths uint64 = 1<<len(clientPolicyHeader) | 1<<len("retry-attempt") | 1<<len("amz-sdk-retry") | 1<<len("amz-sdk-request") |
	1<<len("x-goog-api-client") | 1<<len("x-stainless-retry-count") | 1<<len("grpc-previous-rpc-attempts")

func (f *fields) readOther(field *h1.Field) {
	if isClientPolicy(field) {
		if f.policyErr == nil {
			f.policyErr = f.policy.read(string(field.Value))
		}
		return
	}
	f.clientRetry = f.clientRetry || isClientRetry(field)
}

// readVia looks for mulligans among the hops a request came through.
func (f *fields) readVia(value []byte, ownID string) {
	for len(value) > 0 {
		hop := value
		if i := bytes.IndexByte(value, ','); i >= 0 {
			hop, value = value[:i], value[i+1:]
		} else {
			value = nil
		}
		parts := bytes.Fields(hop)
		if len(parts) < 2 || !bytes.HasPrefix(parts[1], []byte(viaPrefix)) {
			continue
		}
		id := parts[1][len(viaPrefix):]
		f.nested = f.nested || isHex8(id)
		f.loop = f.loop || string(id) == ownID
	}
}

func isHex8(b []byte) bool {
	if len(b) != 8 {
		return false
	}
	for _, c := range b {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// hopByHop reports whether a field ends here (RFC 9110 7.6.1). Framing and
// Upgrade are decided by those who write the head.
func hopByHop(k h1.KnownName) bool {
	switch k {
	case h1.NameConnection, h1.NameProxyConnection, h1.NameKeepAlive, h1.NameTE, h1.NameTransferEncoding,
		h1.NameUpgrade, h1.NameProxyAuthorization, h1.NameHTTP2Settings:
		return true
	}
	return false
}

// namesFields reports whether a Connection value has options besides the usual
// ones, which name no field that would be sent on anyhow.
func namesFields(value []byte) bool {
	for len(value) > 0 {
		option := value
		if i := bytes.IndexByte(value, ','); i >= 0 {
			option, value = value[:i], value[i+1:]
		} else {
			value = nil
		}
		option = bytes.Trim(option, " \t")
		if len(option) > 0 && !equalFold(option, "keep-alive") && !equalFold(option, "close") && !equalFold(option, "upgrade") {
			return true
		}
	}
	return false
}

// nominated returns the names, in lower case, that the Connection fields of a
// header give to fields that end here too; nil for none. It is a set because
// both the options and the fields are as many as the peer likes.
func nominated(h h1.Header) map[string]bool {
	var names map[string]bool
	for i := range h {
		if h[i].Known() != h1.NameConnection || !namesFields(h[i].Value) {
			continue
		}
		if names == nil {
			names = map[string]bool{}
		}
		for option := range bytes.SplitSeq(h[i].Value, []byte(",")) {
			names[string(bytes.ToLower(bytes.Trim(option, " \t")))] = true
		}
	}
	return names
}

// endsHere reports whether a nominated field ends here. Host, framing and Expect
// are never taken away like that: a message without them would mean something
// else.
func endsHere(names map[string]bool, f *h1.Field) bool {
	switch f.Known() {
	case h1.NameHost, h1.NameContentLength, h1.NameTransferEncoding, h1.NameVia, h1.NameExpect:
		return false
	}
	return names != nil && names[string(bytes.ToLower(f.Name))]
}
