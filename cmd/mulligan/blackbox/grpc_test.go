package blackbox

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Calls of grpc-go's client through an intercepted tunnel, at grpc-go's server.

// bytesOf and textOf are the messages of these calls.
type bytesOf = wrapperspb.BytesValue

func textOf(format string, args ...any) *bytesOf {
	return wrapperspb.Bytes(fmt.Appendf(nil, format, args...))
}

// grpcServer answers every method by what its name says.
type grpcServer struct {
	t    *testing.T
	addr string
	port string

	mu    sync.Mutex
	calls map[string][]time.Time // when each method was called
}

// newGRPC starts one; its method of a name is what methods has for it.
func newGRPC(t *testing.T, ca *authority, methods map[string]func(n int, s grpc.ServerStream) error, options ...grpc.ServerOption) *grpcServer {
	t.Helper()
	g := &grpcServer{t: t, calls: map[string][]time.Time{}}
	handle := func(_ any, s grpc.ServerStream) error {
		full, _ := grpc.MethodFromServerStream(s)
		name := full[strings.LastIndexByte(full, '/')+1:]
		what, _, _ := strings.Cut(name, "-")
		method, ok := methods[what]
		if !ok {
			return status.Error(codes.Unimplemented, name)
		}
		return method(g.called(name), s)
	}
	server := grpc.NewServer(append(options, grpc.UnknownServiceHandler(handle), grpc.MaxRecvMsgSize(16<<20),
		grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{ca.leaf(time.Now().Add(time.Hour), "*.grpc.localhost")}})))...)
	ln := listen(t, "127.0.0.1:0")
	g.addr = ln.Addr().String()
	_, g.port, _ = net.SplitHostPort(g.addr)
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(ln) }()
	t.Cleanup(func() { server.Stop(); <-done })
	return g
}

// called counts a call, and returns which it is.
func (g *grpcServer) called(name string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls[name] = append(g.calls[name], time.Now())
	return len(g.calls[name])
}

func (g *grpcServer) times(name string) []time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls[name]
}

// grpcPolicies are the upstreams of these tests: one that retries gRPC statuses,
// one that does not, and one whose waits are long.
func (ca *authority) grpcPolicies() string {
	retried := "    retry: {methods: [inherit, POST], retry_on: [inherit, grpc_unavailable]%s}\n"
	return fmt.Sprintf("defaults: {retry: {%s}}\nupstreams:\n", quick) +
		ca.intercepting("retried", "retried.grpc.localhost", fmt.Sprintf(retried, "")) +
		ca.intercepting("plain", "plain.grpc.localhost", "") +
		ca.intercepting("slow", "slow.grpc.localhost", fmt.Sprintf(retried, ", backoff: {initial_delay: 30s, max_delay: 30s, jitter: none}"))
}

// dialGRPC is a client whose connections go through CONNECT.
func (i *inside) dialGRPC(host string) *grpc.ClientConn {
	i.t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+host,
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: i.roots})),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20)),
		grpc.WithDisableRetry(),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			nc, err := new(net.Dialer).DialContext(ctx, "tcp", i.proxy)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(nc, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", addr, addr)
			if head := connectHead(nc); !strings.HasPrefix(head, "HTTP/1.1 200") {
				return nil, errors.New(head)
			}
			return nc, nil
		}))
	if err != nil {
		i.t.Fatal(err)
	}
	i.t.Cleanup(func() { conn.Close() })
	return conn
}

// call makes a unary call.
func call(t *testing.T, conn *grpc.ClientConn, method string, message *bytesOf, options ...grpc.CallOption) (*bytesOf, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	reply := new(bytesOf)
	err := conn.Invoke(ctx, "/test.Service/"+method, message, reply, options...)
	return reply, err
}

// echo answers a unary call with its message.
func echo(_ int, s grpc.ServerStream) error {
	m := new(bytesOf)
	if err := s.RecvMsg(m); err != nil {
		return err
	}
	return s.SendMsg(m)
}

// failing fails the first n calls with a status, before any message, and echoes
// then; trailer is sent with the failures.
func failing(n int, code codes.Code, trailer ...string) func(int, grpc.ServerStream) error {
	return func(call int, s grpc.ServerStream) error {
		if call <= n {
			s.SetTrailer(metadata.Pairs(trailer...))
			return status.Error(code, "not now")
		}
		return echo(call, s)
	}
}

