package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"syscall"
	"time"

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
	// received is the status of a response that broke off; 0 = none.
	received int
	// retryAfter is when to come back; 0 = it is not said.
	retryAfter time.Duration
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
		return fault{class: policy.ConnectFailure, kind: "connection_timeout", status: 504, detail: "timed out while connecting"}
	}
	return fault{class: policy.ConnectFailure, kind: "destination_unavailable", status: 502, detail: "no connection"}
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		(errors.As(err, &ne) && ne.Timeout())
}

func dialFault(e *dialError) fault {
	var denied *deniedError
	if errors.As(e.err, &denied) {
		return fault{class: policy.Denied, kind: "http_request_denied", status: 403, detail: denied.Error()}
	}
	var dns *net.DNSError
	if errors.As(e.err, &dns) {
		switch {
		case dns.IsNotFound:
			return fault{class: policy.DNSNotFound, kind: "dns_error", status: 502, detail: "the name does not exist"}
		case dns.IsTimeout:
			return fault{class: policy.ConnectFailure, kind: "dns_timeout", status: 504, detail: "name resolution timed out"}
		}
		return fault{class: policy.ConnectFailure, kind: "dns_error", status: 502, detail: "name resolution failed for now"}
	}
	if e.step == stepTLS {
		return tlsFault(e.err)
	}
	var malformed *errParentMalformed
	if errors.As(e.err, &malformed) {
		return fault{class: policy.ProtocolError, kind: "http_protocol_error", status: 502, detail: malformed.Error()}
	}
	var refused *errParentRefused
	if errors.As(e.err, &refused) {
		f := fault{class: policy.ConnectFailure, kind: "destination_unavailable", status: 502, detail: refused.Error()}
		if refused.status/100 == 4 {
			f.class = policy.Denied // by the parent's policy, or for want of credentials: the same next time
		}
		return f
	}
	switch {
	case isTimeout(e.err):
		return fault{class: policy.ConnectFailure, kind: "connection_timeout", status: 504, detail: "timed out while connecting"}
	case errors.Is(e.err, syscall.ECONNREFUSED):
		return fault{class: policy.ConnectFailure, kind: "connection_refused", status: 502, detail: "connection refused"}
	case isLocal(e.err):
		return fault{class: policy.ConnectFailure, kind: "proxy_internal_error", status: 500, detail: "no socket could be made here: " + errnoOf(e.err).Error()}
	case errors.Is(e.err, syscall.ENETUNREACH), errors.Is(e.err, syscall.EHOSTUNREACH):
		return fault{class: policy.ConnectFailure, kind: "destination_ip_unroutable", status: 502, detail: "unreachable"}
	}
	return fault{class: policy.ConnectFailure, kind: "connection_terminated", status: 502, detail: "the connection broke off while it was made"}
}

// isLocal reports whether a dial failed for want of something on this machine:
// the upstream has no part in it.
func isLocal(err error) bool {
	switch errnoOf(err) {
	case syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL, syscall.EACCES, syscall.EPERM:
		return true
	}
	return false
}

func errnoOf(err error) (errno syscall.Errno) {
	errors.As(err, &errno)
	return errno
}

func tlsFault(err error) fault {
	switch { // a certificate first: what wraps its error may look like a connection that broke off
	case isCertificateError(err):
		f := fault{class: policy.TLSFailure, kind: "tls_certificate_error", status: 502, detail: "certificate: " + err.Error()}
		if unknown := (x509.UnknownAuthorityError{}); errors.As(err, &unknown) {
			f.detail += " (tls.ca_file names the roots of an upstream that has its own)"
		}
		return f
	case isTimeout(err):
		return fault{class: policy.ConnectFailure, kind: "connection_timeout", status: 504, detail: "timed out in the TLS handshake"}
	case brokeOff(err):
		return fault{class: policy.ConnectFailure, kind: "connection_terminated", status: 502, detail: "the connection broke off in the TLS handshake"}
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "remote error" {
		return fault{class: policy.TLSFailure, kind: "tls_alert_received", status: 502, detail: "TLS alert: " + op.Err.Error()}
	}
	return fault{class: policy.TLSFailure, kind: "tls_protocol_error", status: 502, detail: "TLS handshake: " + err.Error()}
}

// isCertificateError reports whether the peer's certificate was not accepted.
func isCertificateError(err error) bool {
	var verify *tls.CertificateVerificationError
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	var authority x509.UnknownAuthorityError
	var constraint x509.ConstraintViolationError
	var algorithm x509.InsecureAlgorithmError
	var extension x509.UnhandledCriticalExtension
	var roots x509.SystemRootsError
	for _, target := range []any{&verify, &invalid, &name, &authority, &constraint, &algorithm, &extension, &roots} {
		if errors.As(err, target) {
			return true
		}
	}
	return false
}

// isTLSError reports whether TLS ended a connection, by the peer's alert or by ours.
func isTLSError(err error) bool {
	var op *net.OpError
	var header tls.RecordHeaderError
	return errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error") || errors.As(err, &header)
}

func wireFault(e *h1.Error) fault {
	switch e.Kind {
	case h1.Refused:
		return fault{class: policy.RefusedStream, kind: "connection_terminated", status: 502, detail: "the upstream says that it did not process the request"}
	case h1.Malformed, h1.HeadTooLarge:
		return fault{class: policy.ProtocolError, kind: "http_protocol_error", status: 502, detail: "malformed response: " + e.Reason}
	case h1.Broken:
		return fault{class: policy.Truncated, kind: "http_response_incomplete", status: 502, detail: "the response broke off"}
	}
	if isTLSError(e.Err) { // in TLS 1.3 a client's certificate is refused after the handshake
		return tlsFault(e.Err)
	}
	if e.Kind == h1.NothingWritten { // of a new connection: an old one costs no attempt
		return fault{class: policy.ConnectFailure, kind: "connection_terminated", status: 502, detail: "the connection ended before the request was sent"}
	}
	return fault{class: policy.ConnectionReset, kind: "connection_terminated", status: 502, detail: "the connection ended before a response header"}
}

// timeoutFault is an attempt or a window that passed without a response.
var timeoutFault = fault{class: policy.Timeout, kind: "http_response_timeout", status: 504, detail: "no response in time"}

// busyFault is a window that passed before anything could be sent.
var busyFault = fault{class: policy.Timeout, kind: "http_response_timeout", status: 504, detail: "the window ended before a connection to the upstream was free"}

// writeFault is an upstream that stopped reading the request's body.
var writeFault = fault{class: policy.Timeout, kind: "connection_write_timeout", status: 504, detail: "the upstream stopped reading the request"}
