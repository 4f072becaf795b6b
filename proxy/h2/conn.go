package h2

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"mulligan/proxy/h1"
)

// Sizes that RFC 9113 fixes or begins with.
const (
	frameHeader   = 9
	frameSize     = 16 << 10  // the largest frame that is sent, and accepted
	firstWindow   = 65535     // section 6.9.2
	maxWindow     = 1<<31 - 1 // section 6.9.1
	maxStreamID   = 1<<31 - 1
	hpackTable    = 4096 // bytes of a dynamic table, in both directions
	creditPending = 256 << 10
)

// conn is what both sides share: frames in, frames out, windows, and the streams.
type conn struct {
	nc       net.Conn
	asServer *ServerConn // one of these two is not nil: whose connection it is
	asClient *ClientConn
	server   bool
	limits   limits

	// the reader goroutine's
	in      input
	framer  *http2.Framer
	dec     *hpack.Decoder
	head    head
	block   block
	settled bool // the peer's first SETTINGS have come

	// the writer goroutine's
	enc encoder

	frameSince atomic.Int64 // since when a frame or header block is incomplete; 0: none
	inData     atomic.Bool  // and that it is a DATA frame

	mu      sync.Mutex
	streams map[uint32]*stream // those with an id that are not closed
	cause   *ending            // why the connection ends; nil: it does not
	over    bool               // it has ended

	// what goes out: see queue.go and write.go
	ready, starved, held queue
	ctl                  control
	batch                []part
	wake                 sync.Cond // of the writer
	stopping             bool      // the writer is to end
	writeSince           int64     // when the present write began; 0: there is none
	moved                uint64    // writes that ended
	writeDead            *ending   // a write failed: nothing goes out any more

	// windows: see flow.go
	sendWindow  int64
	recvWindow  int64
	recvCredit  int64
	peerInitial int64 // of a stream's send window
	table       tableSize

	ours, theirs ring          // closed streams: see ring.go
	lastID       uint32        // the highest id that a stream has had
	peerCode     http2.ErrCode // of the peer's GOAWAY
	leaving      bool          // the peer has sent a GOAWAY
	drain        drain
	noise        bucket
	resets       bucket
	idleSince    int64
	clock        clock

	roomMade bool
	room     func() // nil: nobody wants to know

	writerDone chan struct{}
}

// limits are a connection's, in bytes and nanoseconds. 0: none.
type limits struct {
	window  int64 // a stream's, for receiving
	shared  int64 // the connection's
	maxHead int
	head    int64 // how long a frame or a header block may take
	idle    int64
	stall   int64
}

// ending is why a connection ends.
type ending struct {
	code      http2.ErrCode
	reason    string
	err       error // the network's
	malformed bool  // the peer broke the protocol
	silent    bool  // no GOAWAY is to be sent, and nothing waited for
	reset     bool  // and the network's end is to be a reset
}

func (c *conn) init(nc net.Conn, l limits) {
	c.nc, c.limits = nc, l
	c.server = c.asServer != nil
	c.in.nc = nc
	c.framer = http2.NewFramer(&c.ctl, &c.in)
	c.framer.SetMaxReadFrameSize(frameSize)
	c.head.limit = l.maxHead
	c.dec = hpack.NewDecoder(hpackTable, c.head.add)
	c.block.limit = 4*l.maxHead + frameSize
	c.enc.init()
	c.streams = map[uint32]*stream{}
	c.wake.L = &c.mu
	c.sendWindow, c.peerInitial = firstWindow, firstWindow
	c.recvWindow = l.shared
	c.writerDone = make(chan struct{})
	c.idleSince = h1.Now()
	c.drain.last = maxStreamID
	c.noise.at, c.resets.at = c.idleSince, c.idleSince
	c.in.last.Store(c.idleSince)
}

// unlock gives the lock back, and says where room for a stream was made.
func (c *conn) unlock() {
	room := c.roomMade
	c.roomMade = false
	c.mu.Unlock()
	if room && c.room != nil {
		c.room()
	}
}

// run reads until the connection ends, and ends it.
func (c *conn) run() {
	c.mu.Lock()
	c.startClock()
	c.unlock()
	go c.writeFrames()
	err := c.readFrames()
	c.finish(err)
}

// shut ends the connection from outside the reader: the reader wakes and finds
// the cause.
func (c *conn) shut(cause *ending) {
	c.mu.Lock()
	c.shutLocked(cause)
	c.unlock()
}

func (c *conn) shutLocked(cause *ending) {
	if c.cause != nil || c.over {
		return
	}
	c.cause = cause
	c.nc.SetReadDeadline(past)
}

// past is a deadline that has always passed.
var past = time.Unix(1, 0)

// lingerFor is how long the peer is given to read the last frames: closing at
// once could take them from it by a reset.
const lingerFor = time.Second

// finish ends the connection after its reader: the writer says goodbye, then
// everybody who waits is told.
func (c *conn) finish(err error) {
	cause := c.stop(err)
	switch {
	case cause.reset:
		closeReset(c.nc)
	case cause.silent:
		c.nc.Close()
	default:
		c.nc.SetWriteDeadline(time.Now().Add(lingerFor))
	}
	<-c.writerDone
	c.mu.Lock()
	c.over = true
	c.clock.stop()
	c.failAll(cause)
	c.unlock()
	if c.server && !cause.silent {
		c.linger()
	}
	c.nc.Close()
	c.in.release()
}

// stop settles the cause and lets the writer send what is left to be sent.
func (c *conn) stop(err error) *ending {
	c.mu.Lock()
	defer c.unlock()
	if c.cause == nil {
		c.cause = c.causeOf(err)
	}
	if !c.cause.silent && (c.cause.code != 0 || !c.drain.said) {
		c.goAway(c.lastID, c.cause.code, c.cause.reason)
	}
	c.stopping = true
	c.wake.Signal()
	return c.cause
}

// failAll tells all streams that the connection has ended.
func (c *conn) failAll(cause *ending) {
	for _, s := range c.streams {
		s.fail(s.endError(cause))
		c.remove(s, false)
	}
	c.failUnsent(cause)
}

// linger lets the peer read what was sent, and drops what it still sends.
func (c *conn) linger() {
	half, ok := c.nc.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	c.nc.SetReadDeadline(time.Now().Add(lingerFor))
	c.in.drop()
}

// Close ends the connection and all its streams. It may be called from anywhere.
func (c *conn) Close() error {
	c.shut(&ending{reason: "the connection was closed", silent: true})
	return c.nc.Close()
}

// CloseReset is Close with a reset where the network can do that, and for TLS
// without a goodbye.
func (c *conn) CloseReset() error {
	c.shut(&ending{reason: "the connection was closed", silent: true, reset: true})
	return closeReset(c.nc)
}

// NetConn returns the connection below.
func (c *conn) NetConn() net.Conn { return c.nc }

func closeReset(nc net.Conn) error {
	for inner := nc; ; {
		if t, ok := inner.(*net.TCPConn); ok {
			t.SetLinger(0)
			return t.Close()
		}
		below, ok := inner.(interface{ NetConn() net.Conn })
		if !ok {
			return nc.Close()
		}
		inner = below.NetConn()
	}
}

// causeOf gives the error that ended the reader its meaning.
func (c *conn) causeOf(err error) *ending {
	if e, ok := err.(*connError); ok {
		return &ending{code: e.code, reason: e.reason, malformed: true}
	}
	if c.writeDead != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		err = c.writeDead.err // the reader was only stopped for that
	}
	return &ending{err: err, reason: "the connection ended", silent: true}
}
