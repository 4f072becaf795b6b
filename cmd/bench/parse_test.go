package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	const fields = " S 1 42 42 0 -1 4194560 900 0 0 0 123 45 0 0 20 0 6 0 100 1000000 500 18446744073709551615"
	for _, stat := range []string{"42 (haproxy)" + fields, "42 (a) b (c d)" + fields} {
		if got, err := parseStat(stat); err != nil || got != 1680*time.Millisecond {
			t.Errorf("%q: %v, %v, want 1.68s", stat, got, err)
		}
	}
	for _, stat := range []string{"", "42", "42 (x)", "42 (x) S 1 2", "42 (x) S 1 2 3 4 5 6 7 8 9 10 a b 13"} {
		if got, err := parseStat(stat); err == nil {
			t.Errorf("%q: %v, want an error", stat, got)
		}
	}
}

func TestParseStatus(t *testing.T) {
	const status = "Name:\tx\nVmPeak:\t  999 kB\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nThreads:\t5\n"
	for name, want := range map[string]int64{resident: 1 << 20, peakResident: 2 << 20} {
		if got, err := parseStatus(status, name); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", name, got, err, want)
		}
	}
	for _, status := range []string{"", "Name:\tx\n", "VmRSS:\t12 MB\n", "VmRSS:\tmany kB\n"} {
		if got, err := parseStatus(status, resident); err == nil {
			t.Errorf("%q: %d, want an error", status, got)
		}
	}
}

const wrkOutput = `Running 3s test @ http://127.0.0.1:8080/1k
  1 threads and 32 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.03ms    2.10ms  50.00ms   97.50%
    Req/Sec    30.93k     1.50k   33.00k    70.00%
  Latency Distribution
     50%  836.00us
     75%    1.10ms
     90%    1.50ms
     99%    3.00ms
  92810 requests in 3.00s, 103.20MB read
`

const wrkEnd = `Requests/sec:  30930.11
Transfer/sec:     34.39MB
`

func TestParseWrk(t *testing.T) {
	for _, test := range []struct {
		extra  string
		failed int64
	}{
		{"", 0},
		{"  Non-2xx or 3xx responses: 12\n", 12},
		{"  Socket errors: connect 1, read 20, write 300, timeout 4000\n", 4321},
		{"  Socket errors: connect 0, read 1, write 0, timeout 0\n  Non-2xx or 3xx responses: 2\n", 3},
	} {
		got, err := parseWrk(wrkOutput + test.extra + wrkEnd)
		want := load{requests: 92810, rate: 30930.11, median: 836 * time.Microsecond, failed: test.failed}
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", test.extra, got, err, want)
		}
	}
	for _, out := range []string{"", wrkEnd, wrkOutput, "unable to connect to 127.0.0.1:1 Connection refused"} {
		if got, err := parseWrk(out); err == nil {
			t.Errorf("%q: %+v, want an error", out, got)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{4}, 4},
		{[]float64{3, 1, 2}, 2},
		{[]float64{4, 1, 3, 2}, 2.5},
	} {
		before := slices.Clone(test.values)
		if got := median(test.values); got != test.want || !slices.Equal(test.values, before) {
			t.Errorf("median of %v: %v, want %v", before, got, test.want)
		}
	}
}

// samples returns samples with these CPU times.
func samples(micros ...float64) []sample {
	var all []sample
	for _, m := range micros {
		all = append(all, sample{micros: m, load: load{rate: 1000 * m, median: time.Duration(m) * time.Millisecond}})
	}
	return all
}

// TestRatiosArePaired: the machine got slower by half in the last round, for
// both, and the ratio does not show it.
func TestRatiosArePaired(t *testing.T) {
	r := result{samples: [2][]sample{samples(10, 10, 20), samples(8, 12, 16)}}
	if got := r.ratios(); !slices.Equal(got, []float64{0.8, 1.2, 0.8}) {
		t.Errorf("%v", got)
	}
}

func TestReport(t *testing.T) {
	var out bytes.Buffer
	r := result{
		scenario: scenario{name: "GET"}, direct: load{rate: 90000},
		samples: [2][]sample{samples(10, 10, 20), samples(8, 12, 16)},
	}
	if err := printSpeed(&out, []result{r}); err != nil {
		t.Fatal(err)
	}
	const speedRow = "| GET | 10.0 | 12.0 | 0.80 (0.80 to 1.20) | 10000 | 12000 | 10000 µs | 12000 µs | 90000 |\n"
	if !strings.Contains(out.String(), speedRow) {
		t.Errorf("no row %q in\n%s", speedRow, out.String())
	}
	out.Reset()
	f := footprint{name: "P", pair: 30 << 10, download: body{10 << 20, time.Second}, upload: body{20 << 20, 1500 * time.Millisecond}}
	if err := printMemory(&out, options{idle: 1000, settle: 3 * time.Second, body: 400 << 20}, []footprint{f, f}); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"| memory | P | P |\n", "(of 1000, idle for 3s) | 30.0 KiB | 30.0 KiB |\n",
		"response of 400 MiB | 10.0 MiB in 1.0 s |", "request of 400 MiB | 20.0 MiB in 1.5 s |",
	} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("no %q in\n%s", part, out.String())
		}
	}
}

func TestTail(t *testing.T) {
	var last tail
	for range 1000 {
		_, _ = last.Write([]byte("0123456789"))
	}
	_, _ = last.Write([]byte("end\n"))
	if s := last.String(); len(s) > tailSize || !strings.HasSuffix(s, "789end") {
		t.Errorf("%d bytes, %q at the end", len(s), s[len(s)-10:])
	}
}

func TestUsage(t *testing.T) {
	for args, status := range map[string]int{
		"-h":               0,
		"-rounds 0":        2,
		"-duration 1500ms": 2,
		"-duration 10ms":   2,
		"-connections 0":   2,
		"-idle -1":         2,
		"-nonsense":        2,
		"extra":            2,
		"-haproxy /none":   1,
	} {
		var out, errs bytes.Buffer
		if got := run(t.Context(), strings.Fields(args), &out, &errs); got != status || errs.Len() == 0 {
			t.Errorf("%s: exit status %d, want %d, and a word on why: %q", args, got, status, errs.String())
		}
	}
}
