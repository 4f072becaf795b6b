package main_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"mulligan/metrics"
	"mulligan/policy"
	"mulligan/policy/config"
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

// TestReadmeKnowsThePolicysWords: the README's tables have every class, every stop in
// the order in which the first that applies is named, and every preset by its name.
func TestReadmeKnowsThePolicysWords(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var stops []string
	for _, stop := range policy.Stops() {
		stops = append(stops, stop.String())
	}
	if rows := tableOf(string(readme), "| stop |"); !slices.Equal(rows, stops) {
		t.Errorf("the table of stops has %q, want %q", rows, stops)
	}
	rows := tableOf(string(readme), "| class |")
	for _, class := range policy.Classes() {
		if !slices.Contains(rows, class.String()) {
			t.Errorf("the table of classes lacks %s: %q", class, rows)
		}
	}
	for _, preset := range config.Presets() {
		if !strings.Contains(string(readme), preset) {
			t.Errorf("the preset %s is not named", preset)
		}
	}
}

// tableOf returns the words in backquotes that rows begin with, of the table that
// begins so.
func tableOf(text, head string) (words []string) {
	_, table, _ := strings.Cut(text, "\n"+head)
	table, _, _ = strings.Cut(table, "\n\n")
	for row := range strings.Lines(table) {
		if rest, ok := strings.CutPrefix(row, "| `"); ok {
			word, _, _ := strings.Cut(rest, "`")
			words = append(words, word)
		}
	}
	return words
}
