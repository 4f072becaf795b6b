package proxy

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"mulligan/metrics"
	"mulligan/proxy/h1"
)

// Options is what a Server has for life.
type Options struct {
	Proxy   string           // the proxy port's address
	Metrics *metrics.Metrics // required
	Log     *slog.Logger     // nil: slog's default
	// Own are listeners of this process besides the Server's: never dialled.
	Own []net.Addr
	// Signer returns the local CA. It is called once, when an upstream first has
	// tls.intercept; nil means that none may.
	Signer func() (Signer, error)
	// Untrusting is the hint for whoever reads that a client does not trust that
	// CA; "" where it is the one that `mulligan ca` shows.
	Untrusting string
	// ListenerTLS returns how TLS is spoken on a listener, by its configured
	// address; nil for plain ones, or where there are no others.
	ListenerTLS func(address string) *tls.Config
	// Quiet, where set, is called when no request has been under way for a second,
	// after there were some.
	Quiet func()
	// Listen, Dial and Resolve replace net's, for tests. With Dial neither the guard
	// nor a resolver is asked.
	Listen  func(network, address string) (net.Listener, error)
	Dial    func(ctx context.Context, network, address string) (net.Conn, error)
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
}

// Server is the proxy: its listeners, their connections, and what lasts of each
// upstream. Make it with New, then Start; end it with Shutdown or Close.
type Server struct {
	opts Options
	log  *slog.Logger
	id   string
	via  [3]string // by the version of the message that gets it: HTTP/1.0, HTTP/1.1, HTTP/2

	signer       Signer // written before the snapshot whose upstreams need it
	intercepting *tls.Config
	hints        hints

	snap           atomic.Pointer[snapshot]
	reloading      sync.Mutex
	statesMu       sync.Mutex
	states         map[string]*state
	own            *ownListeners
	beyondLoopback bool
	buffered       ledger
	watcher        *watcher
	checks         checks

	listeners []net.Listener
	addrs     []string          // of listeners, as configured
	listening map[string]string // the upstream of each `listen`, by address
	accepting sync.WaitGroup

	drain     chan struct{}
	drainOnce sync.Once
	isDrain   atomic.Bool

	connsMu sync.Mutex
	conns   map[*clientConn]struct{}
	empty   chan struct{} // closed when draining and no connection is left
	emptied bool
	cutting atomic.Bool // shutdown_grace is over: nothing more is sent
}

