package h2

import (
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"

	"mulligan/proxy/h1"
)

// ServerConfig bounds what a client may do. Zero values mean the defaults.
type ServerConfig struct {
	MaxStreams   uint32        // requests at once: 250
	MaxHead      int           // bytes of a header list, as RFC 9113 section 6.5.2 counts: 64 KiB
	HeadTimeout  time.Duration // for the preface, and for a frame or header block that has begun: 10 s
	IdleTimeout  time.Duration // without a request: 2 min
	StallTimeout time.Duration // of a write, or of a DATA frame, that moves no byte: 1 min
}

// serverWindow is how many bytes of a request's body may be under way.
const serverWindow = 64 << 10

func (cfg *ServerConfig) defaults() {
	set := func(d *time.Duration, value time.Duration) {
		if *d <= 0 {
			*d = value
		}
	}
	if cfg.MaxStreams == 0 {
		cfg.MaxStreams = 250
	}
	if cfg.MaxHead <= 0 {
		cfg.MaxHead = 64 << 10
	}
	set(&cfg.HeadTimeout, 10*time.Second)
	set(&cfg.IdleTimeout, 2*time.Minute)
	set(&cfg.StallTimeout, time.Minute)
}

// ServerConn is a connection from a client.
type ServerConn struct {
	conn
	maxStreams int
	handle     func(*ServerStream)
	handlers   int // that have not returned
	zombies    int // those of them whose stream was reset
	all        sync.WaitGroup
}

// ServerStream is one request and its response.
type ServerStream struct {
	stream
	req     h1.Request
	headErr *h1.Error
	read    bool
	zombie  bool
}

// NewServerConn makes nc a client's connection. Nothing is read or written before
// Serve.
func NewServerConn(nc net.Conn, cfg ServerConfig) *ServerConn {
	cfg.defaults()
	c := &ServerConn{maxStreams: int(cfg.MaxStreams)}
	c.asServer = c
	c.ours.size, c.theirs.size = 1024, 128
	c.init(nc, limits{
		window: serverWindow, shared: min(int64(cfg.MaxStreams)*serverWindow+2*creditPending, maxWindow), maxHead: cfg.MaxHead,
		head: int64(cfg.HeadTimeout), idle: int64(cfg.IdleTimeout), stall: int64(cfg.StallTimeout),
	})
	c.writeSettings(
		http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: cfg.MaxStreams},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: serverWindow},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: uint32(cfg.MaxHead)},
	)
	c.writeWindowUpdate(0, c.limits.shared-firstWindow)
	return c
}

// Serve takes requests until the connection ends: each runs handle in a goroutine
// of its own, and its stream is closed after that. Serve returns when the
// connection has ended and all of them have returned.
func (c *ServerConn) Serve(handle func(*ServerStream)) {
	c.handle = handle
	c.run()
	c.all.Wait()
}

// Drain tells the client that the connection will end. Requests that were on their
// way are still taken, later ones are not; the connection ends with the last.
func (c *ServerConn) Drain() {
	c.mu.Lock()
	defer c.unlock()
	c.drainFirst()
}

// Streams returns how many requests there are: those whose handler has not
// returned.
func (c *ServerConn) Streams() int {
	c.mu.Lock()
	defer c.unlock()
	return c.handlers
}

// takeHead takes a request, or trailers.
func (c *ServerConn) takeHead(id uint32, end bool) error {
	if s := c.streams[id]; s != nil {
		return c.trailersFor(s, end)
	}
	switch {
	case c.refusing(id) || c.cause != nil: // too late
		return c.useless(1)
	case id%2 == 0:
		return violation("a stream of the server's, from a client")
	case id <= c.lastID && c.ours.has(id):
		return c.useless(1) // trailers that were on their way
	case id <= c.lastID && c.theirs.has(id):
		return &connError{http2.ErrCodeStreamClosed, "HEADERS for a stream that was closed"}
	case id <= c.lastID:
		return violation("a stream that begins after a later one")
	}
	c.lastID = id
	return c.accept(id, end)
}

