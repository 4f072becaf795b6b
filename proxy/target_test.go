package proxy

import (
	"testing"
	"time"
)

func TestParseAbsolute(t *testing.T) {
	for _, c := range []struct {
		raw       string
		https     bool
		authority string
		path      string
		ok        bool
	}{
		{"http://a/b?c", false, "a", "/b?c", true},
		{"HTTP://A:80", false, "A:80", "", true},
		{"https://a:1?x", true, "a:1", "?x", true},
		{"http://[::1]:8/%2f//", false, "[::1]:8", "/%2f//", true},
		{"http://u:p@a/", false, "", "", false},
		{"http://a/@", false, "a", "/@", true},
		{"ftp://a/", false, "", "", false},
		{"a:80", false, "", "", false},
		{"http:/a", false, "", "", false},
	} {
		https, authority, path, err := parseAbsolute([]byte(c.raw))
		if (err == nil) != c.ok || https != c.https || string(authority) != c.authority || string(path) != c.path {
			t.Errorf("%s: %v %q %q %v", c.raw, https, authority, path, err)
		}
	}
}

func TestSplitAuthority(t *testing.T) {
	for _, c := range []struct {
		in   string
		host string
		port int
		ok   bool
	}{
		{"a", "a", 80, true},
		{"a:", "a", 80, true},
		{"a:8080", "a", 8080, true},
		{"[::1]", "::1", 80, true},
		{"[::1]:9", "::1", 9, true},
		{"[::1]9", "", 0, false},
		{"[::1", "", 0, false},
		{"", "", 0, false},
		{":80", "", 0, false},
		{"a:0", "", 0, false},
		{"a:65536", "", 0, false},
		{"a:+1", "", 0, false},
		{"a:b", "", 0, false},
		{"a:80:81", "", 0, false},
		{"a b", "", 0, false},
		{"a@b", "", 0, false},
		{"xn--bcher-kva.example.", "xn--bcher-kva.example.", 80, true},
	} {
		host, port, err := splitAuthority([]byte(c.in), 80)
		if (err == nil) != c.ok || (c.ok && (string(host) != c.host || port != c.port)) {
			t.Errorf("%q: %q %d %v", c.in, host, port, err)
		}
	}
}

func FuzzTarget(f *testing.F) {
	for _, s := range []string{"http://a:80/b", "https://[::1]/?", "http://", "//", "http://a:b@c:1/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		_, authority, path, err := parseAbsolute([]byte(s))
		if err != nil {
			return
		}
		host, port, err := splitAuthority(authority, 80)
		if err == nil && (len(host) == 0 || port < 1 || port > 65535) {
			t.Errorf("%q: host %q port %d", s, host, port)
		}
		if len(path) > 0 && path[0] != '/' && path[0] != '?' && path[0] != '#' {
			t.Errorf("%q: path %q", s, path)
		}
	})
}

func TestClientPolicy(t *testing.T) {
	for _, c := range []struct {
		in    string
		max   int
		total time.Duration
		ok    bool
	}{
		{"max-attempts=1", 1, 0, true},
		{"max-attempts=2, total=2.5", 2, 2500 * time.Millisecond, true},
		{"total=0.000000001", 0, 1, true},
		{"total=99999999999999999999", 0, 1<<63 - 1, true},
		{"max-attempts=2, max-attempts=3, total=1, total=2", 2, time.Second, true},
		{"max-attempts=0", 0, 0, false},
		{"max-attempts=-1", 0, 0, false},
		{"max-attempts=1.5", 0, 0, false},
		{"max-attempts=", 0, 0, false},
		{"max-attempts", 0, 0, false},
		{"total=0", 0, 0, false},
		{"total=-1", 0, 0, false},
		{"total=1s", 0, 0, false},
		{"total=1e3", 0, 0, false},
		{"total=NaN", 0, 0, false},
		{"total=Inf", 0, 0, false},
		{"", 0, 0, false},
		{"max-attemps=1", 0, 0, false},
		{"max-attempts=1,,", 0, 0, false},
	} {
		var p clientPolicy
		err := p.read(c.in)
		if (err == nil) != c.ok || (c.ok && (p.maxAttempts != c.max || p.total != c.total)) {
			t.Errorf("%q: %+v %v", c.in, p, err)
		}
	}
}
