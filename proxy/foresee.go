package proxy

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"mulligan/proxy/h1"
)

// What can be said of a request before it is sent, by the code that the doors
// use: `mulligan explain` asks here, so that what it says is what happens.

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
	Total       time.Duration // by Mulligan-Policy; 0 = not asked
}

// ReadAsked reads a request's header. The error is what a client would get for
// a malformed Mulligan-Policy.
func ReadAsked(h h1.Header) (Asked, error) {
	var f fields
	f.read(h, "")
	return Asked{f.nested, f.policy.maxAttempts, f.policy.total}, f.policyErr
}

// Forbids returns why the settings forbid to dial addr, where listeners are
// this process's own, or "". beyond says that the proxy port listens beyond
// loopback.
func (s *Settings) Forbids(addr netip.AddrPort, endpoint bool, listeners []net.Addr, beyond bool) string {
	g := &guard{allow: s.AllowDestinations, deny: s.DenyDestinations, denyLoopback: beyond, own: newOwnListeners(listeners)}
	var denied *deniedError
	if errors.As(g.judge(addr, endpoint), &denied) {
		return denied.Rule
	}
	return ""
}