// accept begins a stream, or refuses it.
func (c *ServerConn) accept(id uint32, end bool) error {
	if len(c.streams) >= c.maxStreams || c.zombies >= c.maxStreams || c.handlers >= 2*c.maxStreams {
		return c.refuse(id, http2.ErrCodeRefusedStream, c.useless(1))
	}
	s := &ServerStream{}
	if c.head.tooLarge() {
		s.headErr = headTooLarge("head")
	} else if err := c.head.request(&s.req, end); err != nil || c.block.itself {
		return c.refuse(id, http2.ErrCodeProtocol, c.wasted())
	}
	c.useful()
	s.init(&c.conn, &s.req.Trailer)
	s.id, s.began = id, h1.Now()
	s.heard, s.final = true, true
	s.bodyFrames, s.recvEnd = s.req.Framing, end
	if s.req.Framing == h1.Length {
		s.recvLeft = s.req.ContentLength
	}
	s.owner = s
	c.streams[id] = &s.stream
	c.handlers++
	c.all.Add(1)
	go c.serveOne(s)
	return nil
}

// refuse resets a stream before it began, unless that was done too often.
func (c *ServerConn) refuse(id uint32, code http2.ErrCode, often error) error {
	if often != nil {
		return often
	}
	c.ours.add(id)
	c.writeReset(id, code)
	return c.forced()
}

// serveOne is one request's goroutine.
func (c *ServerConn) serveOne(s *ServerStream) {
	defer c.all.Done()
	defer c.returned(s)
	c.handle(s)
}

// returned ends a stream after its handler.
func (c *ServerConn) returned(s *ServerStream) {
	s.Release()
	s.Close()
	c.mu.Lock()
	defer c.unlock()
	if s.zombie {
		c.zombies--
	}
	if c.handlers--; c.handlers == 0 {
		c.idleSince = h1.Now()
		c.armAt(c.idleSince + orNever(c.limits.idle))
	}
	c.endIfDone()
}

// trailersFor ends a request's body with its trailers.
func (c *ServerConn) trailersFor(s *stream, end bool) error {
	if s.recvEnd {
		return c.abort(s, http2.ErrCodeStreamClosed, "HEADERS behind the end")
	}
	if !end {
		return c.abort(s, http2.ErrCodeProtocol, "trailers that are not the end")
	}
	return c.endWithTrailers(s)
}

// endWithTrailers takes the decoded head as a message's trailers.
func (c *conn) endWithTrailers(s *stream) error {
	trailer, e := c.head.trailers(c.server)
	switch {
	case e != nil && e.Kind == h1.HeadTooLarge:
		s.failRead(e) // there is a stream left to say so on
	case e != nil:
		return c.abort(s, http2.ErrCodeProtocol, e.Reason)
	case s.recvLeft > 0:
		return c.abort(s, http2.ErrCodeProtocol, "body shorter than its length")
	}
	s.trailer = trailer
	c.useful()
	c.endRecv(s)
	return nil
}

func (c *ServerConn) removed(s *stream, well bool) {
	if well {
		c.resets.level-- // it was answered
		return
	}
	o := s.owner.(*ServerStream)
	o.zombie = true
	c.zombies++
}

// endIfDone ends a connection that only waited for its last requests.
func (c *ServerConn) endIfDone() {
	if c.handlers > 0 || !c.drain.final && !c.leaving || len(c.ctl.b) > 0 || c.writeSince != 0 || c.ready.first != nil {
		return
	}
	c.shutLocked(&ending{reason: "the connection was drained"})
}

// ReadRequest returns the request. The error is h1.HeadTooLarge, with the status to
// answer, where its header list is over the limit. There is one request for each
// stream: later calls return io.EOF.
func (s *ServerStream) ReadRequest() (*h1.Request, error) {
	if s.read {
		return nil, io.EOF
	}
	s.read = true
	if s.headErr != nil {
		return nil, s.headErr
	}
	return &s.req, nil
}
