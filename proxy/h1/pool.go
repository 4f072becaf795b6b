package h1

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Errors of Pool.Get beside those of the dial.
var (
	// ErrPoolClosed: Close was called.
	ErrPoolClosed = errors.New("h1: connection pool closed")
	// ErrPoolFull: the context ended, or quit was closed, while all connections
	// were busy. The context's cause is in the chain too.
	ErrPoolFull = errors.New("h1: all connections busy")
	// ErrElsewhere: something came free that is not the pool's, while all
	// connections were busy.
	ErrElsewhere = errors.New("h1: a connection is free elsewhere")
)

// keepAliveMargin is how long before the end of a server's Keep-Alive timeout a
// connection is no longer used: the close may be under way.
const keepAliveMargin = int64(time.Second)

// PoolConfig bounds a pool. Zero means no limit.
type PoolConfig struct {
	Idle time.Duration // how long a connection is kept idle
	Max  int           // connections, idle and busy together
}

// Pool keeps the idle connections to one endpoint, and bounds how many there
// are. It has no goroutine; one timer closes what was idle for too long.
type Pool struct {
	dial func(context.Context) (net.Conn, error)

	mu      sync.Mutex
	cfg     PoolConfig
	idle    []*ClientConn // the most recently used last
	open    int           // idle, busy and being dialled
	waiters waiters
	timer   *time.Timer // nil: not set
	wakes   int64       // when timer fires
	closed  bool
}

// NewPool makes a pool that makes connections with dial.
func NewPool(dial func(context.Context) (net.Conn, error), cfg PoolConfig) *Pool {
	return &Pool{dial: dial, cfg: cfg}
}

// Want says what connection a request can go onto, and how long it waits for one.
type Want struct {
	MaxIdle time.Duration // it has been idle for less; 0: a new one in any case

	// Addresses that connections are taken to only where there are no others; with
	// Other, that there is another address to dial, not even then.
	Avoid []netip.AddrPort
	Other bool

	// Channels that end the waiting when they are closed; nil: nothing does.
	Quit, Elsewhere <-chan struct{}
}

// Get returns a connection: the most recently used idle one that w allows and that
// is within what its server promised to keep it; else a new one. While all are busy
// it waits its turn. ctx is called only if there is something to wait for.
//
// Whether a reused connection is still good (Check) is looked at when its first
// byte is written, where it costs least and can be trusted most: the message
// then fails with NothingWritten, and the caller gets another connection.
func (p *Pool) Get(ctx func() context.Context, w Want) (c *ClientConn, reused bool, err error) {
	c, slot, err := p.take(&w)
	switch {
	case err != nil:
		return nil, false, err
	case c != nil:
		c.pooled = true
		return c, true, nil
	case slot:
		return p.connect(ctx())
	}
	return p.wait(ctx(), w)
}

// take returns an idle connection, or a slot to dial a new one in, or neither.
func (p *Pool) take(w *Want) (c *ClientConn, slot bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, false, ErrPoolClosed
	}
	if c := p.pick(w); c != nil {
		return c, false, nil
	}
	return nil, p.slot(), nil
}

// slot takes a place for a new connection; at the limit an idle connection that
// nobody wanted makes way.
func (p *Pool) slot() bool {
	if p.cfg.Max > 0 && p.open >= p.cfg.Max {
		if len(p.idle) == 0 {
			return false
		}
		p.drop(0)
	}
	p.open++
	return true
}

// connect dials in a slot that was taken.
func (p *Pool) connect(ctx context.Context) (*ClientConn, bool, error) {
	nc, err := p.dial(ctx)
	if err != nil {
		p.free()
		return nil, false, err
	}
	return NewClientConn(nc), false, nil
}

// wait waits until a connection or a slot is handed over.
func (p *Pool) wait(ctx context.Context, want Want) (*ClientConn, bool, error) {
	w := &waiter{Want: want, ready: make(chan struct{})}
	if err := p.queue(w); err != nil {
		return nil, false, err
	}
	select {
	case <-w.ready:
	case <-ctx.Done():
		p.abandon(w)
		return nil, false, fmt.Errorf("%w: %w", ErrPoolFull, context.Cause(ctx))
	case <-w.Quit:
		p.abandon(w)
		return nil, false, ErrPoolFull
	case <-w.Elsewhere:
		p.abandon(w)
		return nil, false, ErrElsewhere
	}
	switch {
	case w.closed:
		return nil, false, ErrPoolClosed
	case w.conn == nil:
		return p.connect(ctx)
	}
	w.conn.pooled = true
	return w.conn, true, nil
}

// queue adds a waiter.
func (p *Pool) queue(w *waiter) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed { // since take; nobody would serve the waiter
		return ErrPoolClosed
	}
	p.waiters.push(w)
	p.serve() // something may have come free since take
	return nil
}

// abandon takes a waiter out, and passes on what it was handed meanwhile.
func (p *Pool) abandon(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiters.remove(w) || w.closed {
		return
	}
	switch {
	case w.conn == nil:
		p.open--
	case p.closed:
		p.open--
		w.conn.Close()
	default:
		p.keep(w.conn)
	}
	p.serve()
}

// serve hands what is free to those who wait, in their order.
func (p *Pool) serve() {
	for p.waiters.len() > 0 {
		w := p.waiters.first()
		if w.conn = p.pick(&w.Want); w.conn == nil && !p.slot() {
			return
		}
		p.waiters.remove(w)
		close(w.ready)
	}
}

// Put gives back a connection after a message. It is kept if it is Reusable.
// Nobody may interrupt it any more: that would hit who gets it next.
func (p *Pool) Put(c *ClientConn) {
	if !c.Reusable() {
		p.Discard(c)
		return
	}
	if !c.untouched() { // else its server has waited all the while
		c.idleSince.Store(Now())
	}
	c.clear()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.cfg.Max > 0 && p.open > p.cfg.Max {
		p.open--
		c.Close()
		return
	}
	p.keep(c)
	p.serve()
}

// Discard closes a connection and frees its slot. Nobody may still be reading
// from it.
func (p *Pool) Discard(c *ClientConn) {
	c.Close()
	c.Release()
	p.free()
}

// Detach frees the slot of a connection that stays open, with the caller.
func (p *Pool) Detach(*ClientConn) { p.free() }

// Attach is Put for a connection that was detached. Where there is no slot for it
// any more, it is closed.
func (p *Pool) Attach(c *ClientConn) {
	p.mu.Lock()
	free := !p.closed && p.slot()
	p.mu.Unlock()
	if !free {
		c.Close()
		c.Release()
		return
	}
	p.Put(c)
}

// free gives back a slot.
func (p *Pool) free() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
	p.serve()
}

// Configure changes the limits of a pool in use.
func (p *Pool) Configure(cfg PoolConfig) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cfg = cfg
	for p.cfg.Max > 0 && p.open > p.cfg.Max && len(p.idle) > 0 {
		p.drop(0)
	}
	p.sweep()
	p.serve()
}

// Close closes the idle connections and ends all waits. Busy connections are
// closed when they are given back.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for len(p.idle) > 0 {
		p.drop(0)
	}
	for p.waiters.len() > 0 {
		w := p.waiters.first()
		w.closed = true
		p.waiters.remove(w)
		close(w.ready)
	}
	p.schedule()
}

// Idle returns how many connections are idle.
func (p *Pool) Idle() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle)
}

// Open returns how many connections there are, those being dialled included.
func (p *Pool) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open
}
