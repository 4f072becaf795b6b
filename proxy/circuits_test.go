package proxy

import (
	"maps"
	"slices"
	"testing"
	"time"

	"mulligan/policy"
)

// TestOpenCircuits: endpoints are there from the start, hosts that are none count
// together, and what has no breaker has no circuits.
func TestOpenCircuits(t *testing.T) {
	now := time.Now()
	on := policy.BreakerConfig{FailureRatio: 0.5, MinRequests: 1, Window: 10 * time.Second, OpenFor: time.Minute, Probes: 1}
	open := func(b *policy.Breaker) {
		p, _, _ := b.Allow(now)
		b.Done(p, policy.Bad, now, 0)
	}
	ends := []policy.Endpoint{
		{Scheme: "https", Host: "a.test", Port: 443, Path: "/v1"}, {Scheme: "https", Host: "a.test", Port: 443, Path: "/v2", Text: "https://a.test:443/v2/"},
		{Scheme: "http", Host: "::1", Port: 8080}, {Scheme: "http", Host: "::1", Port: 8080},
	}
	a := authorityKey{host: "a.test", port: 443, https: true, path: "/v1", endpoint: true, named: true}
	b := authorityKey{host: "::1", port: 8080, endpoint: true, forHost: authorityName{"x", 80}}
	b2 := b
	b2.forHost.host = "y"
	for name, c := range map[string]struct {
		breaker policy.BreakerConfig
		ends    []policy.Endpoint
		open    []authorityKey
		well    []authorityKey
		want    map[string]int
	}{
		"off": {policy.BreakerConfig{}, ends, nil, []authorityKey{a}, map[string]int{}},
		"from the start": {on, ends, nil, nil,
			map[string]int{"https://a.test/v1": 0, "https://a.test:443/v2/": 0, "http://[::1]:8080": 0}},
		"from the start, without endpoints": {on, nil, nil, nil, map[string]int{"": 0}},
		"open": {on, ends, []authorityKey{a, b, b2}, nil,
			map[string]int{"https://a.test/v1": 1, "https://a.test:443/v2/": 0, "http://[::1]:8080": 2}},
		"one for each host":      {on, nil, []authorityKey{{host: "x"}, {host: "y"}}, []authorityKey{{host: "z"}}, map[string]int{"": 2}},
		"a tunnel's":             {on, ends[2:], []authorityKey{{host: "::1", port: 8080, tunnel: true}}, nil, map[string]int{"http://[::1]:8080": 0, "": 1}},
		"no endpoint any more":   {on, ends[2:], []authorityKey{a}, nil, map[string]int{"http://[::1]:8080": 0}},
		"one that does not fail": {on, ends[2:], nil, []authorityKey{b}, map[string]int{"http://[::1]:8080": 0}},
	} {
		u := &policy.Upstream{Name: "u", Breaker: c.breaker, Endpoints: c.ends}
		st := newState(nil, "u")
		secure, err := newPeerTLS(u.TLS)
		if err != nil {
			t.Fatal(err)
		}
		st.configure(u, secure, nil, now)
		for _, k := range append(c.open, c.well...) {
			a := st.authority(k, now)
			if slices.Contains(c.open, k) {
				open(a.circuit())
			}
		}
		if got := st.openCircuits(now); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
