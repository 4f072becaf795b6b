package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"mulligan/policy/config"
)

// actTwoHost is the second act's upstream for clients of the proxy.
const actTwoHost = "search.internal"

// actTwoConfig is the second act's configuration, shown as it is; %s are the
// addresses of A and B. Its ratio leaves A's circuit closed, some of whose answers
// are 429 while it carries all, and opens B's, which then fails every time.
const actTwoConfig = `listen: {proxy: "127.0.0.1:0", admin: "127.0.0.1:0"}
upstreams:
  search:
    hosts: [search.internal]
    endpoints: ["http://%s", "http://%s"]
    circuit_breaker:
      {failure_ratio: 0.8, min_requests: 8, window: 1s, open_for: 1s}
    retry:
      max_attempts: 5
      retry_on: [inherit, 429]
      backoff: {initial_delay: 50ms, max_delay: 500ms}
      budget: {ratio: 0.5, burst: 20}
`

// actTwoOpenFor is open_for of actTwoConfig, less the fifth that chance may take off:
// from the opening of a circuit to a probe, and from one probe to the next, it is this
// long at least.
const actTwoOpenFor = time.Second * 4 / 5

// actTwo is the parts of the second act: an upstream of two endpoints.
type actTwo struct {
	ends [2]*endpoint // A has a limit, B fails for a while; behind mulligan
	bare [2]*endpoint // their twins, which the clients call directly, in turn
	app  *app
	tale *tale
	seed uint64

	opened, closed atomic.Int32 // how often B's circuit was, by the log
	scenes         scenes
	down, back     time.Time // when B's outage began, and ended
}

// newActTwo starts the endpoints and the proxy.
func newActTwo(t terminal, seed uint64) (_ *actTwo, err error) {
	a := &actTwo{seed: seed}
	defer func() {
		if err != nil {
			a.stop()
		}
	}()
	for _, pair := range []*[2]*endpoint{&a.ends, &a.bare} {
		if pair[0], err = newEndpoint(seed, callsPerSlot); err != nil {
			return nil, err
		}
		if pair[1], err = newEndpoint(seed+1, noLimit); err != nil {
			return nil, err
		}
	}
	text := fmt.Sprintf(actTwoConfig, a.ends[0].addr(), a.ends[1].addr())
	cfg, err := config.Parse("demo.yaml", []byte(text), t.env)
	if err != nil {
		return nil, err
	}
	a.tale = newTale(t.out, text, a)
	if a.app, err = newApp(cfg, heardBy(a.tale.hear), appOptions{}); err != nil {
		return nil, err
	}
	a.app.start("built in")
	return a, nil
}

// stop ends what was started, last first.
func (a *actTwo) stop() {
	stopDemoApp(a.app)
	if a.tale != nil {
		a.tale.stop()
	}
	for _, e := range []*endpoint{a.bare[0], a.bare[1], a.ends[0], a.ends[1]} {
		if e != nil {
			e.stop()
		}
	}
}

// run sends the requests, tells of them, and checks that what it tells is true.
func (a *actTwo) run(ctx context.Context) error {
	a.tale.begin()
	with, without, err := a.send(ctx)
	if err != nil {
		return err
	}
	count := func() int { return a.ends[0].count() + a.ends[1].count() }
	seen, err := settledCounts(ctx, a.app.adminAddr(), "search", count)
	if err != nil {
		return err
	}
	a.tale.await(len(with), func() int { return a.tale.told })
	a.tale.tellNow(a.tale.progress)
	r := ending{
		with: newShare(with, a.ends, a.scenes), without: newShare(without, a.bare, a.scenes),
		opened: int(a.opened.Load()), closed: int(a.closed.Load()),
	}
	a.tale.tellNow(func() { a.tale.table(r) })
	return a.verify(r, seen)
}

// What the scenes are made of: as many calls a second as A could take if they came
// evenly, which they do not.
const (
	actTwoPace = slotLength / callsPerSlot
	overture   = 60   // calls before B fails
	finale     = 80   // calls after its circuit has closed again
	mostCalls  = 1200 // if it comes to that, what was to be shown has not happened
)

// send makes calls on both sides at once, in the same rhythm, for as long as it
// takes until all that is to be shown has happened. Its time is that of events and
// not the clock's: a machine that stands still for a while delays it and no more.
func (a *actTwo) send(ctx context.Context) (with, without []result, err error) {
	calls := make([]call, mostCalls)
	for i := range calls {
		calls[i] = call{method: "GET", path: searchPath(i)}
	}
	proxied := newClients(ctx, patientClient(a.app.proxyAddr()), calls, "http://"+actTwoHost)
	direct := newClients(ctx, patientClient(""), calls, "http://"+a.bare[0].addr(), "http://"+a.bare[1].addr())
	tick := time.NewTicker(actTwoPace)
	defer tick.Stop()
	sent := 0
	for ; sent < mostCalls && !a.scenes.over(sent) && ctx.Err() == nil; sent++ {
		a.direct(sent)
		proxied.next <- sent
		direct.next <- sent
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	with, without = proxied.results()[:sent], direct.results()[:sent]
	switch {
	case ctx.Err() != nil:
		return nil, nil, errors.New("interrupted")
	case a.scenes.opens == 0:
		return nil, nil, fmt.Errorf("the circuit of an endpoint that fails did not open in %d requests", sent)
	case a.scenes.closes == 0:
		return nil, nil, fmt.Errorf("the circuit of an endpoint that failed did not close in %d requests", sent)
	}
	return with, without, nil
}

// patientClient waits for as long as mulligan takes, also where the machine
// stands still: a probe is not to be cancelled by its client.
func patientClient(proxy string) *http.Client {
	c := newClient(proxy)
	c.Timeout = time.Minute
	return c
}

// direct moves the play on before a call, as far as the events allow.
func (a *actTwo) direct(call int) {
	s := &a.scenes
	switch {
	case s.fails == 0:
		if call >= overture {
			s.fails = call
			a.setDown(true)
		}
	case s.opens == 0:
		if a.opened.Load() > 0 {
			s.opens = call
		}
	case a.back.IsZero(): // until a probe has failed, and A has been asked for too much
		if a.opened.Load() > 1 && a.ends[0].answered(http.StatusTooManyRequests) > 0 {
			a.setDown(false)
		}
	case s.closes == 0:
		if a.closed.Load() > 0 {
			s.closes = call
		}
	}
}

// setDown begins or ends B's outage, and its twin's. Between the times that it
// keeps there is the whole of it.
func (a *actTwo) setDown(down bool) {
	if down {
		a.down = time.Now()
	}
	a.ends[1].down.Store(down)
	a.bare[1].down.Store(down)
	if !down {
		a.back = time.Now()
	}
	a.tale.outage(down)
}

// scenes are where the acts of the play begin, as numbers of calls; 0: it has not
// come to that.
type scenes struct {
	fails  int // B fails
	opens  int // its circuit has opened
	closes int // its circuit has closed
}

// numScenes is how many there are, the one before B fails included.
const numScenes = 4

// of returns the scene that a call began in. One that began when B's circuit had
// opened cannot reach B but as a probe.
func (s scenes) of(call int) int {
	switch {
	case call < s.fails:
		return 0
	case call < s.opens:
		return 1
	case call < s.closes:
		return 2
	}
	return 3
}

func (s scenes) over(call int) bool { return s.closes > 0 && call >= s.closes+finale }
