package main

import (
	"strings"
	"testing"
	"time"

	"mulligan/policy"
	"mulligan/policy/config"
	"mulligan/proxy/h1"
)

// limited is a place whose upstream has every limit there is.
func limited() *place {
	u := *config.Default().Default
	r := *u.Default
	u.Default, u.Name = &r, "u"
	u.Breaker = policy.BreakerConfig{FailureRatio: 0.5, MinRequests: 20, Window: 10 * time.Second, OpenFor: 5 * time.Second, MaxOpenFor: time.Minute, Probes: 1}
	u.Concurrency = policy.Concurrency{Max: 64, Queue: 128, MaxWait: time.Second}
	u.RateLimit = policy.RateLimit{PerSecond: 2.5, Burst: 50, MaxWait: time.Second}
	u.HealthCheck = policy.HealthCheck{Path: "/healthz", Interval: 5 * time.Second}
	r.Hedge = policy.Hedge{Delay: 300 * time.Millisecond, Max: 1}
	r.Buffer.FirstEvent = true
	r.AttemptHeader, r.RemainingHeader = "X-Attempt", "grpc-timeout"
	return &place{upstream: &u, route: &r}
}

// TestDescribeLimits: each limit has its line where it is configured and concerns
// the request, and none where not.
func TestDescribeLimits(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*question, *place)
		want   string // the lines, by their labels alone where nothing follows
	}{
		{"all", func(*question, *place) {}, `
health     each endpoint is asked for /healthz every 5s, and skipped while it is not well
breaker    opens where 50 % of 20 attempts or more in 10s fail or are slow: for 5s, twice as long each time in a row up to 1m, stop=circuit_open; 1 good probe closes it
hedge      1 attempt more is made where there is no answer after 300ms; each takes a token and counts as an attempt
at once    64 attempts, 128 may wait for a place, for up to 1s; what is more gets 503, stop=overloaded
rate       2.5 attempts a second, 50 of them at once; one waits for its turn, for up to 1s; what is more gets 503, stop=overloaded
stream     an event stream is held until its first event, for 64KiB at most; none, or an error, is an error_event
told       the upstream gets the attempt's number in X-Attempt, what is left of the window in grpc-timeout
`},
		{"none", func(_ *question, p *place) {
			u, r := *config.Default().Default, *config.Default().Default.Default
			p.upstream, p.route = &u, &r
		}, "\n"},
		{"a tunnel", func(_ *question, p *place) { p.tunnel = true }, `
breaker
at once
rate
`},
		{"other numbers", func(_ *question, p *place) {
			p.upstream.Breaker.MaxOpenFor, p.upstream.Breaker.Probes = 5*time.Second, 3
			p.upstream.Concurrency = policy.Concurrency{Max: 1}
			p.upstream.RateLimit, p.upstream.HealthCheck = policy.RateLimit{}, policy.HealthCheck{}
			p.route.Hedge = policy.Hedge{Max: 2}
			p.route.Buffer.FirstEvent, p.route.RemainingHeader = false, ""
		}, `
breaker    opens where 50 % of 20 attempts or more in 10s fail or are slow: for 5s, stop=circuit_open; 3 good probes close it
hedge      2 attempts more are made where there is no answer after the time that 95 % of recent answers took; each takes a token and counts as an attempt
at once    1 attempt; what is more gets 503, stop=overloaded
told       the upstream gets the attempt's number in X-Attempt
`},
		{"no waiting", func(_ *question, p *place) {
			u, r := *config.Default().Default, *config.Default().Default.Default
			p.upstream, p.route = &u, &r
			u.Concurrency, u.RateLimit = policy.Concurrency{Max: 8, Queue: 16}, policy.RateLimit{PerSecond: 1, Burst: 1}
		}, `
at once    8 attempts; what is more gets 503, stop=overloaded
rate       1 attempts a second, 1 of them at once; what is more gets 503, stop=overloaded
`},
	} {
		q, p := &question{method: "GET"}, limited()
		c.change(q, p)
		var out strings.Builder
		q.describeLimits(&sheet{&out}, p)
		got := "\n" + out.String()
		if c.name == "a tunnel" {
			got = labels(got)
		}
		if got != c.want {
			t.Errorf("%s: got%s\nwant%s", c.name, got, c.want)
		}
	}
}

// labels leaves of each line what it begins with.
func labels(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line[:min(10, len(line))])
	}
	return strings.Join(lines, "\n")
}

// TestNoHedge: a request that gets none is told why.
func TestNoHedge(t *testing.T) {
	for _, c := range []struct {
		want   string
		change func(*question, *place)
	}{
		{"none: retry.mode is not on", func(_ *question, p *place) { p.route.Retry.Mode = policy.ModeObserve }},
		{"none: there is one attempt at most", func(q *question, _ *place) { q.asked.MaxAttempts = 1 }},
		{"none: the request may not be sent twice", func(q *question, _ *place) { q.method = "POST" }},
		{"none: the request may not be sent twice", func(q *question, _ *place) { q.asked.Nested = true }},
	} {
		q, p := &question{method: "GET"}, limited()
		c.change(q, p)
		if got := q.whyHedge(p); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	q, p := &question{method: "POST", header: h1.Header{{Name: []byte("Idempotency-Key"), Value: []byte("k")}}}, limited()
	if got := q.whyHedge(p); !strings.HasPrefix(got, "1 attempt more is made") {
		t.Errorf("with a key: %q", got)
	}
}

// TestSeveralEndpoints: any of them may get the request.
func TestSeveralEndpoints(t *testing.T) {
	cfg := config.Default()
	u := *cfg.Default
	u.Name, u.Mount = "u", "/u"
	u.Endpoints = []policy.Endpoint{{Scheme: "http", Host: "a.test", Port: 80, Path: "/v1"}, {Scheme: "https", Host: "b.test", Port: 8443}}
	cfg.Upstreams = []*policy.Upstream{&u}
	settings, err := newSettings(cfg, cfg)
	if err != nil {
		t.Fatal(err)
	}
	q := &question{cfg: cfg, settings: settings, method: "GET", url: "http://" + cfg.Proxy + "/u/x"}
	if err := q.read(q.url, nil, nil); err != nil {
		t.Fatal(err)
	}
	p := q.place()
	const want = "one of http://a.test/v1/x, https://b.test:8443/x (of two at random the less busy; a retry goes to another; Host is the endpoint's)"
	if p.sentTo != want || !p.secure || p.refused != "" {
		t.Errorf("%+v\nwant %s", p, want)
	}
}