// New binds the listeners of settings; on an error none is left bound.
func New(opts Options, settings *Settings) (*Server, error) {
	if opts.Listen == nil {
		opts.Listen = net.Listen
	}
	s := &Server{
		opts: opts, log: opts.Log, states: map[string]*state{}, listening: map[string]string{},
		drain: make(chan struct{}), conns: map[*clientConn]struct{}{}, empty: make(chan struct{}),
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	s.checks.server = s
	s.intercepting = s.interceptConfig()
	if err := s.identify(); err != nil {
		return nil, err
	}
	if err := s.bind(settings); err != nil {
		s.closeListeners()
		return nil, err
	}
	if err := s.Reload(settings); err != nil {
		s.closeListeners()
		return nil, err
	}
	opts.Metrics.SetBudgets(s.budgets)
	opts.Metrics.SetCircuits(s.circuits)
	opts.Metrics.SetBufferedBytes(func() float64 { return float64(s.buffered.used.Load()) })
	s.watcher = newWatcher(s.now, opts.Quiet)
	return s, nil
}

// now is the clock of all that the watcher compares.
func (s *Server) now() int64 { return h1.Now() }

// identify draws the instance's ID: eight hex digits, new at each start, by
// which a loop is recognised.
func (s *Server) identify() error {
	var b [4]byte
	if _, err := rand.Read(b[:]); err != nil {
		return err
	}
	s.id = hex.EncodeToString(b[:])
	s.via = [3]string{"1.0 " + viaPrefix + s.id, "1.1 " + viaPrefix + s.id, "2.0 " + viaPrefix + s.id}
	return nil
}

// viaOf is the Via of a message that came with this version of HTTP.
func (s *Server) viaOf(minor int, http2 bool) string {
	if http2 {
		return s.via[2] // RFC 9113 8.3
	}
	return s.via[min(minor, 1)]
}

func (s *Server) bind(settings *Settings) error {
	addrs := []string{s.opts.Proxy}
	for _, u := range settings.Upstreams {
		if u.Listen != "" {
			addrs = append(addrs, u.Listen)
			s.listening[u.Listen] = u.Name
		}
	}
	own := append([]net.Addr(nil), s.opts.Own...)
	for _, a := range addrs {
		ln, err := s.opts.Listen(Network(a), a)
		if err != nil {
			return fmt.Errorf("listen %s: %w", a, err)
		}
		s.listeners = append(s.listeners, ln)
		s.addrs = append(s.addrs, a)
		own = append(own, ln.Addr())
	}
	s.own = newOwnListeners(own)
	if tcp, ok := s.listeners[0].Addr().(*net.TCPAddr); ok {
		s.beyondLoopback = !tcp.IP.IsLoopback()
	}
	return nil
}

// Addr is the proxy port's address, with the port that was chosen.
func (s *Server) Addr() net.Addr { return s.listeners[0].Addr() }

// ListenAddr is the bound address of a `listen`, or nil.
func (s *Server) ListenAddr(configured string) net.Addr {
	for i, a := range s.addrs[1:] {
		if a == configured {
			return s.listeners[i+1].Addr()
		}
	}
	return nil
}

// Start accepts connections, and checks endpoints, until Shutdown or Close.
func (s *Server) Start() {
	s.checks.start()
	for i, ln := range s.listeners {
		s.accepting.Go(func() { s.accept(ln, s.addrs[i]) })
	}
}

func (s *Server) accept(ln net.Listener, configured string) {
	pause := time.Duration(0)
	secure := s.listenerTLS(configured)
	for {
		nc, err := ln.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			// Out of descriptors, most likely: give connections time to end.
			pause = min(max(5*time.Millisecond, 2*pause), time.Second)
			attrs := []slog.Attr{slog.String("listen", configured), slog.Any("error", err)}
			if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
				attrs = append(attrs, slog.String("hint", "raise the limit of open files (ulimit -n); each request takes two"))
			}
			s.log.LogAttrs(context.Background(), slog.LevelWarn, "accept failed", attrs...)
			select {
			case <-time.After(pause):
			case <-s.drain:
				return
			}
			continue
		}
		pause = 0
		c := s.newClientConn(nc, configured)
		if !s.track(c) {
			nc.Close()
			continue
		}
		go func() {
			defer s.untrack(c)
			defer s.survive(c)
			if secure != nil {
				c.serveSecure(secure)
				return
			}
			c.serve()
		}()
	}
}

// survive keeps a fault in serving one connection from ending all others.
func (s *Server) survive(c *clientConn) {
	if fault := recover(); fault != nil {
		s.logPanic(fault)
		c.sc.CloseReset()
	}
}

func (s *Server) logPanic(fault any) {
	s.log.Error("panic while serving a connection", slog.Any("panic", fault), slog.String("stack", string(debug.Stack())))
}

func (s *Server) track(c *clientConn) bool {
	s.connsMu.Lock()
	defer s.connsMu.Unlock()
	if s.emptied {
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *Server) untrack(c *clientConn) {
	s.connsMu.Lock()
	defer s.connsMu.Unlock()
	delete(s.conns, c)
	s.noteEmpty()
}

// noteEmpty closes s.empty once draining has left no connection; connsMu is held.
func (s *Server) noteEmpty() {
	if s.draining() && len(s.conns) == 0 && !s.emptied {
		s.emptied = true
		close(s.empty)
	}
}

func (s *Server) draining() bool { return s.isDrain.Load() }

// Shutdown stops accepting, lets no new retry begin, closes what is idle and
// waits for what is in flight, tunnels included, until ctx ends; then it closes
// the rest. It returns a *CutOffError where something had to be cut off.
func (s *Server) Shutdown(ctx context.Context) error {
	s.drainOnce.Do(func() {
		s.isDrain.Store(true)
		close(s.drain)
	})
	s.closeListeners()
	s.accepting.Wait()
	err := s.emptyOut(ctx)
	s.checks.stop()
	s.watcher.stop()
	s.statesMu.Lock()
	defer s.statesMu.Unlock()
	for _, st := range s.states {
		st.close()
	}
	return err
}

// emptyOut waits until no connection is left. It closes idle ones more than
// once: one may have looked idle to nobody while it went from one request to
// waiting for the next.
func (s *Server) emptyOut(ctx context.Context) error {
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		s.closeIdle()
		select {
		case <-s.empty:
			return nil
		case <-again.C:
		case <-ctx.Done():
			n := s.cutOff()
			<-s.empty
			return &CutOffError{n}
		}
	}
}

