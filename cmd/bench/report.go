package main

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"slices"
	"strings"
)

// printSetting says what is measured, and how.
func printSetting(ctx context.Context, out io.Writer, o options) error {
	haproxy, err := firstLine(ctx, o.haproxy, "-v")
	if err != nil {
		return err
	}
	mulligan, err := firstLine(ctx, o.mulligan, "version")
	if err != nil {
		return err
	}
	procs := "not set"
	if o.gomaxprocs > 0 {
		procs = fmt.Sprint(o.gomaxprocs)
	}
	_, err = fmt.Fprintf(out, "%s, 1 thread\n%s, GOMAXPROCS %s, metrics on, access log off\n"+
		"%d cores; wrk, 1 thread, %d connections, %d rounds of %s for each proxy and case, interleaved\n\n",
		haproxy, mulligan, procs, runtime.NumCPU(), o.connections, o.rounds, o.duration)
	return err
}

// firstLine returns the first line that a program prints.
func firstLine(ctx context.Context, program string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, program, args...).Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", program, err)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return line, nil
}

// printSpeed prints what a request costs, in medians of the rounds.
func printSpeed(out io.Writer, results []result) error {
	var b strings.Builder
	b.WriteString("CPU in microseconds a request of the proxy process, requests a second and median latency:\n" +
		"medians of the rounds. The ratio is mulligan's CPU over HAProxy's, paired by round: median (least to most).\n\n" +
		"| case | HAProxy µs | mulligan µs | ratio | HAProxy /s | mulligan /s | HAProxy p50 | mulligan p50 | upstream alone /s |\n" +
		"|---|---|---|---|---|---|---|---|---|\n")
	micros := func(s sample) float64 { return s.micros }
	rate := func(s sample) float64 { return s.rate }
	latency := func(s sample) float64 { return float64(s.median.Microseconds()) }
	for _, r := range results {
		ratios := r.ratios()
		fmt.Fprintf(&b, "| %s | %.1f | %.1f | %.2f (%.2f to %.2f) | %.0f | %.0f | %.0f µs | %.0f µs | %.0f |\n", r.name,
			median(r.of(0, micros)), median(r.of(1, micros)),
			median(ratios), slices.Min(ratios), slices.Max(ratios),
			median(r.of(0, rate)), median(r.of(1, rate)),
			median(r.of(0, latency)), median(r.of(1, latency)), r.direct.rate)
	}
	b.WriteString("\n")
	_, err := io.WriteString(out, b.String())
	return err
}

// printMemory prints what connections and large bodies cost.
func printMemory(out io.Writer, o options, all []footprint) error {
	var b strings.Builder
	header := []string{"memory"}
	for _, f := range all {
		header = append(header, f.name)
	}
	row(&b, header...)
	row(&b, slices.Repeat([]string{"---"}, len(header))...)
	line := func(name string, cell func(footprint) string) {
		cells := []string{name}
		for _, f := range all {
			cells = append(cells, cell(f))
		}
		row(&b, cells...)
	}
	if o.idle > 0 {
		line(fmt.Sprintf("resident, per idle client and upstream connection (of %d, idle for %s)", o.idle, o.settle),
			func(f footprint) string { return fmt.Sprintf("%.1f KiB", float64(f.pair)/(1<<10)) })
	}
	if o.body > 0 {
		size := fmt.Sprintf("%d MiB", o.body>>20)
		line("peak resident, response of "+size, func(f footprint) string { return f.download.String() })
		line("peak resident, request of "+size, func(f footprint) string { return f.upload.String() })
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// String returns the peak, and how long it took.
func (b body) String() string {
	return fmt.Sprintf("%.1f MiB in %.1f s", float64(b.peak)/(1<<20), b.took.Seconds())
}

// row writes a row of a table.
func row(b *strings.Builder, cells ...string) {
	b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}
