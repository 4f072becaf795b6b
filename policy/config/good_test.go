package config_test

import (
	"net/netip"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"mulligan/policy"
	"mulligan/policy/config"
)

// parse reads text that must be right.
func parse(t testing.TB, text string, env config.Lookup) *config.Config {
	t.Helper()
	c, err := config.Parse("mulligan.yaml", []byte(text), env)
	if err != nil {
		t.Fatalf("%v\nin\n%s", err, text)
	}
	return c
}

func conditions(words ...string) policy.Set {
	var set policy.Set
	for _, word := range words {
		if err := set.Add(word); err != nil {
			panic(err)
		}
	}
	return set
}

func prefixes(all ...string) []netip.Prefix {
	var list []netip.Prefix
	for _, one := range all {
		list = append(list, netip.MustParsePrefix(one))
	}
	return list
}

func TestGood(t *testing.T) {
	certificates := writeCertificates(t)
	got, err := config.Load("testdata/good.yaml", lookup(map[string]string{
		"USER_NAME": "us{er", "ATTEMPTS": "7", "CERTS": certificates, "HOME_DIR": "/srv",
	}))
	if err != nil {
		t.Fatal(err)
	}
	top := policy.Route{
		Name:    "default",
		Prefix:  true,
		Timeout: policy.TimeoutConfig{Connect: 5 * time.Second, Idle: 5 * time.Minute, TunnelIdle: time.Hour},
		Retry: policy.Retry{
			Mode: policy.ModeObserve, MaxAttempts: 7,
			Methods:         []string{"GET", "PROPFIND"},
			IdempotencyKeys: []string{"Idempotency-Key", "X-Request-Key"},
			RetryOn:         conditions("5xx", "429", "529", "408"),
			DoNotRetryOn:    conditions("501"),
			Backoff: policy.Backoff{Strategy: policy.Linear, Initial: time.Millisecond, Max: time.Second,
				Multiplier: 1, Jitter: policy.Decorrelated},
			Nested: true,
		},
		Buffer: policy.Buffer{Request: 0, Response: 512},
	}
	budget := policy.BudgetConfig{Ratio: 1, Window: 100 * time.Millisecond}
	a := top
	a.Retry.RetryOn = conditions("5xx", "429", "529", "408", "truncated")
	a.Retry.IdempotencyKeys = []string{"X-Key"}
	aBudget := budget
	aBudget.MinPerSecond = 0.5
	c := top
	c.Retry.RetryOn = conditions("5xx", "429", "529", "408", "grpc_unavailable")
	c.Retry.DoNotRetryOn = conditions("grpc_internal")
	d, e := top, top
	b := top
	one, two, all := b, b, b
	one.Name, one.Methods, one.Path = "one", []string{"POST"}, "/a/"
	one.Retry.Methods, one.Retry.Mode = []string{"GET", "PROPFIND", "POST"}, policy.ModeOff
	two.Name, two.Path, two.Prefix = "two", "/a", false
	two.Timeout.Idle, two.Buffer.Request = time.Second, 1024
	all.Name = "all"

	want := &config.Config{
		Proxy: "0.0.0.0:8080", Admin: "[::1]:0", ProxyWritten: true, AdminWritten: true,
		ProxyTLS: &policy.ListenerTLS{Internal: true, Names: []string{"proxy.example", "::1", "192.0.2.7"}},
		DataDir:  "/srv/data", DataDirWritten: true,
		AllowClients:  prefixes("10.0.0.0/8", "192.0.2.1/32", "fd00::/8", "::1/128"),
		Auth:          &config.Auth{Username: "us{er", Password: "fall back"},
		AdminHosts:    []string{"admin.example"},
		DenyUnmatched: true,
		Log:           config.Log{JSON: true, Level: "debug"},
		ShutdownDelay: 90 * time.Second, ShutdownGrace: 0,
		BufferTotal: 1 << 30, Via: false,
		AllowDestinations: prefixes("127.0.0.0/8"), DenyDestinations: prefixes("0.0.0.0/0"),
		ParentProxy: "http://user:p%40ss@proxy.example:80",
		Default: &policy.Upstream{Name: "default", Budget: budget,
			Connections: policy.Connections{MaxPerEndpoint: 1}, Default: &top},
		Upstreams: []*policy.Upstream{
			{
				Name: "a-1_x.Y",
				Hosts: []policy.HostPattern{{Wildcard: true}, {Wildcard: true, Port: 8443},
					{Name: "2001:db8::1"}, {Name: "192.0.2.7", Port: 80}},
				Budget: aBudget, Connections: policy.Connections{MaxPerEndpoint: 1}, Default: &a,
			},
			{
				Name:         "b",
				Endpoints:    []policy.Endpoint{{Scheme: "https", Host: "b.example", Port: 8443, Path: "/v1", Text: "HTTPS://B.example:8443/v1/"}},
				PreserveHost: true, Mount: "/b/c", Listen: "127.0.0.1:0",
				ListenTLS: &policy.ListenerTLS{CertFile: filepath.Join(certificates, "server.pem"), KeyFile: filepath.Join(certificates, "server.key")},
				TLS: policy.TLS{
					CAFile:         filepath.Join(certificates, "ca.pem"),
					ClientCertFile: filepath.Join(certificates, "client.pem"),
					ClientKeyFile:  filepath.Join(certificates, "client.key"),
					ServerName:     "real.example", Rewrite: true, MinVersion: "1.3",
				},
				Budget: budget, Connections: policy.Connections{Idle: time.Second, MaxPerEndpoint: 1},
				Routes: []*policy.Route{&one, &two, &all}, Default: &b,
			},
			{
				Name:  "c",
				Hosts: []policy.HostPattern{{Wildcard: true, Name: "c.example", Port: 443}, {Name: "c.example"}},
				Endpoints: []policy.Endpoint{{Scheme: "http", Host: "c.example", Port: 80, Text: "http://c.example"}, {Scheme: "https", Host: "c.example", Port: 443, Text: "https://c.example"},
					{Scheme: "http", Host: "2001:db8::1", Port: 8080, Path: "/v2/a%20b", Text: "http://[2001:db8::1]:8080/v2/a%20b/"}},
				Listen: "10.0.0.1:7443",
				ListenTLS: &policy.ListenerTLS{Names: []string{"c.example"}, ACME: &policy.ACME{
					Email: "ops@c.example", Directory: "https://acme.example:14000/dir", CAFile: filepath.Join(certificates, "ca.pem"),
					HTTPPort: 5002, TLSALPNPort: 5001,
				}},
				TLS:    policy.TLS{Intercept: true, MinVersion: "1.2", CAFile: filepath.Join(certificates, "ca.pem")},
				Budget: budget, Connections: policy.Connections{MaxPerEndpoint: 1}, Default: &c,
			},
			{
				Name:      "d",
				Endpoints: []policy.Endpoint{{Scheme: "http", Host: "d.example", Port: 80, Text: "http://d.example"}},
				Listen:    "10.0.0.1:7444",
				ListenTLS: &policy.ListenerTLS{Names: []string{"d.example"}, ACME: &policy.ACME{}},
				Budget:    budget, Connections: policy.Connections{MaxPerEndpoint: 1}, Default: &d,
			},
			{
				Name:   "e",
				Hosts:  []policy.HostPattern{{Name: "e.example"}},
				TLS:    policy.TLS{Intercept: true},
				Budget: budget, Connections: policy.Connections{MaxPerEndpoint: 1}, Default: &e,
			},
		},
	}
	diff(t, reflect.ValueOf(got).Elem(), reflect.ValueOf(want).Elem())
	if len(got.Warnings) > 0 {
		t.Errorf("warnings: %q", got.Warnings)
	}
	own, err := filepath.Abs("testdata/good.yaml")
	if err != nil {
		t.Fatal(err)
	}
	files := []string{own, filepath.Join(certificates, "ca.pem"),
		filepath.Join(certificates, "client.key"), filepath.Join(certificates, "client.pem"),
		filepath.Join(certificates, "server.key"), filepath.Join(certificates, "server.pem")}
	if !reflect.DeepEqual(got.Files(), files) {
		t.Errorf("files %q, want %q", got.Files(), files)
	}
}

