package proxy

import (
	"context"
	"sync/atomic"
	"time"
	"unsafe"

	"mulligan/metrics"
	"mulligan/policy"
	"mulligan/proxy/h1"
)

// exchange is one request and what becomes of it. Each client connection has
// one and uses it again for its next request, so that a request that succeeds
// at once allocates nothing for it.
type exchange struct {
	c    *clientConn
	s    *Server
	snap *snapshot

	req   *h1.Request
	seen  fields // what the request's header says to us
	to    target
	up    *upstream
	route *policy.Route
	count *metrics.Route
	auth  *authority

	places []*authority // of the upstream's endpoints, where it goes to those; each attempt to one
	at     int          // the index of the one that it goes to
	tried  uint64       // those that attempts have gone to
	path   []byte       // what follows the endpoint's own path

	session policy.Session
	grant   grant
	body    requestBody

	failedAt failedAddrs // what its attempts have failed at

	began     time.Time
	sentAt    atomic.Int64 // when the attempt's request was sent, by the server's clock; only with a circuit breaker
	windowFor atomic.Int64 // ns left of the window while its clock stands still

	// the attempt under way, or the last one
	number    int // attempts begun
	attemptAt time.Time
	lasted    time.Duration // what it took, where it ended before it is counted
	inHand
	events eventStream     // of the response in hand
	last   inHand          // of the attempt before, until this one has written something
	cut    policy.Decision // the retry for which timeout.attempt cuts the attempt

	beside    *race       // the attempts beside it; nil: there can be none
	spareRace *race       // to be used for the next attempt
	isLane    bool        // this is one of those
	uncut     atomic.Bool // it is past timeout.attempt, and nothing would follow
	first     bool        // the answer is that of the first attempt, whatever went beside it

	connect   bool           // a CONNECT: an attempt is a dial
	tunnel    *h1.ClientConn // the connection that a CONNECT got
	contextFn func() context.Context

	upgraded   *h1.ClientConn // joined to the client once the request is accounted for
	wrote      bool           // the attempt under way came to writing its request
	couldRetry bool           // body aside, a retry could follow the attempt under way
	continued  bool           // the client was told 100
	accounted  bool
	entered    bool          // counted as in flight
	lost       bool          // the client could not be written to
	timed      bool          // the circuit breaker wants to know how long the attempt under way takes
	slow       bool          // the attempt under way has no answer after timeout.attempt
	noted      bool          // what its end says to other requests is known to them
	mounted    []byte        // the mount path that was stripped
	byHost     authorityName // the Host by which an origin-form request named its upstream
	lastClass  string
	log        record
}

// inHand is what there is of an attempt's response.
type inHand struct {
	from        *authority   // where it came from,
	fromAt      int          // the index of that among the endpoints
	uc          upstreamSide // holds resp, until it is released
	detached    bool         // uc is not the pool's any more
	resp        *h1.Response
	interim     []*h1.Response // 1xx that go with the final one
	interimSize int            // bytes of their fields
	held        blocks         // the body of resp, or its beginning, where it was held
	heldWhole   []byte         // the same, where it lies in the connection's own buffer
	whole       bool           // the held body is all of it
	broken      bool           // the held body broke off where it ends
	charged     int64          // bytes booked for what is held
}

// begin readies the exchange for a request.
func (x *exchange) begin(req *h1.Request, snap *snapshot) {
	x.req, x.snap = req, snap
	x.began = time.Now()
	x.to = target{}
	x.up, x.route, x.count, x.auth, x.places = nil, nil, nil, nil, nil
	x.number = 0
	x.wrote, x.first = false, false
	x.failedAt.n = 0
	x.accounted = false
	x.continued = false
	x.forgetInterim()
	x.log.reset()
	x.seen.read(req.Header, x.s.id)
}

// aim sets the upstream, and so the policy, that the request is under.
func (x *exchange) aim(up *upstream, routePath []byte) {
	x.up = up
	x.route = up.Default
	if len(up.Routes) > 0 {
		x.route = up.Route(x.req.Method, view(routePath))
	}
	x.count = up.routes[x.route]
}

// view is b as a string, for a callee that only compares it: what lies in the
// connection's buffer needs no copy for that.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// keyed reports whether the request carries an idempotency key that is not empty
// and that the upstream will see.
func (x *exchange) keyed() bool {
	for _, name := range x.route.Retry.IdempotencyKeys {
		for i := range x.req.Header {
			if f := &x.req.Header[i]; len(f.Value) > 0 && h1.EqualName(f.Name, name) {
				return !x.seen.options || !endsHere(nominated(x.req.Header), f)
			}
		}
	}
	return false
}

// armWindow starts the window's clock.
func (x *exchange) armWindow() {
	total := x.route.Timeout.Total
	if asked := x.seen.total(); asked > 0 && (total == 0 || asked < total) {
		total = asked
	}
	x.windowFor.Store(int64(total))
	x.resumeWindow()
}

// pauseWindow stops the window's clock: while the request's body arrives, the
// time is the client's.
func (x *exchange) pauseWindow() {
	if at := x.c.watch.windowAt.Swap(0); at != 0 {
		x.windowFor.Store(max(1, at-x.s.now()))
	}
}

// resumeWindow starts the clock again with what was left.
func (x *exchange) resumeWindow() {
	w := &x.c.watch
	if left := x.windowFor.Load(); left > 0 && w.windowAt.Load() == 0 {
		w.start(&w.windowAt, x.s.now(), left)
	}
}

// state is what policy has to know of the request beyond the attempt's outcome.
func (x *exchange) state(gone bool) policy.State {
	left, limited := x.windowLeft()
	st := policy.State{
		Now:        time.Now(),
		Left:       left,
		Unlimited:  !limited,
		ClientGone: gone,
		Draining:   x.s.draining(),
		Replayable: x.body.replayable(),
	}
	if x.beside != nil {
		st.Hedges = x.beside.begun()
	}
	return st
}

// windowLeft returns what is left of the window, where there is one.
func (x *exchange) windowLeft() (left time.Duration, limited bool) {
	if x.isLane {
		return x.beside.main.windowLeft()
	}
	rest := x.windowFor.Load()
	if rest <= 0 {
		return 0, false
	}
	if at := x.c.watch.windowAt.Load(); at != 0 {
		return time.Duration(at - x.s.now()), true
	}
	return time.Duration(rest), true
}

// mayRetry reports whether a retry could still follow the attempt under way.
func (x *exchange) mayRetry() bool { return x.session.MayRetry(x.body.replayable()) }