const always = 1 << 30

func TestGRPCUnary(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	p := startInside(t, ca.grpcPolicies())
	g := newGRPC(t, ca, map[string]func(int, grpc.ServerStream) error{
		"echo":     echo,
		"once":     failing(1, codes.Unavailable),
		"down":     failing(always, codes.Unavailable),
		"denied":   failing(always, codes.PermissionDenied),
		"forbid":   failing(always, codes.Unavailable, "grpc-retry-pushback-ms", "-1"),
		"pushback": failing(1, codes.Unavailable, "grpc-retry-pushback-ms", "400"),
		"nonsense": failing(1, codes.Unavailable, "grpc-retry-pushback-ms", "soon"),
		"distant":  failing(1, codes.Unavailable, "grpc-retry-pushback-ms", "3600000"),
		"headers": func(n int, s grpc.ServerStream) error { // no trailers-only answer: headers went first
			if err := s.SendHeader(metadata.Pairs("x-early", "1")); err != nil {
				return err
			}
			return status.Error(codes.Unavailable, "behind headers")
		},
	})
	retried, plain, slow := p.dialGRPC("retried.grpc.localhost:"+g.port), p.dialGRPC("plain.grpc.localhost:"+g.port), p.dialGRPC("slow.grpc.localhost:"+g.port)
	for _, row := range []struct {
		name, method string
		conn         *grpc.ClientConn
		code         codes.Code
		calls        int
	}{
		{"a call", "echo", retried, codes.OK, 1},
		{"UNAVAILABLE, then OK", "once", retried, codes.OK, 2},
		{"UNAVAILABLE for ever", "down", retried, codes.Unavailable, 4},
		{"another status", "denied", retried, codes.PermissionDenied, 1},
		{"an unknown method", "none", retried, codes.Unimplemented, 0},
		{"UNAVAILABLE that nobody listed", "once-plain", plain, codes.Unavailable, 1},
		{"a pushback that forbids", "forbid", retried, codes.Unavailable, 1},
		{"a pushback", "pushback", retried, codes.OK, 2},
		{"a pushback that is none", "nonsense", retried, codes.Unavailable, 1}, // gRFC A6: unparseable forbids
		{"a pushback too long", "distant", retried, codes.Unavailable, 1},
		{"behind headers", "headers", retried, codes.Unavailable, 1},
		{"a pushback of less than the backoff", "echo-slow", slow, codes.OK, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			reply, err := call(t, row.conn, row.method, textOf("hello"))
			if got := status.Code(err); got != row.code {
				t.Errorf("%v, want %v (%v)", got, row.code, err)
			}
			want(t, "calls", len(g.times(row.method)), row.calls)
			switch {
			case row.code == codes.OK:
				want(t, "reply", string(reply.GetValue()), "hello")
			case row.method == "down" || row.method == "forbid":
				want(t, "message", status.Convert(err).Message(), "not now")
			case row.method == "headers":
				want(t, "message", status.Convert(err).Message(), "behind headers")
			}
		})
	}
	times := g.times("pushback")
	if wait := times[1].Sub(times[0]); wait < 400*time.Millisecond {
		t.Errorf("a pushback of 400 ms was waited for %v", wait)
	}
	p.wantMetric(5, "mulligan_retries_total", "upstream=retried", "reason=grpc_unavailable")
	p.wantMetric(0, "mulligan_retries_total", "upstream=plain")
	p.wantMetric(1, "mulligan_retries_denied_total", "upstream=retried", "stop=max_attempts")
	p.wantMetric(1, "mulligan_retries_denied_total", "upstream=retried", "stop=retry_after")
	p.wantMetric(2, "mulligan_requests_total", "upstream=retried", "outcome=success_after_retry")
	p.wantMetric(0, "mulligan_tunnels_total")
}

