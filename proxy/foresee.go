package proxy

import (
	"errors"
	"time"

	"mulligan/policy"
	"mulligan/proxy/h1"
)

// What can be said of a request before it is sent, for `mulligan explain`.
// Targets and fields are read by the code that the doors use; foresee_dial.go has
// what can be said of the addresses.

// Target is where a URL in absolute-form leads.
type Target struct {
	HTTPS bool
	Host  string // without brackets
	Port  int
	Path  string // path and query as they are sent
}

// ParseTarget reads a URL as the forward door reads a request's target.
func ParseTarget(url, method string) (Target, error) {
	https, authority, path, err := parseAbsolute([]byte(url))
	if err != nil {
		return Target{}, err
	}
	port := 80
	if https {
		port = 443
	}
	host, port, err := splitAuthority(authority, port)
	if err != nil {
		return Target{}, err
	}
	return Target{https, string(host), port, string(slashed(path, method))}, nil
}

// errConnect is what is wrong with the target of a CONNECT.
var errConnect = errors.New("CONNECT takes host:port")

// ParseConnect reads what stands after CONNECT as its door does.
func ParseConnect(authority string) (Target, error) {
	host, port, err := splitAuthority([]byte(authority), 0)
	if err != nil || port == 0 {
		return Target{}, errConnect
	}
	return Target{Host: string(host), Port: port}, nil
}

// ParseAuthority reads host[:port] as the doors read a Host field; the port is
// 80 where none is written.
func ParseAuthority(s string) (host string, port int, err error) {
	h, port, err := splitAuthority([]byte(s), 80)
	return string(h), port, err
}

// Asked is what a request's header asks of mulligan itself.
type Asked struct {
	Nested      bool          // it came through another mulligan
	MaxAttempts int           // by Mulligan-Policy; 0 = not asked
	Total       time.Duration // by Mulligan-Policy, or grpc-timeout; 0 = not asked
}

// ReadAsked reads a request's header. The error is what a client would get for
// a malformed Mulligan-Policy.
func ReadAsked(h h1.Header) (Asked, error) {
	var f fields
	f.read(h, "")
	return Asked{f.nested, f.policy.maxAttempts, f.total()}, f.policyErr
}

// CrossSite reports whether the reverse doors refuse a request with this header:
// it is a browser's, made for somebody else's page.
func CrossSite(h h1.Header) bool {
	for i := range h {
		if h[i].Known() == h1.NameSecFetchSite && h1.HasToken(h[i].Value, "cross-site") {
			return true
		}
	}
	return false
}

// Unauthorized reports whether a request with this header gets 407 on the proxy
// port. reverse is one as to a server, in origin-form.
func (s *Settings) Unauthorized(h h1.Header, reverse bool, own Listeners) bool {
	if s.Auth == nil || basicMatches(h.GetKnown(h1.NameProxyAuthorization), s.Auth) {
		return false
	}
	_, beyond := own.known()
	return !reverse || beyond && len(s.AllowClients) == 0
}

// AnswersItself returns the status with which the proxy itself answers a request
// that Max-Forwards lets go no further; 0 where it does not.
func AnswersItself(req *h1.Request) int {
	switch {
	case !lastHop(req):
		return 0
	case req.ContentLength != 0:
		return 400
	}
	return 200
}

// Keyed reports whether a request with this header counts as carrying the
// idempotency key called name.
func Keyed(h h1.Header, name string) bool {
	x := exchange{
		req:   &h1.Request{Header: h},
		route: &policy.Route{Retry: policy.Retry{IdempotencyKeys: []string{name}}},
	}
	x.seen.read(h, "")
	return x.keyed()
}
