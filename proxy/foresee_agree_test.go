package proxy_test

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"mulligan/policy"
	"mulligan/proxy"
	"mulligan/proxy/h1"
)

// TestForesightAgrees: a running proxy denies what Forbids says, and no more,
// however the destination is spelled.
func TestForesightAgrees(t *testing.T) {
	closed := closedPort(t)
	hosts := []string{
		"127.0.0.1", "127.1", "2130706433", "0x7f.0.0.1", "0177.1", "127.0.0.1.", "0", "0.0.0.0",
		"[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "127.0.0.2",
		"169.254.169.254", "2852039166", "0xa9.254.169.254", "[fd00:ec2::254]", "224.0.0.1",
		"localhost", "LocalHost", "localhost.", "shop.localhost",
	}
	once := settings()
	once.Default.Default.Retry.MaxAttempts = 1
	lifted := settings()
	lifted.Default = once.Default
	lifted.AllowDestinations = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	lifted.DenyDestinations = []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}
	for name, s := range map[string]*proxy.Settings{"built-in": once, "lifted": lifted} {
		srv := start(t, s)
		own := proxy.Listeners{Proxy: srv.Addr().String()}
		for _, port := range []int{closed, srv.Addr().(*net.TCPAddr).Port} {
			for _, host := range hosts {
				url := fmt.Sprintf("http://%s:%d/", host, port)
				target, err := proxy.ParseTarget(url, "GET")
				if err != nil {
					t.Fatal(err)
				}
				foreseen := s.Forbids(target.Host, target.Port, false, own)
				if status := rawStatus(t, srv, "GET "+url+" HTTP/1.1\r\nHost: x\r\n\r\n"); (status == 403) != (foreseen != "") {
					t.Errorf("%s, %s: %d, and what was foreseen is %q", name, url, status, foreseen)
				}
			}
		}
	}
}

// closedPort is a port of 127.0.0.1 that refuses connections until the test ends:
// bound, so that no process takes it meanwhile, but not listened on.
func closedPort(t *testing.T) int {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return name.(*syscall.SockaddrInet4).Port
}

// TestCrossSiteForeseen: the reverse doors refuse what CrossSite says.
func TestCrossSiteForeseen(t *testing.T) {
	up := serve(t, func(http.ResponseWriter, *http.Request) {})
	address := netip.MustParseAddrPort(up.Listener.Addr().String())
	u := upstream("u")
	u.Mount = "/u"
	u.Endpoints = []policy.Endpoint{{Scheme: "http", Host: address.Addr().String(), Port: int(address.Port())}}
	srv := start(t, settings(u))
	for _, value := range []string{"cross-site", "Cross-Site", " cross-site ", "same-site", "same-origin", "none", "", "cross-site, none", "cross-sites"} {
		header := h1.Header{{Name: []byte("sec-fetch-site"), Value: []byte(strings.TrimSpace(value))}}
		status := rawStatus(t, srv, "GET /u HTTP/1.1\r\nHost: x\r\nsec-fetch-site:"+value+"\r\n\r\n")
		if (status == 403) != proxy.CrossSite(header) {
			t.Errorf("%q: %d, and CrossSite says %v", value, status, proxy.CrossSite(header))
		}
	}
}

// TestLastHopForeseen: the proxy itself answers what AnswersItself says, and with
// that status; it asks no upstream, and judges no destination.
func TestLastHopForeseen(t *testing.T) {
	srv := start(t, settings())
	for _, method := range []string{"OPTIONS", "TRACE", "GET"} {
		for _, fields := range []string{"", "Max-Forwards: 0\r\n", "Max-Forwards: 00\r\n", "Max-Forwards: 1\r\n", "Max-Forwards: 0\r\nContent-Length: 1\r\n"} {
			request := method + " http://169.254.169.254/ HTTP/1.1\r\nHost: x\r\n" + fields + "\r\n"
			want := proxy.AnswersItself(parsed(t, request))
			if want == 0 {
				want = 403
			}
			if got := rawStatus(t, srv, request); got != want {
				t.Errorf("%q: %d, and what was foreseen is %d", request, got, want)
			}
		}
	}
}

// parsed is a request as the proxy's reader reads it.
func parsed(t *testing.T, request string) *h1.Request {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { ours.Close() })
	go func() {
		_, _ = theirs.Write([]byte(request))
		theirs.Close()
	}()
	req, err := h1.NewServerConn(ours, h1.Limits{}).ReadRequest()
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// TestCredentialsForeseen: the proxy port answers 407 where Unauthorized says so.
func TestCredentialsForeseen(t *testing.T) {
	s := settings()
	s.Auth = &proxy.Credentials{Username: "u", Password: "p"}
	srv := start(t, s)
	own := proxy.Listeners{Proxy: srv.Addr().String()}
	for _, value := range []string{"", "Basic dTpw", "basic  dTpw", "Basic dTpx", "Bearer dTpw", "Basic", "Basic ***"} {
		header := h1.Header{{Name: []byte("proxy-authorization"), Value: []byte(value)}}
		field := "proxy-authorization: " + value + "\r\n\r\n"
		for request, reverse := range map[string]bool{
			"GET http://224.0.0.1/ HTTP/1.1\r\nHost: x\r\n":        false,
			"CONNECT 224.0.0.1:443 HTTP/1.1\r\nHost: x\r\n":        false,
			"GET / HTTP/1.1\r\nHost: nobody.invalid\r\n":           true,
			"GET http://224.0.0.1/?q HTTP/1.1\r\nHost: x:7080\r\n": false,
		} {
			foreseen := s.Unauthorized(header, reverse, own)
			if status := rawStatus(t, srv, request+field); (status == 407) != foreseen {
				t.Errorf("%q, %q: %d, and what was foreseen is %v", request, value, status, foreseen)
			}
		}
	}
}

// rawStatus sends a request as it is and returns the status of the answer.
func rawStatus(t *testing.T, srv *proxy.Server, request string) int {
	t.Helper()
	c, r := call(t, srv)
	defer c.Close()
	if _, err := c.Write([]byte(request)); err != nil {
		t.Fatal(err)
	}
	return readResponse(t, r).StatusCode
}
