package proxy

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"mulligan/proxy/h1"
)

// TestForesee: what is foreseen is what the doors would find.
func TestForesee(t *testing.T) {
	for url, want := range map[string]Target{
		"http://API.example":             {Host: "API.example", Port: 80, Path: "/"},
		"http://api.example:8080?q=1":    {Host: "api.example", Port: 8080, Path: "/?q=1"},
		"https://[2001:db8::1]/a%2fb?c":  {HTTPS: true, Host: "2001:db8::1", Port: 443, Path: "/a%2fb?c"},
		"HTTP://api.example:/x":          {Host: "api.example", Port: 80, Path: "/x"},
		"http://api.example/already?a#b": {Host: "api.example", Port: 80, Path: "/already?a#b"},
	} {
		if got, err := ParseTarget(url, "GET"); got != want || err != nil {
			t.Errorf("%s: %+v, %v, want %+v", url, got, err, want)
		}
	}
	for _, url := range []string{"api.example/x", "ftp://api.example/", "http://u@api.example/", "http:///x", "http://a:99999/"} {
		if got, err := ParseTarget(url, "GET"); err == nil {
			t.Errorf("%s is taken for %+v", url, got)
		}
	}
	if host, port, err := ParseAuthority("api.example:81"); host != "api.example" || port != 81 || err != nil {
		t.Errorf("%s, %d, %v", host, port, err)
	}
}

func TestReadAsked(t *testing.T) {
	field := func(name, value string) h1.Field { return h1.Field{Name: []byte(name), Value: []byte(value)} }
	got, err := ReadAsked(h1.Header{
		field("via", "1.0 x, 1.1 mulligan-0123abcd"), field("mulligan-policy", "max-attempts=2, total=1.5"),
	})
	if want := (Asked{Nested: true, MaxAttempts: 2, Total: 1500 * time.Millisecond}); got != want || err != nil {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if _, err := ReadAsked(h1.Header{field("Mulligan-Policy", "max-attempts=0")}); err == nil {
		t.Error("a malformed Mulligan-Policy passes")
	}
}

func TestForbids(t *testing.T) {
	s := &Settings{DenyDestinations: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}
	own := []net.Addr{&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7080}}
	for _, test := range []struct {
		addr             string
		endpoint, beyond bool
		forbidden        bool
	}{
		{"198.51.100.1:80", false, false, false},
		{"192.0.2.1:80", false, false, true},
		{"192.0.2.1:80", true, false, false},
		{"169.254.169.254:80", false, false, true},
		{"127.0.0.1:7080", true, false, true},
		{"127.0.0.1:80", false, false, false},
		{"127.0.0.1:80", false, true, true},
	} {
		why := s.Forbids(netip.MustParseAddrPort(test.addr), test.endpoint, own, test.beyond)
		if (why != "") != test.forbidden {
			t.Errorf("%+v: %q", test, why)
		}
	}
}
