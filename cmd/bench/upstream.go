package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Paths of the upstream.
const (
	smallPath  = "/1k"      // 1 KiB
	largePath  = "/100k"    // 100 KiB
	sinkPath   = "/sink"    // reads the request's body, answers "ok"
	flakyPath  = "/flaky"   // 1 KiB; every tenth request gets 503
	bytesPath  = "/bytes/"  // + N: N bytes
	gatherPath = "/gather/" // + N: answers once N such requests wait
)

// upstreamProcess is the upstream, seen from outside.
type upstreamProcess struct {
	*process
	address string
}

// startUpstream starts this program as the upstream.
func startUpstream(ctx context.Context) (*upstreamProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p, err := start(ctx, "upstream", func(ctx context.Context) *exec.Cmd {
		cmd := exec.CommandContext(ctx, self, upstreamVerb)
		cmd.Stdout = in
		return cmd
	})
	in.Close()
	if err != nil {
		return nil, err
	}
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("the upstream did not start: %s", p.output)
	}
	return &upstreamProcess{process: p, address: strings.TrimSpace(address)}, nil
}

// upstreamMain listens on a free port, says on out which, and serves until ctx
// ends.
func upstreamMain(ctx context.Context, out io.Writer) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	fmt.Fprintln(out, listener.Addr())
	newUpstream().serve(listener)
	return nil
}

// upstream is an HTTP server that does as little as it can, so that the proxies
// before it are what is measured: requests as wrk and the proxies send them,
// bodies with a Content-Length, no errors but the ones on purpose.
type upstream struct {
	flaky atomic.Int64 // requests to flakyPath
	small []byte       // whole responses
	large []byte
	sunk  []byte
	fails []byte

	mu      sync.Mutex // of the field below
	gathers map[int]*gathering
}

// gathering is n requests that wait for each other.
type gathering struct {
	missing int
	full    chan struct{}
}

// newUpstream returns an upstream with its responses ready.
func newUpstream() *upstream {
	return &upstream{
		small:   response(200, 1<<10),
		large:   response(200, 100<<10),
		sunk:    response(200, len("ok")),
		fails:   response(503, 100),
		gathers: make(map[int]*gathering),
	}
}

// response returns a whole response with a body of n bytes.
func response(status, n int) []byte {
	return append(head(status, int64(n)), bytes.Repeat([]byte("x"), n)...)
}

// head returns the head of a response with a body of n bytes.
func head(status int, n int64) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 %d -\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n", status, n)
}

// serve serves connections until the listener is closed.
func (u *upstream) serve(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			u.connection(conn)
		}()
	}
}

// connection serves one connection until either side has had enough.
func (u *upstream) connection(conn net.Conn) {
	reader := bufio.NewReaderSize(conn, 32<<10)
	for {
		path, length, err := readRequest(reader)
		if err != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, reader, length); err != nil {
			return
		}
		if err := u.answer(conn, path); err != nil {
			return
		}
	}
}

// readRequest reads a request's head: its path and its body's length.
func readRequest(r *bufio.Reader) (path string, length int64, err error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return "", 0, err
	}
	_, rest, _ := bytes.Cut(line, []byte(" "))
	target, _, ok := bytes.Cut(rest, []byte(" "))
	if !ok {
		return "", 0, fmt.Errorf("not a request: %q", line)
	}
	path = string(target)
	const name = "content-length:"
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return "", 0, err
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			return path, length, nil
		}
		if len(line) > len(name) && strings.EqualFold(string(line[:len(name)]), name) {
			if length, err = strconv.ParseInt(string(bytes.TrimSpace(line[len(name):])), 10, 64); err != nil {
				return "", 0, err
			}
		}
	}
}

// answer writes the response for a path.
func (u *upstream) answer(w io.Writer, path string) error {
	whole := u.small
	switch {
	case path == largePath:
		whole = u.large
	case path == sinkPath:
		whole = u.sunk
	case path == flakyPath && u.flaky.Add(1)%10 == 0:
		whole = u.fails
	case strings.HasPrefix(path, gatherPath):
		<-u.gather(number(path, gatherPath))
	case strings.HasPrefix(path, bytesPath):
		return stream(w, int64(number(path, bytesPath)))
	}
	_, err := w.Write(whole)
	return err
}

// number returns the number after a prefix; 0 where there is none.
func number(path, prefix string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(path, prefix))
	return n
}

// gather returns a channel that is closed once n requests wait.
func (u *upstream) gather(n int) <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	g := u.gathers[n]
	if g == nil {
		g = &gathering{missing: n, full: make(chan struct{})}
		u.gathers[n] = g
	}
	if g.missing--; g.missing <= 0 {
		delete(u.gathers, n)
		close(g.full)
	}
	return g.full
}

// stream writes a response with a body of n bytes that is never whole in
// memory.
func stream(w io.Writer, n int64) error {
	if _, err := w.Write(head(200, n)); err != nil {
		return err
	}
	chunk := make([]byte, 64<<10)
	for n > 0 {
		chunk = chunk[:min(n, int64(len(chunk)))]
		if _, err := w.Write(chunk); err != nil {
			return err
		}
		n -= int64(len(chunk))
	}
	return nil
}
