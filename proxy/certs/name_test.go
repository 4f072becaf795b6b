package certs

import (
	"errors"
	"strings"
	"testing"
)

func TestCanonical(t *testing.T) {
	label63 := strings.Repeat("a", 63)
	long253 := strings.Join([]string{label63, label63, label63, strings.Repeat("b", 61)}, ".")
	for _, test := range []struct {
		given, want string // want "": refused
	}{
		{"api.test", "api.test"},
		{"API.Test.", "api.test"},
		{"localhost", "localhost"},
		{"a_b.test", "a_b.test"},
		{"_dmarc.a.test", "_dmarc.a.test"},
		{"ab--cd.test", "ab--cd.test"},
		{"r3---sn-abc.test", "r3---sn-abc.test"},
		{"-a-.test", "-a-.test"},
		{"xn--bcher-kva.test", "xn--bcher-kva.test"},
		{"Bücher.test", "xn--bcher-kva.test"},
		{"1.test", "1.test"},
		{"1e2.3f4", "1e2.3f4"},
		{label63 + ".test", label63 + ".test"},
		{label63 + "a.test", ""},
		{long253, long253},
		{long253 + ".", long253},
		{long253 + "b", ""},
		{"127.0.0.1", "127.0.0.1"},
		{"127.0.0.1.", "127.0.0.1"},
		{"::1", "::1"},
		{"[2001:DB8::1]", "2001:db8::1"},
		{"2001:0db8:0:0:0:0:0:1", "2001:db8::1"},
		{"::ffff:192.0.2.1", "192.0.2.1"},
		{"fe80::1%eth0", ""},
		{"1.2.3", ""},
		{"010.0.0.1", ""},
		{"300.1.1.1", ""},
		{"[::1", "::1"}, // no harm: an address all the same
		{"a:443", ""},
		{"", ""},
		{".", ""},
		{"..", ""},
		{"a..test", ""},
		{".test", ""},
		{"a.test..", ""},
		{"*.test", ""},
		{"a b.test", ""},
		{"a/b.test", ""},
		{"a@b.test", ""},
		{"a\x00b.test", ""},
		{"a\n.test", ""},
		{"\xff.test", ""},
		{"xn--\u00fc.test", ""},
	} {
		got, _, err := canonical(test.given)
		if got != test.want || (err != nil) != (test.want == "") {
			t.Errorf("%q: %q, %v; want %q", test.given, got, err, test.want)
		}
		if _, is := errors.AsType[*NameError](err); err != nil && !is {
			t.Errorf("%q: the error is a %T", test.given, err)
		}
	}
}

// FuzzCanonical: what is taken is a fixed point, and can be signed and read
// back; what comes off the wire never does harm.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{"a.test", "A.", "::1", "[::1]", "1.2.3.4", "xn--a.test", "ü.test", "a_b--c", strings.Repeat("a.", 126) + "a", "", "%", "1.2.3"} {
		f.Add(s)
	}
	a := newTestAuthority(f)
	f.Fuzz(func(t *testing.T, given string) {
		name, addr, err := canonical(given)
		if err != nil {
			if name != "" {
				t.Fatalf("%q: %q with an error", given, name)
			}
			_ = err.Error()
			return
		}
		again, same, err := canonical(name)
		if err != nil || again != name || same != addr {
			t.Fatalf("%q: %q, and of that %q, %v", given, name, again, err)
		}
		c, err := a.newLeaf(name, addr)
		if err != nil {
			t.Fatalf("%q: %v", given, err)
		}
		if names := len(c.Leaf.DNSNames) + len(c.Leaf.IPAddresses); names != 1 {
			t.Fatalf("%q: %d names", given, names)
		}
	})
}
