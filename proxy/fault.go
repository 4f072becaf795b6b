package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"syscall"

	"mulligan/policy"
	"mulligan/proxy/h1"
)

// A fault is an attempt that got no response: its class, and the RFC 9209 2.3
// error type with the status recommended for it.
type fault struct {
	class  policy.Class
	kind   string // the RFC 9209 error type
	status int
	detail string // for people; no request data
}

// faultOf classifies an error by its type and by where it was born. Errors of
// dials arrive as *dialError, errors on a connection as *h1.Error.
func faultOf(err error) fault {
	var dial *dialError
	if errors.As(err, &dial) {
		return dialFault(dial)
	}
	var wire *h1.Error
	if errors.As(err, &wire) {
		return wireFault(wire)
	}
	if isTimeout(err) {
		return fault{policy.ConnectFailure, "connection_timeout", 504, "timed out while connecting"}
	}
	return fault{policy.ConnectFailure, "destination_unavailable", 502, "no connection"}
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		(errors.As(err, &ne) && ne.Timeout())
}

func dialFault(e *dialError) fault {
	var denied *deniedError
	if errors.As(e.err, &denied) {
		return fault{policy.Denied, "http_request_denied", 403, denied.Error()}
	}
	var dns *net.DNSError
	if errors.As(e.err, &dns) {
		switch {
		case dns.IsNotFound:
			return fault{policy.DNSNotFound, "dns_error", 502, "the name does not exist"}
		case dns.IsTimeout:
			return fault{policy.ConnectFailure, "dns_timeout", 504, "name resolution timed out"}
		}
		return fault{policy.ConnectFailure, "dns_error", 502, "name resolution failed for now"}
	}
	if e.step == stepTLS {
		return tlsFault(e.err)
	}
	var refused *errParentRefused
	if errors.As(e.err, &refused) {
		return fault{policy.ConnectFailure, "destination_unavailable", 502, refused.Error()}
	}
	switch {
	case isTimeout(e.err):
		return fault{policy.ConnectFailure, "connection_timeout", 504, "timed out while connecting"}
	case errors.Is(e.err, syscall.ECONNREFUSED):
		return fault{policy.ConnectFailure, "connection_refused", 502, "connection refused"}
	case errors.Is(e.err, syscall.ENETUNREACH), errors.Is(e.err, syscall.EHOSTUNREACH):
		return fault{policy.ConnectFailure, "destination_ip_unroutable", 502, "unreachable"}
	}
	return fault{policy.ConnectFailure, "connection_terminated", 502, "the connection broke off while it was made"}
}

func tlsFault(err error) fault {
	if isTimeout(err) {
		return fault{policy.ConnectFailure, "connection_timeout", 504, "timed out in the TLS handshake"}
	}
	if brokeOff(err) {
		return fault{policy.ConnectFailure, "connection_terminated", 502, "the connection broke off in the TLS handshake"}
	}
	var verify *tls.CertificateVerificationError
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	var authority x509.UnknownAuthorityError
	if errors.As(err, &verify) || errors.As(err, &invalid) || errors.As(err, &name) || errors.As(err, &authority) {
		return fault{policy.TLSFailure, "tls_certificate_error", 502, "certificate: " + err.Error()}
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "remote error" {
		return fault{policy.TLSFailure, "tls_alert_received", 502, "TLS alert: " + op.Err.Error()}
	}
	return fault{policy.TLSFailure, "tls_protocol_error", 502, "TLS handshake: " + err.Error()}
}

func wireFault(e *h1.Error) fault {
	switch e.Kind {
	case h1.Malformed, h1.HeadTooLarge:
		return fault{policy.ProtocolError, "http_protocol_error", 502, "malformed response: " + e.Error()}
	case h1.Broken:
		return fault{policy.Truncated, "http_response_incomplete", 502, "the response broke off"}
	}
	return fault{policy.ConnectionReset, "connection_terminated", 502, "the connection ended before a response header"}
}

// timeoutFault is an attempt or a window that passed without a response.
var timeoutFault = fault{policy.Timeout, "http_response_timeout", 504, "no response in time"}
