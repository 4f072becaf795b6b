package main

import (
	"testing"
	"time"

	"mulligan/policy"
	"mulligan/policy/config"
)

// TestReasonsAgree holds explain's reasons to what policy decides: of every
// class and status, with every word of the upstream's, under lists of all kinds.
func TestReasonsAgree(t *testing.T) {
	set := func(words ...string) (s policy.Set) {
		for _, word := range words {
			if err := s.Add(word); err != nil {
				t.Fatal(err)
			}
		}
		return s
	}
	standard := config.Default().Default.Default.Retry
	for name, r := range map[string]policy.Retry{
		"standard": standard,
		"empty":    {},
		"much":     {RetryOn: set("2xx", "4xx", "5xx", "protocol_error", "timeout")},
		"crossed":  {RetryOn: set("5xx", "connection_reset", "200"), DoNotRetryOn: set("503", "connection_reset", "200")},
		"gRPC":     {RetryOn: set("grpc_unavailable", "grpc_internal", "truncated", "503"), DoNotRetryOn: set("grpc_internal", "grpc_aborted")},
	} {
		var all []policy.Outcome
		for _, c := range policy.Classes() {
			all = append(all, policy.Outcome{Class: c})
		}
		for status := 200; status <= 999; status++ {
			for _, word := range []policy.Word{policy.NoWord, policy.RetryWord, policy.FinalWord} {
				all = append(all, policy.Outcome{Status: status, Word: word})
			}
		}
		for status := 200; status <= 999; status++ { // responses that broke off
			for _, word := range []policy.Word{policy.NoWord, policy.RetryWord, policy.FinalWord} {
				all = append(all, policy.Outcome{Class: policy.Truncated, Status: status, Word: word})
			}
		}
		for _, g := range policy.GRPCStatuses() {
			for _, status := range []int{200, 404, 503} {
				for _, class := range []policy.Class{policy.ClassNone, policy.Truncated} {
					for _, word := range []policy.Word{policy.NoWord, policy.RetryWord, policy.FinalWord} {
						all = append(all, policy.Outcome{Class: class, Status: status, GRPC: g, Word: word})
					}
				}
			}
		}
		for _, o := range all {
			for ruled, rule := range map[policy.Ruled]*policy.Rule{policy.NotRuled: nil, policy.RuledFinal: {}, policy.RuledRetry: {Retry: true}} {
				if rule != nil && o.Class != policy.ClassNone {
					continue // rules are about whole responses
				}
				o.Ruled = ruled
				found := weigh(&r, o, rule)
				if want := r.Classify(o); found.verdict != want || found.why == "" {
					t.Errorf("%s: %+v: verdict %d because %q, policy says %d", name, o, found.verdict, found.why, want)
				}
			}
		}
	}
}

// TestEveryClassExplained: a new class needs its sentence.
func TestEveryClassExplained(t *testing.T) {
	for _, c := range policy.Classes() {
		if outcomes[c] == "" {
			t.Errorf("%s has no meaning", c)
		}
	}
}

func TestListensAt(t *testing.T) {
	for _, test := range []struct {
		configured, host string
		port             int
		want             bool
	}{
		{"127.0.0.1:7080", "127.0.0.1", 7080, true},
		{"127.0.0.1:7080", "localhost", 7080, true},
		{"127.0.0.1:7080", "LocalHost.", 7080, true},
		{"127.0.0.1:7080", "shop.localhost", 7080, true},
		{"127.0.0.1:7080", "127.1", 7080, true},
		{"127.0.0.1:7080", "2130706433", 7080, true},
		{"127.0.0.1:7080", "127.0.0.1", 7081, false},
		{"127.0.0.1:7080", "127.0.0.2", 7080, false},
		{"127.0.0.1:7080", "api.example", 7080, false},
		{"localhost:7080", "127.0.0.1", 7080, true},
		{"[::1]:7080", "::1", 7080, true},
		{"[::1]:7080", "127.0.0.1", 7080, false},
		{"0.0.0.0:7080", "127.0.0.2", 7080, true},
		{"0.0.0.0:7080", "0.0.0.0", 7080, true},
		{"0.0.0.0:7080", "192.0.2.9", 7080, false}, // no address of any machine (RFC 5737)
		{":7080", "192.0.2.9", 7080, false},
		{":7080", "localhost", 7080, true},
		{":7080", "0x7f.1", 7080, true},
		{":7080", "api.example", 7080, false},
		{"proxy.example:7080", "proxy.example", 7080, true},
		{"10.0.0.1:7080", "10.0.0.1", 7080, true},
		{"10.0.0.1:7080", "10.0.0.2", 7080, false},
	} {
		if got := listensAt(test.configured, test.host, test.port); got != test.want {
			t.Errorf("%s called as %s:%d: %v", test.configured, test.host, test.port, got)
		}
	}
}

func TestLengths(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Minute: "1m", time.Hour: "1h", 90 * time.Minute: "1h30m", 61 * time.Second: "1m1s",
		10 * time.Minute: "10m", 250 * time.Millisecond: "250ms", 2*time.Hour + time.Second: "2h0m1s",
	} {
		if got := length(d); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0B", 1000: "1000B", 1024: "1KiB", 1 << 20: "1MiB", 3 << 30: "3GiB", 1<<20 + 1: "1048577B"} {
		if got := size(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		250*time.Millisecond - 1: "250ms", 1500*time.Millisecond - 1: "1.5s", 10 * time.Microsecond: "10µs",
	} {
		if got := shown(d); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
}
