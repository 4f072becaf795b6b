package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"
)

// TestDefaultPortOfATarget: an absolute target without a port means its scheme's.
func TestDefaultPortOfATarget(t *testing.T) {
	for target, want := range map[string]string{
		"https://host.test/":      "host.test:443",
		"https://host.test:8443/": "host.test:8443",
		"http://host.test/":       "host.test:80",
		"http://host.test:443/":   "host.test:443",
		"https://[2001:db8::1]/":  "[2001:db8::1]:443",
	} {
		t.Run(target, func(t *testing.T) {
			dialled := make(chan string, 100)
			srv, _ := startWith(t, settings(), func(_ context.Context, _, addr string) (net.Conn, error) {
				dialled <- addr
				return nil, errors.New("nobody is there")
			}, nil)
			c, r := call(t, srv)
			fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: host.test\r\n\r\n", target)
			if resp := readResponse(t, r); resp.StatusCode != http.StatusBadGateway {
				t.Fatal(resp.Status)
			}
			if got := <-dialled; got != want {
				t.Errorf("dialled %s, want %s", got, want)
			}
		})
	}
}
