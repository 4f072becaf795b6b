package h1

import (
	"bytes"
	"net/netip"
)

// methods are those that a request line may name without an allocation.
var methods = [...]string{
	"GET", "POST", "PUT", "HEAD", "DELETE", "PATCH", "OPTIONS", "CONNECT", "TRACE",
	"PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK", "REPORT", "SEARCH", "PURGE", "QUERY",
}

func methodString(b []byte) string {
	for _, m := range methods {
		if string(b) == m {
			return m
		}
	}
	return string(b)
}

// parseRequest parses a whole head, as the scanner delimited it, into req.
func parseRequest(req *Request, b []byte, limit int) error {
	line := bytes.IndexByte(b, '\n') + 1
	fields := req.Header[:0]
	*req = Request{}
	if err := parseRequestLine(req, b[:line]); err != nil {
		return err
	}
	fields, err := parseFields(b[line:], fields, limit)
	req.Header = fields
	if err != nil {
		return err
	}
	return req.interpret()
}

// parseRequestLine parses method SP target SP version CRLF (RFC 9112 section
// 3), with exactly those single spaces.
func parseRequestLine(req *Request, line []byte) error {
	line, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok {
		return malformed("bare LF")
	}
	i := 0
	for i < len(line) && charClass[line[i]]&isToken != 0 {
		i++
	}
	if i == 0 || i == len(line) || line[i] != ' ' {
		return malformed("invalid method in the request line")
	}
	rest := line[i+1:]
	j := 0
	for j < len(rest) && rest[j] > ' ' && rest[j] != 0x7f && rest[j] != '#' {
		j++ // bytes over 0x7f are no URI's (RFC 3986), but clients send them and servers read them
	}
	if j == 0 || j == len(rest) || rest[j] != ' ' {
		return malformed("invalid target in the request line")
	}
	version := rest[j+1:]
	if !isVersion(version) {
		return malformed("invalid version in the request line")
	}
	if version[5] != '1' {
		return &Error{Kind: Malformed, Status: 505, Reason: "HTTP version not supported"}
	}
	req.Method, req.Target = methodString(line[:i]), rest[:j:j]
	req.Minor = minor(version)
	return nil
}

// isVersion reports whether b is HTTP-version, RFC 9112 section 2.3.
func isVersion(b []byte) bool {
	return len(b) == 8 && string(b[:5]) == "HTTP/" && isDigit(b[5]) && b[6] == '.' && isDigit(b[7])
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// minor reads the minor version; every later 1.x is understood as 1.1 (RFC 9110
// section 2.5).
func minor(version []byte) int {
	if version[7] == '0' {
		return 0
	}
	return 1
}

// interpret reads from the fields what the connection itself needs to know.
func (req *Request) interpret() error {
	var host, close, keep, upgrade, upgradeField, expect bool
	var f framing
	for i := range req.Header {
		value := req.Header[i].Value
		switch req.Header[i].known {
		case NameHost:
			if host {
				return malformed("more than one Host")
			}
			if !validHost(value) {
				return malformed("invalid Host")
			}
			host = true
		case NameContentLength:
			if err := f.addLength(value); err != nil {
				return err
			}
		case NameTransferEncoding:
			f.addEncoding(value)
		case NameConnection:
			close = close || HasToken(value, "close")
			keep = keep || HasToken(value, "keep-alive")
			upgrade = upgrade || HasToken(value, "upgrade")
		case NameUpgrade:
			upgradeField = upgradeField || len(value) > 0
		case NameExpect:
			expect = expect || HasToken(value, "100-continue")
		}
	}
	if !host && req.Minor > 0 {
		return malformed("no Host")
	}
	if err := req.frame(&f); err != nil {
		return err
	}
	req.KeepAlive = !close && (req.Minor > 0 || keep)
	req.ExpectContinue = expect && req.Minor > 0 && req.ContentLength != 0
	req.Upgrade = upgrade && upgradeField && req.Minor > 0
	return nil
}

// validHost reports whether b is uri-host [ ":" port ] (RFC 9110 section 7.2);
// empty is valid.
func validHost(b []byte) bool {
	if len(b) > 0 && b[0] == '[' {
		end := bytes.IndexByte(b, ']')
		return end > 1 && validPort(b[end+1:]) && IsIPv6(b[1:end])
	}
	name := b
	if colon := bytes.IndexByte(b, ':'); colon >= 0 {
		if !validPort(b[colon:]) {
			return false
		}
		name = b[:colon]
	}
	for i := 0; i < len(name); i++ {
		if name[i] == '%' {
			if i+2 >= len(name) || !isAll(name[i+1:i+3], isHex) {
				return false
			}
			i += 2
		} else if charClass[name[i]]&isHost == 0 {
			return false
		}
	}
	return true
}

// IsIPv6 reports whether b is an IPv6 address, with or without a zone: all that
// may stand between the brackets of a host (RFC 3986 section 3.2.2; there is no
// IPvFuture).
func IsIPv6(b []byte) bool {
	address := b
	if zone := bytes.IndexByte(b, '%'); zone >= 0 {
		address = b[:zone]
		for _, c := range b[zone+1:] {
			if charClass[c]&isHost == 0 && c != '%' {
				return false
			}
		}
		if zone+1 == len(b) {
			return false
		}
	}
	// Short and not kept: the conversion does not allocate.
	ip, err := netip.ParseAddr(string(address))
	return err == nil && ip.Is6()
}

// validPort reports whether b is nothing, or a colon and digits.
func validPort(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	if b[0] != ':' {
		return false
	}
	for _, c := range b[1:] {
		if !isDigit(c) {
			return false
		}
	}
	return true
}
