package proxy

import (
	"net/netip"
	"net/url"
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

func TestParseConnect(t *testing.T) {
	for authority, want := range map[string]Target{
		"api.example:443": {Host: "api.example", Port: 443},
		"[::1]:22":        {Host: "::1", Port: 22},
	} {
		if got, err := ParseConnect(authority); got != want || err != nil {
			t.Errorf("%s: %+v, %v, want %+v", authority, got, err, want)
		}
	}
	for _, authority := range []string{"", "api.example", "api.example:", "api.example:0", "http://api.example/", "a@b:443", "a:443/"} {
		if got, err := ParseConnect(authority); err == nil {
			t.Errorf("%q is taken for %+v", authority, got)
		}
	}
}

func TestKeyed(t *testing.T) {
	field := func(name, value string) h1.Field { return h1.Field{Name: []byte(name), Value: []byte(value)} }
	for name, test := range map[string]struct {
		header h1.Header
		want   bool
	}{
		"none":        {nil, false},
		"another":     {h1.Header{field("X-Key", "7")}, false},
		"one":         {h1.Header{field("idempotency-key", "7")}, true},
		"empty":       {h1.Header{field("Idempotency-Key", "")}, false},
		"empty first": {h1.Header{field("Idempotency-Key", ""), field("Idempotency-Key", "7")}, true},
		"ends here":   {h1.Header{field("Idempotency-Key", "7"), field("Connection", "close, idempotency-key")}, false},
	} {
		if got := Keyed(test.header, "Idempotency-Key"); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestLiteral(t *testing.T) {
	for host, want := range map[string]string{
		"127.0.0.1": "127.0.0.1", "127.1": "127.0.0.1", "2852039166": "169.254.169.254", "0xa9.254.169.254": "169.254.169.254",
		"0177.0.0.1": "127.0.0.1", "::1": "::1", "::ffff:10.0.0.1": "10.0.0.1", "localhost": "127.0.0.1", "LocalHost.": "127.0.0.1",
		"shop.localhost": "127.0.0.1", "api.example": "", "notlocalhost": "", "localhost.example": "", "1.2.3.4.5": "",
	} {
		got, ok := Literal(host)
		if ok != (want != "") || ok && got != netip.MustParseAddr(want) {
			t.Errorf("%s: %v, %v, want %q", host, got, ok, want)
		}
	}
}

func TestForbids(t *testing.T) {
	deny := &Settings{DenyDestinations: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}
	allow := &Settings{AllowDestinations: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	parent := &Settings{ParentProxy: &url.URL{Scheme: "http", Host: "proxy.example:3128"}}
	circle := &Settings{ParentProxy: &url.URL{Scheme: "http", Host: "localhost:7081"}}
	near := Listeners{Proxy: "127.0.0.1:7080", Others: []string{"[::1]:7081", "admin.example:7082", ":7083"}}
	far := Listeners{Proxy: "0.0.0.0:7080"}
	for _, test := range []struct {
		settings  *Settings
		own       Listeners
		host      string
		port      int
		endpoint  bool
		forbidden bool
	}{
		{deny, near, "198.51.100.1", 80, false, false},
		{deny, near, "192.0.2.1", 80, false, true},
		{deny, near, "192.0.2.1", 80, true, false},
		{deny, near, "3221225985", 80, false, true},
		{deny, near, "169.254.169.254", 80, false, true},
		{deny, near, "api.example", 80, false, false},
		{deny, near, "127.0.0.1", 7080, true, true},
		{deny, near, "127.0.0.1", 80, false, false},
		{deny, near, "localhost", 80, false, false},
		{deny, near, "localhost", 7080, true, true},
		{deny, near, "localhost", 7081, false, true}, // by its other address
		{deny, near, "admin.example.", 7082, false, true},
		{deny, near, "admin.example", 80, false, false},
		{deny, near, "127.0.0.2", 7083, false, true},
		{deny, far, "127.0.0.1", 80, false, true},
		{deny, far, "localhost", 80, false, true},
		{deny, far, "x.localhost", 80, false, true},
		{deny, far, "localhost", 80, true, false},
		{allow, far, "localhost", 80, false, false},
		{allow, far, "localhost", 7080, false, true},
		{deny, Listeners{Proxy: "proxy.example:7080"}, "localhost", 80, false, true}, // it may be anywhere
		{deny, Listeners{Proxy: "localhost:7080"}, "localhost", 80, false, false},
		{parent, far, "127.0.0.1", 80, false, true},
		{parent, far, "localhost", 80, false, false}, // the parent's localhost
		{parent, far, "localhost", 7080, false, true},
		{circle, near, "api.example", 80, false, true},
	} {
		why := test.settings.Forbids(test.host, test.port, test.endpoint, test.own)
		if (why != "") != test.forbidden {
			t.Errorf("%s:%d, endpoint %v, %+v: %q", test.host, test.port, test.endpoint, test.own, why)
		}
	}
}

// TestCredentialsBeyondLoopback: where nothing but credentials guards an open
// proxy port, requests as to a server show them too.
func TestCredentialsBeyondLoopback(t *testing.T) {
	open := &Settings{Auth: &Credentials{"u", "p"}}
	fenced := &Settings{Auth: open.Auth, AllowClients: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	for _, test := range []struct {
		settings *Settings
		proxy    string
		reverse  bool
		want     bool
	}{
		{open, "0.0.0.0:7080", true, true},
		{open, "127.0.0.1:7080", true, false},
		{open, "localhost:7080", true, false},
		{fenced, "0.0.0.0:7080", true, false},
		{fenced, "0.0.0.0:7080", false, true},
		{&Settings{}, "0.0.0.0:7080", false, false},
	} {
		if got := test.settings.Unauthorized(nil, test.reverse, Listeners{Proxy: test.proxy}); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

// TestReached: a wildcard listener is at the addresses of this machine alone, as
// the guard has it.
func TestReached(t *testing.T) {
	own := Listeners{Proxy: "0.0.0.0:7080", Others: []string{"[::1]:7081", "admin.example:7082"}}
	for _, test := range []struct {
		host string
		port int
		want bool
	}{
		{"127.0.0.1", 7080, true},
		{"127.9", 7080, true},
		{"::1", 7080, true},
		{"::ffff:127.0.0.1", 7080, true},
		{"0.0.0.0", 7080, true},
		{"localhost", 7080, true},
		{"192.0.2.9", 7080, false}, // no machine's (RFC 5737)
		{"2001:db8::9", 7080, false},
		{"169.254.169.254", 7080, false}, // denied, but not for being ours
		{"api.example", 7080, false},
		{"localhost", 7081, true},
		{"127.0.0.1", 7081, false},
		{"ADMIN.example.", 7082, true},
		{"127.0.0.1", 7082, false},
	} {
		if got := own.Reached(test.host, test.port); got != test.want {
			t.Errorf("%s:%d: %v", test.host, test.port, got)
		}
	}
}
