package proxy

import (
	"net"
	"net/netip"
	"testing"
)

func TestGuard(t *testing.T) {
	prefixes := func(s ...string) (p []netip.Prefix) {
		for _, x := range s {
			p = append(p, netip.MustParsePrefix(x))
		}
		return p
	}
	own := newOwnListeners([]net.Addr{
		&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7080},
		&net.TCPAddr{IP: net.IPv6zero, Port: 7081},
	})
	own.local = func() []netip.Addr { return []netip.Addr{netip.MustParseAddr("192.0.2.7")} }
	plain := &guard{own: own}
	beyond := &guard{own: own, denyLoopback: true}
	lifted := &guard{own: own, denyLoopback: true, allow: prefixes("127.0.0.0/8", "169.254.0.0/16"), deny: prefixes("169.254.169.0/24", "198.51.100.0/24")}
	for _, c := range []struct {
		g      *guard
		addr   string
		exempt bool
		denied bool
	}{
		{plain, "192.0.2.1:80", false, false},
		{plain, "127.0.0.1:80", false, false},
		{plain, "127.0.0.1:7080", false, true},
		{plain, "127.0.0.1:7080", true, true}, // an endpoint too
		{plain, "[::ffff:127.0.0.1]:7080", false, true},
		{plain, "[64:ff9b::7f00:1]:7080", false, true},
		{plain, "[2002:7f00:1::]:7080", false, true},
		{plain, "[64:ff9b:1::7f00:1]:7080", false, true},
		{plain, "[::ffff:0:127.0.0.1]:7080", false, true},
		{plain, "[::127.0.0.1]:7080", false, true},
		{plain, "[::1]:7080", false, false},
		{plain, "0.0.0.0:7080", true, true},
		{plain, "127.0.0.2:7080", false, false}, // another address
		{plain, "127.0.0.2:7081", false, true},  // bound on all
		{plain, "192.0.2.7:7081", false, true},
		{plain, "192.0.2.8:7081", false, false},
		{plain, "[::1]:7081", false, true},
		{plain, "0.0.0.0:80", false, true},
		{plain, "[::]:80", false, true},
		{plain, "169.254.169.254:80", false, true},
		{plain, "169.254.169.254:80", true, false},
		{plain, "[::ffff:169.254.169.254]:80", false, true},
		{plain, "[64:ff9b::a9fe:a9fe]:80", false, true},
		{plain, "[2002:a9fe:a9fe::1]:80", false, true},
		{plain, "169.254.1.1:80", false, true},
		{plain, "[fe80::1%eth0]:80", false, true},
		{plain, "[fd00:ec2::254]:80", false, true},
		{plain, "[fd00:ec2::255]:80", false, false},
		{plain, "100.100.100.200:80", false, true},
		{plain, "168.63.129.16:80", false, true},
		{plain, "224.0.0.1:80", false, true},
		{plain, "[ff02::1]:80", false, true},
		{beyond, "127.0.0.1:80", false, true},
		{beyond, "[::1]:80", false, true},
		{beyond, "127.0.0.1:80", true, false},
		{lifted, "127.0.0.1:80", false, false},
		{lifted, "169.254.1.1:80", false, false},
		{lifted, "169.254.169.254:80", false, true}, // deny beats allow
		{lifted, "198.51.100.1:80", false, true},
		{lifted, "[::ffff:198.51.100.1]:80", false, true},
		{lifted, "127.0.0.1:7080", false, true}, // own listeners are never lifted
	} {
		err := c.g.judge(netip.MustParseAddrPort(c.addr), c.exempt)
		if (err != nil) != c.denied {
			t.Errorf("%s exempt=%v: %v, want denied=%v", c.addr, c.exempt, err, c.denied)
		}
	}
}
