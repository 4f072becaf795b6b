package h2

import (
	"net"
	"net/netip"
	"time"

	"golang.org/x/net/http2"

	"mulligan/proxy/h1"
)

// ClientConfig is how a connection to an upstream is kept. Zero means no limit.
type ClientConfig struct {
	IdleTimeout  time.Duration // without a stream
	StallTimeout time.Duration // of a write, or of a frame, that moves no byte; 0: 1 min
	OnClose      func()        // called once, when the connection has ended
	OnRoom       func()        // called when Open may succeed again
}

// Sizes of the client side.
const (
	clientWindow = 256 << 10   // bytes of a response's body that may be under way
	sharedWindow = 1 << 30     // of all responses: never what holds one up
	upstreamHead = 1 << 20     // bytes of a response's heads, and of its trailers
	maxInterim   = 32          // 1xx before a final response
	silence      = time.Second // after which a server that answers nothing is asked
	assumed      = 100         // streams before a server has said its limit
	mostStreams  = 1000        // whatever it says
)

// ClientConn is a connection to an upstream. It has two goroutines, which end with
// it.
type ClientConn struct {
	conn
	cfg      ClientConfig
	nextID   uint32
	limit    int       // streams that the server allows
	open     int       // streams that were opened and have not ended
	unsent   []*stream // those of them of which nothing was framed
	draining bool
	suspect  bool  // a question waits for its answer: see suspectIf
	asked    int64 // since when
	probes   []probe
	probed   int64 // when the server was asked last
}

// ClientStream is one request and its response.
type ClientStream struct {
	stream
	method   string
	resp     *h1.Response   // the head that was returned last
	arrived  []*h1.Response // heads that wait to be read
	interims int
	headSize int
	place    int // in unsent
	trailed  h1.Header
}

// RemoteAddr is the address that the stream's connection was dialled to; see
// h1.RemoteAddr.
func (s *ClientStream) RemoteAddr() netip.AddrPort { return h1.RemoteAddr(s.c.nc) }

// NewClientConn makes nc a connection to an upstream, which has agreed to HTTP/2.
// The preface and the SETTINGS are written at once.
func NewClientConn(nc net.Conn, cfg ClientConfig) *ClientConn {
	c := newClientConn(nc, cfg)
	go c.live()
	return c
}

// Begin is NewClientConn with a first stream: what is wrong with the connection is
// that stream's to say, however soon it shows.
func Begin(nc net.Conn, cfg ClientConfig) (*ClientConn, *ClientStream) {
	c := newClientConn(nc, cfg)
	s := c.Open()
	go c.live()
	return c, s
}

func newClientConn(nc net.Conn, cfg ClientConfig) *ClientConn {
	if cfg.StallTimeout <= 0 {
		cfg.StallTimeout = time.Minute
	}
	c := &ClientConn{cfg: cfg, nextID: 1, limit: assumed}
	c.asClient = c
	c.room = cfg.OnRoom
	c.init(nc, limits{
		window: clientWindow, shared: sharedWindow, maxHead: upstreamHead,
		idle: int64(cfg.IdleTimeout), stall: int64(cfg.StallTimeout),
	})
	c.ctl.Write([]byte(http2.ClientPreface))
	c.writeSettings(
		http2.Setting{ID: http2.SettingEnablePush, Val: 0},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: clientWindow},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: upstreamHead},
	)
	c.writeWindowUpdate(0, sharedWindow-firstWindow)
	return c
}

func (c *ClientConn) live() {
	c.run()
	if c.cfg.OnClose != nil {
		c.cfg.OnClose()
	}
}

// Open opens a stream. It is nil where the connection takes none: it has ended or
// is about to, its server is silent, or as many are open as the server allows.
func (c *ClientConn) Open() *ClientStream {
	c.mu.Lock()
	defer c.unlock()
	if !c.usable() || c.open >= c.limit {
		return nil
	}
	s := &ClientStream{}
	s.init(&c.conn, &s.trailed)
	s.owner = s
	s.place = len(c.unsent)
	c.unsent = append(c.unsent, &s.stream)
	c.open++
	return s
}

// usable reports whether Open may succeed, now or when a stream has ended.
func (c *ClientConn) usable() bool {
	return !c.over && c.cause == nil && c.writeDead == nil && !c.draining && !c.leaving && !c.suspect &&
		int64(c.nextID)+2*int64(len(c.unsent)) < maxStreamID
}

// Streams returns how many streams are open.
func (c *ClientConn) Streams() int {
	c.mu.Lock()
	defer c.unlock()
	return c.open
}

// Room reports whether Open would succeed now.
func (c *ClientConn) Room() bool {
	c.mu.Lock()
	defer c.unlock()
	return c.usable() && c.open < c.limit
}