// Close ends everything at once.
func (s *Server) Close() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s.Shutdown(ctx)
}

func (s *Server) closeListeners() {
	for _, ln := range s.listeners {
		ln.Close()
	}
}

// closeIdle wakes connections that wait for a next request: it will not come.
func (s *Server) closeIdle() {
	s.connsMu.Lock()
	defer s.connsMu.Unlock()
	for c := range s.conns {
		if c.shared != nil {
			c.shared.Drain()
		} else if c.idle() {
			c.watch.breakIdle()
		}
	}
	s.noteEmpty()
}

// cutOff closes every connection, and what their requests wait for; it returns
// how many there were.
func (s *Server) cutOff() (n int) {
	s.cutting.Store(true)
	s.connsMu.Lock()
	defer s.connsMu.Unlock()
	for c := range s.conns {
		c.watch.fire(causeCut, func() bool { return true })
		if c.wire != nil {
			n++
		}
		switch {
		case c.shared != nil:
			c.shared.CloseReset()
		case c.idle() && !c.watch.tunnel.Load():
			c.sc.Close()
		default:
			c.sc.CloseReset() // what is cut off is not to look whole
		}
	}
	return n
}

// idle reports whether no request is under way on the connection; connsMu is held.
func (c *clientConn) idle() bool {
	if c.wire == nil {
		return false
	}
	phase, _ := c.wire.State()
	return phase != h1.InRequest
}

// change changes what a connection's requests are read from, while others may
// want to end it.
func (s *Server) change(do func()) {
	s.connsMu.Lock()
	defer s.connsMu.Unlock()
	do()
}

// CutOff ends what is in flight, at once, before the process ends.
func (s *Server) CutOff() { s.cutOff() }

// Connections returns how many connections from clients are open, idle ones and
// tunnels included.
func (s *Server) Connections() int {
	s.connsMu.Lock()
	defer s.connsMu.Unlock()
	n := 0
	for c := range s.conns {
		if c.wire != nil { // and no stream of one
			n++
		}
	}
	return n
}

// TunnelProgress returns a number that is another one when a byte has moved in a
// tunnel: was read or written by us, or was taken by the peer that it was for.
func (s *Server) TunnelProgress() (n uint64) {
	moved := func(progress, queued uint64) uint64 { return progress<<32 ^ queued } // they are not to cancel out
	s.connsMu.Lock()
	defer s.connsMu.Unlock()
	for c := range s.conns {
		if !c.watch.tunnel.Load() {
			continue
		}
		n += moved(c.wire.Progress(), c.wire.Queued())
		if uc := c.watch.moved.conn.Load(); uc != nil {
			n += moved(uc.Progress(), uc.Queued())
		}
	}
	return n
}

// CutOffError says how many connections from clients were in use when the time
// for them to finish was over.
type CutOffError struct{ Connections int }

func (e *CutOffError) Error() string {
	return fmt.Sprintf("%d connections were still in use, and were cut off", e.Connections)
}

// Network is the network to listen on for an address: net.Listen would open ::
// too where 0.0.0.0 is written.
func Network(address string) string {
	host, _, err := net.SplitHostPort(address)
	if ip, perr := netip.ParseAddr(host); err == nil && perr == nil && ip.Is4() {
		return "tcp4"
	}
	return "tcp"
}
