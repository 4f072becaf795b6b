package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// scenario is one kind of load.
type scenario struct {
	name, path string
	post       int     // bytes of the request's body; 0: a GET
	tolerated  float64 // share of requests that may fail
}

// scenarios are the four kinds of load. Where the upstream fails one request
// in ten, four attempts leave one in ten thousand on average.
var scenarios = []scenario{
	{name: "GET 1 KB", path: smallPath},
	{name: "POST 10 KB", path: sinkPath, post: 10 << 10},
	{name: "GET 100 KB", path: largePath},
	{name: "GET 1 KB, 10 % fail", path: flakyPath, tolerated: 0.005},
}

// sample is one run of one proxy.
type sample struct {
	micros float64 // CPU time of the proxy, in microseconds a request
	load
}

// result is what a scenario showed: the samples of each proxy, round by round,
// and one run without a proxy.
type result struct {
	scenario
	direct  load
	samples [2][]sample
}

// speed measures all scenarios and prints a table.
func speed(ctx context.Context, o options, dir string, up *upstreamProcess, makers []maker, out io.Writer) error {
	var proxies [2]*proxy
	for i, maker := range makers {
		p, err := maker.start(ctx)
		if err != nil {
			return err
		}
		defer p.stop()
		proxies[i] = p
	}
	var results []result
	for _, s := range scenarios {
		script, err := s.script(dir)
		if err != nil {
			return err
		}
		r, err := s.measure(ctx, o, script, up, proxies)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		results = append(results, r)
	}
	return printSpeed(out, results)
}

// script writes the Lua script that the scenario needs; "" is none.
func (s scenario) script(dir string) (string, error) {
	if s.post == 0 {
		return "", nil
	}
	file := filepath.Join(dir, "post.lua")
	lua := fmt.Sprintf("wrk.method = \"POST\"\nwrk.body = string.rep(\"x\", %d)\n", s.post)
	return file, os.WriteFile(file, []byte(lua), 0o600)
}

// measure runs the scenario's rounds.
func (s scenario) measure(ctx context.Context, o options, script string, up *upstreamProcess, proxies [2]*proxy) (result, error) {
	r := result{scenario: s}
	var err error
	// What the upstream can do alone shows that it is not what limits the proxies.
	if r.direct, err = runWrk(ctx, o, "http://"+up.address+s.path, script); err != nil {
		return r, err
	}
	for round := range o.rounds {
		order := []int{0, 1}
		if round%2 == 1 {
			slices.Reverse(order) // neither is always the one that comes after
		}
		for _, i := range order {
			got, err := s.once(ctx, o, script, proxies[i])
			if err != nil {
				return r, err
			}
			r.samples[i] = append(r.samples[i], got)
		}
	}
	return r, nil
}

// once is one run of one proxy.
func (s scenario) once(ctx context.Context, o options, script string, p *proxy) (sample, error) {
	before, err := p.cpu()
	if err != nil {
		return sample{}, err
	}
	l, err := runWrk(ctx, o, "http://"+p.address+s.path, script)
	if err != nil {
		return sample{}, fmt.Errorf("%s: %w", p.name, err)
	}
	after, err := p.cpu()
	if err != nil {
		return sample{}, err
	}
	if l.requests == 0 || float64(l.failed) > s.tolerated*float64(l.requests) {
		return sample{}, fmt.Errorf("%s: %d of %d requests failed: %s", p.name, l.failed, l.requests, p.output)
	}
	return sample{micros: float64((after - before).Microseconds()) / float64(l.requests), load: l}, nil
}

// ratios returns the CPU time of the second proxy over that of the first,
// round by round.
func (r result) ratios() []float64 {
	var ratios []float64
	for i, first := range r.samples[0] {
		ratios = append(ratios, r.samples[1][i].micros/first.micros)
	}
	return ratios
}

// of returns one number of every sample of a proxy.
func (r result) of(proxy int, number func(sample) float64) []float64 {
	var all []float64
	for _, s := range r.samples[proxy] {
		all = append(all, number(s))
	}
	return all
}

// median returns the middle value, or the mean of the two in the middle. There
// has to be at least one.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}