// IdleSince returns since when nothing has come on the connection, on the clock of
// h1.Now: nor has its last stream ended since then, or it been made.
func (c *ClientConn) IdleSince() int64 {
	c.mu.Lock()
	defer c.unlock()
	last := c.in.last.Load()
	if c.open == 0 {
		return max(last, c.idleSince)
	}
	return last
}

// SetIdle changes the idle timeout; 0 is none.
func (c *ClientConn) SetIdle(d time.Duration) {
	c.mu.Lock()
	defer c.unlock()
	c.limits.idle = int64(d)
	c.armAt(c.idleDue())
}

// Drain lets no new stream be opened; the connection ends with the last.
func (c *ClientConn) Drain() {
	c.mu.Lock()
	defer c.unlock()
	c.draining = true
	c.endIfDone()
}

// endIfDone ends a connection that is only waited for.
func (c *ClientConn) endIfDone() {
	if c.open == 0 && (c.draining || c.leaving) {
		c.shutLocked(&ending{reason: "the connection was drained"})
	}
}

// begin gives a stream its id, if the server allows one more now: it may have
// lowered its limit since the stream was opened. Until it has said its limit, which
// it does with its first bytes, one stream has to do: more could be refused, and
// what is refused is an attempt that a retry has to pay for.
func (c *conn) begin(s *stream) bool {
	o := s.owner.(*ClientStream)
	cc := c.asClient
	if len(c.streams) >= cc.limit || !c.settled && len(c.streams) > 0 {
		c.held.push(s)
		return false
	}
	cc.forget(o)
	s.id = cc.nextID
	c.lastID = s.id
	cc.nextID += 2
	s.sendWindow = c.peerInitial
	s.began = h1.Now()
	c.streams[s.id] = s
	return true
}

// forget takes a stream off the unsent ones.
func (c *ClientConn) forget(s *ClientStream) {
	last := len(c.unsent) - 1
	moved := c.unsent[last]
	c.unsent[s.place] = moved
	moved.owner.(*ClientStream).place = s.place
	c.unsent[last] = nil
	c.unsent = c.unsent[:last]
}

// removed takes a stream out of the count.
func (c *ClientConn) removed(s *stream) {
	if s.id == 0 {
		c.forget(s.owner.(*ClientStream))
	}
	if c.open--; c.open == 0 {
		c.idleSince = h1.Now()
		c.armAt(c.idleSince + orNever(c.limits.idle))
	}
	c.roomMade = true
	c.release()
	c.endIfDone()
}

// release gives those their turn who wait for the server's limit.
func (c *ClientConn) release() {
	for n := c.limit - len(c.streams); n > 0; n-- {
		s := c.held.pop()
		if s == nil {
			return
		}
		c.schedule(s)
	}
}

// suspectIf asks, where a stream is given up that got no answer while nothing came on
// the connection for a while, whether anybody is still there: a retry is not to go
// where its first attempt was lost. Until something comes the connection takes no
// new streams.
func (c *ClientConn) suspectIf(s *stream) {
	now := h1.Now()
	if s.heard || c.suspect || c.in.last.Load() > s.began || now-s.began < int64(silence) {
		return
	}
	c.suspect, c.asked = true, now
	c.ask()
	c.armAt(c.deadAt())
}

// deadAt is when a connection that does not answer is given up.
func (c *ClientConn) deadAt() int64 {
	if !c.suspect {
		return never
	}
	return c.asked + orNever(c.limits.stall)
}

// alive takes the suspicion back.
func (c *ClientConn) alive() {
	if c.suspect && c.in.last.Load() >= c.asked {
		c.suspect, c.roomMade = false, true
	}
	if len(c.probes) > 0 {
		c.answerProbes(c.in.last.Load())
	}
}

// failUnsent fails the streams of which nothing was framed, and ends the waiting for
// signs of life.
func (c *ClientConn) failUnsent(cause *ending) {
	c.answerProbes(never)
	for len(c.unsent) > 0 {
		s := c.unsent[0]
		s.fail(s.endError(cause))
		c.remove(s, false)
	}
}

// allowed takes the server's limit of streams.
func (c *ClientConn) allowed(n uint32) {
	c.limit = int(min(n, mostStreams))
	c.roomMade = true
	c.release()
}

// goneAway ends the streams that the server will not look at.
func (c *ClientConn) goneAway(last uint32, code http2.ErrCode) {
	for _, s := range c.streams {
		if s.id > last {
			e := s.resetError(http2.ErrCodeRefusedStream, "the server goes away", nil)
			e.Code = uint32(code)
			c.remove(s, false)
			s.fail(e)
		}
	}
	for len(c.unsent) > 0 {
		s := c.unsent[0]
		c.remove(s, false)
		s.fail(&h1.Error{Kind: h1.NothingWritten, Reason: "the server goes away", Code: uint32(code)})
	}
	c.endIfDone()
}
