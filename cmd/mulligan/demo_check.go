package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// counts is what /metrics says.
type counts map[string]*dto.MetricFamily

// scrape reads /metrics as Prometheus does.
func scrape(admin string) (counts, error) {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + admin + "/metrics")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(response.Body)
}

// sum adds up the values of a counter or gauge whose series have the label.
func (c counts) sum(name, label, value string) float64 {
	var sum float64
	for _, m := range c[name].GetMetric() {
		for _, pair := range m.GetLabel() {
			if pair.GetName() == label && pair.GetValue() == value {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// of is sum over all series of an upstream.
func (c counts) of(upstream, name string) int { return int(c.sum(name, "upstream", upstream)) }

// outcome is how many requests ended like this.
func (c counts) outcome(word string) int {
	return int(c.sum("mulligan_requests_total", "outcome", word))
}

// settledCounts scrapes until nothing is in flight any more and the attempts
// agree with what the upstream has counted; a client may have its answer a moment
// before it is counted. Where they never agree, verify will say so.
func settledCounts(ctx context.Context, admin, upstream string, count func() int) (counts, error) {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(3 * time.Second); ; {
		c, err := scrape(admin)
		if err != nil {
			return nil, fmt.Errorf("the admin port: %w", err)
		}
		idle := c.of(upstream, "mulligan_requests_in_flight") == 0
		if idle && c.of(upstream, "mulligan_attempts_total") == count() || time.Now().After(deadline) {
			return c, nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil, errors.New("interrupted")
		}
	}
}

// verify compares what the upstream, the clients and /metrics have counted
// (where an answer that broke off under way counts by its status), and sees
// whether everything worked that the demo is there to show.
func (d *demo) verify(c comparison, seen counts, with []result) error {
	for _, pair := range []struct {
		what         string
		ours, theirs int
	}{
		{"attempts: the upstream and mulligan_attempts_total", c.with.seen, seen.of("orders", "mulligan_attempts_total")},
		{"retries: the upstream and mulligan_retries_total", c.with.seen - c.with.requests, seen.of("orders", "mulligan_retries_total")},
		{"requests: the clients and mulligan_requests_total", c.with.requests, seen.of("orders", "mulligan_requests_total")},
		{"succeeded at once: the clients and outcome=success", c.with.atOnce + c.with.begunAtOnce, seen.outcome("success")},
		{"saved: the clients and outcome=success_after_retry", c.with.saved + c.with.begunLater, seen.outcome("success_after_retry")},
		{"refused: the clients and outcome=permanent", c.with.permanent, seen.outcome("permanent")},
		{"failed: the clients and outcome=failed", c.with.failed - c.with.begunAtOnce - c.with.begunLater, seen.outcome("failed") + seen.outcome("client_gone")},
		{"requests without mulligan: the clients and the upstream", c.without.requests, c.without.seen},
	} {
		if pair.ours != pair.theirs {
			return fmt.Errorf("counts disagree about %s: %d and %d", pair.what, pair.ours, pair.theirs)
		}
	}
	d.story.tellNow(func() {
		d.story.say("%s", wrapped(fmt.Sprintf("The upstream, the clients and /metrics agree on %d attempts, %d retries and every outcome.",
			c.with.seen, seen.of("orders", "mulligan_retries_total")), 0))
	})
	return d.worked(c, with)
}

// enoughForBudget is how many requests it takes until an outage of an eighth
// of them empties the budget for certain.
const enoughForBudget = 400

// worked sees whether there is what the demo is there to show.
func (d *demo) worked(c comparison, with []result) error {
	out := outageOf(len(with))
	closed, open := 0, 0
	for i, r := range with {
		switch {
		case out.has(i) && r.stop == "budget":
			closed++
		case i >= out.end && r.good() && r.attempts > 1:
			open++
		}
	}
	switch {
	case c.with.saved == 0 || c.with.good() <= c.without.good():
		return errors.New("mulligan saved nothing")
	case len(with) >= enoughForBudget && closed == 0:
		return errors.New("the budget did not close in the outage")
	case len(with) >= enoughForBudget && open == 0:
		return errors.New("the budget did not open again after the outage")
	}
	return nil
}

// invite says where everything is that was left running.
func (s *story) invite(a *app) {
	s.say("\nLeft running; Ctrl-C ends it. Try:\n")
	s.say("  curl -i -x http://%s http://%s/orders/1", a.proxyAddr(), demoHost)
	s.say("  curl http://%s/metrics", a.adminAddr())
	s.say("  curl -i http://%s/orders/1      # without mulligan", s.flaky.addr())
}
