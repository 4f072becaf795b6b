package h1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// waiting starts a Get that has to wait.
func waiting(p *Pool, ctx context.Context, maxIdle time.Duration) chan result {
	done := make(chan result, 1)
	go func() {
		c, reused, err := p.Get(func() context.Context { return ctx }, Want{MaxIdle: maxIdle})
		done <- result{c, reused, err}
	}()
	synctest.Wait()
	return done
}

type result struct {
	c      *ClientConn
	reused bool
	err    error
}

func TestPoolBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &upstream{}
		p := NewPool(u.dial, PoolConfig{Max: 2})
		defer p.Close()
		ctx := context.Background()
		a, _ := get(t, p, anyIdle)
		b, _ := get(t, p, anyIdle)
		first := waiting(p, ctx, anyIdle)
		second := waiting(p, ctx, 0)
		third := waiting(p, ctx, anyIdle)
		if u.dials != 2 {
			t.Fatal("over the limit")
		}
		p.Put(a)
		if r := <-first; r.c != a || !r.reused {
			t.Error("the first did not get the connection", r)
		}
		p.Put(b) // the second wants none that was used: it gets the slot
		if r := <-second; r.c == b || r.reused || r.err != nil {
			t.Error("second", r)
		}
		p.Discard(a)
		if r := <-third; r.c == nil || r.reused {
			t.Error("third", r)
		}
		if p.Open() != 2 || u.dials != 4 {
			t.Error(p.Open(), u.dials)
		}
	})
}

// At the limit an idle connection that may not be used makes way.
func TestPoolIdleMakesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &upstream{}
		p := NewPool(u.dial, PoolConfig{Max: 1})
		defer p.Close()
		a, _ := get(t, p, anyIdle)
		peer := u.last()
		p.Put(a)
		if c, reused := get(t, p, 0); c == a || reused || !closed(peer) || p.Open() != 1 {
			t.Error("idle connection in the way")
		}
	})
}

func TestPoolCancelledWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &upstream{}
		p := NewPool(u.dial, PoolConfig{Max: 1})
		a, _ := get(t, p, anyIdle)
		cause := errors.New("the window ended")
		ctx, cancel := context.WithCancelCause(context.Background())
		first := waiting(p, ctx, anyIdle)
		second := waiting(p, context.Background(), anyIdle)
		cancel(cause)
		if r := <-first; !errors.Is(r.err, ErrPoolFull) || !errors.Is(r.err, cause) {
			t.Error(r.err)
		}
		p.Put(a)
		if r := <-second; r.c != a {
			t.Error("the slot was lost")
		}
		third := waiting(p, context.Background(), anyIdle)
		p.Close()
		if r := <-third; r.err != ErrPoolClosed {
			t.Error(r.err)
		}
		if _, _, err := p.Get(context.Background, Want{MaxIdle: anyIdle}); err != ErrPoolClosed {
			t.Error(err)
		}
		p.Put(a)
		if p.Open() != 0 || !closed(u.last()) {
			t.Error("open after Close", p.Open())
		}
	})
}

// A waiter that was handed something at the moment it gave up passes it on.
func TestPoolAbandon(t *testing.T) {
	u := &upstream{}
	p := NewPool(u.dial, PoolConfig{Max: 1})
	c, _ := get(t, p, anyIdle)
	for _, handed := range []*ClientConn{c, nil} {
		p.open = 1
		next := &waiter{Want: Want{MaxIdle: anyIdle}, ready: make(chan struct{})}
		p.waiters.push(next)
		p.abandon(&waiter{conn: handed})
		select {
		case <-next.ready:
		default:
			t.Fatal("not passed on")
		}
		if next.conn != handed || p.open != 1 {
			t.Error(next.conn, p.open)
		}
	}
	p.Close()
	p.open = 1
	p.abandon(&waiter{conn: c})
	p.abandon(&waiter{closed: true})
	if p.Open() != 0 {
		t.Error(p.Open())
	}
}

