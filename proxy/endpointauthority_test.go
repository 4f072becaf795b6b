package proxy

import "testing"

// TestEndpointAuthority: a Host field says no port that its scheme implies.
func TestEndpointAuthority(t *testing.T) {
	for _, c := range []struct {
		scheme, host string
		port         int
		want         string
	}{
		{"http", "a.test", 80, "a.test"},
		{"https", "a.test", 443, "a.test"},
		{"http", "a.test", 443, "a.test:443"},
		{"https", "a.test", 80, "a.test:80"},
		{"http", "a.test", 8080, "a.test:8080"},
		{"https", "a.test", 8443, "a.test:8443"},
		{"http", "192.0.2.1", 80, "192.0.2.1"},
		{"http", "2001:db8::1", 80, "[2001:db8::1]"},
		{"https", "2001:db8::1", 443, "[2001:db8::1]"},
		{"http", "2001:db8::1", 443, "[2001:db8::1]:443"},
		{"https", "2001:db8::1", 8443, "[2001:db8::1]:8443"},
	} {
		if got := endpointAuthority(c.scheme, c.host, c.port); got != c.want {
			t.Errorf("%s %s %d: %q, want %q", c.scheme, c.host, c.port, got, c.want)
		}
	}
}
