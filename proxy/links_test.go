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
	mute    atomic.Bool // what the servers say is lost
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
	server := h2.NewServerConn(lossy{theirs, &f.mute}, h2.ServerConfig{MaxStreams: f.streams})
	f.mu.Lock()
	f.conns = append(f.conns, server)
	f.mu.Unlock()
	go server.Serve(func(s *h2.ServerStream) {})
	return agreed{ours, alpnHTTP2}, nil
}

// lossy is a connection on which nothing arrives any more, once it is mute.
type lossy struct {
	net.Conn
	mute *atomic.Bool
}

func (l lossy) Write(p []byte) (int, error) {
	if l.mute.Load() {
		return len(p), nil
	}
	return l.Conn.Write(p)
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

// TestLinksFreshness: a request that cannot be repeated goes onto a connection
// that was silent for a second only after a sign of life, and onto another one where
// none comes.
func TestLinksFreshness(t *testing.T) {
	f := &farm{streams: 10}
	inLinks(t, f, h1.PoolConfig{}, func(t *testing.T, l *links, get func(wanted) (upstreamSide, bool, error)) {
		uc, _, err := get(repeatable)
		must(t, uc, err)
		time.Sleep(freshIdle) // with a stream that is open and quiet
		for range 2 {
			fresh, reused, err := get(wanted{maxIdle: freshIdle})
			if must(t, fresh, err); !reused || f.dials.Load() != 1 {
				t.Errorf("reused %v, %d dials", reused, f.dials.Load())
			}
			l.Put(fresh)
			time.Sleep(freshIdle)
		}
		dead := f.conns[0]
		began := time.Now()
		f.mute.Store(true)
		go func() { time.Sleep(probeFor); f.mute.Store(false) }() // for the connection that is made then
		fresh, reused, err := get(wanted{maxIdle: freshIdle})
		if must(t, fresh, err); reused || f.dials.Load() != 2 {
			t.Errorf("after %v: reused %v, %d dials", time.Since(began), reused, f.dials.Load())
		}
		dead.Close()
	})
}

// TestLinksFirstBurst: the first requests to a server make one connection, as long
// as it is not known what it speaks; after a failure nobody waits for another one.
func TestLinksFirstBurst(t *testing.T) {
	f := &farm{streams: 100, slow: time.Second}
	burst := func(t *testing.T, get func(wanted) (upstreamSide, bool, error)) (failed int) {
		results := make(chan error, 50)
		for range cap(results) {
			go func() {
				uc, _, err := get(repeatable)
				if err == nil {
					defer uc.Close()
				}
				results <- err
			}()
		}
		for range cap(results) {
			if <-results != nil {
				failed++
			}
		}
		return failed
	}
	inLinks(t, f, h1.PoolConfig{}, func(t *testing.T, l *links, get func(wanted) (upstreamSide, bool, error)) {
		if failed := burst(t, get); failed != 0 || f.dials.Load() != 1 {
			t.Errorf("%d failed, %d dials", failed, f.dials.Load())
		}
		f.fails.Store(true)
		f.close()
		synctest.Wait()
		began := time.Now()
		if failed := burst(t, get); failed != 50 || time.Since(began) > 2*time.Second {
			t.Errorf("%d failed, in %v", failed, time.Since(began))
		}
		f.fails.Store(false)
		burst(t, get)
		synctest.Wait()
		if n := l.pool.Open(); n != 1 {
			t.Errorf("%d connections are kept after a burst at once", n)
		}
	})
}

// TestLinksLeave: that the client who dials leaves does not make all others dial.
func TestLinksLeave(t *testing.T) {
	f := &farm{streams: 100, slow: time.Second}
	inLinks(t, f, h1.PoolConfig{}, func(t *testing.T, l *links, get func(wanted) (upstreamSide, bool, error)) {
		leaving, leave := context.WithCancel(context.Background())
		go l.Get(func() context.Context { return leaving }, repeatable)
		synctest.Wait()
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() { get(repeatable) })
		}
		synctest.Wait()
		leave()
		wg.Wait()
		if n := f.dials.Load(); n != 2 {
			t.Errorf("%d dials", n)
		}
	})
}

// TestLinksMakeWay: at the limit an idle shared connection makes way for one of
// HTTP/1.1; one in use does when it is idle.
func TestLinksMakeWay(t *testing.T) {
	f := &farm{streams: 10}
	inLinks(t, f, h1.PoolConfig{Max: 1}, func(t *testing.T, l *links, get func(wanted) (upstreamSide, bool, error)) {
		for _, busy := range []bool{false, true} {
			uc, _, err := get(repeatable)
			must(t, uc, err)
			if busy {
				time.AfterFunc(time.Second, func() { l.Put(uc) })
			} else {
				l.Put(uc)
			}
			plain, _, err := get(wanted{maxIdle: anyIdle, http1: true})
			if must(t, plain, err); isStream(plain) {
				t.Error("a stream")
			}
			l.Discard(plain)
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
