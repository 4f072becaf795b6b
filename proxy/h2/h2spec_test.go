package h2

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// h2spec finds the conformance tester of that name, or skips the test.
func h2spec(t *testing.T) string {
	if path, err := exec.LookPath("h2spec"); err == nil {
		return path
	}
	out, err := exec.Command("go", "env", "GOPATH").Output()
	if err == nil {
		path := filepath.Join(strings.TrimSpace(string(out)), "bin", "h2spec")
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	t.Skip("there is no h2spec here: go install github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible")
	return ""
}

// TestH2spec: all its cases pass.
func TestH2spec(t *testing.T) {
	path := h2spec(t)
	addr := listen(t, ServerConfig{}, func(s *ServerStream) {
		if _, err := s.ReadRequest(); err != nil {
			answer(s, 431, "")
			return
		}
		if _, err := readAll(s); err != nil {
			return
		}
		answer(s, 200, "hello")
	})
	_, port, _ := net.SplitHostPort(addr)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "-h", "127.0.0.1", "-p", port, "-o", "20", "-S").CombinedOutput()
	if err != nil || !strings.Contains(string(out), " 0 skipped, 0 failed") {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out[max(0, len(out)-100):])
}

// listen serves every connection to an address until the end of the test, which
// waits for all of them.
func listen(t testing.TB, cfg ServerConfig, handle func(*ServerStream)) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var conns []*ServerConn
	var all sync.WaitGroup
	all.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			c := NewServerConn(nc, cfg)
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			all.Go(func() { c.Serve(handle) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		done := make(chan struct{})
		go func() { all.Wait(); close(done) }()
		wait(t, done, "the connections' end")
	})
	return ln.Addr().String()
}
