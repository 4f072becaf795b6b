package policy

import (
	"net/netip"
	"testing"
)

// FuzzIPv6 compares with net/netip, which only the code, not its test, must do
// without.
func FuzzIPv6(f *testing.F) {
	for _, s := range []string{
		"::", "::1", "1::", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "1::8", "1:0:0:4:0:0:0:8", "1:0:0:4:5:0:0:8",
		"0:0:1::", "1:0:3:4:5:6:7:8", "::ffff:192.0.2.1", "1:2:3:4:5:6:192.0.2.1", "1:2:3:4:5:6:7:192.0.2.1", "::192.0.2", "::192.0.2.1.1",
		"::192.0.2.01", "::192.0.2.256", "::1.2.3.", "1.2.3.4::", "::1.2.3.4:1", ":::", "1::2::3", "1:", ":1", "12345::", "g::", "+1::", "::-1",
		"1:2:3:4:5:6:7:8:9", "1:2:3:4::5:6:7:8", "FFFF:ABCD::", "fe80::1%eth0", "192.0.2.1", "", ":", "0::0", "::1.1.1.1.1", "::0.0.0.0000",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := parseIPv6(s)
		want, err := netip.ParseAddr(s)
		if isWanted := err == nil && want.Is6() && want.Zone() == ""; ok != isWanted {
			t.Fatalf("%q: %v, want %v", s, ok, isWanted)
		}
		if !ok {
			return
		}
		text := string(got.append(nil))
		if len(text) > maxIPv6Text {
			t.Fatalf("%q: %q is longer than was thought", s, text)
		}
		again, err := netip.ParseAddr(text)
		if err != nil || again != want {
			t.Fatalf("%q: %q, want %v", s, text, want)
		}
		if !want.Is4In6() && text != want.String() {
			t.Fatalf("%q: spelled %q, want %q", s, text, want)
		}
	})
}
