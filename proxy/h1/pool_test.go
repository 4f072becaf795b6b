package h1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// upstream is an endpoint in memory: its dial makes connections whose other end
// it keeps.
type upstream struct {
	mu    sync.Mutex
	peers []net.Conn
	dials int
	fail  error
}

func (u *upstream) dial(ctx context.Context) (net.Conn, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.dials++
	if u.fail != nil {
		return nil, u.fail
	}
	a, b := net.Pipe()
	u.peers = append(u.peers, b)
	return a, nil
}

func (u *upstream) last() net.Conn { return u.peers[len(u.peers)-1] }

const anyIdle = time.Hour

// get takes a connection that must be there at once.
func get(t *testing.T, p *Pool, maxIdle time.Duration) (*ClientConn, bool) {
	t.Helper()
	c, reused, err := p.Get(context.Background, maxIdle)
	if err != nil {
		t.Fatal(err)
	}
	c.Start()
	return c, reused
}

// use carries one request and its response, with extra fields in it.
func use(t *testing.T, c *ClientConn, peer net.Conn, extra string) {
	t.Helper()
	go func() {
		p := make([]byte, 1000)
		peer.Read(p)
		io.WriteString(peer, "HTTP/1.1 204 No Content\r\n"+extra+"\r\n")
	}()
	c.RequestLineString("GET", "/")
	c.EndHead(NoBody, 0)
	if _, err := c.FinishAndReadResponse(nil, nil, "GET"); err != nil {
		t.Fatal(err)
	}
}

func closed(nc net.Conn) bool {
	nc.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := nc.Read(make([]byte, 1))
	return err == io.EOF
}

func TestPoolReuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &upstream{}
		p := NewPool(u.dial, PoolConfig{Idle: 30 * time.Second})
		defer p.Close()
		a, reused := get(t, p, anyIdle)
		if reused {
			t.Error("a first connection was reused")
		}
		use(t, a, u.last(), "")
		b, _ := get(t, p, anyIdle)
		use(t, b, u.last(), "")
		p.Put(a)
		time.Sleep(time.Second)
		p.Put(b)
		if p.Idle() != 2 || p.Open() != 2 {
			t.Fatal(p.Idle(), p.Open())
		}
		if c, reused := get(t, p, anyIdle); c != b || !reused {
			t.Error("not the most recently used")
		}
		if c, reused := get(t, p, time.Second); c == a || reused {
			t.Error("idle for too long, and used")
		}
		if c, reused := get(t, p, 0); c == a || reused {
			t.Error("not a new one")
		}
		if c, _ := get(t, p, anyIdle); c != a {
			t.Error("not the idle one")
		}
		if u.dials != 4 || p.Open() != 4 || p.Idle() != 0 {
			t.Error(u.dials, p.Open(), p.Idle())
		}
	})
}

func TestPoolClosesIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &upstream{}
		p := NewPool(u.dial, PoolConfig{Idle: 30 * time.Second})
		defer p.Close()
		a, _ := get(t, p, anyIdle)
		aPeer := u.last()
		b, _ := get(t, p, anyIdle)
		bPeer := u.last()
		p.Put(a)
		time.Sleep(10 * time.Second)
		p.Put(b)
		time.Sleep(19 * time.Second)
		if p.Idle() != 2 {
			t.Fatal("closed too early")
		}
		time.Sleep(2 * time.Second)
		if p.Idle() != 1 || p.Open() != 1 || !closed(aPeer) || closed(bPeer) {
			t.Fatal(p.Idle(), p.Open())
		}
		p.Configure(PoolConfig{Idle: 5 * time.Second})
		if p.Idle() != 0 || !closed(bPeer) {
			t.Error("a shorter limit was not applied")
		}
	})
}

