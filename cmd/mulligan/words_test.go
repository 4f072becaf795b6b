package main_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"mulligan/metrics"
	"mulligan/policy"
)

// TestMetricsKnowThePolicysWords: metrics is a leaf with lists of its own of
// what may be a label, so something has to notice a class or stop that is
// missing there and would be counted as "other".
func TestMetricsKnowThePolicysWords(t *testing.T) {
	registry := prometheus.NewRegistry()
	u := metrics.New(registry).Upstream("u", []string{"default"})
	route := u.Route("default")
	for _, class := range policy.Classes() {
		route.AttemptClass(class.String())
		route.Retry(class.String())
		u.TunnelOpened(class.String())
	}
	for _, stop := range policy.Stops() {
		if stop != policy.Success && stop != policy.Permanent { // no denial
			route.Denied(stop.String())
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				values = append(values, family.GetName()+" "+label.GetValue())
			}
		}
	}
	for _, value := range values {
		if strings.HasSuffix(value, " other") {
			t.Error("a word of policy is not known:", value)
		}
	}
	for _, word := range []string{
		"mulligan_attempts_total timeout", "mulligan_retries_total truncated",
		"mulligan_retries_denied_total budget", "mulligan_tunnels_total denied",
	} {
		if !slices.Contains(values, word) {
			t.Error("not counted:", word)
		}
	}
}
