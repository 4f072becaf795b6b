package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/proxy/h1"
	"mulligan/proxy/h2"
)

// agreed is a connection that looks as if TLS had agreed on a protocol.
type agreed struct {
	net.Conn
	protocol string
}

func (a agreed) ConnectionState() tls.ConnectionState {
	return tls.ConnectionState{NegotiatedProtocol: a.protocol}
}

// farm is servers of HTTP/2 in memory, one for each dial.
type farm struct {
	streams uint32        // that each allows at once
	slow    time.Duration // that a dial takes
	fails   atomic.Bool
	dials   atomic.Int32
	plain   atomic.Int32 // dials for HTTP/1.1 only

	mu    sync.Mutex
	conns []*h2.ServerConn
}

func (f *farm) dial(ctx context.Context) (net.Conn, error) {
	f.dials.Add(1)
	select {
	case <-time.After(f.slow):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if f.fails.Load() {
		return nil, errors.New("refused")
	}
	ours, theirs := net.Pipe()
	if ctx.Value(http1Key{}) != nil {
		f.plain.Add(1)
		return agreed{ours, alpnHTTP1}, nil
	}
	server := h2.NewServerConn(theirs, h2.ServerConfig{MaxStreams: f.streams})
	f.mu.Lock()
	f.conns = append(f.conns, server)
	f.mu.Unlock()
	go server.Serve(func(s *h2.ServerStream) {})
	return agreed{ours, alpnHTTP2}, nil
}

func (f *farm) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		c.Close()
	}
}

// inLinks runs a test of links before a farm, in virtual time.
func inLinks(t *testing.T, f *farm, cfg h1.PoolConfig, test func(t *testing.T, l *links, get func(wanted) (upstreamSide, bool, error))) {
	synctest.Test(t, func(t *testing.T) {
		l := newLinks(f.dial, true, cfg)
		ctx, cancel := context.WithCancel(context.Background())
		test(t, l, func(w wanted) (upstreamSide, bool, error) { return l.Get(func() context.Context { return ctx }, w) })
		cancel()
		l.Close()
		f.close()
	})
}

var repeatable = wanted{maxIdle: anyIdle}

func must(t *testing.T, uc upstreamSide, err error) upstreamSide {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // until the server's SETTINGS are here
	return uc
}

// TestLinksShare: streams of one connection as long as the server allows more, then
// a second one, which is dialled once for all who want it.
func TestLinksShare(t *testing.T) {
	f := &farm{streams: 2, slow: time.Second}
	inLinks(t, f, h1.PoolConfig{}, func(t *testing.T, l *links, get func(wanted) (upstreamSide, bool, error)) {
		first, reused, err := get(repeatable)
		must(t, first, err)
		if !isStream(first) || reused {
			t.Fatalf("%T, reused %v", first, reused)
		}
		second, reused, err := get(repeatable)
		must(t, second, err)
		if !reused || f.dials.Load() != 1 {
			t.Fatalf("reused %v, %d dials", reused, f.dials.Load())
		}
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if _, _, err := get(repeatable); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := f.dials.Load(); n != 2 {
			t.Errorf("%d dials, want 2", n)
		}
		if n := l.pool.Open(); n != 2 {
			t.Errorf("%d places are taken", n)
		}
	})
}

// TestLinksAtTheLimit: where no more connections are allowed, a stream that ends
// makes room.
func TestLinksAtTheLimit(t *testing.T) {
	f := &farm{streams: 1}
	inLinks(t, f, h1.PoolConfig{Max: 1}, func(t *testing.T, l *links, get func(wanted) (upstreamSide, bool, error)) {
		first, _, err := get(repeatable)
		must(t, first, err)
		got := make(chan error, 1)
		go func() {
			_, reused, err := get(repeatable)
			if err == nil && !reused {
				err = errors.New("another connection")
			}
			got <- err
		}()
		synctest.Wait()
		select {
		case err := <-got:
			t.Fatal("there was no room:", err)
		default:
		}
		l.Discard(first)
		if err := <-got; err != nil {
			t.Error(err)
		}
		quit := make(chan struct{})
		close(quit)
		if _, _, err := get(wanted{maxIdle: anyIdle, quit: quit}); !errors.Is(err, h1.ErrPoolFull) {
			t.Errorf("with nothing to wait for: %v", err)
		}
	})
}

