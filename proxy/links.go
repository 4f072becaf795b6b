package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"mulligan/proxy/h1"
	"mulligan/proxy/h2"
)

// links are the connections to one authority. Those of HTTP/1.1 carry one
// request at a time and lie in a pool between requests; those of HTTP/2 are
// shared. Which of them it will be the server says when TLS begins (ALPN, RFC
// 7301), so it is known from the first connection on.
//
// A shared connection keeps the place that it was dialled in, so that the pool's
// limit counts connections of both versions.
type links struct {
	pool *h1.Pool
	tls  bool // only then may a server choose HTTP/2
	room bell // rings when something may be had that could not before

	mu      sync.Mutex
	cfg     h1.PoolConfig
	shared  []*sharedConn
	speaks  spoken // what is known of the server
	dialing bool   // somebody finds it out, or makes a connection for all
	only1   bool   // it has asked for HTTP/1.1 (RFC 9113 7, HTTP_1_1_REQUIRED)
	closed  bool
}

// spoken is what a server chose when it was asked last.
type spoken uint8

const (
	unasked    spoken = iota // one asks, for all
	unanswered               // the last dial failed: each asks, so that nobody waits for one failure after the other
	http1
	http2 // one connection for all: one dials
)

// sharedConn is an HTTP/2 connection, and the place in the pool that it has.
type sharedConn struct {
	*h2.ClientConn
	place *h1.ClientConn
}

// wanted says what kind of link a request can go onto.
type wanted struct {
	maxIdle time.Duration   // it has been idle for less
	http1   bool            // one that an upgrade is possible on
	quit    <-chan struct{} // ends the waiting for a free one; nil: nothing does

	avoid []netip.AddrPort // addresses to go to only where there are no others
	other bool             // there is another to dial
}

// avoids reports whether a connection is to one of the addresses to avoid.
func (w *wanted) avoids(c *h1.ClientConn) bool {
	return len(w.avoid) > 0 && slices.Contains(w.avoid, c.RemoteAddr())
}

func newLinks(dial func(context.Context) (net.Conn, error), withTLS bool, cfg h1.PoolConfig) *links {
	return &links{pool: h1.NewPool(dial, cfg), tls: withTLS, cfg: cfg}
}

// Get returns what a request can be sent on; see h1.Pool.Get. ctx is called only
// if there is something to wait for.
func (l *links) Get(ctx func() context.Context, w wanted) (upstreamSide, bool, error) {
	if !l.tls {
		return l.single(ctx, w, nil)
	}
	for {
		stream, how := l.open(w)
		var err error
		switch {
		case stream != nil:
			return stream, true, nil
		case how.stale != nil:
			err = l.probe(how.stale, ctx(), w.quit)
		case how.wait:
			err = waitFor(how.room, ctx(), w.quit)
		default:
			var uc upstreamSide
			var reused bool
			if uc, reused, err = l.dial(ctx, w, how); !errors.Is(err, h1.ErrElsewhere) {
				return uc, reused, err
			}
			continue
		}
		if err != nil {
			return nil, false, err
		}
	}
}

// dial gets a connection of the pool's, or makes one.
func (l *links) dial(ctx func() context.Context, w wanted, how way) (upstreamSide, bool, error) {
	if how.http1 {
		l.makeWay()
		inner := ctx
		ctx = func() context.Context { return withHTTP1(inner()) }
		return l.single(ctx, w, how.room)
	}
	uc, reused, err := l.single(ctx, w, how.room)
	uc, err = l.dialled(w, uc, reused, err)
	return uc, reused, err
}

// single gets a connection for one request at a time, or a new one.
func (l *links) single(ctx func() context.Context, w wanted, elsewhere <-chan struct{}) (upstreamSide, bool, error) {
	uc, reused, err := l.pool.Get(ctx, h1.Want{MaxIdle: w.maxIdle, Avoid: w.avoid, Other: w.other, Quit: w.quit, Elsewhere: elsewhere})
	if err != nil {
		return nil, false, err
	}
	return uc, reused, nil
}