func TestPoolConfigure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &upstream{}
		p := NewPool(u.dial, PoolConfig{Max: 1})
		defer p.Close()
		a, _ := get(t, p, anyIdle)
		w := waiting(p, context.Background(), anyIdle)
		p.Configure(PoolConfig{Max: 3})
		r := <-w
		if r.err != nil || p.Open() != 2 {
			t.Fatal(r.err)
		}
		c, _ := get(t, p, anyIdle)
		p.Put(c)
		p.Configure(PoolConfig{Max: 1})
		if p.Open() != 2 || p.Idle() != 0 {
			t.Error("idle over the limit", p.Open(), p.Idle())
		}
		p.Put(a)
		if p.Open() != 1 || p.Idle() != 0 {
			t.Error("kept over the limit", p.Open(), p.Idle())
		}
		r.c.Start()
		p.Put(r.c)
		if p.Open() != 1 || p.Idle() != 1 {
			t.Error(p.Open(), p.Idle())
		}
	})
}

// Many at once, with every way out: the bound holds and no slot is lost.
func TestPoolUnderLoad(t *testing.T) {
	var open, most atomic.Int64
	dial := func(context.Context) (net.Conn, error) {
		if n := open.Add(1); n > most.Load() {
			most.Store(n)
		}
		return &counted{script: play(""), open: &open}, nil
	}
	p := NewPool(dial, PoolConfig{Max: 4, Idle: time.Minute})
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			for j := range 200 {
				ctx, cancel := context.WithCancel(context.Background())
				if j%7 == 0 {
					go cancel()
				}
				maxIdle := anyIdle
				if (i+j)%5 == 0 {
					maxIdle = 0
				}
				c, _, err := p.Get(func() context.Context { return ctx }, Want{MaxIdle: maxIdle})
				switch {
				case err != nil:
					if !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
				case j%3 == 0:
					p.Discard(c)
				default:
					c.Start()
					p.Put(c)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	if p.Open() != p.Idle() || int64(p.Open()) != open.Load() || most.Load() > 4 {
		t.Error(p.Open(), p.Idle(), open.Load(), most.Load())
	}
	p.Close()
	if open.Load() != 0 {
		t.Error(fmt.Sprint(open.Load(), " left open"))
	}
}

// counted counts itself out when it is closed.
type counted struct {
	*script
	open *atomic.Int64
	once sync.Once
}

func (c *counted) Read(p []byte) (int, error) {
	if c.late { // open and silent, for Check
		return c.script.Read(p)
	}
	return 0, io.EOF
}

func (c *counted) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return nil
}

// at is a connection that was dialled to an address.
type at struct {
	net.Conn
	addr net.TCPAddr
}

func (a at) RemoteAddr() net.Addr { return &a.addr }

// TestPoolAvoids: a connection to an address to avoid is taken only where there is
// no other, and no other address to dial.
func TestPoolAvoids(t *testing.T) {
	dials := byte(0)
	p := NewPool(func(context.Context) (net.Conn, error) {
		dials++
		nc, _ := net.Pipe()
		return at{nc, net.TCPAddr{IP: net.IPv4(192, 0, 2, dials), Port: 80}}, nil
	}, PoolConfig{Max: 2})
	defer p.Close()
	first, _ := get(t, p, anyIdle)
	second, _ := get(t, p, anyIdle)
	p.Put(first)
	p.Put(second)
	take := func(w Want) *ClientConn {
		t.Helper()
		w.MaxIdle = anyIdle
		c, _, err := p.Get(context.Background, w)
		if err != nil {
			t.Fatal(err)
		}
		p.Put(c)
		return c
	}
	if take(Want{}) != second {
		t.Error("not the one that was used last")
	}
	if take(Want{Avoid: []netip.AddrPort{second.RemoteAddr()}}) != first {
		t.Error("not the one to the other address")
	}
	all := []netip.AddrPort{second.RemoteAddr(), first.RemoteAddr()}
	if take(Want{Avoid: all}) != first {
		t.Error("not the one that was used last, though there is no other address")
	}
	if c := take(Want{Avoid: all, Other: true}); c == first || c == second {
		t.Error("not a new one, though there is another address")
	}
	if dials != 3 || p.Open() != 2 {
		t.Error(dials, p.Open())
	}
}
