package proxy

import (
	"mulligan/policy"
	"mulligan/proxy/h1"
)

// grpcTimeout is the field by which gRPC tells what is left.
var grpcTimeout = []byte("grpc-timeout")

// tells reports whether the route has fields by which the upstream is told of the
// attempt.
func (x *exchange) tells() bool {
	return x.route.AttemptHeader != "" || x.route.RemainingHeader != ""
}

// isTold reports whether a field has the name of one of those. A client's own is
// never passed on: what an upstream reads there is mulligan's word, or nothing.
func (x *exchange) isTold(f *h1.Field) bool {
	return h1.EqualName(f.Name, x.route.AttemptHeader) || h1.EqualName(f.Name, x.route.RemainingHeader)
}

// tellAttempt writes them: the attempt's number, the first being 1, and what is
// left of the window, where there is one.
func (x *exchange) tellAttempt(w headWriter) {
	if name := x.route.AttemptHeader; name != "" {
		w.FieldInt(name, int64(x.number))
	}
	name := x.route.RemainingHeader
	left, limited := x.windowLeft()
	if name == "" || !limited {
		return
	}
	if h1.EqualName(grpcTimeout, name) {
		w.FieldString(name, policy.FormatGRPCTimeout(left))
		return
	}
	w.FieldInt(name, max(0, left.Milliseconds()))
}
