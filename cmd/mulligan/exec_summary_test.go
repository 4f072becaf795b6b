package main

import (
	"bytes"
	"log/slog"
	"testing"
)

// request is a line of the access log.
func request(log *slog.Logger, method, host, outcome string, attempts int) {
	group := make([]slog.Attr, attempts)
	for i := range group {
		group[i] = slog.Int("result", 503)
	}
	log.Info("request", slog.String("method", method), slog.String("host", host), slog.String("outcome", outcome),
		slog.Attr{Key: "attempts", Value: slog.GroupValue(group...)})
}

func TestSummary(t *testing.T) {
	for _, row := range []struct {
		name    string
		log     func(log *slog.Logger)
		counts  tallied
		summary string
	}{
		{"nothing", func(*slog.Logger) {}, nil, "mulligan: 0 requests, 0 retried, 0 saved, 0 failed"},
		{"requests", func(log *slog.Logger) {
			request(log, "GET", "a:80", "success", 1)
			request(log, "GET", "a:80", "success_after_retry", 4)
			request(log, "GET", "a:80", "failed", 2)
			log.Warn("something else", slog.String("method", "GET"))
		}, tallied{"mulligan_requests_total success": 1, "mulligan_requests_total success_after_retry": 1, "mulligan_requests_total failed": 1}, "mulligan: 3 requests, 2 retried, 1 saved, 1 failed"},
		{"no answer, for good", func(log *slog.Logger) { request(log, "GET", "a:443", "permanent", 1) },
			tallied{"mulligan_requests_total permanent": 1, "mulligan_attempts_total tls_failure": 1, "mulligan_attempts_total 2xx": 7},
			"mulligan: 1 request, 0 retried, 0 saved, 1 failed"},
		{"one tunnel", func(log *slog.Logger) {
			request(log, "CONNECT", "a:443", "success", 1)
		}, nil, "mulligan: 0 requests, 0 retried, 0 saved, 0 failed; plus 1 tunnel that it could not see into (a:443)\n" +
			"hint: `mulligan explain https://a/` says how to have the requests in it retried"},
		{"several", func(log *slog.Logger) {
			for _, host := range []string{"d:443", "a:443", "b:443", "c:8443", "c:8443", "plain:80"} {
				request(log, "CONNECT", host, "success_after_retry", 2)
			}
			request(log, "CONNECT", "dead:443", "failed", 3)
			request(log, "GET", "plain:80", "success", 1)
		}, tallied{"mulligan_requests_total success": 1}, "mulligan: 1 request, 0 retried, 0 saved, 0 failed; plus 7 tunnels dialled more than once; plus 1 tunnel that could not be opened (dead:443); plus 5 tunnels that it could not see into (c:8443, a:443, b:443 and 1 more)\n" +
			"hint: `mulligan explain https://c:8443/` says how to have the requests in it retried"},
		{"refused", func(log *slog.Logger) {
			log.Info("refused", slog.Int("status", 403), slog.String("detail", "why"))
			log.Info("refused", slog.Int("status", 421), slog.String("detail", "another reason"))
			request(log, "CONNECT", "gone:443", "client_gone", 1)
		}, nil, "mulligan: 0 requests, 0 retried, 0 saved, 0 failed; plus 2 refused (why)"},
		{"credentials that are wrong", func(log *slog.Logger) {
			log.Info("refused", slog.Int("status", 407), slog.String("detail", "credentials"))
		}, nil, "mulligan: 0 requests, 0 retried, 0 saved, 0 failed; plus 1 refused (credentials)"},
		{"credentials that are shown when they are asked for", func(log *slog.Logger) {
			log.Info("refused", slog.Int("status", 407), slog.String("detail", "credentials"))
			log.Info("refused", slog.Int("status", 403), slog.String("detail", "why"))
			log.Info("refused", slog.Int("status", 407), slog.String("detail", "credentials"))
			request(log, "GET", "a:80", "success", 1)
			request(log, "CONNECT", "gone:443", "client_gone", 1)
		}, tallied{"mulligan_requests_total success": 1}, "mulligan: 1 request, 0 retried, 0 saved, 0 failed; plus 1 refused (why)"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var out bytes.Buffer
			s := newSpectator(slog.NewTextHandler(&out, nil), logLines{from: slog.LevelWarn})
			row.log(slog.New(s).With("a", "b").WithGroup("g"))
			if got := s.summary(row.counts, "mulligan explain"); got != row.summary {
				t.Errorf("got\n%s\nwant\n%s", got, row.summary)
			}
			if bytes.Contains(out.Bytes(), []byte("msg=request")) {
				t.Errorf("the access log is shown:\n%s", &out)
			}
		})
	}
}

func TestShellWord(t *testing.T) {
	for text, want := range map[string]string{
		"mulligan.yaml": "mulligan.yaml", "/etc/m-1_a.yaml": "/etc/m-1_a.yaml", "": "''",
		"my conf.yaml": "'my conf.yaml'", "it's": `'it'\''s'`, "$HOME": "'$HOME'", "~/m.yaml": "'~/m.yaml'", "a\nb": "'a\nb'",
	} {
		if got := shellWord(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