// A server's Keep-Alive timeout is kept, with a second to spare.
func TestPoolKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &upstream{}
		p := NewPool(u.dial, PoolConfig{Idle: 30 * time.Second})
		defer p.Close()
		patient, _ := get(t, p, anyIdle)
		use(t, patient, u.last(), "")
		hasty, _ := get(t, p, anyIdle)
		use(t, hasty, u.last(), "Keep-Alive: timeout=5, max=100\r\n")
		p.Put(patient)
		p.Put(hasty)
		time.Sleep(3900 * time.Millisecond)
		c, _ := get(t, p, anyIdle)
		if c != hasty {
			t.Fatal("not used within its timeout")
		}
		p.Put(c)
		time.Sleep(4100 * time.Millisecond)
		if c, reused := get(t, p, anyIdle); c != patient || !reused {
			t.Error("used past its timeout")
		}
		if p.Open() != 1 {
			t.Error("not closed past its timeout")
		}
		one, _ := get(t, p, anyIdle)
		use(t, one, u.last(), "Keep-Alive: timeout=1\r\n")
		p.Put(one)
		if c, _ := get(t, p, anyIdle); c == one {
			t.Error("used within the last second")
		}
	})
}

func TestPoolKeepsOnlyReusable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &upstream{}
		p := NewPool(u.dial, PoolConfig{})
		defer p.Close()
		c, _ := get(t, p, anyIdle)
		use(t, c, u.last(), "Connection: close\r\n")
		p.Put(c)
		if p.Idle() != 0 || p.Open() != 0 || !closed(u.last()) {
			t.Error("kept")
		}
		c, _ = get(t, p, anyIdle)
		use(t, c, u.last(), "")
		seq := c.Seq()
		p.Put(c)
		if c.InterruptAt(seq) {
			t.Error("interrupted in the pool")
		}
		if again, reused := get(t, p, anyIdle); again != c || !reused {
			t.Error("not used")
		}
		c, _ = get(t, p, anyIdle)
		p.Put(c)
		u.last().Close()
		if again, reused := get(t, p, anyIdle); again != c || !reused {
			t.Error("not used")
		}
		dead(t, c, 0)
		p.Discard(c)
		c, _ = get(t, p, anyIdle)
		p.Detach(c)
		if p.Open() != 1 || closed(u.last()) {
			t.Error("detached", p.Open())
		}
	})
}

func TestPoolStrayBytes(t *testing.T) {
	server, client := loopback(t)
	u := &upstream{}
	p := NewPool(func(ctx context.Context) (net.Conn, error) {
		if u.dials == 0 {
			u.dials++
			return client, nil
		}
		return u.dial(ctx)
	}, PoolConfig{})
	defer p.Close()
	c, _ := get(t, p, anyIdle)
	p.Put(c)
	server.Write([]byte("HTTP/1.1 408 Request Timeout\r\n\r\n"))
	eventually(t, "stray bytes", func() bool { return !c.Check() })
	for i := range 3 {
		again, reused := get(t, p, anyIdle)
		if again != c || !reused || p.Open() != 1 {
			t.Fatal("not the pooled one")
		}
		dead(t, again, i)
		c.Start()
		c.spoiled = false // so that it comes back
		p.Put(c)
	}
}

// dead fails unless a request on c, sent in one of three ways, goes nowhere.
func dead(t *testing.T, c *ClientConn, way int) {
	t.Helper()
	c.RequestLineString("POST", "/")
	c.EndHead(Length, 3)
	var err error
	switch way {
	case 0:
		_, err = c.FinishAndReadResponse([]byte("abc"), nil, "POST")
	case 1:
		err = c.Flush()
	case 2:
		c.FinishWith([]byte("abc"), nil)
		_, err = c.ReadResponse("POST")
	}
	wantKind(t, err, NothingWritten)
	if c.Written() != 0 || c.Reusable() {
		t.Error(c.Written(), c.Reusable())
	}
}

// waiting starts a Get that has to wait.
func waiting(p *Pool, ctx context.Context, maxIdle time.Duration) chan result {
	done := make(chan result, 1)
	go func() {
		c, reused, err := p.Get(func() context.Context { return ctx }, maxIdle)
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
		if _, _, err := p.Get(context.Background, anyIdle); err != ErrPoolClosed {
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
		next := &waiter{maxIdle: anyIdle, ready: make(chan struct{})}
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

func TestPoolDialFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &upstream{fail: errors.New("refused")}
		p := NewPool(u.dial, PoolConfig{Max: 1})
		defer p.Close()
		for range 3 {
			if _, _, err := p.Get(context.Background, anyIdle); err != u.fail {
				t.Error(err)
			}
		}
		if p.Open() != 0 {
			t.Error(p.Open())
		}
	})
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
				c, _, err := p.Get(func() context.Context { return ctx }, maxIdle)
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