// grpc-timeout is the window: a wait that could not end before it is not begun,
// and no attempt outlives it.
func TestGRPCTimeoutIsTheWindow(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	p := startInside(t, ca.grpcPolicies())
	gone := make(chan bool, 8)
	g := newGRPC(t, ca, map[string]func(int, grpc.ServerStream) error{
		"down": failing(always, codes.Unavailable),
		"hang": func(_ int, s grpc.ServerStream) error { <-s.Context().Done(); gone <- true; return nil },
	})
	conn := p.dialGRPC("slow.grpc.localhost:" + g.port)
	timed := func(method string, d time.Duration) (codes.Code, time.Duration) {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		began := time.Now()
		err := conn.Invoke(ctx, "/test.Service/"+method, textOf("x"), new(bytesOf))
		return status.Code(err), time.Since(began)
	}
	code, _ := timed("down", 15*time.Second) // the wait would be 30 s: the real answer comes at once
	want(t, "with 15 s", code, codes.Unavailable)
	want(t, "calls", len(g.times("down")), 1)
	p.wantMetric(1, "mulligan_retries_denied_total", "upstream=slow", "stop=window")
	calls := 0
	for d := time.Second; calls == 0 || len(g.times("hang")) == 0 && d < lifetime; d *= 4 { // the server may get it too late, where the machine stands still
		calls++
		code, _ = timed("hang", d)
		if code != codes.DeadlineExceeded && code != codes.Unavailable { // whose clock is first: the client's, or ours, which is a 504
			t.Errorf("a call that hangs: %v", code)
		}
	}
	soon(t, "the server's call to end with its deadline", gone)
	if n := len(g.times("hang")); n > calls {
		t.Errorf("%d calls that hang became %d", calls, n)
	}
	p.wantMetric(0, "mulligan_requests_in_flight")
}

// A client that does not keep its own deadline is told when it is over, and so is
// its upstream; a grpc-timeout of what is no gRPC says nothing.
func TestGRPCTimeoutOfASilentUpstream(t *testing.T) {
	t.Parallel()
	came, ended := make(chan string, 2), make(chan http2.ErrCode, 2)
	p, _, host := insideFrames(t, "", func(_ int, f *frames) {
		for {
			switch frame := f.next().(type) {
			case nil:
				return
			case *http2.RSTStreamFrame:
				ended <- frame.ErrCode
			case *http2.MetaHeadersFrame:
				if fields := fieldsOf(frame); fields["content-type"] == "text/plain" {
					go func(stream uint32) {
						linger(300 * time.Millisecond)
						f.fine(stream, "fine")
					}(frame.StreamID)
				} else {
					came <- fields["grpc-timeout"]
				}
			}
		}
	})
	f := p.frames(host)
	plain := func(stream uint32) {
		f.ask(stream, true, "POST", host, "/", "content-type: text/plain", "grpc-timeout: 1m")
		f.hear(t, stream).expect(t, 200, "")
	}
	plain(1) // the connection is there
	for i, timeout := range []string{"500m", "10S"} {
		stream, began := uint32(4*i+3), time.Now()
		f.ask(stream, false, "POST", host, "/test.Service/hang", "content-type: application/grpc", "te: trailers", "grpc-timeout: "+timeout)
		f.data(stream, true, "\x00\x00\x00\x00\x00")
		h := f.hear(t, stream)
		if took := time.Since(began); took < 500*time.Millisecond {
			t.Errorf("the window of %s ended after %v", timeout, took)
		}
		plain(stream + 2) // behind what the upstream has got of it
		if len(came) == 0 && i == 0 {
			continue // the window was over before it was sent: the machine stood still
		}
		h.expectProblem(t, 504, "attempts=1; stop=window; error=http_response_timeout")
		want(t, "the server's grpc-timeout", soon(t, "the call", came), timeout)
		want(t, "the upstream's stream", soon(t, "its end", ended), http2.ErrCodeCancel)
		break
	}
}

