package config

import (
	"time"

	"mulligan/policy"
)

// Default returns what holds where no file says otherwise.
func Default() *Config {
	return &Config{
		Proxy:         "127.0.0.1:7080",
		Admin:         "127.0.0.1:7081",
		DataDir:       "./mulligan-data",
		Log:           Log{Level: "info", Access: true},
		ShutdownGrace: 25 * time.Second,
		BufferTotal:   64 << 20,
		Via:           true,
		Default: &policy.Upstream{
			Name:        DefaultName,
			Budget:      policy.BudgetConfig{Ratio: 0.2, Burst: 3, Window: 10 * time.Second},
			Connections: policy.Connections{Idle: 30 * time.Second, MaxPerEndpoint: 256},
			Default:     defaultRoute(),
		},
	}
}

func defaultRoute() *policy.Route {
	return &policy.Route{
		Name:   DefaultName,
		Prefix: true,
		Timeout: policy.TimeoutConfig{
			Connect:    5 * time.Second,
			Attempt:    60 * time.Second,
			Total:      10 * time.Minute,
			Idle:       5 * time.Minute,
			TunnelIdle: time.Hour,
		},
		Retry: policy.Retry{
			Mode:            policy.ModeOn,
			MaxAttempts:     4,
			Methods:         []string{"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"},
			IdempotencyKeys: []string{"Idempotency-Key"},
			RetryOn: conditionSet("connect_failure", "refused_stream", "connection_reset", "timeout",
				"truncated", "error_event", "502", "503", "504"),
			Backoff: policy.Backoff{
				Strategy:   policy.Exponential,
				Initial:    250 * time.Millisecond,
				Max:        5 * time.Second,
				Multiplier: 3,
				Jitter:     policy.Full,
			},
			RetryAfter: 30 * time.Second,
		},
		Buffer: policy.Buffer{Request: 1 << 20, Response: 64 << 10},
	}
}

// conditionSet is for words that are known to be right.
func conditionSet(words ...string) policy.Set {
	var set policy.Set
	for _, word := range words {
		if err := set.Add(word); err != nil {
			panic("config: built-in condition: " + err.Error())
		}
	}
	return set
}