// mayRefuse reports whether what goes out may be refused without being looked at, as
// streams of HTTP/2 are.
func (l *links) mayRefuse() bool {
	if !l.tls {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.only1 && l.speaks != http1
}

// makeWay ends a shared connection that nobody uses where there is no place for a
// connection of HTTP/1.1, as the pool does with its own idle ones.
func (l *links) makeWay() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.placeLeft() {
		return
	}
	for _, c := range l.shared {
		if c.Streams() == 0 {
			c.Drain()
			return
		}
	}
}

// probeFor bounds the wait for a sign of life: a connection that shows none is
// used no more.
const probeFor = time.Second

// probe waits for a sign of life on a shared connection.
func (l *links) probe(c *sharedConn, ctx context.Context, quit <-chan struct{}) error {
	patience, cancel := context.WithTimeout(ctx, probeFor)
	defer cancel()
	err := waitFor(c.Probe(), patience, quit)
	if err != nil && ctx.Err() == nil && patience.Err() != nil {
		c.Drain()
		return nil
	}
	return err
}

// waitFor waits for room, as h1.Pool.Get does for a connection.
func waitFor(room <-chan struct{}, ctx context.Context, quit <-chan struct{}) error {
	select {
	case <-room:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", h1.ErrPoolFull, context.Cause(ctx))
	case <-quit:
		return h1.ErrPoolFull
	}
}

// way is how to go on where no shared connection has room.
type way struct {
	http1 bool            // with HTTP/1.1 only
	stale *sharedConn     // once it has shown that it is there
	wait  bool            // wait for room: somebody dials already; else dial, and say how it went to dialled
	room  <-chan struct{} // closed when something may be had
}

// open returns a stream of a connection that is there, or else how to go on.
func (l *links) open(w wanted) (*h2.ClientStream, way) {
	l.mu.Lock()
	defer l.mu.Unlock()
	how := way{http1: w.http1 || l.only1, room: l.room.listen()} // before the look: what comes after it rings
	if how.http1 {
		return nil, how
	}
	stream, stale := l.onShared(&w, false)
	if stream == nil && stale == nil && len(w.avoid) > 0 && !(w.other && l.placeLeft()) {
		stream, stale = l.onShared(&w, true)
	}
	switch {
	case stream != nil:
		return stream, way{}
	case stale != nil:
		how.stale = stale
		return nil, how
	}
	how.wait = l.dialing
	l.dialing = l.speaks == unasked || l.speaks == http2
	return nil, how
}

// onShared opens a stream of a shared connection to an address that is to be
// avoided, or is not; else it returns a connection that may have died unnoticed, where
// the request could not be sent again. mu is held.
func (l *links) onShared(w *wanted, avoided bool) (stream *h2.ClientStream, stale *sharedConn) {
	for _, c := range slices.Backward(l.shared) {
		if w.avoids(c.place) != avoided {
			continue
		}
		if w.maxIdle != anyIdle && h1.Now()-c.IdleSince() >= int64(w.maxIdle) {
			if c.Room() {
				stale = c
			}
			continue
		}
		if stream := c.Open(); stream != nil {
			return stream, nil
		}
	}
	return nil, stale
}

// placeLeft reports whether the pool has a place for a new connection now, or can
// make one.
func (l *links) placeLeft() bool {
	return l.cfg.Max == 0 || l.pool.Open() < l.cfg.Max || l.pool.Idle() > 0
}

// dialled takes what single returned. A new connection that turns out to speak
// HTTP/2 is kept for all, and its first stream is returned in its place.
func (l *links) dialled(w wanted, uc upstreamSide, reused bool, err error) (upstreamSide, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dialing {
		l.dialing = false
		defer l.room.ring()
	}
	switch {
	case errors.Is(err, h1.ErrElsewhere), errors.Is(err, h1.ErrPoolFull), errors.Is(err, h1.ErrPoolClosed), errors.Is(err, context.Canceled):
		return nil, err // nothing was dialled, or for a client that left: neither says anything of the server
	case err != nil:
		l.speaks = unanswered
		return nil, err
	case reused:
		return uc, nil
	}
	place := uc.(*h1.ClientConn) // of the pool
	if !speaksHTTP2(place.NetConn()) {
		l.speaks = http1
		return uc, nil
	}
	l.speaks = http2
	return l.share(w, place), nil
}