// Metadata, binary too, trailers and messages pass whole; 3 MB both ways.
func TestGRPCCarriesEverything(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	p := startInside(t, ca.grpcPolicies())
	binary := "\x00\xff\r\n:\x80"
	g := newGRPC(t, ca, map[string]func(int, grpc.ServerStream) error{
		"echo": echo,
		"meta": func(n int, s grpc.ServerStream) error {
			md, _ := metadata.FromIncomingContext(s.Context())
			if err := s.SendHeader(metadata.Join(metadata.MD{"got-words": md["words"], "got-bin": md["raw-bin"], "raw-bin": md["raw-bin"]}, metadata.Pairs("h", "1", "h", "2"))); err != nil {
				return err
			}
			s.SetTrailer(metadata.Pairs("t", "3", "t", "4", "raw-bin", binary))
			if err := echo(n, s); err != nil {
				return err
			}
			if md["fail"] != nil {
				return status.Error(codes.DataLoss, "späte Überraschung\n%")
			}
			return nil
		},
	})
	conn := p.dialGRPC("retried.grpc.localhost:" + g.port)
	for _, fail := range []bool{false, true} {
		var header, trailer metadata.MD
		pairs := []string{"words", "a b, c", "words", "d", "raw-bin", binary}
		if fail {
			pairs = append(pairs, "fail", "1")
		}
		ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), pairs...), patience)
		reply := new(bytesOf)
		err := conn.Invoke(ctx, "/test.Service/meta", textOf("m"), reply, grpc.Header(&header), grpc.Trailer(&trailer))
		cancel()
		if fail {
			want(t, "code", status.Code(err), codes.DataLoss)
			want(t, "message", status.Convert(err).Message(), "späte Überraschung\n%")
		} else if err != nil {
			t.Fatal(err)
		}
		want(t, "header", fmt.Sprint(header["got-words"], header["h"]), "[a b, c d] [1 2]")
		want(t, "binary header", fmt.Sprintf("%q", header["raw-bin"]), fmt.Sprintf("%q", []string{binary}))
		want(t, "trailer", fmt.Sprintf("%q %q", trailer["t"], trailer["raw-bin"]), fmt.Sprintf("%q %q", []string{"3", "4"}, []string{binary}))
	}
	want(t, "calls", len(g.times("meta")), 2)
	big := bytes.Repeat([]byte("0123456789abcdef"), 3<<20/16)
	for _, size := range []int{0, 1, 65530, len(big)} {
		reply, err := call(t, conn, "echo", wrapperspb.Bytes(big[:size]))
		if err != nil || !bytes.Equal(reply.GetValue(), big[:size]) {
			t.Errorf("%d bytes: %v, %d came back", size, err, len(reply.GetValue()))
		}
	}
}

// stream opens a streaming call of any kind.
func stream(t *testing.T, conn *grpc.ClientConn, method string) (grpc.ClientStream, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), lifetime)
	t.Cleanup(cancel)
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/test.Service/"+method)
	if err != nil {
		t.Fatal(err)
	}
	return s, cancel
}

// recvAll reads messages to the end.
func recvAll(s grpc.ClientStream) (n int, err error) {
	for {
		m := new(bytesOf)
		if err := s.RecvMsg(m); errors.Is(err, io.EOF) {
			return n, nil
		} else if err != nil {
			return n, err
		}
		if string(m.Value) != fmt.Sprint("message ", n) {
			return n, fmt.Errorf("message %d is %q", n, m.Value)
		}
		n++
	}
}

