package blackbox

import "testing"

// Whoever speaks TLS to the proxy port is told so, not only that it is malformed.
func TestTLSAtTheProxyPort(t *testing.T) {
	t.Parallel()
	p := start(t, "")
	for name, bytes := range map[string]string{
		"TLS 1.0":            opaque,
		"a hello with a LF":  "\x16\x03\x03\x00\x05\n\n\n\n\n",
		"the record's begin": "\x16\x03\x01",
	} {
		t.Run(name, func(t *testing.T) {
			r := p.raw(bytes)
			r.expectProblem(t, 400, "error=http_request_error")
			contains(t, "the detail", r.Body, "looks like TLS", "http://")
		})
	}
	r := p.raw("\x16\x02\x01\x00\x05hello")
	r.expectProblem(t, 400, "error=http_request_error")
	contains(t, "the detail", r.Body, "malformed request")
}
