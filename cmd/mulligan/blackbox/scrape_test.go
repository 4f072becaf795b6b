package blackbox

import (
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"
)

// sample is one line of /metrics.
type sample struct {
	name   string
	labels map[string]string
	value  float64
}

// key is the sample's name and labels in one fixed spelling.
func (s sample) key() string {
	pairs := make([]string, 0, len(s.labels))
	for name, value := range s.labels {
		pairs = append(pairs, name+"="+value)
	}
	sort.Strings(pairs)
	return s.name + "{" + strings.Join(pairs, ",") + "}"
}

// ask asks the admin port for a path, with fields after Host.
func (p *mulligan) ask(method, path string, fields ...string) response {
	p.t.Helper()
	c := dial(p.t, p.admin)
	defer c.Close()
	c.send(lines(method+" "+path+" HTTP/1.1", append([]string{"Host: " + p.admin, "Connection: close"}, fields...)...))
	return c.final(method)
}

// scrape reads /metrics.
func (p *mulligan) scrape() []sample {
	p.t.Helper()
	r := p.ask("GET", "/metrics")
	if r.Status != 200 || !r.Whole {
		p.t.Fatalf("/metrics: status %d, %v", r.Status, r.Broken)
	}
	var samples []sample
	for _, line := range strings.Split(r.Body, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		samples = append(samples, parseSample(p.t, line))
	}
	return samples
}

func parseSample(t *testing.T, line string) sample {
	t.Helper()
	s := sample{labels: map[string]string{}}
	cut := strings.LastIndexByte(line, ' ')
	series, number := line[:max(cut, 0)], line[cut+1:]
	var err error
	if s.value, err = strconv.ParseFloat(number, 64); err != nil {
		t.Fatalf("metrics line %q: %v", line, err)
	}
	name, labels, labelled := strings.Cut(series, "{")
	s.name = name
	if labelled {
		for _, pair := range splitOutside(strings.TrimSuffix(labels, "}"), ',') {
			if k, v, ok := strings.Cut(pair, "="); ok {
				s.labels[k] = strings.Trim(v, `"`)
			}
		}
	}
	return s
}

// metric sums the samples of a name whose labels include the given ones
// ("upstream=default"); found is false where there are none.
func (p *mulligan) metric(name string, labels ...string) (sum float64, found bool) {
	p.t.Helper()
	for _, s := range p.scrape() {
		if s.name == name && s.matches(labels) {
			sum += s.value
			found = true
		}
	}
	return sum, found
}

func (s sample) matches(labels []string) bool {
	for _, label := range labels {
		name, value, _ := strings.Cut(label, "=")
		if s.labels[name] != value {
			return false
		}
	}
	return true
}

// wantMetric waits until a metric has a value: an answer may reach its client
// just before it is counted. A series that does not exist is at 0.
func (p *mulligan) wantMetric(value float64, name string, labels ...string) {
	p.t.Helper()
	if !p.becomes(value, name, labels...) {
		got, found := p.metric(name, labels...)
		p.t.Errorf("%s%v is %v (found: %v), want %v; all of it: %v", name, labels, got, found, value, p.allOf(name))
	}
}

// becomes polls for a value for a while that is long for a counter.
func (p *mulligan) becomes(value float64, name string, labels ...string) bool {
	p.t.Helper()
	for range 150 {
		if got, found := p.metric(name, labels...); got == value && (found || value == 0) {
			return true
		}
		linger(20 * time.Millisecond)
	}
	return false
}

// allOf lists the samples of one name, for messages.
func (p *mulligan) allOf(name string) []string {
	p.t.Helper()
	var list []string
	for _, s := range p.scrape() {
		if s.name == name {
			list = append(list, s.key()+" "+strconv.FormatFloat(s.value, 'g', -1, 64))
		}
	}
	return list
}

// wantAttempts checks that as many attempts were counted as the upstream saw.
func (p *mulligan) wantAttempts(u *upstream, n int) {
	p.t.Helper()
	want(p.t, "attempts that the upstream saw", u.count(), n)
	p.wantMetric(float64(n), "mulligan_attempts_total")
}
