package proxy_test

import (
	"bufio"
	"bytes"
	"net"
	"testing"

	"mulligan/policy"
)

// TestStraightPathAllocatesNothing pins the promise that a request which
// succeeds at once costs no garbage, proxy and both its connections together.
func TestStraightPathAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	upAddr := rawUpstream(t)
	u := upstream("up")
	u.Hosts = []policy.HostPattern{{Name: "127.0.0.1"}}
	u.Routes = []*policy.Route{route("a"), route("b")}
	u.Routes[0].Path, u.Routes[1].Path = "/nothing", "/"
	srv := start(t, settings(u))
	for name, request := range map[string]string{
		"GET":  "GET http://" + upAddr + "/x?y=z HTTP/1.1\r\nHost: " + upAddr + "\r\nUser-Agent: test\r\nAccept: */*\r\n\r\n",
		"POST": "POST http://" + upAddr + "/x HTTP/1.1\r\nHost: " + upAddr + "\r\nContent-Length: 5\r\n\r\nhello",
	} {
		nc, err := net.Dial("tcp", srv.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		out := []byte(request)
		in := make([]byte, 4096)
		once := func() {
			nc.Write(out)
			for n := 0; !bytes.Contains(in[:n], []byte("\r\n\r\nok")); {
				m, err := nc.Read(in[n:])
				if err != nil {
					t.Fatal(err)
				}
				n += m
			}
		}
		for range 100 {
			once()
		}
		if n := testing.AllocsPerRun(500, once); n >= 1 {
			t.Errorf("%s: %.2f allocations a request", name, n)
		}
	}
}

// rawUpstream answers every request with the same bytes and no garbage.
func rawUpstream(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nServer: raw\r\n\r\nok")
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				r := bufio.NewReader(nc)
				for {
					body := 0
					for {
						line, err := r.ReadSlice('\n')
						if err != nil {
							return
						}
						if bytes.HasPrefix(line, []byte("Content-Length: 5")) {
							body = 5
						}
						if len(line) == 2 {
							break
						}
					}
					if _, err := r.Discard(body); err != nil {
						return
					}
					if _, err := nc.Write(answer); err != nil {
						return
					}
				}
			}()
		}
	}()
	return ln.Addr().String()
}
