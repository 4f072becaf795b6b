package proxy

import (
	"bytes"
	"errors"
	"strconv"

	"mulligan/proxy/h1"
)

// target is where a request goes: the door that took it sets it, once.
type target struct {
	https bool
	host  string // lower case not required; without brackets
	port  int
	path  []byte // origin-form path and query as they are sent
	// authority is the Host to send; nil sends the client's own.
	authority []byte
	endpoint  bool // a configured endpoint: the guard lets it pass
	named     bool // the upstream names this host: its budget is the upstream's
}

var (
	errNoAbsoluteForm = errors.New("the target is not in absolute-form")
	errScheme         = errors.New("only http:// and https:// targets can be sent on")
	errUserinfo       = errors.New("user information in a target is not allowed (RFC 9110 4.2.4)")
	errAuthority      = errors.New("the target's host or port is not valid")
)

// parseAbsolute splits an absolute-form target (RFC 9112 3.2.2). Path and query
// stay as they came; an absent path is returned empty, and slashed fills it in.
func parseAbsolute(raw []byte) (https bool, authority, path []byte, err error) {
	scheme, rest, ok := bytes.Cut(raw, []byte("://"))
	if !ok {
		return false, nil, nil, errNoAbsoluteForm
	}
	switch {
	case equalFold(scheme, "http"):
	case equalFold(scheme, "https"):
		https = true
	default:
		return false, nil, nil, errScheme
	}
	end := bytes.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, path = rest[:end], rest[end:]
	if bytes.IndexByte(authority, '@') >= 0 {
		return false, nil, nil, errUserinfo
	}
	return https, authority, path, nil
}

// splitAuthority splits host[:port]; port is byDefault where none is written.
// The host comes back without brackets.
func splitAuthority(a []byte, byDefault int) (host []byte, port int, err error) {
	port = byDefault
	host = a
	var a0 byte
	if len(a) > 0 {
		a0 = a[0]
	}
	if a0 == '[' {
		end := bytes.IndexByte(a, ']')
		if end < 0 {
			return nil, 0, errAuthority
		}
		host = a[1:end]
		a = a[end+1:]
		if len(a) > 0 && a[0] != ':' {
			return nil, 0, errAuthority
		}
		if len(a) > 1 {
			port, err = parsePort(a[1:])
		}
	} else if i := bytes.IndexByte(a, ':'); i >= 0 {
		host = a[:i]
		if i+1 < len(a) { // "host:" is the default port (RFC 3986 3.2.3)
			port, err = parsePort(a[i+1:])
		}
	}
	if err != nil || len(host) == 0 || !validHost(host) || a0 == '[' && !h1.IsIPv6(host) {
		return nil, 0, errAuthority
	}
	return host, port, nil
}

func parsePort(b []byte) (int, error) {
	if len(b) == 0 || len(b) > 5 {
		return 0, errAuthority
	}
	n, err := strconv.ParseUint(string(b), 10, 16)
	if err != nil || n == 0 || b[0] == '+' {
		return 0, errAuthority
	}
	return int(n), nil
}

// validHost refuses what can be in no host name or address. It is lenient
// within that: a resolver knows better than we do which names exist.
func validHost(h []byte) bool {
	for _, c := range h {
		switch {
		case c <= ' ' || c >= 0x7f:
			return false
		case c == '/' || c == '?' || c == '#' || c == '@' || c == '[' || c == ']' || c == '\\' || c == '"' || c == '<' || c == '>' || c == ',':
			return false
		}
	}
	return true
}

// withoutQuery returns the path that routes match: byte for byte, without query.
func withoutQuery(path []byte) []byte {
	if i := bytes.IndexByte(path, '?'); i >= 0 {
		return path[:i]
	}
	return path
}

// equalFold compares b with an ASCII word in lower case, ignoring case.
func equalFold(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i := range b {
		c := b[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}
