package metrics_test

import (
	"math"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"mulligan/metrics"
)

// TestHistograms: every histogram has classic buckets over the range that
// matters for it, and the native form with bounds at most 10 % apart.
func TestHistograms(t *testing.T) {
	m, registry := open(t)
	u := m.Upstream("u", nil)
	for name, h := range map[string]struct {
		seconds     metrics.Seconds
		first, last float64 // bounds of the classic buckets
	}{
		"mulligan_request_duration_seconds": {u.RequestSeconds, 0.001, 600},
		"mulligan_attempt_duration_seconds": {u.AttemptSeconds, 0.001, 600},
		"mulligan_backoff_seconds":          {u.BackoffSeconds, 0.01, 60},
	} {
		h.seconds.Observe(0.2)
		h.seconds.Observe(1.5)
		got := histogramNamed(t, registry, name)
		if got.GetSampleCount() != 2 || math.Abs(got.GetSampleSum()-1.7) > 1e-9 {
			t.Errorf("%s: count %d sum %v, want 2 and 1.7", name, got.GetSampleCount(), got.GetSampleSum())
		}
		classic := got.GetBucket()
		if first, last := classic[0].GetUpperBound(), classic[len(classic)-1].GetUpperBound(); first != h.first || last != h.last {
			t.Errorf("%s: classic bounds %v to %v, want %v to %v", name, first, last, h.first, h.last)
		}
		if factor := math.Pow(2, math.Pow(2, -float64(got.GetSchema()))); got.Schema == nil || factor > 1.1 {
			t.Errorf("%s: native factor %v, want at most 1.1", name, factor)
		}
		if len(got.GetPositiveSpan()) == 0 {
			t.Errorf("%s: no native buckets", name)
		}
	}
}

// TestNativeBucketsAreBounded: values over the whole range that a float can
// have do not grow a histogram without end.
func TestNativeBucketsAreBounded(t *testing.T) {
	m, registry := open(t)
	u := m.Upstream("u", nil)
	for e := range 2000 {
		u.RequestSeconds.Observe(math.Pow(2, float64(e-1000)/10))
	}
	got := histogramNamed(t, registry, "mulligan_request_duration_seconds")
	var buckets uint32
	for _, span := range got.GetPositiveSpan() {
		buckets += span.GetLength()
	}
	if buckets > 170 { // 160, and gaps within spans
		t.Errorf("%d native buckets, want about 160 at most", buckets)
	}
	if got.GetSampleCount() != 2000 {
		t.Errorf("count %d, want 2000: nothing may be lost", got.GetSampleCount())
	}
}

// histogramNamed gathers the only series of a histogram.
func histogramNamed(t *testing.T, registry interface {
	Gather() ([]*dto.MetricFamily, error)
}, name string) *dto.Histogram {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetHistogram()
		}
	}
	t.Fatalf("%s does not exist", name)
	return nil
}
