package h1

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"sync"
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
	c, reused, err := p.Get(context.Background, Want{MaxIdle: maxIdle})
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
		p.Put(a)
		time.Sleep(10 * time.Second)
		b, _ := get(t, p, 0)
		bPeer := u.last()
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

// A connection that was put back unused has been idle since before: a POST went
// onto one, dialled for a tunnel that nobody spoke in for a while, as if it were
// fresh.
func TestPoolPutUnused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &upstream{}
		p := NewPool(u.dial, PoolConfig{Idle: 30 * time.Second})
		defer p.Close()
		a, _ := get(t, p, anyIdle)
		time.Sleep(2 * time.Second)
		p.Put(a)
		if b, reused := get(t, p, time.Second); reused || b == a {
			t.Error("idle for two seconds, and taken for fresh")
		}
		if b, _ := get(t, p, anyIdle); b != a {
			t.Error("not kept")
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
		p.Put(c)
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

func TestPoolDialFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &upstream{fail: errors.New("refused")}
		p := NewPool(u.dial, PoolConfig{Max: 1})
		defer p.Close()
		for range 3 {
			if _, _, err := p.Get(context.Background, Want{MaxIdle: anyIdle}); err != u.fail {
				t.Error(err)
			}
		}
		if p.Open() != 0 {
			t.Error(p.Open())
		}
	})
}

// TestIdleForEver: the longest duration there is, added to the time, is no time in
// the past.
func TestIdleForEver(t *testing.T) {
	up := &upstream{}
	p := NewPool(up.dial, PoolConfig{Idle: math.MaxInt64, Max: 2})
	c, _ := get(t, p, anyIdle)
	use(t, c, up.last(), "")
	p.Put(c)
	if _, reused := get(t, p, anyIdle); !reused {
		t.Error("not used again")
	}
}

// TestWaiterOfAClosedPool: one that comes to the queue just behind Close is told,
// instead of waiting for what nobody hands over any more.
func TestWaiterOfAClosedPool(t *testing.T) {
	up := &upstream{}
	p := NewPool(up.dial, PoolConfig{Idle: time.Minute, Max: 1})
	get(t, p, anyIdle)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, _, err := p.Get(func() context.Context { p.Close(); return ctx }, Want{MaxIdle: anyIdle})
	if !errors.Is(err, ErrPoolClosed) {
		t.Errorf("%v, want ErrPoolClosed", err)
	}
}

// TestQueueIsQuit: who does not want to wait any more is not kept.
func TestQueueIsQuit(t *testing.T) {
	up := &upstream{}
	p := NewPool(up.dial, PoolConfig{Idle: time.Minute, Max: 1})
	busy, _ := get(t, p, anyIdle)
	quit := make(chan struct{})
	close(quit)
	if _, _, err := p.Get(context.Background, Want{MaxIdle: anyIdle, Quit: quit}); !errors.Is(err, ErrPoolFull) {
		t.Errorf("%v, want ErrPoolFull", err)
	}
	use(t, busy, up.last(), "")
	p.Put(busy)
	if _, _, err := p.Get(context.Background, Want{MaxIdle: anyIdle, Quit: quit}); err != nil {
		t.Errorf("%v, though one is free", err)
	}
}

// TestAttach: a connection that was detached counts again, where there is a slot
// for it; else it is closed.
func TestAttach(t *testing.T) {
	up := &upstream{}
	p := NewPool(up.dial, PoolConfig{Idle: time.Minute, Max: 1})
	a, _ := get(t, p, anyIdle)
	p.Detach(a)
	b, _ := get(t, p, anyIdle)
	p.Detach(b)
	use(t, a, up.peers[0], "")
	p.Attach(a)
	if c, reused := get(t, p, anyIdle); c != a || !reused {
		t.Error("the attached one is not in use")
	}
	p.Attach(b)
	if n := p.Open(); n != 1 {
		t.Errorf("%d open, want 1", n)
	}
	if _, err := up.peers[1].Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the other one is not closed: %v", err)
	}
}