// TestLinksFailTogether: of those who wait for one dial, nobody waits for another
// one after it failed.
func TestLinksFailTogether(t *testing.T) {
	f := &farm{streams: 1, slow: time.Second}
	inLinks(t, f, h1.PoolConfig{}, func(t *testing.T, l *links, get func(wanted) (upstreamSide, bool, error)) {
		first, _, err := get(repeatable)
		must(t, first, err)
		f.fails.Store(true)
		began := time.Now()
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if _, _, err := get(repeatable); err == nil {
					t.Error("no error")
				}
			})
		}
		wg.Wait()
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("%v, want the first dial and one each", took)
		}
	})
}

// TestLinksFreshness: a request that cannot be repeated does not go onto a
// connection that was idle for a second; such a one is closed.
func TestLinksFreshness(t *testing.T) {
	f := &farm{streams: 10}
	inLinks(t, f, h1.PoolConfig{}, func(t *testing.T, l *links, get func(wanted) (upstreamSide, bool, error)) {
		uc, _, err := get(repeatable)
		must(t, uc, err)
		l.Put(uc)
		time.Sleep(freshIdle - time.Millisecond)
		uc, reused, err := get(wanted{maxIdle: freshIdle})
		if must(t, uc, err); !reused {
			t.Error("one that is fresh was not used")
		}
		l.Put(uc)
		synctest.Wait()
		time.Sleep(freshIdle)
		uc, reused, err = get(wanted{maxIdle: freshIdle})
		if must(t, uc, err); reused {
			t.Error("used after a second of nothing")
		}
		if n := l.pool.Open(); n != 1 {
			t.Errorf("%d places are taken", n)
		}
	})
}

// TestLinksIdle: a shared connection without a stream is closed after
// connections.idle.
func TestLinksIdle(t *testing.T) {
	f := &farm{streams: 10}
	inLinks(t, f, h1.PoolConfig{Idle: time.Minute}, func(t *testing.T, l *links, get func(wanted) (upstreamSide, bool, error)) {
		uc, _, err := get(repeatable)
		must(t, uc, err)
		time.Sleep(2 * time.Minute)
		if n := l.pool.Open(); n != 1 {
			t.Fatalf("%d connections while a stream is open", n)
		}
		l.Put(uc)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := l.pool.Open(); n != 0 {
			t.Errorf("%d connections are left", n)
		}
	})
}

// TestLinksHTTP1: requests that need a connection of their own, and servers that
// want HTTP/1.1, get it.
func TestLinksHTTP1(t *testing.T) {
	f := &farm{streams: 10}
	inLinks(t, f, h1.PoolConfig{}, func(t *testing.T, l *links, get func(wanted) (upstreamSide, bool, error)) {
		uc, _, err := get(wanted{maxIdle: anyIdle, http1: true})
		must(t, uc, err)
		if isStream(uc) || f.plain.Load() != 1 {
			t.Fatalf("%T", uc)
		}
		l.Discard(uc)
		uc, _, err = get(repeatable)
		if must(t, uc, err); !isStream(uc) {
			t.Fatalf("%T", uc)
		}
		l.require1()
		l.Put(uc)
		uc, _, err = get(repeatable)
		if must(t, uc, err); isStream(uc) {
			t.Error("a stream, after HTTP_1_1_REQUIRED")
		}
		l.Discard(uc)
	})
}

// TestLinksClosed: nothing is had of links that were closed, and what is in use
// goes on.
func TestLinksClosed(t *testing.T) {
	f := &farm{streams: 10}
	inLinks(t, f, h1.PoolConfig{}, func(t *testing.T, l *links, get func(wanted) (upstreamSide, bool, error)) {
		uc, _, err := get(repeatable)
		must(t, uc, err)
		l.Close()
		if _, _, err := get(repeatable); !errors.Is(err, h1.ErrPoolClosed) {
			t.Errorf("%v", err)
		}
		uc.RequestLine("GET", []byte("/"))
		uc.FieldString("Host", "x")
		uc.EndHead(h1.NoBody, 0)
		if err := uc.Finish(nil); err != nil {
			t.Error(err)
		}
		l.Put(uc)
		synctest.Wait()
		if n := l.pool.Open(); n != 0 {
			t.Errorf("%d connections are left", n)
		}
	})
}
