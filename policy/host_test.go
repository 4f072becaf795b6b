package policy_test

import (
	"strings"
	"testing"

	"mulligan/policy"
)

func TestParseHost(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want policy.HostPattern
		text string
	}{
		{"api.example.com", policy.HostPattern{Name: "api.example.com"}, "api.example.com"},
		{"API.Example.COM.", policy.HostPattern{Name: "api.example.com"}, "api.example.com"},
		{"localhost:8080", policy.HostPattern{Name: "localhost", Port: 8080}, "localhost:8080"},
		{"a_b-c.1x:1", policy.HostPattern{Name: "a_b-c.1x", Port: 1}, "a_b-c.1x:1"},
		{"*", policy.HostPattern{Wildcard: true}, "*"},
		{"*:65535", policy.HostPattern{Wildcard: true, Port: 65535}, "*:65535"},
		{"*.example.com", policy.HostPattern{Name: "example.com", Wildcard: true}, "*.example.com"},
		{"*.Example.com.:8443", policy.HostPattern{Name: "example.com", Wildcard: true, Port: 8443}, "*.example.com:8443"},
		{"127.0.0.1:80", policy.HostPattern{Name: "127.0.0.1", Port: 80}, "127.0.0.1:80"},
		{"[::1]", policy.HostPattern{Name: "::1"}, "[::1]"},
		{"[0:0::0001]:80", policy.HostPattern{Name: "::1", Port: 80}, "[::1]:80"},
		{"[2001:DB8::A]", policy.HostPattern{Name: "2001:db8::a"}, "[2001:db8::a]"},
		{strings.Repeat("a", 63) + ".example", policy.HostPattern{Name: strings.Repeat("a", 63) + ".example"}, strings.Repeat("a", 63) + ".example"},
	} {
		got, err := policy.ParseHost(tt.in)
		if err != nil || got != tt.want || got.String() != tt.text {
			t.Errorf("%q: %+v, %v (%s)", tt.in, got, err, got)
		}
	}
}

func TestParseHostRefuses(t *testing.T) {
	for in, says := range map[string]string{
		"":                              "empty",
		"http://example.com":            "scheme",
		"example.com/path":              "path",
		"user@example.com":              "user",
		"example.com?":                  "path",
		"example.com:":                  "port",
		"example.com:0":                 "port",
		"example.com:65536":             "port",
		"example.com:-1":                "port",
		"example.com:+1":                "port",
		"example.com:http":              "port",
		":80":                           "label is empty",
		".":                             "label is empty",
		"*.":                            "label is empty",
		"a..b":                          "label is empty",
		".a":                            "label is empty",
		"a.b..":                         "label is empty",
		"a.*.b":                         "first label",
		"*a.b":                          "first label",
		"**":                            "first label",
		"*.*.b":                         "first label",
		"a b":                           `' '`,
		"a%41":                          `'%'`,
		"a,b":                           `','`,
		"bücher.example":                "xn--",
		"::1":                           "brackets",
		"::1:80":                        "brackets",
		"[::1":                          "]",
		"[::1]80":                       "after",
		"[::1]]":                        "after",
		"[]":                            "IPv6",
		"[127.0.0.1]":                   "IPv6",
		"[example.com]":                 "IPv6",
		"[fe80::1%eth0]":                "IPv6",
		"[::1]:x":                       "port",
		"*.0.0.1":                       "IP address",
		strings.Repeat("a", 64):         "63",
		strings.Repeat("a.", 130) + "a": "253",
	} {
		h, err := policy.ParseHost(in)
		if err == nil {
			t.Errorf("%q is %+v", in, h)
			continue
		}
		if h != (policy.HostPattern{}) || !strings.Contains(err.Error(), says) || !strings.HasPrefix(err.Error(), "host ") {
			t.Errorf("%q: %+v, %v", in, h, err)
		}
	}
}

func FuzzParseHost(f *testing.F) {
	for _, s := range []string{"a.b:80", "*", "*.a.b:1", "[::1]:80", "[1:2::3.4.5.6]", "A.B.", "*.0.1", "a..b", "[::ffff:1.2.3.4]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h, err := policy.ParseHost(s)
		if err != nil {
			return
		}
		if again, err := policy.ParseHost(h.String()); err != nil || again != h {
			t.Fatalf("%q: %+v, again %+v, %v", s, h, again, err)
		}
		// What was parsed must be found under its own name.
		u, fallback := upstream(t, "u"), upstream(t, "fallback")
		u.Hosts = []policy.HostPattern{h}
		host := h.Name
		if h.Wildcard {
			host = strings.TrimSuffix("x."+host, ".")
		}
		got, named := policy.NewTable([]*policy.Upstream{u}, fallback).Lookup(host, h.Port)
		if got != u || named == h.Wildcard {
			t.Fatalf("%+v does not match %q: %s, %v", h, host, got.Name, named)
		}
	})
}