func TestGRPCStreams(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	p := startInside(t, ca.grpcPolicies())
	const many = 2000
	cancelled := make(chan error, 1)
	g := newGRPC(t, ca, map[string]func(int, grpc.ServerStream) error{
		"server": func(n int, s grpc.ServerStream) error {
			if err := s.RecvMsg(new(bytesOf)); err != nil {
				return err
			}
			for i := range many {
				if err := s.SendMsg(textOf("message %d", i)); err != nil {
					return err
				}
			}
			return nil
		},
		"client": func(n int, s grpc.ServerStream) error {
			for i := 0; ; i++ {
				m := new(bytesOf)
				if err := s.RecvMsg(m); errors.Is(err, io.EOF) {
					return s.SendMsg(textOf("message 0"))
				} else if err != nil {
					return err
				}
				if string(m.Value) != fmt.Sprint("message ", i) {
					return status.Errorf(codes.DataLoss, "message %d is %q", i, m.Value)
				}
			}
		},
		"pingpong": func(n int, s grpc.ServerStream) error {
			for {
				m := new(bytesOf)
				if err := s.RecvMsg(m); errors.Is(err, io.EOF) {
					return nil
				} else if err != nil {
					return err
				}
				if err := s.SendMsg(m); err != nil {
					return err
				}
			}
		},
		"late": func(n int, s grpc.ServerStream) error {
			_ = s.SendMsg(textOf("message 0"))
			return status.Error(codes.Unavailable, "after a message")
		},
		"once": func(n int, s grpc.ServerStream) error {
			if n == 1 {
				return status.Error(codes.Unavailable, "before any message")
			}
			m := new(bytesOf)
			if err := s.RecvMsg(m); err != nil {
				return err
			}
			return s.SendMsg(m)
		},
		"wait": func(n int, s grpc.ServerStream) error {
			_ = s.SendMsg(textOf("message 0"))
			<-s.Context().Done()
			cancelled <- s.Context().Err()
			return nil
		},
	})
	conn := p.dialGRPC("retried.grpc.localhost:" + g.port)

	s, _ := stream(t, conn, "server")
	_ = s.SendMsg(textOf("go"))
	_ = s.CloseSend()
	n, err := recvAll(s)
	want(t, "server streaming", fmt.Sprint(n, err), fmt.Sprint(many, nil))

	s, _ = stream(t, conn, "client")
	for i := range many {
		if err := s.SendMsg(textOf("message %d", i)); err != nil {
			t.Fatal(err)
		}
	}
	_ = s.CloseSend()
	n, err = recvAll(s)
	want(t, "client streaming", fmt.Sprint(n, err), fmt.Sprint(1, nil))

	s, _ = stream(t, conn, "pingpong")
	for i := range 300 {
		if i == 150 {
			linger(1500 * time.Millisecond) // a long-lived stream is silent for a while
		}
		m := new(bytesOf)
		_ = s.SendMsg(textOf("ping %d", i))
		if err := s.RecvMsg(m); err != nil || string(m.Value) != fmt.Sprint("ping ", i) {
			t.Fatalf("ping %d: %q, %v", i, m.Value, err)
		}
	}
	_ = s.CloseSend()
	n, err = recvAll(s)
	want(t, "bidirectional streaming", fmt.Sprint(n, err), fmt.Sprint(0, nil))

	s, _ = stream(t, conn, "late")
	_ = s.CloseSend()
	n, err = recvAll(s)
	want(t, "a status after messages", fmt.Sprint(n, status.Code(err), status.Convert(err).Message()), fmt.Sprint(1, codes.Unavailable, "after a message"))
	want(t, "calls", len(g.times("late")), 1)

	s, _ = stream(t, conn, "once") // decided while the client's side is still open
	m := new(bytesOf)
	_ = s.SendMsg(textOf("kept"))
	if err := s.RecvMsg(m); err != nil || string(m.Value) != "kept" {
		t.Errorf("a stream that failed before any message: %q, %v", m.Value, err)
	}
	_ = s.CloseSend()
	_, _ = recvAll(s)
	want(t, "calls", len(g.times("once")), 2)

	s, cancel := stream(t, conn, "wait")
	if err := s.RecvMsg(new(bytesOf)); err != nil {
		t.Fatal(err)
	}
	cancel()
	want(t, "the server's end", soon(t, "a cancelled call to end at the server", cancelled), context.Canceled)
	p.wantMetric(1, "mulligan_requests_total", "upstream=retried", "outcome=client_gone")
	p.wantMetric(1, "mulligan_retries_total", "upstream=retried")
	p.wantMetric(0, "mulligan_requests_in_flight")
}

// A server that ends its connections all the time, by age, loses no call: what
// its GOAWAY refuses is sent again, and as many calls arrive as were made.
func TestGRPCServerThatEndsConnections(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	p := startInside(t, ca.grpcPolicies())
	g := newGRPC(t, ca, map[string]func(int, grpc.ServerStream) error{"echo": echo},
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: 20 * time.Millisecond, MaxConnectionAgeGrace: patience}))
	var all sync.WaitGroup
	for range 4 {
		conn := p.dialGRPC("plain.grpc.localhost:" + g.port)
		all.Go(func() {
			for i := range 100 {
				if _, err := call(t, conn, "echo", textOf("%d", i)); err != nil {
					t.Errorf("call %d: %v", i, err)
				}
			}
		})
	}
	all.Wait()
	want(t, "calls", len(g.times("echo")), 400)
	p.wantMetric(400, "mulligan_attempts_total", "result=2xx")
	p.wantMetric(0, "mulligan_requests_total", "outcome=failed")
}

// No server at all is UNAVAILABLE to the client, after the attempts that nothing
// was sent in.
func TestGRPCWithoutAServer(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	p := startInside(t, ca.grpcPolicies())
	_, port, _ := net.SplitHostPort(closedAddr(t))
	_, err := call(t, p.dialGRPC("plain.grpc.localhost:"+port), "echo", textOf("x"))
	want(t, "code", status.Code(err), codes.Unavailable)
	p.wantMetric(4, "mulligan_attempts_total", "upstream=plain", "result=connect_failure")
}