// diff compares the exported fields of two configurations.
func diff(t *testing.T, got, want reflect.Value) {
	t.Helper()
	for i := range got.NumField() {
		field := got.Type().Field(i)
		if !field.IsExported() || field.Name == "Warnings" {
			continue
		}
		if g, w := got.Field(i).Interface(), want.Field(i).Interface(); !reflect.DeepEqual(g, w) {
			t.Errorf("%s\n got %s\nwant %s", field.Name, spell(g), spell(w))
		}
	}
}

// TestNothing: without a file, or with one that says nothing, the built-in
// values hold.
func TestNothing(t *testing.T) {
	for _, text := range []string{"", "\n", "# nothing\n", "---\n", "---\n...\n", "{}\n", "null\n", "\ufeff# marked\n",
		"listen:\nlog:\ndefaults:\nupstreams:\n", "listen: {auth: {}}\ndefaults: {timeout: , retry: {backoff: ~, budget: }}\n"} {
		got := parse(t, text, lookup(nil))
		diff(t, reflect.ValueOf(got).Elem(), reflect.ValueOf(config.Default()).Elem())
		if len(got.Warnings) > 0 {
			t.Errorf("%q: warnings %q", text, got.Warnings)
		}
	}
}

// TestDefault is the table of the documentation.
func TestDefault(t *testing.T) {
	c := config.Default()
	r := c.Default.Default
	if got, want := r.Retry.RetryOn, conditions("connect_failure", "refused_stream", "connection_reset", "timeout",
		"truncated", "error_event", "502", "503", "504"); got != want {
		t.Errorf("retry_on %q", got.Words())
	}
	r.Retry.RetryOn = policy.Set{}
	want := &config.Config{
		Proxy: "127.0.0.1:7080", Admin: "127.0.0.1:7081",
		DataDir:       "./mulligan-data",
		Log:           config.Log{Level: "info", Access: true},
		ShutdownGrace: 25 * time.Second, BufferTotal: 64 << 20, Via: true,
		Default: &policy.Upstream{
			Name:        "default",
			Budget:      policy.BudgetConfig{Ratio: 0.2, Burst: 3, Window: 10 * time.Second},
			Connections: policy.Connections{Idle: 30 * time.Second, MaxPerEndpoint: 256},
			Default: &policy.Route{
				Name: "default", Prefix: true,
				Timeout: policy.TimeoutConfig{Connect: 5 * time.Second, Attempt: time.Minute, Total: 10 * time.Minute,
					Idle: 5 * time.Minute, TunnelIdle: time.Hour},
				Retry: policy.Retry{
					MaxAttempts:     4,
					Methods:         []string{"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"},
					IdempotencyKeys: []string{"Idempotency-Key"},
					Backoff:         policy.Backoff{Initial: 250 * time.Millisecond, Max: 5 * time.Second, Multiplier: 3},
					RetryAfter:      30 * time.Second,
				},
				Buffer: policy.Buffer{Request: 1 << 20, Response: 64 << 10},
			},
		},
	}
	diff(t, reflect.ValueOf(c).Elem(), reflect.ValueOf(want).Elem())
}
