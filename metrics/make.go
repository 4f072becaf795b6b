package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// namespace is the first word of every metric of mulligan.
const namespace = "mulligan"

// exchangeBuckets, in seconds, go from an upstream on the same machine to the
// ten minutes of the default window.
var exchangeBuckets = []float64{
	0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600,
}

// backoffBuckets, in seconds, go from the shortest useful wait past the
// longest server hint that is obeyed by default.
var backoffBuckets = []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60}

// counters returns a counter with labels.
func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

// histograms returns a histogram per upstream, in classic and native form. The
// native one has at most 10 % between bucket bounds and 160 buckets, which
// span 20 powers of two; past that it starts anew once an hour, or loses
// resolution in between.
func histograms(name, help string, buckets []float64) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: name, Help: help,
		Buckets:                         buckets,
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  160,
		NativeHistogramMinResetDuration: time.Hour,
	}, []string{"upstream"})
}
