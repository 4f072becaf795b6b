package proxy_test

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"mulligan/policy"
	"mulligan/proxy"
	"mulligan/proxy/h1"
)

// TestForesightAgrees: a running proxy denies what Forbids says, and no more,
// however the destination is spelled.
func TestForesightAgrees(t *testing.T) {
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := nobody.Addr().(*net.TCPAddr).Port
	nobody.Close()
	hosts := []string{
		"127.0.0.1", "127.1", "2130706433", "0x7f.0.0.1", "0177.1", "127.0.0.1.", "0", "0.0.0.0",
		"[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "127.0.0.2",
		"169.254.169.254", "2852039166", "0xa9.254.169.254", "[fd00:ec2::254]", "224.0.0.1",
	}
	if ips, err := net.LookupHost("localhost"); err == nil && len(ips) == 1 && ips[0] == "127.0.0.1" {
		hosts = append(hosts, "localhost", "LocalHost") // else which of its addresses is tried first decides
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