// share keeps a connection for all, and opens its first stream. One that nobody
// else will need ends with that.
func (l *links) share(w wanted, place *h1.ClientConn) *h2.ClientStream {
	c := &sharedConn{place: place}
	surplus := slices.ContainsFunc(l.shared, func(other *sharedConn) bool {
		return other.Room() && (!w.avoids(other.place) || w.avoids(place))
	})
	l.shared = append(l.shared, c)
	var stream *h2.ClientStream
	c.ClientConn, stream = h2.Begin(place.NetConn(), h2.ClientConfig{IdleTimeout: l.cfg.Idle, OnRoom: l.room.ring, OnClose: func() { l.lose(c) }})
	if l.closed || surplus {
		c.Drain()
	}
	return stream
}

// speaksHTTP2 reports whether the server chose HTTP/2 when the connection was
// made.
func speaksHTTP2(nc net.Conn) bool {
	t, ok := nc.(interface{ ConnectionState() tls.ConnectionState })
	return ok && t.ConnectionState().NegotiatedProtocol == alpnHTTP2
}

// bell wakes all who listen to it. It has a lock of its own: connections ring it
// that l.mu is held over.
type bell struct {
	mu   sync.Mutex
	next chan struct{} // nil: nobody listens
}

// listen returns a channel that is closed with the next ring.
func (b *bell) listen() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = make(chan struct{})
	}
	return b.next
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next != nil {
		close(b.next)
		b.next = nil
	}
}

// lose forgets a shared connection that has ended, and frees its place.
func (l *links) lose(c *sharedConn) {
	l.mu.Lock()
	if i := slices.Index(l.shared, c); i >= 0 {
		l.shared = slices.Delete(l.shared, i, i+1)
	}
	l.mu.Unlock()
	l.room.ring()
	l.pool.Detach(c.place)
}

// require1 takes the server's word that it wants HTTP/1.1: what is dialled from now
// on is not offered as anything else.
func (l *links) require1() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.only1 = true
	for _, c := range l.shared {
		c.Drain()
	}
}

// Put gives back what a request was sent on, after its message.
func (l *links) Put(uc upstreamSide) {
	if conn, ok := uc.(*h1.ClientConn); ok {
		l.pool.Put(conn)
		return
	}
	endStream(uc)
}

// Discard closes what a request was sent on.
func (l *links) Discard(uc upstreamSide) {
	if conn, ok := uc.(*h1.ClientConn); ok {
		l.pool.Discard(conn)
		return
	}
	endStream(uc)
}

// endStream ends a stream of which nobody holds bytes any more.
func endStream(uc upstreamSide) {
	if stream, ok := uc.(*h2.ClientStream); ok {
		stream.Release()
	}
	uc.Close()
}

// Detach frees the place of what stays in use for something else than a request.
// A stream has none of its own.
func (l *links) Detach(uc upstreamSide) {
	if conn, ok := uc.(*h1.ClientConn); ok {
		l.pool.Detach(conn)
	}
}

// Attach is Put for what was detached.
func (l *links) Attach(conn *h1.ClientConn) { l.pool.Attach(conn) }

// Configure changes the limits of links in use.
func (l *links) Configure(cfg h1.PoolConfig) {
	l.pool.Configure(cfg)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cfg = cfg
	for _, c := range l.shared {
		c.SetIdle(cfg.Idle)
	}
}

// Close closes what is idle, and ends all waits; what is in use ends with its
// requests.
func (l *links) Close() {
	l.pool.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, c := range l.shared {
		c.Drain()
	}
	l.room.ring()
}
