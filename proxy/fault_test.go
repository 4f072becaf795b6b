package proxy

import (
	"net"
	"os"
	"syscall"
	"testing"

	"mulligan/policy"
)

// TestFaultOfADial: what is missing on this machine is no fault of the upstream's.
func TestFaultOfADial(t *testing.T) {
	socket := func(e syscall.Errno) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", e)}
	}
	lookup := func(e net.DNSError) error { return &net.OpError{Op: "dial", Net: "tcp", Err: &e} }
	for name, c := range map[string]struct {
		err    error
		class  policy.Class
		kind   string
		status int
	}{
		"no descriptor for the process": {socket(syscall.EMFILE), policy.ConnectFailure, "proxy_internal_error", 500},
		"no descriptor for anybody":     {socket(syscall.ENFILE), policy.ConnectFailure, "proxy_internal_error", 500},
		"no buffer":                     {socket(syscall.ENOBUFS), policy.ConnectFailure, "proxy_internal_error", 500},
		"no memory":                     {socket(syscall.ENOMEM), policy.ConnectFailure, "proxy_internal_error", 500},
		"no free port":                  {socket(syscall.EADDRNOTAVAIL), policy.ConnectFailure, "proxy_internal_error", 500},
		"not allowed":                   {socket(syscall.EACCES), policy.ConnectFailure, "proxy_internal_error", 500},
		"not permitted":                 {socket(syscall.EPERM), policy.ConnectFailure, "proxy_internal_error", 500},
		"no route to the host":          {socket(syscall.EHOSTUNREACH), policy.ConnectFailure, "destination_ip_unroutable", 502},
		"no route to the network":       {socket(syscall.ENETUNREACH), policy.ConnectFailure, "destination_ip_unroutable", 502},
		"refused":                       {socket(syscall.ECONNREFUSED), policy.ConnectFailure, "connection_refused", 502},
		"reset":                         {socket(syscall.ECONNRESET), policy.ConnectFailure, "connection_terminated", 502},
		"timed out":                     {socket(syscall.ETIMEDOUT), policy.ConnectFailure, "connection_timeout", 504},
		"no such name":                  {lookup(net.DNSError{IsNotFound: true}), policy.DNSNotFound, "dns_error", 502},
		"name timed out":                {lookup(net.DNSError{IsTimeout: true, IsTemporary: true}), policy.ConnectFailure, "dns_timeout", 504},
		"no name for now":               {lookup(net.DNSError{IsTemporary: true}), policy.ConnectFailure, "dns_error", 502},
	} {
		t.Run(name, func(t *testing.T) {
			f := faultOf(&dialError{stepConnect, c.err})
			if f.class != c.class || f.kind != c.kind || f.status != c.status {
				t.Errorf("%v %s %d, want %v %s %d", f.class, f.kind, f.status, c.class, c.kind, c.status)
			}
		})
	}
}
