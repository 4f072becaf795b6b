package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mulligan/policy"
	"mulligan/policy/config"
)

// FuzzParse: whatever the file, there is a whole configuration or an error with
// its place, and no secret in what is said.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range append(files, example) {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	const hidden = "s3cr3t-value"
	env := lookup(map[string]string{"TWO": "2", "EMPTY": "", "SECRET": hidden, "CONTROL": hidden + "\x01"})
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := config.Parse("fuzz.yaml", data, env)
		said := ""
		if err != nil {
			if c != nil {
				t.Fatal("a configuration beside the error")
			}
			var all *config.Errors
			if !errors.As(err, &all) || len(all.All) == 0 {
				t.Fatalf("no list of errors: %v", err)
			}
			for _, e := range all.All {
				if e.File != "fuzz.yaml" || e.Line < 1 || e.Column < 1 || e.Message == "" {
					t.Fatalf("no place: %+v", e)
				}
			}
			said = err.Error()
		} else {
			checkWhole(t, c)
			said = strings.Join(c.Warnings, "\n")
		}
		if strings.Contains(said, hidden) && !strings.Contains(string(data), hidden) {
			t.Fatalf("a secret: %s", said)
		}
	})
}

// checkWhole looks for what no accepted configuration may be without.
func checkWhole(t *testing.T, c *config.Config) {
	if c.DataDir == "" {
		t.Fatal("no data_dir")
	}
	checkListener(t, c.ProxyTLS)
	checkListener(t, c.AdminTLS)
	for _, u := range append(c.Upstreams, c.Default) {
		if u.Default == nil || u.Default.Name != "default" {
			t.Fatalf("%s has no policy of its own", u.Name)
		}
		if u.Budget.Window <= 0 || u.Budget.Ratio < 0 || u.Budget.Burst < 0 || u.Connections.MaxPerEndpoint < 1 {
			t.Fatalf("%s: %+v", u.Name, u)
		}
		if v := u.TLS.MinVersion; v != "" && v != "1.2" && v != "1.3" {
			t.Fatalf("%s: %+v", u.Name, u.TLS)
		}
		if u.TLS.Intercept && len(u.Hosts) == 0 || u.ListenTLS != nil && u.Listen == "" {
			t.Fatalf("%s: %+v", u.Name, u)
		}
		checkFeatures(t, u)
		for _, h := range u.Hosts {
			if u.TLS.Intercept && h.Wildcard && h.Name == "" {
				t.Fatalf("%s would sign for any name", u.Name)
			}
		}
		checkListener(t, u.ListenTLS)
		for _, r := range append(u.Routes, u.Default) {
			b := r.Retry.Backoff
			if r.Name == "" || r.Retry.MaxAttempts < 1 || r.Retry.MaxAttempts > 10 || b.Initial > b.Max || b.Initial < 0 || !(b.Multiplier >= 1) {
				t.Fatalf("%s, %s: %+v", u.Name, r.Name, r)
			}
			for _, rule := range r.Retry.Rules {
				if rule.Name == "" || rule.Status == (policy.Set{}) && len(rule.Header)+len(rule.JSON) == 0 {
					t.Fatalf("%s, %s: %+v", u.Name, r.Name, rule)
				}
			}
			if l := r.Timeout; l.Total > 0 && max(l.Attempt, l.Connect) > l.Total {
				t.Fatalf("%s, %s: %+v", u.Name, r.Name, l)
			}
			if h := r.Hedge; h.Max < 0 || h.Max > 9 || h.Delay < 0 || h.Max == 0 && h.Delay != 0 {
				t.Fatalf("%s, %s: %+v", u.Name, r.Name, h)
			}
			if r.AttemptHeader != "" && strings.EqualFold(r.AttemptHeader, r.RemainingHeader) {
				t.Fatalf("%s, %s: %s twice", u.Name, r.Name, r.AttemptHeader)
			}
		}
	}
}

// checkFeatures wants each to be whole, or off.
func checkFeatures(t *testing.T, u *policy.Upstream) {
	if b := u.Breaker; b != (policy.BreakerConfig{}) &&
		(!(b.FailureRatio > 0 && b.FailureRatio <= 1) || b.MinRequests < 1 || b.Window <= 0 || b.OpenFor <= 0 || b.OpenFor > b.MaxOpenFor || b.Probes < 1) {
		t.Fatalf("%s: %+v", u.Name, b)
	}
	if c := u.Concurrency; c != (policy.Concurrency{}) && (c.Max < 1 || c.Queue < 0 || c.MaxWait < 0) {
		t.Fatalf("%s: %+v", u.Name, c)
	}
	if l := u.RateLimit; l != (policy.RateLimit{}) && (!(l.PerSecond > 0) || l.Burst < 1 || l.MaxWait < 0) {
		t.Fatalf("%s: %+v", u.Name, l)
	}
	if h := u.HealthCheck; h != (policy.HealthCheck{}) &&
		(!strings.HasPrefix(h.Path, "/") || h.Timeout <= 0 || h.Timeout > h.Interval || h.UnhealthyAfter < 1 || h.HealthyAfter < 1) {
		t.Fatalf("%s: %+v", u.Name, h)
	}
	if len(u.Endpoints) > policy.MaxEndpoints {
		t.Fatalf("%s: %d endpoints", u.Name, len(u.Endpoints))
	}
}

// checkListener wants a listener's certificate to come from one place.
func checkListener(t *testing.T, l *policy.ListenerTLS) {
	if l == nil {
		return
	}
	kinds := 0
	for _, on := range []bool{l.Internal, l.ACME != nil, l.CertFile != ""} {
		if on {
			kinds++
		}
	}
	if kinds != 1 || (l.CertFile == "") != (l.KeyFile == "") || l.ACME != nil && len(l.Names) == 0 || l.CertFile != "" && len(l.Names) > 0 {
		t.Fatalf("%+v", l)
	}
}
