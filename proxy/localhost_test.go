package proxy

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// noResolver makes every question to a resolver fail, and be counted.
func noResolver(t *testing.T) *atomic.Int32 {
	var asked atomic.Int32
	before := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = before })
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		asked.Add(1)
		return nil, errors.New("nobody is to be asked")
	}}
	return &asked
}

func listenAt(t *testing.T, address string) *net.TCPAddr {
	t.Helper()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln.Addr().(*net.TCPAddr)
}

// TestLocalhostAsksNobody: localhost and the names under it are loopback by
// definition (RFC 6761 6.3). A resolver that knew none of them made a 502 of what
// explain, and other resolvers, took for an own listener.
func TestLocalhostAsksNobody(t *testing.T) {
	asked := noResolver(t)
	here, own := listenAt(t, "127.0.0.1:0"), listenAt(t, "127.0.0.1:0")
	g := &guard{own: newOwnListeners([]net.Addr{own})}
	for _, host := range []string{"localhost", "a.localhost", "A.b.LocalHost."} {
		conn, err := dialName(t, g, host, here.Port)
		if err != nil {
			t.Errorf("%s: %v", host, err)
		} else {
			conn.Close()
		}
		for _, err := range []error{
			second(dialName(t, g, host, own.Port)),
			judgeBehindParent(t.Context(), g, &peer{host: host, port: own.Port}),
		} {
			if denied := new(deniedError); !errors.As(err, &denied) || denied.Rule != ownListener {
				t.Errorf("%s on an own listener's port: %v", host, err)
			}
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("a resolver was asked %d times", n)
	}
}

// TestLocalhostHasTwoAddresses: where nothing listens at 127.0.0.1, ::1 is tried;
// but an own listener there is denied before anything is dialled.
func TestLocalhostHasTwoAddresses(t *testing.T) {
	there, own := listenAt(t, "[::1]:0"), listenAt(t, "[::1]:0")
	g := &guard{own: newOwnListeners([]net.Addr{own})}
	conn, err := dialName(t, g, "localhost", there.Port)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if _, err := dialName(t, g, "localhost", own.Port); !errors.As(err, new(*deniedError)) {
		t.Errorf("an own listener at ::1: %v", err)
	}
	g = &guard{own: g.own, deny: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	if _, err := dialName(t, g, "localhost", there.Port); !errors.As(err, new(*deniedError)) {
		t.Errorf("127.0.0.1 is denied: %v", err)
	}
	g = &guard{own: g.own, deny: []netip.Prefix{netip.MustParsePrefix("::1/128")}}
	if _, err := dialName(t, g, "localhost", there.Port); err == nil {
		t.Error("::1 was dialled, which is denied")
	}
}

func dialName(t *testing.T, g *guard, host string, port int) (net.Conn, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return new(Server).dialJudged(ctx, g, net.JoinHostPort(host, strconv.Itoa(port)), false, nil)
}

func second(_ net.Conn, err error) error { return err }

// TestParentAddr: the parent's host is read as an endpoint's. A resolver was
// asked for what is an address.
func TestParentAddr(t *testing.T) {
	for raw, want := range map[string]string{
		"http://127.1:3128":           "127.0.0.1:3128",
		"http://0x7f000001:3128":      "127.0.0.1:3128",
		"http://u:p@2130706433:3128":  "127.0.0.1:3128",
		"http://127.0.0.1":            "127.0.0.1:80",
		"http://[::1]:3128":           "[::1]:3128",
		"http://proxy.example:3128":   "proxy.example:3128",
		"http://proxy.example":        "proxy.example:80",
		"http://1.2.3.4.example:3128": "1.2.3.4.example:3128",
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if got := parentAddr(u); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}
