package metrics_test

import (
	"fmt"
	"testing"

	"mulligan/metrics"
)

// TestAttempts holds which result each status and class is counted under.
func TestAttempts(t *testing.T) {
	for status, result := range map[int]string{
		100: "1xx", 199: "1xx", 200: "2xx", 299: "2xx", 304: "3xx", 404: "4xx", 499: "4xx", 500: "5xx", 599: "5xx",
		-100: "1xx", 0: "1xx", 99: "1xx", 600: "5xx", 999: "5xx",
	} {
		m, registry := open(t)
		m.Upstream("u", []string{"r"}).Route("r").AttemptStatus(status)
		want(t, registry, map[string]float64{attempts(result): 1})
	}
	for class, result := range map[string]string{
		"timeout": "timeout", "denied": "denied", "connect_failure": "connect_failure", "cancelled": "cancelled",
		"": "other", "503": "other", "Timeout": "other", "evil.example": "other",
	} {
		m, registry := open(t)
		m.Upstream("u", []string{"r"}).Route("r").AttemptClass(class)
		want(t, registry, map[string]float64{attempts(result): 1})
	}
}

// attempts names the series of attempts with a result.
func attempts(result string) string {
	return fmt.Sprintf(`mulligan_attempts_total{result=%q,route="r",upstream="u"}`, result)
}

// TestRetryReasons holds which reason each word is counted under.
func TestRetryReasons(t *testing.T) {
	for word, reason := range map[string]string{
		"200": "200", "429": "429", "503": "503", "599": "599", "truncated": "truncated",
		"": "other", "100": "other", "600": "other", "999": "other", "5xx": "other", "50": "other", "5030": "other",
		"5é": "other", "other": "other", "../etc": "other",
	} {
		m, registry := open(t)
		m.Upstream("u", []string{"r"}).Route("r").Retry(word)
		want(t, registry, map[string]float64{
			fmt.Sprintf(`mulligan_retries_total{reason=%q,route="r",upstream="u"}`, reason): 1,
		})
	}
}

// TestStops holds which stop each word is counted under.
func TestStops(t *testing.T) {
	for word, stop := range map[string]string{
		"budget": "budget", "window": "window", "client_gone": "client_gone", "disabled": "disabled",
		"circuit_open": "circuit_open", "overloaded": "overloaded",
		"": "other", "permanent": "other", "success": "other", "whatever": "other",
	} {
		m, registry := open(t)
		m.Upstream("u", []string{"r"}).Route("r").Denied(word)
		want(t, registry, map[string]float64{
			fmt.Sprintf(`mulligan_retries_denied_total{route="r",stop=%q,upstream="u"}`, stop): 1,
		})
	}
}

func TestTunnelResults(t *testing.T) {
	for word, result := range map[string]string{
		"established": "established", "timeout": "timeout", "denied": "denied", "": "other", "evil.example": "other",
	} {
		m, registry := open(t)
		m.Upstream("u", nil).TunnelOpened(word)
		want(t, registry, map[string]float64{
			fmt.Sprintf(`mulligan_tunnels_total{result=%q,upstream="u"}`, result): 1,
		})
	}
}

func TestUpstreamCounters(t *testing.T) {
	m, registry := open(t)
	u := m.Upstream("u", nil)
	u.ClientRetry()
	u.NotReplayable(metrics.RequestLimit)
	u.NotReplayable(metrics.TotalLimit)
	u.NotReplayable(metrics.TotalLimit)
	want(t, registry, map[string]float64{
		`mulligan_client_retries_total{upstream="u"}`:                         1,
		`mulligan_bodies_not_replayable_total{reason="request",upstream="u"}`: 1,
		`mulligan_bodies_not_replayable_total{reason="total",upstream="u"}`:   2,
	})
}
