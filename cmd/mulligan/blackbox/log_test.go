package blackbox

import (
	"encoding/json"
	"strings"
	"testing"
)

// entry finds the JSON log lines that speak of a request.
func (p *mulligan) entries(t *testing.T) []map[string]any {
	t.Helper()
	var found []map[string]any
	for _, line := range strings.Split(p.log.String(), "\n") {
		if !strings.HasPrefix(line, "{") {
			if line != "" {
				t.Errorf("with format: json, a line that is none: %q", line)
			}
			continue
		}
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Errorf("log line %q: %v", line, err)
			continue
		}
		if _, ok := entry["stop"]; ok {
			found = append(found, entry)
		}
	}
	return found
}

// The access log: one structured line a request, with upstream, route, status,
// stop, and each attempt's result and time.
func TestAccessLog(t *testing.T) {
	t.Parallel()
	u := answers(t, text(503, ""), fin, text(200, ""))
	p := start(t, `
log: {format: json}
defaults: {retry: {`+quick+`}}
`)
	p.get(u.url("/somewhere?token=qu3ry"), "Authorization: Bearer cr3dential", "Cookie: c00kie=1").expect(t, 200, "attempts=3; stop=success; received-status=200")
	eventually(t, "the log line", func() bool { return len(p.entries(t)) > 0 })
	entries := p.entries(t)
	want(t, "lines for one request", len(entries), 1)
	entry := entries[0]
	for key, value := range map[string]any{"upstream": "default", "route": "default", "status": float64(200), "stop": "success"} {
		if entry[key] != value {
			t.Errorf("%s is %v, want %v; the line: %v", key, entry[key], value, entry)
		}
	}
	line, _ := json.Marshal(entry)
	contains(t, "the log line", string(line), "503", "connection_reset", "GET", "/somewhere", "time")
	for _, secret := range []string{"qu3ry", "cr3dential", "c00kie"} {
		if strings.Contains(p.log.String(), secret) {
			t.Errorf("the log says %q", secret)
		}
	}
}

// A line for every request, also for what mulligan refuses;
// text by default.
func TestAccessLogOfRefusals(t *testing.T) {
	t.Parallel()
	p := start(t, "")
	p.raw(lines("GET /x?token=qu3ry HTTP/1.1", "Host: h"))
	p.get("http://169.254.169.254/meta?token=qu3ry")
	eventually(t, "two log lines", func() bool {
		text := p.log.String()
		return strings.Contains(text, "status=421") && strings.Contains(text, "status=403")
	})
	p.says("stop=permanent", "denied")
	if strings.Contains(p.log.String(), "qu3ry") {
		t.Errorf("the log has the query's values")
	}
}

// log.access: false keeps it silent, and level: error quiet at the start.
func TestAccessLogOff(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, `log: {access: false, level: error}`)
	p.get(u.url("/"))
	p.get("http://" + closedAddr(t) + "/")
	p.wantMetric(2, "mulligan_requests_total")
	want(t, "the log", p.log.String(), "")
}

// A line cannot be forged by what a request says.
func TestLogInjection(t *testing.T) {
	t.Parallel()
	u := answers(t, text(404, "", "X: y"))
	p := start(t, `log: {format: json}`)
	p.get(u.url("/%0a%7B%22stop%22:%22forged%22%7D"), "User-Agent: \"},{\"stop\":\"forged\"}")
	p.do("GET\"x", u.url("/"), "")
	p.do("FORGED'`", u.url("/"), "")
	eventually(t, "the lines", func() bool { return len(p.entries(t)) >= 2 })
	for _, entry := range p.entries(t) {
		if entry["stop"] == "forged" {
			t.Errorf("a forged entry: %v", entry)
		}
	}
}
