package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
)

// serveUpstream serves an upstream until the test ends, and returns where.
func serveUpstream(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go newUpstream().serve(listener)
	return listener.Addr().String()
}

// ask returns the status and the length of an answer.
func ask(t *testing.T, method, url string, body io.Reader) (status, length int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, len(got)
}

func TestUpstreamAnswers(t *testing.T) {
	address := serveUpstream(t)
	for _, test := range []struct {
		method, path string
		body, length int
	}{
		{"GET", smallPath, 0, 1 << 10},
		{"GET", largePath, 0, 100 << 10},
		{"POST", sinkPath, 10 << 10, 2},
		{"POST", sinkPath, 3 << 20, 2},
		{"GET", bytesPath + "0", 0, 0},
		{"GET", bytesPath + "200001", 0, 200001},
		{"GET", gatherPath + "1", 0, 1 << 10},
	} {
		status, length := ask(t, test.method, "http://"+address+test.path, bytes.NewReader(make([]byte, test.body)))
		if status != 200 || length != test.length {
			t.Errorf("%s %s: %d with %d bytes, want 200 with %d", test.method, test.path, status, length, test.length)
		}
	}
}

func TestUpstreamFailsEveryTenth(t *testing.T) {
	address := serveUpstream(t)
	failed := 0
	for range 50 {
		if status, _ := ask(t, "GET", "http://"+address+flakyPath, nil); status == 503 {
			failed++
		}
	}
	if failed != 5 {
		t.Errorf("%d of 50 failed, want 5", failed)
	}
}

// TestUpstreamGathers: answers come only once all requests are there, and the
// next such requests wait for each other again.
func TestUpstreamGathers(t *testing.T) {
	address := serveUpstream(t)
	for range 2 {
		conns, err := together(t.Context(), address, 20)
		if err != nil {
			t.Fatal(err)
		}
		closeAll(conns)
	}
}

func TestUpstreamClosesOnNonsense(t *testing.T) {
	address := serveUpstream(t)
	for _, nonsense := range []string{"\r\n", "GET\r\n\r\n", "POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n"} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, nonsense); err != nil {
			t.Fatal(err)
		}
		if got, _ := io.ReadAll(conn); len(got) != 0 {
			t.Errorf("%q was answered with %q", nonsense, got)
		}
	}
}

// TestUpstreamMain: the upstream says where it listens, and ends when it is
// told to.
func TestUpstreamMain(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, []string{upstreamVerb}, write, io.Discard) }()
	var address string
	if _, err := fmt.Fscanln(read, &address); err != nil {
		t.Fatal(err)
	}
	if status, _ := ask(t, "GET", "http://"+address+smallPath, nil); status != 200 {
		t.Errorf("status %d", status)
	}
	cancel()
	if status := <-ended; status != 0 {
		t.Errorf("exit status %d", status)
	}
}

// TestUpstreamProcess: the same in a process of its own.
func TestUpstreamProcess(t *testing.T) {
	up, err := startUpstream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if status, _ := ask(t, "GET", "http://"+up.address+smallPath, nil); status != 200 {
		t.Errorf("status %d", status)
	}
	up.stop()
	if conn, err := net.Dial("tcp", up.address); err == nil {
		conn.Close()
		t.Error("the upstream still listens after it was stopped")
	}
}

func TestTransfer(t *testing.T) {
	p := &proxy{process: sleeper(t), address: serveUpstream(t)}
	for name, move := range map[string]func(context.Context, *proxy, int64) (body, error){"download": download, "upload": upload} {
		got, err := move(t.Context(), p, 3<<20+1)
		if err != nil || got.peak <= 0 || got.took <= 0 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// sleeper starts a process that does nothing.
func sleeper(t *testing.T) *process {
	t.Helper()
	p, err := start(t.Context(), "sleeper", func(ctx context.Context) *exec.Cmd {
		return exec.CommandContext(ctx, "sleep", "60")
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.stop)
	return p
}

func TestProcess(t *testing.T) {
	p := sleeper(t)
	if used, err := p.cpu(); err != nil || used < 0 {
		t.Errorf("CPU %v, %v", used, err)
	}
	rss, err := p.memory(resident)
	peak, err2 := p.memory(peakResident)
	if err != nil || err2 != nil || rss <= 0 || peak < rss {
		t.Errorf("resident %d, peak %d: %v, %v", rss, peak, err, err2)
	}
	p.stop()
	if _, err := p.cpu(); err == nil {
		t.Error("the process is accounted for after it was stopped")
	}
}

// TestAwaitTellsWhy: a program that ends instead of listening is quoted.
func TestAwaitTellsWhy(t *testing.T) {
	p, err := start(t.Context(), "refuser", func(ctx context.Context) *exec.Cmd {
		return exec.CommandContext(ctx, "sh", "-c", "echo bad configuration >&2; exit 1")
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop()
	closed, err := net.Listen("tcp", "127.0.73.1:0") // whose ports nobody else takes
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	err = p.await(t.Context(), closed.Addr().String())
	if err == nil || !strings.Contains(err.Error(), "refuser ended at once: bad configuration") {
		t.Errorf("%v", err)
	}
}
