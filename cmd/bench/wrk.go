package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// load is what wrk says about one run.
type load struct {
	requests int64         // answered
	rate     float64       // requests a second
	median   time.Duration // of the latencies
	failed   int64         // connections that broke, timeouts, statuses from 400
}

// runWrk puts load on url, with a Lua script or none ("").
func runWrk(ctx context.Context, o options, url, script string) (load, error) {
	args := []string{"-t1", "-c" + strconv.Itoa(o.connections), "-d" + o.duration.String(), "--latency"}
	if script != "" {
		args = append(args, "-s", script)
	}
	out, err := exec.CommandContext(ctx, o.wrk, append(args, url)...).CombinedOutput()
	if ctx.Err() != nil {
		return load{}, context.Cause(ctx)
	}
	if err != nil {
		return load{}, fmt.Errorf("wrk: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return parseWrk(string(out))
}

// What wrk prints.
var (
	wrkRequests = regexp.MustCompile(`(?m)^\s*(\d+) requests in `)
	wrkRate     = regexp.MustCompile(`(?m)^Requests/sec:\s*([0-9.]+)`)
	wrkMedian   = regexp.MustCompile(`(?m)^\s*50%\s+([0-9.]+)(us|ms|s|m|h)`)
	wrkSockets  = regexp.MustCompile(`Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)`)
	wrkStatuses = regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`)
)

// parseWrk reads wrk's output.
func parseWrk(out string) (load, error) {
	requests, rate, median := wrkRequests.FindStringSubmatch(out), wrkRate.FindStringSubmatch(out), wrkMedian.FindStringSubmatch(out)
	if requests == nil || rate == nil || median == nil {
		return load{}, fmt.Errorf("wrk's output has an unknown form: %q", out)
	}
	var l load
	var err error
	if l.requests, err = strconv.ParseInt(requests[1], 10, 64); err != nil {
		return load{}, err
	}
	if l.rate, err = strconv.ParseFloat(rate[1], 64); err != nil {
		return load{}, err
	}
	if l.median, err = time.ParseDuration(median[1] + median[2]); err != nil {
		return load{}, err
	}
	for _, counts := range [][]string{wrkSockets.FindStringSubmatch(out), wrkStatuses.FindStringSubmatch(out)} {
		for _, count := range counts[min(1, len(counts)):] {
			n, err := strconv.ParseInt(count, 10, 64)
			if err != nil {
				return load{}, err
			}
			l.failed += n
		}
	}
	return l, nil
}
