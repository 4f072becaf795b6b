package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"mulligan/policy/config"
)

const demoUsage = `Usage: mulligan demo [--requests N] [--seed N] [--keep]

Starts an upstream that fails all the time, mulligan before it, and clients that
call it, on this machine only; tells what is retried, why, and what comes of it;
and compares that with what the same clients see without mulligan, measured in
the same run. A second act has an upstream of two endpoints, one with a limit and
one that fails for a while, whose circuit opens and closes. Both take about 20
seconds and need no configuration.

  --requests N   how many requests each side makes in the first act, 50 to 2000
                 (480)
  --seed N       other failures, of the same kinds (1)
  --keep         leave it running afterwards, to look at; Ctrl-C ends it
`

// Bounds of --requests: fewer show nothing, more would take too long.
const (
	fewestRequests = 50
	mostRequests   = 2000
)

// demoHost is the upstream's name for clients of the proxy. It resolves
// nowhere: mulligan knows the endpoint.
const demoHost = "orders.internal"

// demoConfig is the demo's configuration, shown as it is; %s is the upstream's
// address. Its ratio is what an upstream that fails a third of the time needs.
const demoConfig = `listen: {proxy: "127.0.0.1:0", admin: "127.0.0.1:0"}
upstreams:
  orders:
    hosts: [orders.internal]
    endpoints: ["http://%s"]
    timeout: {attempt: 400ms, total: 2s}
    retry:
      max_attempts: 4
      backoff: {initial_delay: 50ms, max_delay: 500ms}
      budget: {ratio: 0.5, burst: 10}
`

// demo is the parts of a running demo.
type demo struct {
	flaky    *flaky // behind mulligan
	bare     *flaky // its twin, which the clients call directly
	app      *app
	story    *story
	requests int
	seed     uint64
}

func runDemo(t terminal, args []string) error {
	f := newFlags("demo", demoUsage)
	requests := f.Int("requests", 480, "")
	seed := f.Uint64("seed", 1, "")
	keep := f.Bool("keep", false, "")
	if _, err := f.parse(t, args, 0); err != nil {
		return err
	}
	if *requests < fewestRequests || *requests > mostRequests {
		return misuse("leave it out for 480", "--requests is %d, and must be %d to %d", *requests, fewestRequests, mostRequests)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	d, err := newDemo(t, *requests, *seed)
	if err != nil {
		return err
	}
	defer d.stop()
	d.story.begin(d.app, d.requests)
	if out, ok := t.out.(*output); ok && out.failed() != nil {
		return nil // run reports it: a story that nobody can read is not told
	}
	if err := d.run(ctx); err != nil {
		return err
	}
	second, err := newActTwo(t, *seed)
	if err != nil {
		return err
	}
	defer second.stop()
	if err := second.run(ctx); err != nil {
		return err
	}
	if *keep {
		d.story.tellNow(func() { d.story.invite(d.app) })
		second.tale.tellNow(second.tale.invite)
		<-ctx.Done()
	}
	return nil
}

// newDemo starts the two upstreams and the proxy.
func newDemo(t terminal, requests int, seed uint64) (_ *demo, err error) {
	d := &demo{requests: requests, seed: seed}
	defer func() {
		if err != nil {
			d.stop()
		}
	}()
	if d.flaky, err = newFlaky(seed); err != nil {
		return nil, err
	}
	if d.bare, err = newFlaky(seed); err != nil {
		return nil, err
	}
	text := fmt.Sprintf(demoConfig, d.flaky.addr())
	cfg, err := config.Parse("demo.yaml", []byte(text), t.env)
	if err != nil {
		return nil, err
	}
	d.story = newStory(t.out, text, d.flaky)
	if d.app, err = newApp(cfg, d.story.logger(), appOptions{}); err != nil {
		return nil, err
	}
	d.app.start("built in")
	return d, nil
}

// stop ends what was started, last first.
func (d *demo) stop() {
	stopDemoApp(d.app)
	if d.story != nil {
		d.story.stop()
	}
	for _, f := range []*flaky{d.bare, d.flaky} {
		if f != nil {
			f.stop()
		}
	}
}

// stopDemoApp ends a proxy, where there is one.
func stopDemoApp(a *app) {
	if a == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = a.stop(ctx) // what is cut off is of no use to anybody
}

// run sends the requests, tells the story, and checks that it is true.
func (d *demo) run(ctx context.Context) error {
	calls := newCalls(d.requests, d.seed)
	with, without, err := d.send(ctx, calls)
	if err != nil {
		return err
	}
	seen, err := settledCounts(ctx, d.app.adminAddr(), "orders", d.flaky.count)
	if err != nil {
		return err
	}
	d.story.await(d.requests, d.story.total)
	d.story.tellNow(d.story.progress)
	c := comparison{with: newTally(with, d.flaky), without: newTally(without, d.bare)}
	d.story.tellNow(func() { d.story.table(c) })
	return d.verify(c, seen, with)
}

// send makes the calls on both sides at once, in the same rhythm, with an
// outage of both upstreams in the middle.
func (d *demo) send(ctx context.Context, calls []call) (with, without []result, err error) {
	proxied := newClients(ctx, newClient(d.app.proxyAddr()), calls, "http://"+demoHost)
	direct := newClients(ctx, newClient(""), calls, "http://"+d.bare.addr())
	tick := time.NewTicker(pace(len(calls)))
	defer tick.Stop()
	out := outageOf(len(calls))
	for i := 0; i < len(calls) && ctx.Err() == nil; i++ {
		if i == out.first || i == out.end {
			d.setDown(i == out.first)
		}
		proxied.next <- i
		direct.next <- i
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	with, without = proxied.results(), direct.results()
	if ctx.Err() != nil {
		return nil, nil, errors.New("interrupted")
	}
	return with, without, nil
}

// setDown begins or ends the outage of both upstreams.
func (d *demo) setDown(down bool) {
	d.flaky.down.Store(down)
	d.bare.down.Store(down)
	d.story.outage(down)
}

// pace is the time from one call to the next: some 50 in a second, or all in
// ten seconds.
func pace(calls int) time.Duration { return time.Second / time.Duration(max(48, calls/10)) }

// outage is the calls, by number, that begin while nothing works.
type outage struct{ first, end int }

// outageOf is an eighth of the calls, in the middle.
func outageOf(calls int) outage { return outage{calls * 7 / 16, calls * 9 / 16} }

func (o outage) has(call int) bool { return o.first <= call && call < o.end }
